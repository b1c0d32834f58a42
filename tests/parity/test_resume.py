"""A checkpoint written before patching is resumed after it, and the other way round."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity.helpers import Pair, check_parity, load_case, run_resumed

CASE = load_case("main_with_resume")
WRITE = ["--epochs", "1"]
RESUME = ["--epochs", "2", "--resume", "checkpoint.pt"]
BEFORE, AFTER = CASE.before, CASE.after(["amp"])


@pytest.mark.parametrize("stand_in", [pytest.param(False, id="as is"), pytest.param(True, id="on a device")])
@pytest.mark.parametrize(
    "first, second",
    [
        pytest.param(BEFORE, AFTER, id="patched resumes the old one's"),
        pytest.param(AFTER, BEFORE, id="old one resumes the patched one's"),
        pytest.param(AFTER, AFTER, id="patched resumes its own"),
    ],
)
def test_resumes_across_the_patch(first: Path, second: Path, stand_in: bool, tmp_path: Path) -> None:
    usual = run_resumed(BEFORE, BEFORE, tmp_path / "usual", WRITE, RESUME, stand_in=stand_in)
    crossed = run_resumed(first, second, tmp_path / "crossed", WRITE, RESUME, stand_in=stand_in)
    assert "resumed from epoch 1" in crossed.stdout
    tolerance = CASE.tolerance(["amp"], "float16")
    check_parity(Pair(usual, crossed), "close" if stand_in else "exact", tolerance=tolerance)


def test_scaler_goes_on_where_it_was(tmp_path: Path) -> None:
    resumed = run_resumed(AFTER, AFTER, tmp_path, WRITE, RESUME, stand_in=True)
    assert [(scaler.enabled, scaler.updates) for scaler in resumed.scalers] == [(True, len(resumed.steps))]
