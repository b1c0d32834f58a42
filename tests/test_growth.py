"""Longer programs take longer in proportion, and long chains are no deep recursion."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import FrameType, ModuleType

import pytest

from speedpatch import registry
from speedpatch.codemod import Options
from speedpatch.patch import Result, patch
from speedpatch.sources import Source

LONG = 350


def load_speed() -> ModuleType:
    """The benchmark, which generates programs."""
    path = Path(__file__).parent.parent / "benchmarks" / "speed.py"
    spec = importlib.util.spec_from_file_location("speed", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


speed = load_speed()


def patch_text(text: str) -> Result:
    """Patch a program with everything that training scripts are asked for most."""
    return patch([Source(Path("train.py"), text)], [registry.codemods()[name] for name in speed.NAMES], Options())


def count_calls(text: str) -> int:
    """How many Python functions and steps of generators it takes to patch a program: the same on every machine."""
    calls = 0

    def on_event(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        patch_text(text)
    finally:
        sys.setprofile(before)
    return calls


def test_work_grows_in_proportion_to_length() -> None:
    short, long = speed.generate(150), speed.generate(600)
    patch_text(short)  # fills caches
    growth = count_calls(long) / count_calls(short)
    assert growth < 1.3 * long.count("\n") / short.count("\n")


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["total = " + " + ".join(f"x{index}" for index in range(LONG))], id="long sum"),
        pytest.param(["text = " + " + ".join(["'a'"] * LONG)], id="long string of pieces"),
        pytest.param(
            ["if mode == 0:\n    kind = 0", *(f"elif mode == {index}:\n    kind = {index}" for index in range(LONG))],
            id="long chain of elif",
        ),
        pytest.param(["flag = " + " or ".join(f"(mode == {index})" for index in range(LONG))], id="long condition"),
    ],
)
def test_long_chains_are_analysed(lines: list[str]) -> None:
    names = "\n".join(f"x{index} = {index}" for index in range(LONG))
    text = speed.generate(0).replace("TABLE = {}\n", "\n".join(["mode = 3", names, *lines]) + "\n")
    result = patch_text(text)
    assert result.files[0].error is None
    assert result.files[0].changed
