"""Run training programs before and after a rewrite, and hold them to a class of parity."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import subprocess
import sys
import tempfile
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
PRELOAD = Path(__file__).with_name("preload")
ACCELERATORS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
# Low enough that no step of a short program is skipped, high enough that a missing unscale_ shows.
INIT_SCALE = 256.0
# Programs whose evaluation is a call or a comprehension, not a loop: it stays in float32.
LONE_EVALUATIONS = {"encode_decode", "full_batch", "gan_bce", "one_liner", "step_helpers"}
# Programs that carry rounding further than the tolerances allow, by the name of the patched file.
DRIFTS = {
    ("accelerator_device", "after_amp"): (3e-2, "6.7e-3 after 16 steps on torch 2.4"),
    ("accelerator_device", "after_amp_compile"): (3e-2, "the same: 6.7e-3"),
    # Compiled code does not see the stand-in's list for CUDA: exp stays half there, and randn_like draws other noise.
    ("vae", "after_amp_compile"): (3e-2, "5.8e-3 and 0.13 of the norm on torch 2.4; 1.5e-5 without compiling"),
    ("main_with_resume", "after_amp"): (3e-2, "batch norm and AdamW at 0.02: 2.4e-2 after one epoch"),
    ("main_with_resume", "after_amp_compile"): (3e-2, "the same: 1.2e-2"),
    ("main_with_resume", "after_amp_bfloat16"): (1e-1, "the same: 4.8e-2"),
    ("full_batch", "after_amp_bfloat16"): (1e-1, "losses near zero: 3.8e-2"),
    ("custom_function", "after_amp_bfloat16"): (5e-2, "signs of codes near zero flip: 1.2e-2"),
    ("nested_validation", "after_amp_compile"): (2e-1, "the first losses jump up and down: 7.9e-2"),
    ("nested_validation", "after_amp_bfloat16"): (2e-1, "the first losses jump up and down: 8.3e-2"),
}


@dataclass(frozen=True)
class Case:
    """A fixture program and what its case.toml says of running it; files that are not there have defaults."""

    folder: Path
    args: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def before(self) -> Path:
        """The program as a user has it."""
        return self.folder / "before.py"

    def after(self, flags: Sequence[str], amp_dtype: str = "float16") -> Path:
        """The program as it is patched with these flags, in their order."""
        names = [flag.replace("-", "_") for flag in flags] + ([] if amp_dtype == "float16" else [amp_dtype])
        return self.folder / f"after_{'_'.join(names)}.py"

    def tolerance(self, flags: Sequence[str], amp_dtype: str) -> Tolerance:
        """The codemods' tolerance, unless the program is known to drift more."""
        usual = tolerance_for(frozenset(flags), amp_dtype)
        loss, source = DRIFTS.get((self.folder.name, self.after(flags, amp_dtype).stem), (0.0, ""))
        return Tolerance(max(loss, usual.loss), max(5 * loss, usual.norm), source or usual.source)


@dataclass(frozen=True)
class Pair:
    """A program before and after, recorded under the same conditions."""

    before: Recording
    after: Recording


def cases_with(*flags: str, amp_dtype: str = "float16") -> list[str]:
    """The fixtures to which all of these flags apply; in bfloat16 more of them take mixed precision."""
    cases = [load_case(path.parent.name) for path in sorted(FIXTURES.glob("*/before.py"))]
    asked = [flag for flag in flags if not (flag == "amp" and amp_dtype == "bfloat16")]
    return [
        case.folder.name
        for case in cases
        if all(case.settings.get(flag) == "applied" for flag in asked) and case.after(flags, amp_dtype).exists()
    ]


def load_case(name: str) -> Case:
    """A fixture by the name of its folder."""
    folder = FIXTURES / name
    path = folder / "case.toml"
    settings = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return Case(folder, tuple(settings.get("args", ())), settings)


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
    if sys.platform != "win32" and not any(Path(device).exists() for device in ACCELERATORS):
        return False
    code = "import torch; raise SystemExit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def run(
    script: Path, folder: Path, *, stand_in: bool = False, codegen: bool = True, timeout: float = 600.0, **options: Any
) -> Recording:
    """Record a script in a scratch folder, with a CUDA device that is not there if asked for."""
    compiles = b"compile" in script.read_bytes()
    backend = PRELOAD / ("same_random.py" if codegen else "without_codegen.py")
    preload = [*([backend] if compiles else ()), *([STAND_IN] if stand_in else ())]
    options = {"server": shared_server(), "init_scale": INIT_SCALE, **options}
    return record(script, cwd=folder, preload=preload, timeout=timeout, **options)


@functools.cache
def run_before(path: Path, args: tuple[str, ...], stand_in: bool, steps: int | None) -> Recording:
    """The program as it is; every set of flags is compared with the same recording."""
    with tempfile.TemporaryDirectory() as folder:
        return run(path, Path(folder), stand_in=stand_in, args=args, steps=steps)


def run_pair(
    name: str,
    flags: Sequence[str],
    folder: Path,
    *,
    amp_dtype: str = "float16",
    stand_in: bool = False,
    after: Path | None = None,
    steps: int | None = None,
    **options: Any,
) -> Pair:
    """Record a fixture before and after patching, to its end or `steps`; `after` names another script."""
    case = load_case(name)
    before = run_before(case.before, case.args, stand_in, steps)
    path = after or case.after(flags, amp_dtype)
    return Pair(before, run(path, folder, stand_in=stand_in, args=case.args, steps=steps, **options))


def check_parity(
    pair: Pair, parity: Parity, *, tolerance: Tolerance | None = None, ignore: Iterable[str] = ()
) -> Comparison:
    """Fail with the differences where the parity does not hold."""
    comparison = compare(pair.before, pair.after, parity, tolerance, ignore=tuple(ignore))
    assert comparison.holds, f"{pair.after.script}: {comparison}"
    return comparison


def check_active(pair: Pair, flags: Iterable[str], amp_dtype: str = "float16", evaluation: bool = True) -> None:
    """Fail where an optimization was not at work afterwards, or was before: parity would prove nothing."""
    for flag in flags:
        reasons = inactive(pair.after, flag, amp_dtype, evaluation)
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
    pair = run_pair(name, flags, folder, amp_dtype=amp_dtype, **options)
    is_active = options.get("stand_in") or "compile" in flags or load_case(name).settings.get("device") == "cpu"
    if not is_active:
        return check_parity(pair, "exact", ignore=ignore)
    check_active(pair, flags, amp_dtype, evaluation=name not in LONE_EVALUATIONS)
    return check_parity(pair, "close", tolerance=load_case(name).tolerance(flags, amp_dtype), ignore=ignore)


def run_resumed(
    first: Path, second: Path, folder: Path, first_args: Sequence[str], second_args: Sequence[str], **options: Any
) -> Recording:
    """Run one script to its end, which leaves a checkpoint in the folder, then another that resumes from it."""
    folder.mkdir(exist_ok=True)
    saved = run(first, folder, args=first_args, **options)
    assert saved.finished, f"{first} did not come to its end"
    return run(second, folder, args=second_args, **options)
