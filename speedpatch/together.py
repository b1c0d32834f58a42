"""Keep programs that share files in step: each is patched on what the ones before it left.

All programs are patched alone first, on as many cores as there are. Only where one changes a file that another
reads are they patched again, one after the other. What is changed in a shared file has to fit all of them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from pathlib import Path

from speedpatch.callers import broken_call, changed_functions
from speedpatch.codemod import Outcome
from speedpatch.run import Job, Report, applied_names, real, rewrites, run_job
from speedpatch.sources import NEWLINE, Rewrite, Source

Choose = Callable[[Report], Report]


@dataclass(frozen=True)
class Member:
    """One of several programs: its files by what tells them apart, and what becomes of it when it is patched alone."""

    job: Job
    alone: Report
    files: Mapping[str, Source]

    @property
    def key(self) -> str:
        """What tells it apart."""
        return real(self.job.path)


@dataclass(frozen=True)
class Overlay:
    """What programs have made of files so far, and which of them was the first at a file."""

    files: dict[str, Source] = field(default_factory=dict)
    owners: dict[str, Path] = field(default_factory=dict)

    def add(self, report: Report) -> None:
        """Take in what a program has changed."""
        for file in report.files:
            self.files[real(file.path)] = file.after
            self.owners.setdefault(real(file.path), report.path)


def settle(jobs: Sequence[Job], reports: Sequence[Report], choose: Choose | None = None) -> list[Report]:
    """What becomes of programs that were patched alone when they are patched together; `choose` asks the user."""
    members = [
        Member(job, replace(report, job=job), {real(source.path): source for source in job.program})
        for job, report in zip(jobs, reports, strict=True)
    ]
    frozen: dict[str, str] = {}
    done = in_turn(members, frozen)
    while (objections := {**declined(members, done), **misfits(members, done)}).keys() - frozen.keys():
        frozen |= objections
        done = in_turn(members, frozen)
    if choose is not None:
        done = in_turn(members, frozen, choose)
    return refuse(done, misfits(members, done))


def in_turn(
    members: Sequence[Member], frozen: Mapping[str, str], choose: Choose = lambda report: report
) -> list[Report]:
    """Patch one program after the other by their paths, those that others import last.

    What `frozen` names is not edited, it says why.
    """
    overlay = Overlay()
    done: dict[str, Report] = {}
    imported = {key for member in members for key in [*member.files][1:]}
    for member in sorted(members, key=lambda member: (member.key in imported, str(member.job.path))):
        is_touched = not overlay.files.keys().isdisjoint(member.files)
        is_held = any(real(file.path) in frozen for file in member.alone.files)
        is_again = (is_touched or is_held) and member.alone.error is None
        report = choose(again(member, overlay, frozen) if is_again else member.alone)
        report = replace(report, job=member.job, files=tuple(from_disk(file, member) for file in report.files))
        overlay.add(report)
        done[member.key] = report
    return [done[member.key] for member in members]


def again(member: Member, overlay: Overlay, frozen: Mapping[str, str]) -> Report:
    """Patch a program on what others made of its files."""
    alone = member.alone
    shared = {key: overlay.files[key] for key in member.files if key in overlay.files}
    held = {source.path: frozen[key] for key, source in member.files.items() if key in frozen}
    program = tuple(
        source.with_text(shared[key].text) if key in shared else source for key, source in member.files.items()
    )
    job = replace(member.job, program=program, frozen=member.job.frozen | held.keys(), others=(), describe=False)
    report = run_job(job)
    outcomes = [on_disk(item, member, shared) for item in report.outcomes]
    if shared and not report.error:
        outcomes = credited(outcomes, alone.outcomes, overlay.owners[next(iter(shared))])
    reasons = "; ".join(dict.fromkeys(held.values()))
    outcomes = [explained(item, alone.outcomes, reasons) for item in outcomes]
    return replace(report, job=job, outcomes=tuple(outcomes), others=alone.others, evidence=alone.evidence)


def on_disk(outcome: Outcome, member: Member, shared: Mapping[str, Source]) -> Outcome:
    """An outcome with the line that the file on the disk has, where others have changed it."""
    for key, source in shared.items():
        if str(source.path) == outcome.path:
            return replace(outcome, line=line_before(member.files[key].text, source.text, outcome.line))
    return outcome


def explained(outcome: Outcome, alone: Sequence[Outcome], reasons: str) -> Outcome:
    """An outcome, with why a file may not be edited where it says no only because of that."""
    was = {item.status for item in alone if item.codemod == outcome.codemod}
    is_held = reasons and outcome.status == "declined" and "applied" in was
    return replace(outcome, reason=f"{outcome.reason} ({reasons})") if is_held else outcome


def credited(outcomes: Sequence[Outcome], alone: Sequence[Outcome], owner: Path) -> list[Outcome]:
    """The outcomes, where all is there already only because of another program, as applied together with that."""
    statuses = {name: {item.status for item in outcomes if item.codemod == name} for name in names_of(outcomes)}
    result: list[Outcome] = []
    for name, found in statuses.items():
        own = [item for item in alone if item.codemod == name and item.status == "applied"]
        if own and found == {"already"}:
            result += [replace(item, reason=f"patched together with {owner}") for item in own]
        else:
            result += [item for item in outcomes if item.codemod == name]
    return result


def names_of(outcomes: Iterable[Outcome]) -> list[str]:
    """The codemods that say something, in their order."""
    return list(dict.fromkeys(item.codemod for item in outcomes))


def from_disk(file: Rewrite, member: Member) -> Rewrite:
    """A change as one of what the file holds on the disk."""
    return replace(file, before=member.files.get(real(file.path), file.before))


def line_before(before: str, after: str, line: int) -> int:
    """The line of a text that a line of its later state came from, or the nearest before it."""
    old, new = NEWLINE.split(before), NEWLINE.split(after)
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    found = 1
    for block in blocks:
        if block.size and block.b < line:
            found = block.a + min(line - block.b, block.size)
    return found


def declined(members: Sequence[Member], reports: Sequence[Report]) -> dict[str, str]:
    """The files that one program changes for what another that reads them has declined, with what to say of it."""
    found: dict[str, str] = {}
    for report in reports:
        names = applied_names(report.outcomes)
        for file in report.files:
            for member in members:
                refused = [item for item in member.alone.outcomes if refuses(item) and item.codemod in names]
                if refused and member.job.path != report.path and real(file.path) in member.files:
                    what = f"{refused[0].codemod} is declined at {refused[0].place}"
                    found[real(file.path)] = f"{file.path} is shared with {member.job.path}, where {what}"
    return found


def refuses(outcome: Outcome) -> bool:
    """Whether an optimization is declined for what it would do to a program, not because it would gain nothing."""
    return outcome.status == "declined" and not outcome.code.endswith(".cpu-only")


def misfits(members: Sequence[Member], reports: Sequence[Report]) -> dict[str, str]:
    """The files that are changed so that a call in some program does not fit any more, with what to say of it."""
    last = {real(file.path): file for file in rewrites(reports)}
    found: dict[str, str] = {}
    for key, file in last.items():
        readers = [member for member in members if key in member.files]
        changes = changed_functions(file.before.text, file.after.text) if len(readers) > 1 else {}
        sources = {other: source for member in readers for other, source in member.files.items()} if changes else {}
        for other, source in sources.items():
            call = broken_call(last[other].after.text if other in last else source.text, changes)
            if call is not None:
                found[key] = f"{file.path} is shared with {source.path}, which calls {ast.unparse(call.func)} as it was"
    return found


def refuse(reports: Sequence[Report], found: Mapping[str, str]) -> list[Report]:
    """The reports, those of programs that change what has to stay as failed, and with them what builds on it."""
    errors: dict[Path, str] = {}
    for group in linked(reports):
        reasons = [found[real(file.path)] for file in rewrites(group) if real(file.path) in found]
        errors |= {report.path: f"{report.path}: left as it is: {reasons[0]}" for report in group if reasons}
    return [report.failed(errors[report.path]) if report.path in errors else report for report in reports]


def linked(reports: Iterable[Report]) -> list[list[Report]]:
    """The programs that change something, those together of which one reads what another changes."""
    groups: list[tuple[set[str], set[str], list[Report]]] = []
    for report in reports:
        if not applied_names(report.outcomes):
            continue
        changed = {real(file.path) for file in report.files}
        read = changed | {real(source.path) for source in (report.job.program if report.job else ())}
        members = [report]
        for group in [group for group in groups if changed & group[1] or read & group[0]]:
            groups.remove(group)
            changed, read, members = changed | group[0], read | group[1], [*group[2], *members]
        groups.append((changed, read, members))
    return [members for _, _, members in groups]
