"""Parity on a real CUDA device, where even an unchanged script does not repeat bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from speedpatch.recorder import Tolerance, compare
from tests.parity.helpers import (
    LONE_EVALUATIONS,
    Pair,
    cases_with,
    check_active,
    check_parity,
    load_case,
    run,
    run_pair,
)

STEPS = 8
FLOORS = 4.0


@pytest.mark.gpu
@pytest.mark.parametrize("flags", [["amp"], ["compile"], ["amp", "compile"]], ids=" and ".join)
@pytest.mark.parametrize("name", sorted({*cases_with("amp"), *cases_with("compile")}))
def test_is_active_and_close(name: str, flags: list[str], tmp_path: Path) -> None:
    if name not in cases_with(*flags):
        pytest.skip(f"{name} has no form with {' and '.join(flags)}")
    pair = run_pair(name, flags, tmp_path, steps=STEPS)
    check_active(pair, flags, evaluation=name not in LONE_EVALUATIONS)
    check_parity(pair, "close", tolerance=above_floor(name, flags, pair, tmp_path))


def above_floor(name: str, flags: list[str], pair: Pair, folder: Path) -> Tolerance:
    """The usual tolerance, or several times what two runs of the unchanged script differ by."""
    case = load_case(name)
    usual = case.tolerance(flags, "float16")
    floor = compare(pair.before, run(case.before, folder, args=case.args, steps=STEPS), "close")
    loss, norm = max(usual.loss, FLOORS * floor.loss), max(usual.norm, FLOORS * floor.norm)
    return Tolerance(loss, norm, f"{usual.source}; on this device two runs differ by {floor.loss:.2g}")
