"""What `speedpatch scan` says to people: two blocks for one program, a table for several, in 100 columns."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from speedpatch.codemod import Codemod
from speedpatch.evidence import Evidence, Found
from speedpatch.gather import Gathered
from speedpatch.scan import Prospect, Scanned
from speedpatch.text import STYLES, console, count, print_sum, say, shown

if TYPE_CHECKING:
    from rich.table import Table

WIDTH = 100
PATH = 28
FEW = 3
DEVICES = {
    "cpu": "the CPU only",
    "cuda": "CUDA, always",
    "flag": "CUDA under a condition",
    "object": "chosen at run time",
    "unknown": "not known",
}
SHORT = {"cpu": "CPU", "cuda": "CUDA", "flag": "at run time", "object": "at run time", "unknown": "not known"}
VERBS = {
    "applied": "would be applied",
    "already": "there already",
    "declined": "declined",
    "not_applicable": "not applicable",
}


def print_scan(gathered: Gathered, scanned: Sequence[Scanned], versions: Mapping[str, str]) -> None:
    """Everything on stdout."""
    told = [item for item in scanned if item.is_of_interest and not item.report.error]
    rest = [item for item in scanned if item not in told and not item.report.error]
    if not told and len(scanned) == 1:
        told, rest = rest, []
    say(versions_line(scanned, versions), "dim")
    if len(told) == 1:
        print_program(told[0])
    elif told:
        print_table(told)
    if rest:
        paths = [str(item.report.path) for item in rest]
        names = ", ".join(paths[:FEW]) + (", ..." if len(paths) > FEW else "")
        print_wrapped(f"{count(len(rest), 'program')} without training: {names}", "", "  ", "dim")
    print_sum(gathered.reports, gathered.skipped, "could gain")


def versions_line(scanned: Iterable[Scanned], versions: Mapping[str, str]) -> str:
    """What a report of a mistake has to name."""
    targets = sorted({item.torch for item in scanned if item.torch}, key=lambda text: [*map(int, text.split("."))])
    written_for = f", edits for torch {' and '.join(targets)}" if targets else ""
    return f"speedpatch {versions['speedpatch']}, Python {versions['python']}{written_for}"


def print_wrapped(text: str, first: str, further: str, style: str = "") -> None:
    """A text in lines that fit; paths and links stay whole."""
    lines = textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=further, break_on_hyphens=False, break_long_words=False
    )
    for line in lines:
        say(line, style)


# ---- one program


def print_program(item: Scanned) -> None:
    """Two blocks: what was found, and what could be gained."""
    say(str(item.report.path), "bold")
    evidence = item.report.evidence
    rows = list(found_rows(evidence)) if evidence is not None else []
    if rows:
        say("  found", "bold")
        width = max(len(label) for label, _ in rows)
        for label, text in rows:
            print_wrapped(text, f"    {label:<{width}}  ", " " * (width + 6))
    if item.prospects:
        say("  could be gained", "bold")
        width = max(len(found.codemod.name) for found in item.prospects)
        for found in item.prospects:
            print_prospect(found, width)


def found_rows(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """A row for each kind of thing, with the places of each."""
    for kind, group in groupby(evidence.found, key=lambda found: found.kind):
        if kind != "device":
            yield kind.replace("_", " "), "; ".join(named(name, items) for name, items in by_name(group))
    if evidence.device is not None:
        things = [found for found in evidence.found if found.kind == "device"]
        places = "; ".join(named(name, items) for name, items in by_name(things))
        yield "device", DEVICES[evidence.device] + (f": {places}" if places else "")
    if evidence.not_read:
        yield "not read", "; ".join(evidence.not_read)


def by_name(found: Iterable[Found]) -> Iterator[tuple[str, list[Found]]]:
    """Neighbours of one name and one file together."""
    for (name, _), items in groupby(found, key=lambda item: (item.name, item.path)):
        yield name, list(items)


def named(name: str, items: Sequence[Found]) -> str:
    """A name with its places, of which all but the first are told without the file."""
    places = [items[0].place, *(item.place.removeprefix(f"{item.path}:") for item in items[1:])]
    return f"{name} {', '.join(places)}".lstrip()


def print_prospect(item: Prospect, width: int) -> None:
    """One optimization: what becomes of it, where and why, and what to expect."""
    indent = " " * (width + 6)
    say(f"    {item.codemod.name:<{width}}  {VERBS[item.status]}{edits_of(item)}", STYLES[item.status])
    for outcome in item.outcomes:
        is_applied = outcome.status == "applied"
        verb = "" if outcome.status == item.status else f"{VERBS[outcome.status]}: "
        tail = f" ({outcome.parity})" if is_applied else f" [{outcome.code}]"
        print_wrapped(f"{outcome.place}: {verb}{outcome.reason}{tail}", indent, indent + "  ")
    if item.status == "applied" and item.gain is not None:
        print_wrapped(f"expect {item.gain.text}: {item.gain.source}", indent, indent + "  ")


def edits_of(item: Prospect) -> str:
    """How much is edited, file by file."""
    parts = [f"{count(edited.count, 'edit')} in {edited.path}" for edited in item.edits]
    return f": {', '.join(parts)}" if parts else ""


# ---- several programs


def print_table(scanned: Sequence[Scanned]) -> None:
    """A row for each program, those that gain most first, and what to expect of what applies."""
    from rich.console import Console

    longest = max(len(line) for item in scanned for line in broken(str(item.report.path)).split("\n"))
    table = empty_table(min(PATH, longest))
    for item in sorted(scanned, key=lambda item: (-item.expected, str(item.report.path))):
        add_row(table, item)
    is_terminal = sys.stdout.isatty()
    width = min(WIDTH, console(False).width) if is_terminal else WIDTH
    screen = Console(width=width, force_terminal=is_terminal, highlight=False, no_color=not is_terminal)
    with screen.capture() as captured:
        screen.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))
    print()
    for codemod in gaining(scanned):
        assert codemod.gain is not None
        print_wrapped(f"{codemod.name}: {codemod.gain.text}: {codemod.gain.source}", "", "  ")
    print_wrapped("`speedpatch scan PROGRAM` says all of one, `speedpatch explain CODE` what a code means.", "", "")


def empty_table(width: int) -> Table:
    """The columns, the first as wide as the paths need."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("program", overflow="fold", min_width=width, max_width=max(width, len("program")))
    table.add_column("trains", overflow="fold", max_width=16)
    table.add_column("device", no_wrap=True)
    table.add_column("would apply", max_width=12)
    table.add_column("not applied", overflow="fold", no_wrap=True)
    return table


def add_row(table: Table, item: Scanned) -> None:
    """One program."""
    from rich.text import Text

    evidence = item.report.evidence
    device = SHORT[evidence.device] if evidence is not None and evidence.device is not None else ""
    applied = [found.codemod.name for found in item.prospects if found.status == "applied"]
    others = [outcome for found in item.prospects for outcome in found.outcomes if outcome.status != "applied"]
    codes = Text("\n").join(Text(code, STYLES[status]) for code, status in {o.code: o.status for o in others}.items())
    cells = [broken(str(item.report.path)), trained(evidence), device]
    table.add_row(*(Text(shown(cell)) for cell in cells), Text(", ".join(applied), STYLES["applied"]), codes)


def broken(path: str) -> str:
    """A path in lines that fit their column, broken behind its slashes."""
    lines = [""]
    for part in path.split("/"):
        piece = f"{part}/"
        lines = [*lines[:-1], lines[-1] + piece] if len(lines[-1] + piece) <= PATH or not lines[-1] else [*lines, piece]
    return "\n".join(lines)[:-1]


def trained(evidence: Evidence | None) -> str:
    """What a program trains, or the engine that does."""
    names = [name for name in evidence.names("model") if name] if evidence is not None else []
    engines = evidence.names("engine") if evidence is not None else []
    if engines:
        return f"by {engines[0].rpartition('.')[2]}"
    return ", ".join(names[:FEW]) + (", ..." if len(names) > FEW else "") or "not known"


def gaining(scanned: Iterable[Scanned]) -> list[Codemod]:
    """The optimizations that apply somewhere with a known gain, those with the highest first."""
    found = {
        item.codemod.name: item.codemod
        for program in scanned
        for item in program.prospects
        if item.status == "applied" and item.gain is not None
    }
    return sorted(found.values(), key=lambda codemod: -(codemod.gain.low + codemod.gain.high if codemod.gain else 0))
