"""The heart: sources and options in, patched sources and outcomes out. Nothing is read, asked or printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from speedpatch.checks import check
from speedpatch.codemod import Codemod, Edited, Finding, Options, Outcome, Stage
from speedpatch.edits import AddParameter, Edit, apply_edits
from speedpatch.errors import PatchError, SourceError
from speedpatch.facts import Facts, build_facts
from speedpatch.parse import parse_module
from speedpatch.pragmas import LEFT_ALONE, lines_off
from speedpatch.sources import Module, Source

STAGES: tuple[Stage, ...] = get_args(Stage)


@dataclass(frozen=True)
class FileResult:
    """One file before and after; `error` is set when it could not be parsed or a check of ours failed."""

    before: Source
    after: Source
    error: str | None = None

    @property
    def changed(self) -> bool:
        """Whether there is something to write."""
        return self.before.text != self.after.text


@dataclass(frozen=True)
class Result:
    """What became of one program: its files, an outcome for everything that was asked for, how much was edited where,
    and the functions that take other parameters now, by file and name: who else calls them has to follow."""

    files: tuple[FileResult, ...]
    outcomes: tuple[Outcome, ...]
    signatures: frozenset[tuple[Path, str]] = frozenset()
    edits: tuple[Edited, ...] = ()


@dataclass(frozen=True)
class Round:
    """A program after some codemods, and what was said of each."""

    facts: Facts
    outcomes: tuple[Outcome, ...] = ()
    signatures: frozenset[tuple[Path, str]] = frozenset()
    edits: tuple[Edited, ...] = ()


def patch(
    sources: Sequence[Source],
    codemods: Iterable[Codemod],
    options: Options,
    frozen: frozenset[Path] = frozenset(),
    scripts: int = 1,
) -> Result:
    """Apply codemods to one program, stage by stage, and check what comes out.

    The first `scripts` sources are run (one, as a rule); the others are local modules that they import, of which those
    at `frozen` paths are only read. A failed check leaves every file of the program as it was and is told in
    `FileResult.error`.
    """
    script = sources[0]
    try:
        modules = [parse_module(script), *parsable(sources[1:])]
    except SourceError as error:
        return Result((FileResult(script, script, str(error)),), ())
    wanted = sorted(codemods, key=lambda codemod: (STAGES.index(codemod.stage), codemod.name))
    try:
        start = Round(build_facts(modules, frozen, scripts))
        done = run_stages(start, wanted, options)
        verify(start, done, wanted, options)
    except (PatchError, RecursionError) as error:
        reason = str(error) if isinstance(error, PatchError) else "nested too deeply to be analysed"
        return Result((FileResult(script, script, f"{script.path}: {reason}"),), ())
    after = {module.source.path: module.source for module in done.facts.modules}
    files = [FileResult(module.source, after[module.source.path]) for module in modules]
    told = tuple(file for file in files if file.changed or file.before is script)
    return Result(told, done.outcomes, done.signatures, done.edits)


def parsable(sources: Sequence[Source]) -> list[Module]:
    """The modules that can be read; what another file holds is then simply unknown."""
    found = []
    for source in sources:
        try:
            found.append(parse_module(source))
        except SourceError:
            continue
    return found


def run_stages(start: Round, codemods: Sequence[Codemod], options: Options) -> Round:
    """One codemod after the other, each on the facts of what the ones before it left."""
    current = start
    for codemod in codemods:
        current = run_codemod(current, codemod, options)
    return current


def run_codemod(current: Round, codemod: Codemod, options: Options) -> Round:
    """Plan and apply one codemod."""
    facts = current.facts
    planned = list(codemod.plan(facts, options))
    findings = [item for item in planned if isinstance(item, Finding)]
    edits = [item for item in planned if not isinstance(item, Finding)]
    if edits and (line := protected_line(facts, edits)):
        findings = [
            replace(
                findings[0],
                status="declined",
                code=f"{codemod.name}.off",
                line=line,
                reason=LEFT_ALONE,
            )
        ]
        edits = []
    if not findings:
        raise PatchError(f"{codemod.name} says nothing about this file")
    outcomes = current.outcomes + tuple(
        Outcome(codemod.name, item.status, item.code, item.path, item.line, item.reason, codemod.parity)
        for item in distinct(findings)
    )
    if not edits:
        return replace(current, outcomes=outcomes)
    modules = [
        apply_edits(module, [edit for edit in edits if edit.path == module.source.path]) for module in facts.modules
    ]
    changed = {(edit.path, edit.function.name) for edit in edits if isinstance(edit, AddParameter)}
    counted = Counter(str(edit.path) for edit in edits)
    edited = tuple(Edited(codemod.name, path, count) for path, count in counted.items())
    built = build_facts(modules, facts.frozen, len(facts.state.mains))
    return Round(built, outcomes, current.signatures | changed, current.edits + edited)


def distinct(findings: Sequence[Finding]) -> list[Finding]:
    """Without repetitions of the same finding at the same line."""
    return list(dict.fromkeys(findings))


def protected_line(facts: Facts, edits: Sequence[Edit]) -> int:
    """The first line that an edit touches although the user asked to leave it alone; 0 when there is none."""
    off = {
        module.source.path: lines_off(module.source.text)
        for module in facts.modules
        if "speedpatch" in module.source.text
    }
    for edit in edits:
        node = next((value for value in vars(edit).values() if hasattr(value, "lineno")), None)
        if node is None or edit.path not in off:
            continue
        last = getattr(edit, "last", node)
        touched = range(node.lineno, getattr(last, "lineno", node.lineno) + 1)
        line = next((line for line in touched if line in off[edit.path]), 0)
        if line:
            return line
    return 0


def verify(start: Round, done: Round, codemods: Sequence[Codemod], options: Options) -> None:
    """Raise PatchError when the result is broken, or when patching it again would change it."""
    if done.facts is start.facts:
        if any(outcome.status == "applied" for outcome in done.outcomes):
            raise PatchError("reported as applied, but nothing changed")
        return
    check(start.facts.modules, done.facts.modules)
    again = run_stages(Round(done.facts), codemods, options)
    for one, other in zip(done.facts.modules, again.facts.modules, strict=True):
        if one.source.text != other.source.text:
            raise PatchError("patching the result again changes it again")
