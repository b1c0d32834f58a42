"""Ask a process that has torch imported to run jobs: a short script then costs its own time only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import TracebackType

from speedpatch.recorder.job import Job
from speedpatch.recorder.launch import CHILD
from speedpatch.recorder.recording import RecordingError


class Server:
    """A running server, as a context manager; one job at a time. POSIX only."""

    def __init__(self, python: str = sys.executable) -> None:
        if not hasattr(os, "fork"):
            raise RecordingError("a server needs a system that can fork: record without one")
        fixed = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [python, str(CHILD), "--serve"],
            env={**os.environ, **fixed, "PYTHONHASHSEED": "0", "TORCHINDUCTOR_COMPILE_THREADS": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        if self._answer() != "ready":
            raise RecordingError(f"{python} could not start a recording server: is torch installed there?")

    def run(self, job: Job, timeout: float) -> int:
        """Run a job; the exit status of its process, as `launch` gives it."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"job": job.to_json(), "timeout": timeout}) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        if not answer:
            raise RecordingError(f"the recording server ended with status {self._process.wait()}")
        return int(answer)

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def _answer(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()
