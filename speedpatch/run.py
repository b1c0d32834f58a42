"""Patch files, each as the script of its own program; a failure of one never stops the others."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from speedpatch import registry
from speedpatch.codemod import Codemod, Options, Outcome, Status
from speedpatch.errors import SourceError
from speedpatch.read import NOTEBOOK, explain, mentions_torch, read_bytes, source_from_bytes

if TYPE_CHECKING:
    from concurrent.futures import Future

    from speedpatch.patch import FileResult
    from speedpatch.sources import Source

POOL_FROM = 12
STDIN = Path("-")


@dataclass(frozen=True)
class Job:
    """One file and what is asked of it; `others` are codemods of which only the names that would apply are told.

    `describe`: say what the program is made of as well.
    """

    path: Path
    names: tuple[str, ...]
    options: Options = field(default_factory=Options)
    follow: bool = True
    raw: bytes = field(default=b"", repr=False)
    others: tuple[str, ...] = ()
    describe: bool = False


@dataclass(frozen=True)
class Report:
    """What became of one file: `after` is set when there is something to write, `error` when the file failed."""

    path: Path
    outcomes: tuple[Outcome, ...] = ()
    before: Source | None = None
    after: Source | None = None
    error: str | None = None
    others: tuple[str, ...] = ()
    description: tuple[str, ...] = ()
    job: Job | None = None

    @property
    def changed(self) -> bool:
        """Whether the patched file differs."""
        return self.after is not None

    def failed(self, error: str) -> Report:
        """The same file, left as it was."""
        kept = tuple(outcome for outcome in self.outcomes if outcome.status != "applied")
        return replace(self, outcomes=kept, after=None, error=error)


def load(path: Path, names: Sequence[str]) -> Report | bytes:
    """The bytes of a file that is worth a look, else what there is to say of it."""
    try:
        if path.suffix == ".ipynb" and path.is_file():
            return Report(path, tuple(outcome(name, "declined", "notebook", path, NOTEBOOK) for name in names))
        raw = read_bytes(path)
    except SourceError as error:
        return Report(path, error=str(error))
    return raw if mentions_torch(raw) else without_torch(path, names)


def without_torch(path: Path, names: Sequence[str]) -> Report:
    """A file that cannot train with torch."""
    reason = "the file does not mention torch"
    return Report(path, tuple(outcome(name, "not_applicable", "no-torch", path, reason) for name in names))


def outcome(name: str, status: Status, code: str, path: Path, reason: str) -> Outcome:
    """An outcome of a codemod that did not have to look at the program."""
    return Outcome(name, status, f"{name}.{code}", str(path), 1, reason, registry.codemods()[name].parity)


def run_jobs(jobs: Sequence[Job], seen: Callable[[], None] = lambda: None) -> list[Report]:
    """The reports of all jobs, in their order; `seen` is called when one is done."""
    reports: dict[int, Report] = {}
    for index, report in run_in_pool(jobs) if len(jobs) >= POOL_FROM else enumerate(map(run_job, jobs)):
        reports[index] = report
        seen()
    return [reports[index] for index in range(len(jobs))]


def run_in_pool(jobs: Sequence[Job]) -> Iterator[tuple[int, Report]]:
    """Run on all cores. When a worker dies, its job is tried alone, to find the file that killed it."""
    from concurrent.futures import ProcessPoolExecutor, as_completed

    pool = ProcessPoolExecutor(min(os.cpu_count() or 1, len(jobs)), initializer=leave_interrupts)
    broken = []
    try:
        futures: dict[Future[Report], int] = {pool.submit(run_job, job): index for index, job in enumerate(jobs)}
        for future in as_completed(futures):
            index = futures[future]
            if future.exception() is None:
                yield index, future.result()
            else:
                broken.append(index)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    yield from ((index, run_alone(jobs[index])) for index in broken)


def leave_interrupts() -> None:
    """Let the process that started a worker be the one that an interrupt ends; the worker would print a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_alone(job: Job) -> Report:
    """Run one job in a process of its own."""
    from concurrent.futures import ProcessPoolExecutor

    try:
        with ProcessPoolExecutor(1) as pool:
            return pool.submit(run_job, job).result()
    except Exception as error:
        return Report(job.path, error=f"{job.path}: {internal(error)}")


def run_job(job: Job) -> Report:
    """Patch one file; whatever goes wrong becomes the report's error."""
    try:
        source = source_from_bytes(job.path, job.raw)
        return run_source(source, job)
    except SourceError as error:
        return Report(job.path, error=str(error))
    except RecursionError:
        return Report(job.path, error=f"{job.path}: nested too deeply to be analysed")
    except Exception as error:
        return Report(job.path, error=f"{job.path}: {internal(error)}")


def run_source(source: Source, job: Job) -> Report:
    """Patch the program whose script this is."""
    from speedpatch.patch import patch
    from speedpatch.program import read_program

    alone = not job.follow or job.path == STDIN
    program = [source] if alone else [source, *read_program(source)[1:]]
    result = patch(program, chosen(job.names), job.options)
    file = next(file for file in result.files if file.before.path == source.path)
    report = replace(report_of(file, result.outcomes), job=job)
    if report.error is None and job.others:
        further = patch(program, chosen(job.others), job.options)
        report = replace(report, others=applied_names(further.outcomes))
    if report.error is None and job.describe:
        from speedpatch.describe import describe_program

        report = replace(report, description=describe_program(program))
    return report


def report_of(file: FileResult, outcomes: Iterable[Outcome]) -> Report:
    """The part of a result that is about the script."""
    path = str(file.before.path)
    report = Report(file.before.path, tuple(outcomes), file.before, file.after if file.changed else None)
    if file.error is None:
        return report
    reason = file.error.removeprefix(f"{path}: ")
    return report.failed(reason if reason.startswith(f"{path}:") else f"{path}: {reason}")


def chosen(names: Iterable[str]) -> list[Codemod]:
    """The codemods of these names."""
    known = registry.codemods()
    return [known[name] for name in names]


def applied_names(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """The codemods that would change something."""
    return tuple(dict.fromkeys(outcome.codemod for outcome in outcomes if outcome.status == "applied"))


def internal(error: BaseException) -> str:
    """One line for a mistake of our own, with what a report of it needs."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    message = explain(error) if isinstance(error, OSError) else " ".join(str(error).split())
    return f"internal error, the file is as it was: {type(error).__name__}: {message}{place}; please report it"
