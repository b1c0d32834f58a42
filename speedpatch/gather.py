"""From the paths of a command line to a report of every file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from speedpatch.config import is_excluded
from speedpatch.discovery import find_files
from speedpatch.errors import SourceError
from speedpatch.programs import Candidate, find_programs, make_job
from speedpatch.read import mentions_torch, source_from_bytes
from speedpatch.run import STDIN, Report, load, run_job, run_jobs, without_torch
from speedpatch.selection import Request, select
from speedpatch.sources import Source
from speedpatch.together import Choose, settle

PROGRESS_FROM = 20


@dataclass(frozen=True)
class Gathered:
    """The reports of all files; those of a folder that do not mention torch are only counted. `patch`: the way back."""

    reports: tuple[Report, ...]
    skipped: int = 0
    patch: Path | None = None


def gather(
    paths: Iterable[Path], request: Request, follow: bool = True, describe: bool = False, choose: Choose | None = None
) -> Gathered:
    """Patch every program under the paths, in memory; `choose` asks the user about each."""
    found = find_files(paths)
    reports: list[Report | Candidate] = [Report(Path(error.path), error=str(error)) for error in found.errors]
    skipped = 0
    for path, is_named in [*((path, True) for path in found.given), *((path, False) for path in found.walked)]:
        selection = select(request, Path(os.path.abspath(path.parent)))
        is_left_out = is_excluded(path)
        loaded = load(path, selection.names, is_left_out)
        if isinstance(loaded, Source):
            reports.append(Candidate(loaded, selection, is_named))
        elif loaded.error is None and not is_named:
            skipped += not is_left_out
        else:
            reports.append(loaded)
    jobs = find_programs([item for item in reports if isinstance(item, Candidate)], follow)
    jobs = {path: replace(job, describe=describe) for path, job in jobs.items()}
    with progress(len(jobs)) as seen:
        alone = run_jobs(list(jobs.values()), seen)
    done = dict(zip(jobs, settle(list(jobs.values()), alone, choose), strict=True))
    told = [done.get(item.source.path) if isinstance(item, Candidate) else item for item in reports]
    return Gathered(tuple(report for report in told if report is not None), skipped)


def gather_stdin(raw: bytes, request: Request) -> Report:
    """Patch what comes in on standard input."""
    selection = select(request, Path.cwd())
    if not mentions_torch(raw):
        return without_torch(STDIN, selection.names)
    try:
        return run_job(make_job((source_from_bytes(STDIN, raw),), selection))
    except SourceError as error:
        return Report(STDIN, error=str(error))


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
