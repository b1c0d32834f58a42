"""Know the statements of a module: their neighbours, rows (`a; b`), suites and indentation."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from speedpatch.splice.text import Conflict, Text

SEPARATOR = re.compile(r"(?:[ \t\f]|\\(?:\r\n|\n|\r))*;(?:[ \t\f;]|\\(?:\r\n|\n|\r))*")
COMMENT_LINE = re.compile(r"[ \t\f]*(#[^\r\n]*)?(\r\n|\n|\r|\Z)")
Definition = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Position:
    """Where a statement stands: in which body of which parent, whose header line belongs to `owner`."""

    body: list[ast.stmt]
    index: int
    parent: ast.stmt | None
    owner: ast.stmt | ast.ExceptHandler | ast.pattern | None
    depth: int


@dataclass(frozen=True)
class Row:
    """The statements of one logical line; `suite` when they stand behind the colon of a header."""

    statements: tuple[ast.stmt, ...]
    suite: bool


def bodies(node: ast.stmt) -> Iterator[tuple[list[ast.stmt], ast.stmt | ast.ExceptHandler | ast.pattern]]:
    """The bodies of a compound statement, each with the node that begins its header line."""
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if body:
            yield body, node
    for handler in getattr(node, "handlers", ()):
        yield handler.body, handler
    for case in getattr(node, "cases", ()):
        yield case.body, case.pattern


def locate(tree: ast.Module) -> dict[ast.stmt, Position]:
    """The position of every statement."""
    positions: dict[ast.stmt, Position] = {}
    waiting: list[tuple[list[ast.stmt], ast.stmt | None, ast.stmt | ast.ExceptHandler | ast.pattern | None, int]]
    waiting = [(tree.body, None, None, 0)]
    while waiting:
        body, parent, owner, depth = waiting.pop()
        for index, statement in enumerate(body):
            positions[statement] = Position(body, index, parent, owner, depth)
            waiting.extend((inner, statement, header, depth + 1) for inner, header in bodies(statement))
    return positions


@dataclass(frozen=True)
class Statements:
    """The statements of a module and the text that they stand in."""

    text: Text
    positions: dict[ast.stmt, Position]
    tree: ast.Module
    tails: dict[ast.stmt, int] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, text: str, tree: ast.Module) -> Statements:
        """Look at a module."""
        return cls(Text.of(text), locate(tree), tree)

    def position(self, statement: ast.stmt) -> Position:
        """Where a statement stands. Raises Conflict for one of another tree."""
        if statement not in self.positions:
            raise Conflict("this statement is not in the module", statement)
        return self.positions[statement]

    def around(self, node: ast.expr) -> ast.stmt | None:
        """The innermost statement with a node between its ends; for one in a formatted string, a guess."""
        index = bisect_right(self.starts, (node.lineno, node.col_offset)) - 1
        around = self.in_order[index] if index >= 0 else None
        while around and (around.end_lineno or 0, around.end_col_offset or 0) <= (node.lineno, node.col_offset):
            around = self.positions[around].parent
        return around

    @cached_property
    def in_order(self) -> list[ast.stmt]:
        """All statements in the order of the text."""
        return sorted(self.positions, key=begin)

    @cached_property
    def starts(self) -> list[tuple[int, int]]:
        """Where they start."""
        return [begin(node) for node in self.in_order]

    def start(self, statement: ast.stmt) -> int:
        """Where a statement starts: at its first decorator if it has any."""
        decorators = statement.decorator_list if isinstance(statement, Definition) else ()
        first = self.text.start(decorators[0]) if decorators else self.text.start(statement)
        return self.text.text.rfind("@", 0, first) if decorators else first

    def is_elif(self, statement: ast.stmt) -> bool:
        """Whether a statement is an `if` that its parent holds as `elif`."""
        return isinstance(statement, ast.If) and self.text.text.startswith("elif", self.text.start(statement))

    def are_joined(self, first: ast.stmt, second: ast.stmt) -> bool:
        """Whether two neighbours stand on one logical line."""
        gap = self.text.text[self.text.end(first) : self.start(second)]
        return ";" in gap and SEPARATOR.fullmatch(gap) is not None

    def row(self, statement: ast.stmt) -> Row:
        """The logical line that a statement stands on."""
        position = self.position(statement)
        body, first, last = position.body, position.index, position.index
        while first and self.are_joined(body[first - 1], body[first]):
            first -= 1
        while last + 1 < len(body) and self.are_joined(body[last], body[last + 1]):
            last += 1
        suite = first == 0 and not self.text.starts_line(self.text.lead(self.start(body[0])))
        return Row(tuple(body[first : last + 1]), suite)

    def is_continued(self, row: Row) -> bool:
        """Whether a backslash stands between the statements of a row, or behind the header in front of it."""
        ends = [self.head(row.statements[0]), *(self.text.end(node) for node in row.statements)]
        gaps = [self.text.text[end : self.start(node)] for end, node in zip(ends, row.statements, strict=False)]
        return any("\\" in gap for gap in gaps)

    def above(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements of a body down to this one."""
        position = self.position(statement)
        return position.body[: position.index + 1]

    def previous(self, statement: ast.stmt) -> ast.stmt | None:
        """The statement before this one in its body."""
        position = self.position(statement)
        return position.body[position.index - 1] if position.index else None

    def tail(self, statement: ast.stmt) -> int:
        """Where the line behind a statement starts; comments that trail in its deepest block belong to it."""
        if statement not in self.tails:
            self.tails[statement] = self.find_tail(statement)
        return self.tails[statement]

    def find_tail(self, statement: ast.stmt) -> int:
        """Look for the line behind a statement."""
        here = end = self.text.behind_line(self.text.end(statement))
        depth = width(self.text.leading(self.start(statement)))
        while here < len(self.text.text) and any(bodies(statement)):
            match = COMMENT_LINE.match(self.text.text, here)
            if not match or (match[1] and width(self.text.leading(here)) <= depth):
                break
            here = match.end()
            end = here if match[1] else end
        return end

    def head(self, statement: ast.stmt) -> int:
        """Where the first line of a statement starts, that of its decorators included."""
        return self.text.lead(self.start(statement))

    def opening(self, statement: ast.stmt) -> int:
        """Where the line behind the header starts whose body a statement begins; comments stand in between."""
        here = self.head(statement)
        while here and COMMENT_LINE.match(self.text.text, above := self.text.line_start(here - 1)):
            here = above
        return here

    def indent(self, statement: ast.stmt) -> str:
        """The white space in front of a statement; in a suite on the header's line, what it would have below."""
        row = self.row(statement)
        if not row.suite:
            return self.text.leading(self.head(row.statements[0]))
        return self.owner_indent(statement) + self.unit(statement)

    def owner_indent(self, statement: ast.stmt) -> str:
        """The white space in front of the header above a statement."""
        owner = self.position(statement).owner
        return self.text.leading(self.text.start(owner)) if owner else ""

    def unit(self, statement: ast.stmt) -> str:
        """One level of indentation as used around a statement, or else in the file, or else four spaces."""
        around: ast.stmt | None = statement
        while around:
            unit = self.step(around)
            if unit:
                return unit
            around = self.position(around).parent
        inner = next((self.step(body[0]) for body, _ in bodies(statement)), "")
        return inner or self.common_unit

    def step(self, statement: ast.stmt) -> str:
        """What the body of a statement is indented by against its header; empty when that cannot be told."""
        position = self.position(statement)
        if position.owner is None or self.row(position.body[0]).suite:
            return ""
        outer, inner = self.owner_indent(statement), self.text.leading(self.head(position.body[0]))
        return inner[len(outer) :] if inner.startswith(outer) else ""

    @cached_property
    def common_unit(self) -> str:
        """The most frequent level of indentation of the file, four spaces when there is none."""
        steps = Counter(self.step(node) for node, position in self.positions.items() if position.index == 0)
        del steps[""]
        return steps.most_common(1)[0][0] if steps else "    "


def begin(statement: ast.stmt) -> tuple[int, int]:
    """The line and column of a statement, or of the first of its decorators."""
    decorators = statement.decorator_list if isinstance(statement, Definition) else ()
    first = decorators[0] if decorators else statement
    return first.lineno, first.col_offset


def is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a string, as a docstring is."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def width(indent: str) -> int:
    """The column that white space leads to."""
    return len(indent.expandtabs(8))
