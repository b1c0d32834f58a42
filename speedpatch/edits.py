"""Edits of one module, and their application to its text in one pass.

Every edit is anchored at nodes of `Module.tree`. What an edit does not name keeps every byte:
text between nodes is never generated anew. New code takes the line ending and the indentation of
its surroundings.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from speedpatch.sources import Module


@dataclass(frozen=True)
class Replace:
    """Put `text` in place of an expression; edits inside the expression are lost (`Around` keeps them)."""

    path: Path
    node: ast.expr
    text: str


@dataclass(frozen=True)
class Around:
    """Write `before` and `after` around an expression, whose own edits are kept; of several the later is outside.

    An `enclosed` expression stands in parentheses of its own, as in `(a - b).mean()`: they stay inside.
    """

    path: Path
    node: ast.expr
    before: str
    after: str
    enclosed: bool = False


@dataclass(frozen=True)
class Insert:
    """Put statements (`text`, unindented, one or more lines) before or after a statement, at its indentation.

    At one place, smaller `slot` comes first. "first" puts them at the head of the body of a compound
    statement (behind a docstring), "last" at its end. Before a decorated definition is before its decorators.
    Blank lines in the text are kept; a newline at its end is not needed.
    """

    path: Path
    anchor: ast.stmt
    where: Literal["before", "after", "first", "last"]
    text: str
    slot: int = 0


@dataclass(frozen=True)
class Delete:
    """Remove a statement and its line; the last one of a body becomes `pass`."""

    path: Path
    node: ast.stmt


@dataclass(frozen=True)
class Wrap:
    """Indent the statements first..last (neighbours in one body) under `header`, such as `with x:`.

    `Insert`s before `first` stay outside, before the header; those after `last` stay outside, behind it. So do
    comments above `first`. Of several around the same statements the later is outside.
    """

    path: Path
    first: ast.stmt
    last: ast.stmt
    header: str


@dataclass(frozen=True)
class AddArgument:
    """Add an argument to a call (`text` such as `scaler` or `enabled=True`), also in a formatted string.

    `after`: the argument of this call that it goes behind; None: at the end (before `**kwargs`, and a
    positional one before all keywords).
    """

    path: Path
    call: ast.Call
    text: str
    after: ast.expr | ast.keyword | None = None


@dataclass(frozen=True)
class AddParameter:
    """Add a parameter to a function (`text` such as `scaler` or `scaler=None`).

    `after`: the name of the parameter that it goes behind; None: at the end of the positional ones.
    """

    path: Path
    function: ast.FunctionDef | ast.AsyncFunctionDef
    text: str
    after: str | None = None


@dataclass(frozen=True)
class AddEntry:
    """Add `text` (such as `"scaler": scaler.state_dict()`) to a dict display, behind the entry with value `after`.

    A dict laid out one entry a line gets a line; a trailing comma stays a trailing comma.
    """

    path: Path
    node: ast.Dict
    text: str
    after: ast.expr


@dataclass(frozen=True)
class Import:
    """Add an import line once, behind the imports at the top of the module (never before `from __future__`).

    Calls and settings between imports (`os.environ[...] = ...`) belong to the top: what they do must come first.
    """

    path: Path
    text: str


Edit = Replace | Around | Insert | Delete | Wrap | AddArgument | AddParameter | AddEntry | Import

Kind = TypeVar("Kind", bound=Edit)


def pick(edits: Iterable[Edit], kind: type[Kind]) -> list[Kind]:
    """The edits of one kind."""
    return [edit for edit in edits if isinstance(edit, kind)]


def apply_edits(module: Module, edits: Iterable[Edit]) -> Module:
    """The module with all edits made, parsed again, origins carried along.

    Raises PatchError for edits that contradict each other: two Replaces of one node, Wraps that cross,
    an edit inside a formatted string, statements that are no neighbours.
    """
    from speedpatch.splice.apply import splice_edits

    return splice_edits(module, tuple(edits))
