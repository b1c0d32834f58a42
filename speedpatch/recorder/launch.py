"""Start the recording process and wait for its end, whatever the script does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from speedpatch.recorder.job import Job

CHILD = Path(__file__).with_name("child.py")
GRACE = 10.0
PAUSE = 0.02


def launch(job: Job, python: str, timeout: float) -> int:
    """Run a job in a process of its own; its exit status, negative for a signal, 124 when time ran out."""
    request = Path(job.folder, "job.json")
    request.write_text(job.to_json(), encoding="utf-8")
    with job.stdout.open("wb") as stdout, job.stderr.open("wb") as stderr:
        process = subprocess.Popen(
            [python, str(CHILD), str(request)],
            cwd=job.cwd, env=dict(job.env), stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
            start_new_session=True,
        )  # fmt: skip
        return await_end(process.pid, process.poll, job, timeout)


def await_end(pid: int, poll: Callable[[], int | None], job: Job, timeout: float) -> int:
    """Wait for a process that leads its own group, then end what is left of the group.

    Once the recording is there, a process that does not end (a thread that waits for ever) has a grace of seconds.
    """
    deadline = time.monotonic() + timeout
    while (status := poll()) is None and time.monotonic() < deadline:
        if job.result().exists():
            deadline = min(deadline, time.monotonic() + GRACE)
        time.sleep(PAUSE)
    _kill_group(pid)
    if status is None:
        while poll() is None:
            time.sleep(PAUSE)
        return 0 if job.result().exists() else 124
    return status


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
