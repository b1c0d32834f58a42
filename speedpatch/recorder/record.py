"""Run a training script as its own process and record what it does."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from speedpatch.recorder.job import Job
from speedpatch.recorder.launch import launch
from speedpatch.recorder.recording import Recording, RecordingError, recording_from_json
from speedpatch.recorder.server import Server

LAST_LINES = 15


def record(
    script: Path,
    args: Sequence[str] = (),
    *,
    steps: int | None = None,
    seed: int | None = 0,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    python: str = sys.executable,
    timeout: float = 600.0,
    preload: Sequence[Path] = (),
    threads: int = 1,
    init_scale: float | None = None,
    server: Server | None = None,
) -> Recording:
    """Run `script` until it has taken `steps` optimizer steps, or to its end, and return what it did.

    The script is not changed; it runs in `cwd` (default: its folder) with `env` added to the environment. A
    server runs it in a fork, with the server's python. Raises RecordingError when the script fails.
    """
    if not script.is_file():
        raise RecordingError(f"{script}: no such script")
    with tempfile.TemporaryDirectory(prefix="speedpatch-") as folder:
        job = Job(
            script=str(script.resolve()),
            args=tuple(args),
            folder=folder,
            cwd=str((cwd or script.parent).resolve()),
            steps=steps,
            seed=seed,
            threads=threads,
            preload=tuple(str(path.resolve()) for path in preload),
            env=tuple(sorted(environment(threads, env or {}).items())),
            init_scale=init_scale,
        )
        status = server.run(job, timeout) if server else launch(job, python, timeout)
        return _read(job, status, timeout)


def environment(threads: int, extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a recorded script: repeatable hashing, a fixed number of threads, no byte code left."""
    fixed = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return {**os.environ, **fixed, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", **extra}


def _read(job: Job, status: int, timeout: float) -> Recording:
    stdout, stderr = (path.read_text("utf-8", "replace") if path.exists() else "" for path in (job.stdout, job.stderr))
    if not job.result().exists():
        raise RecordingError(f"{job.script}: {_reason(job, status, timeout)}{_tail(stderr)}")
    return replace(recording_from_json(job.result().read_text(encoding="utf-8")), stdout=stdout, stderr=stderr)


def _reason(job: Job, status: int, timeout: float) -> str:
    if status == 124:
        wanted = "its end" if job.steps is None else f"{job.steps} steps"
        return f"did not reach {wanted} within {timeout:g} s"
    if status == 0:
        return "ended its process without a recording (os._exit or exec?)"
    return f"failed with status {status}" if status > 0 else f"was killed by signal {-status}"


def _tail(text: str) -> str:
    lines = text.rstrip().splitlines()[-LAST_LINES:]
    return "".join(f"\n    {line}" for line in lines)
