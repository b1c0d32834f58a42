"""What the parity tests share."""

from __future__ import annotations

import pytest

from tests.parity.helpers import has_cuda, require_torch


@pytest.fixture(autouse=True)
def needs(request: pytest.FixtureRequest) -> None:
    """Every test here needs torch, those marked `gpu` a CUDA device."""
    require_torch()
    if request.node.get_closest_marker("gpu") and not has_cuda():
        pytest.skip("no CUDA device here: run `pytest -m gpu` on a machine that has one")
