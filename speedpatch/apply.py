"""`speedpatch apply`: show, ask, write; or one of the ways that do not ask."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from speedpatch import registry
from speedpatch.codemod import Outcome, Stage
from speedpatch.config import UsageError
from speedpatch.errors import SourceError
from speedpatch.gather import Gathered, gather, gather_stdin
from speedpatch.machine import to_json, to_sarif
from speedpatch.recover import recover
from speedpatch.run import STDIN, Report, applied_names, internal, rewrites, run_job
from speedpatch.selection import Request
from speedpatch.sources import Rewrite
from speedpatch.text import count, print_diff, print_errors, print_outcomes, print_sum, say
from speedpatch.together import linked
from speedpatch.undo import keep_patch
from speedpatch.write import write_sources

CHANGES, DECLINED, FAILED = 1, 3, 123
FEW = 4
STAGES: tuple[str, ...] = Stage.__args__  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Output:
    """What to do with the result: `show` previews and, on a terminal, asks."""

    action: Literal["show", "diff", "check", "write"] = "show"
    form: Literal["text", "json", "sarif"] = "text"
    interactive: bool = False
    strict: bool = False


def apply(paths: Sequence[Path], request: Request, output: Output, follow: bool = True) -> int:
    """Patch everything under the paths; the exit code."""
    if STDIN in paths:
        return apply_to_stdin(paths, request, output)
    asks = output.action == "show" and output.form == "text" and sys.stdin.isatty() and sys.stdout.isatty()
    if output.interactive and not asks:
        raise UsageError("--interactive needs a terminal to ask on: use --yes to write without asking")
    if asks or output.action == "write":
        recover()
    gathered = gather(paths, request, follow, choose=ask_by_stage if output.interactive else None)
    if asks and not output.interactive:
        return apply_asking(gathered, output)
    if output.action == "write" or output.interactive:
        gathered = write_changed(gathered)
    tell(gathered, output)
    return exit_code(gathered.reports, output)


def apply_to_stdin(paths: Sequence[Path], request: Request, output: Output) -> int:
    """Patch standard input to standard output, as an editor's filter does."""
    if len(paths) > 1:
        raise UsageError("- stands for standard input: it goes with no other path")
    raw = sys.stdin.buffer.read()
    report = gather_stdin(raw, request)
    if output.form != "text" or output.action in ("diff", "check"):
        tell(Gathered((report,)), output)
        return exit_code([report], output)
    if report.error is None:
        sys.stdout.buffer.write(report.files[0].after.encode() if report.files else raw)
        sys.stdout.buffer.flush()
    print_outcomes([report], sys.stderr)
    return exit_code([report], output)


def apply_asking(gathered: Gathered, output: Output) -> int:
    """Show everything, then ask once."""
    changed = rewrites(gathered.reports)
    print_diff(changed)
    print_outcomes(gathered.reports, verb="would be applied")
    print_sum(gathered.reports, gathered.skipped, "would change")
    if changed:
        if ask(f"write {count(len(changed), 'file')}?", "yN") == "y":
            written = write_changed(gathered)
            print_errors([new for old, new in zip(gathered.reports, written.reports, strict=True) if not old.error])
            tell_written(written)
            return exit_code(written.reports, output)
        say("nothing written")
    return exit_code(gathered.reports, output)


def ask_by_stage(report: Report) -> Report:
    """Show what each optimization adds to the program, and keep those that the user wants."""
    if report.job is None or not report.changed:
        return report
    kept: tuple[str, ...] = ()
    best = replace(report, files=(), outcomes=tuple(item for item in report.outcomes if item.status != "applied"))
    for name in in_stages(applied_names(report.outcomes)):
        trial = run_job(replace(report.job, names=(*kept, name), others=()))
        step = list(between(best, trial))
        if trial.error or not step:
            continue
        print_diff(step)
        print_outcomes([replace(trial, outcomes=of_codemod(trial, name))], verb="would be applied")
        answer = ask(f"{report.path}: apply {name}?", "yNq")
        if answer == "y":
            kept, best = (*kept, name), replace(best, files=trial.files, outcomes=trial.outcomes)
        elif answer == "q":
            break
    return best


def in_stages(names: Iterable[str]) -> list[str]:
    """Optimizations in the order in which they are applied."""
    return sorted(names, key=lambda name: (STAGES.index(registry.codemods()[name].stage), name))


def between(report: Report, other: Report) -> Iterator[Rewrite]:
    """What one result has in its files that another has not."""
    before = {file.path: file.after for file in report.files}
    for file in other.files:
        known = before.get(file.path, file.before)
        if known.text != file.after.text:
            yield Rewrite(known, file.after)


def of_codemod(report: Report, name: str) -> tuple[Outcome, ...]:
    """The outcomes of one codemod."""
    return tuple(outcome for outcome in report.outcomes if outcome.codemod == name)


def ask(question: str, answers: str) -> str:
    """The first letter of the answer; no, in capitals, is what silence means."""
    sys.stdout.flush()
    try:
        answer = input(f"{question} [{'/'.join(answers)}] ").strip().lower()[:1]
    except EOFError:
        print()
        return "n"
    return answer if answer and answer in answers.lower() else "n"


def write_changed(gathered: Gathered) -> Gathered:
    """Write what changed, the way back first; programs that build on each other are written together or not at all."""
    reports = gathered.reports
    try:
        patch = keep_patch([file.after for file in rewrites(reports)])
    except SourceError as error:
        return with_failures(gathered, {report.path: str(error) for report in reports if report.changed})
    failures: dict[Path, str] = {}
    for group in linked(reports):
        failures |= write_group(group)
    if failures:
        written = [report for report in reports if report.path not in failures]
        patch = keep_patch([file.after for file in rewrites(written)], over=patch)
    return replace(with_failures(gathered, failures), patch=patch)


def write_group(group: Sequence[Report]) -> dict[Path, str]:
    """Write the files of some programs, all or none; what to say of each program when it is none."""
    paths = {str(file.path): report.path for report in reversed(group) for file in report.files}
    culprit = group[0].path
    try:
        write_sources(file.after for file in rewrites(group))
    except SourceError as error:
        culprit, message = paths.get(error.path, culprit), str(error)
    except Exception as error:
        message = f"{culprit}: {internal(error)}"
    else:
        return {}
    others = {
        path: f"{path}: not written, it is patched together with {culprit}"
        for path in (report.path for report in group)
    }
    return {**others, culprit: message}


def with_failures(gathered: Gathered, failures: dict[Path, str]) -> Gathered:
    """The reports, those of files that could not be written as failed."""
    reports = [
        report.failed(failures[report.path]) if report.path in failures else report for report in gathered.reports
    ]
    return replace(gathered, reports=tuple(reports))


def tell(gathered: Gathered, output: Output) -> None:
    """Print the result: on stdout what was asked for, on stderr the rest."""
    reports = gathered.reports
    if output.form != "text":
        print(to_json(reports) if output.form == "json" else to_sarif(reports))
        print_errors(reports)
        if output.action == "show" and any(report.changed for report in reports):
            say("nothing written: use --yes to write", file=sys.stderr)
    elif output.action == "write" or output.interactive:
        print_outcomes(reports)
        tell_written(gathered)
    elif output.action == "check":
        print_outcomes(reports, verb="would be applied")
        print_sum(reports, gathered.skipped, "would change")
    else:
        print_diff(rewrites(reports))
        print_outcomes(reports, sys.stderr, verb="would be applied")
        print_sum(reports, gathered.skipped, "would change", sys.stderr)
        if output.action == "show" and any(report.changed for report in reports):
            say("nothing written: there is no terminal to ask on, use --yes to write", file=sys.stderr)


def tell_written(gathered: Gathered) -> None:
    """What was written, what failed, and where the way back lies."""
    print_sum(gathered.reports, gathered.skipped, "changed")
    if gathered.patch:
        changed = [str(file.path) for file in rewrites(gathered.reports)]
        what = " ".join(changed) if len(changed) <= FEW else "PATH..."
        say(f"to undo: speedpatch revert {what} (the reverse patch is {gathered.patch})")


def exit_code(reports: Sequence[Report], output: Output) -> int:
    """The worst of what happened."""
    if any(report.error for report in reports):
        return FAILED
    if output.action == "check" and any(report.changed for report in reports):
        return CHANGES
    declined = any(outcome.status == "declined" for report in reports for outcome in report.outcomes)
    return DECLINED if output.strict and declined else 0
