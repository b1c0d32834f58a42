"""Say it to a person: one line an outcome, a coloured diff, and a sum at the end."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from speedpatch.codemod import Outcome
from speedpatch.difference import Change, diff_of, name_of
from speedpatch.read import NOTEBOOK
from speedpatch.run import STDIN, Report, rewrites
from speedpatch.sources import Rewrite

if TYPE_CHECKING:
    from rich.console import Console

FEW = 10
WORDS = {"applied": "applied", "already": "already there", "declined": "declined", "not_applicable": "not applicable"}
STYLES = {"applied": "green", "already": "cyan", "declined": "yellow", "not_applicable": "dim", "failed": "bold red"}
DIFF_STYLES = (("--- ", "bold"), ("+++ ", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def say(line: str, style: str = "", file: TextIO | None = None) -> None:
    """Print one line, coloured where a terminal shows it; control characters of a file never reach it raw."""
    file = file or sys.stdout
    if not file.isatty():
        print(line, file=file)
        return
    from rich.text import Text

    console(file is sys.stderr).print(Text(shown(line), style))


def shown(text: str) -> str:
    """A text without the characters that a terminal would obey."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


@cache
def console(is_stderr: bool) -> Console:
    """A terminal that wraps nothing and colours only what we say."""
    from rich.console import Console

    return Console(stderr=is_stderr, soft_wrap=True, highlight=False)


def complain(line: str) -> None:
    """Print one line about what went wrong."""
    say(f"speedpatch: {line}", STYLES["failed"], sys.stderr)


def change_of(file: Rewrite) -> Change:
    """What happens to a file, under its name relative to here."""
    name = "stdin" if file.path == STDIN else name_of(file.path.resolve(), Path.cwd().resolve())
    return Change(name, file.before.encode(), file.after.encode())


def changes_to_read(file: Rewrite) -> list[Change]:
    """What a person wants to see of a file: the cells of a notebook, not its JSON."""
    whole = change_of(file)
    if file.path.suffix != NOTEBOOK:
        return [whole]
    from speedpatch.notebooks import Notebook, cell_texts

    assert isinstance(file.before, Notebook) and isinstance(file.after, Notebook)
    before, after = cell_texts(file.before), cell_texts(file.after)
    return [
        Change(f"{whole.name} cell {number}", to_lines(text), to_lines(after[number]))
        for number, text in before.items()
    ]


def to_lines(text: str) -> bytes:
    """A cell's source as a file has it, with an end of its last line."""
    return (text + "\n" if text and not text.endswith("\n") else text).encode("utf-8", "replace")


def print_diff(files: Iterable[Rewrite]) -> None:
    """The diff for `git apply`, byte for byte; on a terminal for reading, in colours, that of a notebook by cells."""
    for file in files:
        if not sys.stdout.isatty():
            sys.stdout.flush()
            sys.stdout.buffer.write(diff_of(change_of(file)))
            sys.stdout.buffer.flush()
            continue
        diff = b"".join(map(diff_of, changes_to_read(file)))
        for line in diff.decode("utf-8", "replace").split("\n")[:-1]:
            say(line.rstrip("\r\t"), next((style for start, style in DIFF_STYLES if line.startswith(start)), ""))


def print_outcomes(reports: Sequence[Report], file: TextIO | None = None, verb: str = "applied") -> None:
    """One line for everything that was asked for; of many files, only what needs an eye."""
    told: set[Outcome] = set()
    for report in reports:
        for outcome in in_order(report):
            if outcome not in told and (outcome.status != "not_applicable" or len(reports) <= FEW):
                say(line_of(outcome, verb), STYLES[outcome.status], file)
            told.add(outcome)
    print_errors(reports)


def in_order(report: Report) -> list[Outcome]:
    """The outcomes of a program by their places, those in its script first."""
    script = str(report.path)
    return sorted(report.outcomes, key=lambda item: (item.path != script, item.path, item.cell, item.line))


def print_errors(reports: Iterable[Report]) -> None:
    """One line on stderr for every file that failed."""
    for report in reports:
        if report.error:
            complain(report.error)


def line_of(outcome: Outcome, verb: str = "applied") -> str:
    """An outcome as a line: place, optimization, what became of it, why."""
    word = verb if outcome.status == "applied" else WORDS[outcome.status]
    tail = f" ({outcome.parity})" if outcome.status == "applied" else f" [{outcome.code}]"
    reason = f": {outcome.reason}" if outcome.reason else ""
    return f"{outcome.place}: {outcome.codemod} {word}{reason}{tail}"


def print_sum(reports: Sequence[Report], skipped: int, verb: str, file: TextIO | None = None) -> None:
    """What happened in all, and what else could be asked for."""
    changed = len(rewrites(reports))
    failed = sum(report.error is not None for report in reports)
    parts = [f"{count(changed, 'file')} {verb}"]
    parts += [f"{count(failed, 'file')} failed"] if failed else []
    parts += [f"{count(skipped, 'file')} without torch"] if skipped else []
    say(", ".join(parts), "", file)
    if reports and not any(report.outcomes or report.error for report in reports):
        say("nothing was asked for: name optimizations (--amp), or list them in pyproject.toml", "", file)
    others = list(dict.fromkeys(name for report in reports for name in report.others))
    if others:
        flags = " ".join(f"--{name}" for name in others)
        say(f"would apply too, at close to the same numbers: {flags} (see `speedpatch explain NAME`)", "", file)


def count(number: int, noun: str) -> str:
    """A number of things."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
