"""Every fixture trains after patching as it did before: bit for bit as is on a CPU, close where it is active."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from tests.parity.helpers import cases_with, check_active, check_fixture, check_parity, load_case, run_pair

SHAPES = ("mnist_functions", "module_level", "trainer_class")
PLAIN_CONTAINERS = ("module_level", "phases")
AS_IS = [name for name in cases_with("amp") if load_case(name).settings.get("device") != "cuda"]


@pytest.mark.parametrize("name", AS_IS)
def test_amp_changes_no_bit_on_a_cpu(name: str, tmp_path: Path) -> None:
    pair = run_pair(name, ["amp"], tmp_path)
    check_parity(pair, "exact")
    assert pair.before.stdout == pair.after.stdout


@pytest.mark.parametrize("name", cases_with("amp"))
def test_amp_is_active_and_close_on_a_device(name: str, tmp_path: Path) -> None:
    check_fixture(name, ["amp"], tmp_path, stand_in=True)


@pytest.mark.parametrize("name", [name for name in cases_with("amp", amp_dtype="bfloat16") if name != "lbfgs"])
def test_bfloat16_is_active_and_close(name: str, tmp_path: Path) -> None:
    stand_in = load_case(name).settings.get("device") != "cpu"
    check_fixture(name, ["amp"], tmp_path, amp_dtype="bfloat16", stand_in=stand_in)


def test_lbfgs_still_learns_in_bfloat16(tmp_path: Path) -> None:
    """A line search goes another way after the smallest difference, so that losses cannot be compared."""
    pair = run_pair("lbfgs", ["amp"], tmp_path, amp_dtype="bfloat16", stand_in=True)
    check_active(pair, ["amp"], "bfloat16", evaluation=False)
    check_parity(pair, "changed")
    assert pair.after.losses[-1] < pair.after.losses[0] / 2


def compiled_cases(*flags: str) -> list[Any]:
    """Three shapes in every run, the others with the slow tests."""
    return [pytest.param(name, marks=[] if name in SHAPES else pytest.mark.slow) for name in cases_with(*flags)]


@pytest.mark.parametrize("name", compiled_cases("compile"))
def test_compile_is_active_and_close_on_a_cpu(name: str, tmp_path: Path) -> None:
    if name in PLAIN_CONTAINERS and Version(version("torch")) < Version("2.14"):
        pytest.skip("compiling in place does nothing to a plain nn.Sequential before torch 2.14")
    stand_in = load_case(name).settings.get("device") == "cuda"
    check_fixture(name, ["compile"], tmp_path, stand_in=stand_in, codegen=name in SHAPES)


# Their autograd functions carry `custom_fwd(device_type="cuda")`; on a GPU they run in test_gpu.py.
ASK_FOR_CUDA = {"custom_function"}


@pytest.mark.parametrize("name", compiled_cases("amp", "compile"))
def test_both_are_active_and_close_on_a_device(name: str, tmp_path: Path) -> None:
    if name in ASK_FOR_CUDA:
        pytest.skip("compiled code asks for the autocast state of CUDA, which the stand-in keeps under the CPU's name")
    check_fixture(name, ["amp", "compile"], tmp_path, stand_in=True, codegen=False)
