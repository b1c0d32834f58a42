"""Serve jobs from a process that has torch imported already: each runs in a fork of it.

Imported by the recording process, and imports torch: the asking side is `server.py`. A fork is safe while this
process has no threads: it runs no tensor operation, and its children inherit nothing but imported modules.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from speedpatch.recorder.job import Job, job_from_json
from speedpatch.recorder.launch import await_end


def serve(run_job: Callable[[Job], int]) -> NoReturn:
    """Answer every line, a job with its time limit, by the exit status of its process; end when stdin ends."""
    importlib.import_module("torch._dynamo")  # else every script's first optimizer would, for seconds

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    print("ready", file=answers, flush=True)
    while line := sys.stdin.readline():
        request = json.loads(line)
        print(_run_forked(run_job, job_from_json(request["job"]), request["timeout"]), file=answers, flush=True)
    os._exit(0)


def _run_forked(run_job: Callable[[Job], int], job: Job, timeout: float) -> int:
    if _compiles(job):
        importlib.import_module("torch._inductor.compile_fx")  # seconds long: once here, not in every fork
    pid = os.fork()
    if pid == 0:
        _become(run_job, job)
    status: list[int] = []

    def poll() -> int | None:
        if not status and (found := os.waitpid(pid, os.WNOHANG))[0]:
            status.append(os.waitstatus_to_exitcode(found[1]))
        return status[0] if status else None

    return await_end(pid, poll, job, timeout)


def _compiles(job: Job) -> bool:
    try:
        return b"compile" in Path(job.script).read_bytes()
    except OSError:
        return False


def _become(run_job: Callable[[Job], int], job: Job) -> NoReturn:
    """In the fork: take on the job's session, streams, folder and environment, run it, never return."""
    status = 1
    try:
        os.setsid()
        for number, path in ((1, job.stdout), (2, job.stderr)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(job.cwd)
        os.environ.clear()
        os.environ.update(job.env)
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
        status = run_job(job)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)
