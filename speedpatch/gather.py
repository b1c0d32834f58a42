"""From the paths of a command line to a report of every file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from speedpatch.discovery import find_files
from speedpatch.read import mentions_torch
from speedpatch.run import STDIN, Job, Report, load, run_job, run_jobs, without_torch
from speedpatch.selection import Request, Selection, select

PROGRESS_FROM = 20


@dataclass(frozen=True)
class Gathered:
    """The reports of all files; those of a folder that do not mention torch are only counted. `patch`: the way back."""

    reports: tuple[Report, ...]
    skipped: int = 0
    patch: Path | None = None


def gather(paths: Iterable[Path], request: Request, follow: bool = True, describe: bool = False) -> Gathered:
    """Patch everything under the paths, in memory."""
    found = find_files(paths)
    reports: list[Report | None] = [Report(Path(error.path), error=str(error)) for error in found.errors]
    jobs: dict[int, Job] = {}
    skipped = 0
    for path, is_named in [*((path, True) for path in found.given), *((path, False) for path in found.walked)]:
        selection = select(request, Path(os.path.abspath(path.parent)))
        loaded = load(path, selection.names)
        if isinstance(loaded, bytes):
            jobs[len(reports)] = replace(make_job(path, loaded, selection, follow), describe=describe)
            reports.append(None)
        elif loaded.error is None and not is_named:
            skipped += 1
        else:
            reports.append(loaded)
    with progress(len(jobs)) as seen:
        done = dict(zip(jobs, run_jobs(list(jobs.values()), seen), strict=True))
    return Gathered(tuple(report or done[index] for index, report in enumerate(reports)), skipped)


def gather_stdin(raw: bytes, request: Request) -> Report:
    """Patch what comes in on standard input."""
    selection = select(request, Path.cwd())
    job = make_job(STDIN, raw, selection, follow=False)
    report = run_job(job) if mentions_torch(raw) else without_torch(STDIN, selection.names)
    return replace(report, job=job)


def make_job(path: Path, raw: bytes, selection: Selection, follow: bool) -> Job:
    """What is to be done with one file."""
    return Job(path, selection.names, selection.options, follow, raw, selection.others)


@contextmanager
def progress(total: int) -> Iterator[Callable[[], None]]:
    """A bar on a terminal, for folders that take a while."""
    if total < PROGRESS_FROM or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    # No refreshing thread: the worker processes are forked from this one.
    with Progress(console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task("speedpatch", total=total)
        yield lambda: bar.update(task, advance=1, refresh=True)
