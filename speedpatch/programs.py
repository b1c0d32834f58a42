"""Find the programs among the files of a command line: which are scripts, and what belongs to each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from speedpatch.config import is_excluded
from speedpatch.discovery import Ownership
from speedpatch.program import read_program
from speedpatch.read import read_source
from speedpatch.run import Job, real
from speedpatch.selection import Selection
from speedpatch.sources import MAIN, Source


@dataclass(frozen=True)
class Candidate:
    """A file that may be a script, and what it would get; `is_named`: on the command line, not by its folder."""

    source: Source
    selection: Selection
    is_named: bool


@dataclass(frozen=True)
class Program:
    """A candidate with the files that it would be run with, by what tells them apart, its own first."""

    candidate: Candidate
    files: Mapping[str, Source]

    @property
    def is_script(self) -> bool:
        """Whether it is a script whoever imports it."""
        return self.candidate.is_named or bool(MAIN.search(self.candidate.source.text))

    @property
    def is_package(self) -> bool:
        """Whether it stands for a folder of modules."""
        return self.candidate.source.path.name == "__init__.py"


def find_programs(candidates: Sequence[Candidate], follow: bool) -> dict[Path, Job]:
    """The candidates that are scripts, each with what is to be done."""
    read = reader([candidate.source for candidate in candidates])
    programs = []
    for candidate in candidates:
        sources = read_program(candidate.source, follow, read)
        programs.append(Program(candidate, {real(source.path): source for source in sources}))
    named = {real(candidate.source.path) for candidate in candidates if candidate.is_named}
    ownership = Ownership()
    jobs = {}
    for program in scripts_among(programs):
        others = [(key, source.path) for key, source in [*program.files.items()][1:]]
        frozen = [path for key, path in others if is_excluded(path) or (key not in named and ownership.is_foreign(key))]
        job = make_job(tuple(program.files.values()), program.candidate.selection)
        jobs[job.path] = replace(job, frozen=frozenset(frozen), follow=follow)
    return jobs


def make_job(program: tuple[Source, ...], selection: Selection) -> Job:
    """What is to be done with one program."""
    return Job(program, selection.names, selection.options, selection.others)


def reader(sources: Sequence[Source]) -> Callable[[Path], Source]:
    """Read every module once, under the name that the user gave it if there is one."""
    known = {real(source.path): source for source in sources}

    def read(path: Path) -> Source:
        key = real(path)
        if key not in known:
            known[key] = read_source(path)
        return known[key]

    return read


def scripts_among(programs: Sequence[Program]) -> list[Program]:
    """The programs whose file is run: those named, with a main guard, or that no other imports.

    Of modules that import each other in a circle, one stands for all; so does a package that no script uses.
    """
    imported = {key for program in programs if not program.is_package for key in [*program.files][1:]}
    scripts = [
        program
        for program in programs
        if program.is_script or not (program.is_package or next(iter(program.files)) in imported)
    ]
    covered = {key for program in scripts for key in program.files}
    for program in sorted(programs, key=lambda program: program.is_package):
        own, *others = program.files
        is_told = own in covered or (program.is_package and others and covered.issuperset(others))
        if not is_told and program not in scripts:
            scripts.append(program)
            covered |= program.files.keys()
    return scripts
