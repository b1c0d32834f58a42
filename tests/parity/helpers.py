"""Run training programs before and after a rewrite, and hold them to a class of parity."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from speedpatch.codemod import Parity
from speedpatch.recorder import Comparison, Recording, Server, Tolerance, compare, inactive, record, tolerance_for

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
STAND_IN = ROOT / "tests" / "stand_in"
STEPS = 8
# Low enough that no step of a short program is skipped, high enough that a missing unscale_ shows.
INIT_SCALE = 256.0


@dataclass(frozen=True)
class Case:
    """A fixture program and what its case.toml says of running it; files that are not there have defaults."""

    folder: Path
    steps: int = STEPS
    args: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def before(self) -> Path:
        """The program as a user has it."""
        return self.folder / "before.py"

    def after(self, flags: Sequence[str]) -> Path:
        """The program as it is patched with these flags; by hand where no patched one lies there."""
        name = "_".join(sorted(flag.replace("-", "_") for flag in flags))
        candidates = [self.folder / f"{prefix}{name}.py" for prefix in ("after_", "", "hand_")]
        return next((path for path in candidates if path.exists()), candidates[0])

    def tolerance(self, flags: Sequence[str], amp_dtype: str) -> Tolerance:
        """The codemods' tolerance, unless the case is known to drift more (`loss_tolerance`)."""
        usual = tolerance_for(frozenset(flags), amp_dtype)
        loss = self.settings.get("loss_tolerance")
        return Tolerance(loss, max(loss * 10, usual.norm), "set by the case") if loss else usual


@dataclass(frozen=True)
class Pair:
    """A program before and after, recorded under the same conditions."""

    before: Recording
    after: Recording


def load_case(name: str) -> Case:
    """A fixture by the name of its folder."""
    folder = FIXTURES / name
    path = folder / "case.toml"
    settings = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return Case(folder, settings.get("steps", STEPS), tuple(settings.get("args", ())), settings)


def require_torch() -> None:
    """Skip without torch; in CI a skip would prove nothing, so there it fails."""
    if importlib.util.find_spec("torch") is None:
        message = "torch is not installed: pip install 'speedpatch[run]' runs the parity tests"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(message)


@functools.cache
def shared_server() -> Server:
    """One server for all tests of a process: importing torch takes longer than most of them."""
    server = Server()
    atexit.register(server.close)
    return server


@functools.cache
def has_cuda() -> bool:
    """Whether a real CUDA device is there, asked in another process: this one stays without torch."""
    code = "import torch; raise SystemExit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def run(script: Path, folder: Path, *, stand_in: bool = False, **options: Any) -> Recording:
    """Record a script in a scratch folder, with a CUDA device that is not there if asked for."""
    preload = (STAND_IN,) if stand_in else ()
    options = {"server": shared_server(), "init_scale": INIT_SCALE, "timeout": 120.0, **options}
    return record(script, cwd=folder, preload=preload, **options)


def run_pair(
    name: str,
    flags: Sequence[str],
    folder: Path,
    *,
    stand_in: bool = False,
    after: Path | None = None,
    **options: Any,
) -> Pair:
    """Record a fixture before and after patching, each in a folder of its own; `after` names another script."""
    case = load_case(name)
    options = {"steps": case.steps, "args": case.args, **options}
    scripts = {"before": case.before, "after": after or case.after(flags)}
    for part in scripts:
        (folder / part).mkdir()
    return Pair(*(run(path, folder / part, stand_in=stand_in, **options) for part, path in scripts.items()))


def check_parity(
    pair: Pair, parity: Parity, *, tolerance: Tolerance | None = None, ignore: Iterable[str] = ()
) -> Comparison:
    """Fail with the differences where the parity does not hold."""
    comparison = compare(pair.before, pair.after, parity, tolerance, ignore=tuple(ignore))
    assert comparison.holds, f"{pair.after.script}: {comparison}"
    return comparison


def check_active(pair: Pair, flags: Iterable[str], amp_dtype: str = "float16") -> None:
    """Fail where an optimization was not at work afterwards, or was before: parity would prove nothing."""
    for flag in flags:
        reasons = inactive(pair.after, flag, amp_dtype)
        assert not reasons, f"{pair.after.script}: --{flag} was not at work: {'; '.join(reasons)}"
        assert inactive(pair.before, flag, amp_dtype), f"{pair.before.script}: --{flag} was at work before"


def check_fixture(
    name: str,
    flags: Sequence[str],
    folder: Path,
    *,
    amp_dtype: str = "float16",
    ignore: Iterable[str] = (),
    **options: Any,
) -> Comparison:
    """The fixture is the same bit for bit where the flags do nothing, or active and close under the stand-in."""
    pair = run_pair(name, flags, folder, **options)
    if not options.get("stand_in") and "compile" not in flags:
        return check_parity(pair, "exact", ignore=ignore)
    check_active(pair, flags, amp_dtype)
    return check_parity(pair, "close", tolerance=load_case(name).tolerance(flags, amp_dtype), ignore=ignore)


def run_resumed(
    first: Path, second: Path, folder: Path, first_args: Sequence[str], second_args: Sequence[str], **options: Any
) -> Recording:
    """Run one script to its end, which leaves a checkpoint in the folder, then another that resumes from it."""
    folder.mkdir(exist_ok=True)
    saved = run(first, folder, args=first_args, **options)
    assert saved.finished, f"{first} did not come to its end"
    return run(second, folder, args=second_args, **options)
