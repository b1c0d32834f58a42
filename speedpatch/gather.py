"""From the paths of a command line to a report of every file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from speedpatch.discovery import find_files
from speedpatch.errors import SourceError
from speedpatch.program import read_program
from speedpatch.read import mentions_torch, source_from_bytes
from speedpatch.run import STDIN, Job, Report, load, run_job, run_jobs, without_torch
from speedpatch.selection import Request, Selection, select
from speedpatch.sources import Source

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
        if isinstance(loaded, Source):
            job = make_job(read_program(loaded, follow), selection)
            jobs[len(reports)] = replace(job, describe=describe)
            reports.append(None)
        elif loaded.error is None and not is_named:
            skipped += 1
        else:
            reports.append(loaded)
    with progress(len(jobs)) as seen:
        done = dict(zip(jobs, run_jobs(list(jobs.values()), seen), strict=True))
    done = {index: replace(report, job=jobs[index]) for index, report in done.items()}
    return Gathered(tuple(report or done[index] for index, report in enumerate(reports)), skipped)


def gather_stdin(raw: bytes, request: Request) -> Report:
    """Patch what comes in on standard input."""
    selection = select(request, Path.cwd())
    if not mentions_torch(raw):
        return without_torch(STDIN, selection.names)
    try:
        return run_job(make_job((source_from_bytes(STDIN, raw),), selection))
    except SourceError as error:
        return Report(STDIN, error=str(error))


def make_job(program: tuple[Source, ...], selection: Selection) -> Job:
    """What is to be done with one program."""
    return Job(program, selection.names, selection.options, selection.others)


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
