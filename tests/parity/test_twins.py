"""The recorder tells right from wrong: every wrong twin of a rewrite is caught, the right one is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from speedpatch.recorder import RecordingError, compare, inactive, tolerance_for
from tests.parity.helpers import Pair, check_active, check_parity, run
from tests.parity.twins import PLAIN, RIGHT, TWINS, TWO_PLAIN, TWO_RIGHT, Twin

NUMBER = re.compile(r"-?\d+\.\d+")
TOLERANCE = tolerance_for(frozenset({"amp"}))
RIGHT_FORMS = [pytest.param(RIGHT, id="one optimizer"), pytest.param(TWO_RIGHT, id="two optimizers")]


def record_text(text: str, folder: Path, name: str, stand_in: bool = True) -> Pair:
    """Record a text after its plain form."""
    plain = TWO_PLAIN if "critic" in text else PLAIN
    paths = folder / "before.py", folder / f"{name}.py"
    for path, content in zip(paths, (plain, text), strict=True):
        path.write_text(content, encoding="utf-8")
    return Pair(*(run(path, folder, stand_in=stand_in) for path in paths))


def found(pair: Pair) -> set[str]:
    """Everything that tells the two apart."""
    codes = set(compare(pair.before, pair.after, "close", TOLERANCE).codes)
    codes |= {"inactive"} if inactive(pair.after, "amp") else set()
    numbers = [[float(number) for number in NUMBER.findall(r.stdout)] for r in (pair.before, pair.after)]
    return codes | ({"output"} if numbers[1] != pytest.approx(numbers[0], abs=0.05) else set())


@pytest.mark.parametrize(
    "text", [pytest.param(RIGHT, id="one optimizer"), pytest.param(TWO_RIGHT, id="two optimizers")]
)
def test_right_form_is_close_and_active_on_a_device(text: str, tmp_path: Path) -> None:
    pair = record_text(text, tmp_path, "right")
    check_parity(pair, "close", tolerance=TOLERANCE)
    check_active(pair, ["amp"])
    assert found(pair) == set()


@pytest.mark.parametrize(
    "text", [pytest.param(RIGHT, id="one optimizer"), pytest.param(TWO_RIGHT, id="two optimizers")]
)
def test_right_form_is_the_same_bit_for_bit_on_a_cpu(text: str, tmp_path: Path) -> None:
    pair = record_text(text, tmp_path, "right", stand_in=False)
    check_parity(pair, "exact")
    assert pair.before.stdout == pair.after.stdout
    assert inactive(pair.after, "amp")


@pytest.mark.parametrize("twin", [pytest.param(twin, id=twin.name) for twin in TWINS])
def test_wrong_form_is_caught(twin: Twin, tmp_path: Path) -> None:
    try:
        pair = record_text(twin.text, tmp_path, "twin")
    except RecordingError:
        codes = {"error"}
    else:
        codes = found(pair)
    assert twin.code in codes, f"{twin.name}: {codes}"
