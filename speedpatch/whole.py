"""Patch a script together with what has to go with it: who calls what it changes, and who runs what it only holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from speedpatch import patch
from speedpatch.codemod import Codemod, Options
from speedpatch.importers import find_importers
from speedpatch.patch import Result
from speedpatch.program import read_program
from speedpatch.sources import MAIN, Source

ELSEWHERE = {"amp.optimizer-elsewhere", "amp.device-unknown", "amp.no-callers", "compile.model-elsewhere"}
"""What is said of a file that holds a training loop for others to run."""

Frozen = Callable[[Sequence[Path]], frozenset[Path]]
"""Which of some files may not be edited."""


def patch_whole(program: Sequence[Source], codemods: Iterable[Codemod], options: Options, frozen: Frozen) -> Result:
    """Apply codemods to a program; `program[0]` is its script.

    Scripts of the project that call a function whose parameters change are patched with it, or nothing is. A file that
    only holds what others run is patched as a part of theirs.
    """
    wanted = tuple(codemods)
    result = run(program, 1, wanted, options, frozen)
    if any(outcome.code in ELSEWHERE for outcome in result.outcomes):
        users = find_importers(paths(program), [(program[0].path, "")], program[0].path)
        together = joined(program, users)
        other = run(together, 1 + len(users), wanted, options, frozen) if users else result
        if users and declined(other) <= declined(result):
            return settle(together, 1 + len(users), other, wanted, options, frozen)
    return settle(program, 1, result, wanted, options, frozen)


def settle(
    program: Sequence[Source],
    scripts: int,
    result: Result,
    codemods: Sequence[Codemod],
    options: Options,
    frozen: Frozen,
) -> Result:
    """Patch once more with the scripts that call what changed, until there are no others."""
    while True:
        own = [source for source in program[scripts:] if runs_and_names(source, result)]
        users = find_importers(paths(program), result.signatures, program[0].path) if result.signatures else []
        if not users and not own:
            return result
        program, scripts = joined(program, [*own, *users], scripts), scripts + len(own) + len(users)
        result = run(program, scripts, codemods, options, frozen)


def runs_and_names(source: Source, result: Result) -> bool:
    """Whether an imported file is a script as well, which names a function whose parameters have changed."""
    return bool(MAIN.search(source.text)) and any(name in source.text for _, name in result.signatures)


def run(
    program: Sequence[Source], scripts: int, codemods: Sequence[Codemod], options: Options, frozen: Frozen
) -> Result:
    """Patch a program of some scripts."""
    return patch.patch(program, codemods, options, frozen(paths(program)), scripts)


def joined(program: Sequence[Source], users: Sequence[Source], scripts: int = 1) -> list[Source]:
    """A program with further scripts, behind its own, and what they import."""
    found = {source.path.resolve(): source for source in [*program[:scripts], *users]}
    for source in [*program[scripts:], *(module for user in users for module in read_program(user)[1:])]:
        found.setdefault(source.path.resolve(), source)
    return list(found.values())


def paths(program: Iterable[Source]) -> list[Path]:
    """The files of a program."""
    return [source.path for source in program]


def declined(result: Result) -> int:
    """How much was declined; more than anything when a file failed."""
    failed = 1000 * sum(file.error is not None for file in result.files)
    return failed + sum(outcome.status == "declined" for outcome in result.outcomes)
