"""The help texts, each of which fits one screen of 80 by 24, and what `list` and `explain` print."""

from __future__ import annotations

import difflib
import inspect
import sys
import textwrap
from collections.abc import Sequence

from speedpatch import registry
from speedpatch.codemod import Codemod
from speedpatch.config import CHOICES

WIDTH = 79
FEW = 4

MAIN = """\
Usage: speedpatch COMMAND PATH... [options]

Make an existing PyTorch training script train faster by editing its source.
What comes out is plain PyTorch: nothing in it knows of speedpatch.

  speedpatch apply train.py --amp --compile     see the diff, then say yes

Commands:
  apply PATH...     edit scripts: show the diff, ask, write
  scan PATH...      what is there, what could be gained, what would be declined
  list              the optimizations
  explain NAME      what one does, or what the code of a message means
  revert PATH...    put back what speedpatch changed

Options:
  --version         show the version
  --help            this screen; `speedpatch apply --help` has the rest

Exit codes: 0 done, 1 --check found changes, 2 wrong usage, 3 something was
declined under --strict, 123 a file failed (the others are done).
"""

APPLY = """\
Usage: speedpatch apply PATH... [optimizations] [options]
Example: speedpatch apply train.py --amp --compile
PATH is a script, notebook or folder (what git ignores is left out), - is stdin.

Optimizations (none named: those of pyproject.toml, else the exact ones):
{flags}
  --all                  everything that only makes it faster
{options}
  --target-torch 2.x     write for this release (default: the project's oldest)

On a terminal the diff is shown and a question asked. Instead:
  --yes, -y              write without asking
  --interactive, -i      ask for each optimization
  --diff                 print a diff for `git apply`, write nothing
  --check                write nothing, exit 1 when something would change
  --json, --sarif        print the outcomes for programs (with --yes: and write)
  --strict               exit 3 when something asked for was declined
  --configured           only what pyproject.toml names (for hooks)
  --no-follow            do not read the local modules that a script imports
"""

SCAN = """\
Usage: speedpatch scan PATH... [optimizations] [options]
Example: speedpatch scan train.py

Say what a training script is made of, what could be gained, and what would be
declined and why. Nothing is written.

PATH is a script, a notebook or a folder (what git ignores is left out).
Optimizations (none named: all for speed and scale):
{flags}
{options}
  --target-torch 2.x     write for this release (default: the project's oldest)

  --json                 print the outcomes for programs
  --no-follow            do not read the local modules that a script imports
"""


def main_screen() -> str:
    """`speedpatch --help`."""
    return MAIN


def apply_screen() -> str:
    """`speedpatch apply --help`."""
    return APPLY.format(flags=flag_lines(), options=option_lines())


def scan_screen() -> str:
    """`speedpatch scan --help`."""
    return SCAN.format(flags=flag_lines(), options=option_lines())


def flag_lines() -> str:
    """A line for each optimization, or their names alone when they are many."""
    found = registry.codemods()
    if len(found) > FEW:
        names = " ".join(f"--{name}" for name in found)
        return textwrap.fill(names, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(cut(f"  --{name:<21}{item.summary}") for name, item in found.items())


def option_lines() -> str:
    """A line for each option that takes one of a few values."""
    lines = []
    for name, choices in CHOICES.items():
        flag = f"--{name.replace('_', '-')}"
        lines.append(f"  {flag:<23}{' | '.join(choice for choice in choices if choice != 'default')}")
    return "\n".join(map(cut, lines))


def cut(line: str) -> str:
    """A line that fits the screen."""
    return line if len(line) <= WIDTH else line[: WIDTH - 3].rstrip() + "..."


def list_screen() -> str:
    """`speedpatch list`: a line for each optimization."""
    rows = [
        ("--" + item.name, item.group, item.parity, item.since, item.summary) for item in registry.codemods().values()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]) for row in rows
    ]
    return "\n".join([*lines, "", PARITY])


PARITY = """\
exact: the same losses bit for bit; close: the same up to rounding or precision;
redrawn: other random draws; changed: training differs by design.
`speedpatch explain NAME` says more."""


def explain_screen(codemod: Codemod) -> str:
    """`speedpatch explain NAME`: its fields, and the docstring of the module that it lives in."""
    head = f"--{codemod.name}: {codemod.summary}"
    options = "".join(
        f"\noption: --{name.replace('_', '-')} {'|'.join(CHOICES.get(name, ()))}" for name in codemod.options
    )
    facts = f"group {codemod.group}, parity {codemod.parity}, torch {codemod.since} or newer{options}"
    needs = f"\nneeds: {codemod.needs}" if codemod.needs else ""
    gain = f"\ngain: {codemod.gain.text}\n  ({codemod.gain.source})" if codemod.gain else ""
    manual = inspect.getdoc(sys.modules[codemod.plan.__module__]) or ""
    return f"{head}\n{facts}{needs}{gain}\n\n{manual}"


def reason_screen(codemod: Codemod, code: str, reasons: Sequence[str]) -> str:
    """`speedpatch explain CODE`: what it means, what to do, and where to read on."""
    lines = [f"{code}: why --{codemod.name} leaves a script or a model alone", ""]
    for reason in reasons:
        cause, _, remedy = reason.partition(": ")
        lines += [wrapped(cause, "- "), *([wrapped(remedy, "  what to do: ")] if remedy else [])]
    if any("<...>" in reason for reason in reasons):
        lines += ["", "<...> stands for what your script has there: the message names it, and the line."]
    pages = f"`speedpatch explain {codemod.name}`, docs/{codemod.docs} (When it declines)"
    return "\n".join([*lines, "", f"More: {pages}"])


def wrapped(text: str, indent: str) -> str:
    """A text in lines that fit the screen."""
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent="  ", break_on_hyphens=False)


def nothing_called(name: str) -> str:
    """What to say of a name that `explain` does not know, with the nearest ones that it does."""
    from speedpatch.reasons import reasons_of

    found = registry.codemods()
    codes = [code for item in found.values() for code in reasons_of(item)]
    own = [code for code in codes if code.endswith(f".{name}")]
    near = own or difflib.get_close_matches(name, [*found, *codes], FEW, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "see `speedpatch list`"
    return f"no optimization and no code is called {name}: {hint}"
