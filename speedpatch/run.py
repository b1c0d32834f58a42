"""Patch programs; a failure of one never stops the others."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from speedpatch import registry
from speedpatch.codemod import Codemod, Edited, Options, Outcome, Status
from speedpatch.errors import PatchError, SourceError
from speedpatch.pragmas import EXCLUDED, NO_TORCH
from speedpatch.read import NOTEBOOK, explain, mentions_torch, read_bytes, source_from_bytes
from speedpatch.sources import MAIN, Rewrite, Source

if TYPE_CHECKING:
    from concurrent.futures import Future

    from speedpatch.evidence import Evidence
    from speedpatch.patch import Result

POOL_FROM = 12
STDIN = Path("-")


@dataclass(frozen=True)
class Job:
    """One program, its script first, and what is asked of it; files in `frozen` are read, but never edited.

    `others` are codemods of which only the names that would apply are told; `describe`: find what it is made of too;
    `follow`: what else in its project goes with it may be looked for.
    """

    program: tuple[Source, ...] = field(repr=False)
    names: tuple[str, ...]
    options: Options = field(default_factory=Options)
    others: tuple[str, ...] = ()
    describe: bool = False
    frozen: frozenset[Path] = frozenset()
    follow: bool = False

    @property
    def path(self) -> Path:
        """The script."""
        return self.program[0].path


@dataclass(frozen=True)
class Report:
    """What became of one program: `files` are those to be written, `error` is set when it failed.

    `edits`: how much each codemod does in which files; `evidence`: what the program is made of, if that was asked for.
    """

    path: Path
    outcomes: tuple[Outcome, ...] = ()
    files: tuple[Rewrite, ...] = ()
    error: str | None = None
    others: tuple[str, ...] = ()
    edits: tuple[Edited, ...] = ()
    evidence: Evidence | None = None
    job: Job | None = field(default=None, repr=False)

    @property
    def changed(self) -> bool:
        """Whether there is something to write."""
        return bool(self.files)

    def failed(self, error: str) -> Report:
        """The same program, left as it was."""
        kept = tuple(outcome for outcome in self.outcomes if outcome.status != "applied")
        return replace(self, outcomes=kept, files=(), edits=(), error=error)


def rewrites(reports: Iterable[Report]) -> list[Rewrite]:
    """Every file that changes, once, from what it holds on the disk to its last state."""
    files: dict[str, Rewrite] = {}
    for report in reports:
        for file in report.files:
            known = files.setdefault(real(file.path), file)
            files[real(file.path)] = replace(known, after=file.after)
    return list(files.values())


def real(path: Path) -> str:
    """What tells whether two paths are the same file."""
    return os.path.realpath(path)


def load(path: Path, names: Sequence[str], is_excluded: bool = False) -> Report | Source:
    """A file that is worth a look, else what there is to say of it."""
    if is_excluded:
        return Report(path, tuple(outcome(name, "not_applicable", "excluded", path, EXCLUDED) for name in names))
    try:
        raw = read_bytes(path)
        source = source_from_bytes(path, raw) if mentions_torch(raw) or b"import" in raw else None
        return source if source is not None and uses_torch(source) else without_torch(path, names)
    except SourceError as error:
        return Report(path, error=str(error))


def uses_torch(source: Source) -> bool:
    """Whether a file speaks of torch, or runs something of its project that does."""
    if "torch" in source.text:
        return True
    from speedpatch.program import read_program

    is_run = source.path.suffix == NOTEBOOK or MAIN.search(source.text)
    return bool(is_run) and any("torch" in module.text for module in read_program(source)[1:])


def without_torch(path: Path, names: Sequence[str]) -> Report:
    """A file that cannot train with torch."""
    return Report(path, tuple(outcome(name, "not_applicable", "no-torch", path, NO_TORCH) for name in names))


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
    """Patch one program; whatever goes wrong becomes the report's error."""
    try:
        return run_program(job)
    except (SourceError, PatchError) as error:
        return Report(job.path, error=with_path(str(error), job.path))
    except RecursionError:
        return Report(job.path, error=f"{job.path}: nested too deeply to be analysed")
    except Exception as error:
        return Report(job.path, error=f"{job.path}: {internal(error)}")


def run_program(job: Job) -> Report:
    """Patch a program; the files that come out can be written."""
    result = patch_job(job, job.names)
    report = in_cells(report_of(job.path, result), job.program[0])
    if report.error is None and job.others:
        further = patch_job(job, job.others)
        report = replace(report, others=applied_names(further.outcomes))
    if report.error is None and job.describe:
        from speedpatch.evidence import find_evidence

        report = replace(report, evidence=find_evidence(job.program))
    return report


def patch_job(job: Job, names: Iterable[str]) -> Result:
    """Patch the program of a job, and with it what has to go with it."""
    if not job.follow:
        from speedpatch.patch import patch

        return patch(job.program, chosen(names), job.options, job.frozen)
    from speedpatch.whole import patch_whole

    return patch_whole(job.program, chosen(names), job.options, lambda paths: protected(job, paths))


def protected(job: Job, paths: Iterable[Path]) -> frozenset[Path]:
    """Which of some files may not be edited: those of the job, and of others what is not the user's."""
    from speedpatch.config import is_excluded
    from speedpatch.discovery import Ownership

    own = {source.path for source in job.program}
    ownership = Ownership()
    others = (path for path in paths if path not in own)
    return job.frozen.union(path for path in others if is_excluded(path) or ownership.is_foreign(real(path)))


def report_of(path: Path, result: Result) -> Report:
    """A result in words, with what is to be written; raises PatchError when it cannot be."""
    files = tuple(Rewrite(file.before, file.after) for file in result.files if file.changed)
    for file in files:
        file.after.encode()
    error = next((file.error for file in result.files if file.error is not None), None)
    report = Report(path, result.outcomes, files, edits=result.edits)
    return report if error is None else report.failed(with_path(error, path))


def in_cells(report: Report, script: Source) -> Report:
    """The report with places in cells where the script is a notebook."""
    if script.path.suffix != NOTEBOOK:
        return report
    from speedpatch.notebooks import Notebook, in_cell

    assert isinstance(script, Notebook)
    path = str(script.path)
    outcomes = (in_cell(script, item) if item.path == path else item for item in report.outcomes)
    return replace(report, outcomes=tuple(outcomes))


def with_path(message: str, path: Path) -> str:
    """A message that begins with the file that it is about, the script when it names none."""
    reason = message.removeprefix(f"{path}: ")
    return reason if reason.startswith(f"{path}:") else f"{path}: {reason}"


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
