"""What the recorder's tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from speedpatch.recorder import Recording
from tests.parity.helpers import require_torch, run

HEAD = """\
import torch
from torch import nn

torch.manual_seed(1)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.randn(8, 4)


def step():
    optimizer.zero_grad()
    loss = model(inputs).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss


"""

RecordText = Callable[..., Recording]


@pytest.fixture
def record_text(tmp_path: Path) -> RecordText:
    """Record a script given by its text; HEAD goes before it unless `head` says otherwise."""
    require_torch()

    def record_one(text: str, head: str = HEAD, **options: Any) -> Recording:
        path = tmp_path / "script.py"
        path.write_text(head + text, encoding="utf-8")
        return run(path, tmp_path, **{"init_scale": None, **options})

    return record_one
