"""Indent statements under new headers."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from speedpatch.splice.literals import inner_lines
from speedpatch.splice.merge import Kind, Splice
from speedpatch.splice.statements import Statements
from speedpatch.splice.text import Conflict

if TYPE_CHECKING:
    from speedpatch.edits import Wrap


@dataclass(frozen=True)
class Block:
    """Statements first..last of a body, to be indented by `unit` behind the white space `base`."""

    body: list[ast.stmt]
    first: int
    last: int
    header: str
    base: str
    unit: str
    order: int
    is_else: bool = False

    @property
    def statements(self) -> list[ast.stmt]:
        """What is inside."""
        return self.body[self.first : self.last + 1]

    def covers(self, index: int, side: str) -> bool:
        """Whether the statement at an index is inside, or the place right "before" or "after" it."""
        first, last = self.first + (side == "before"), self.last - (side == "after")
        return self.is_else or first <= index <= last


@dataclass
class Blocks:
    """The new blocks of one module, by the identity of the body that they stand in."""

    statements: Statements
    found: dict[int, list[Block]] = field(default_factory=lambda: defaultdict(list))

    def __iter__(self) -> Iterator[Block]:
        return (block for blocks in self.found.values() for block in blocks)

    def add(self, wrap: Wrap, order: int) -> None:
        """Take in the block that a wrap makes. Raises Conflict when it crosses another."""
        position, last = self.statements.position(wrap.first), self.statements.position(wrap.last)
        if position.body is not last.body or last.index < position.index:
            raise Conflict("the statements to wrap are no neighbours", wrap.first)
        self.open_elif(wrap.first)
        base, unit = self.statements.indent(wrap.first), self.statements.unit(wrap.first)
        block = Block(position.body, position.index, last.index, wrap.header, base, unit, order)
        for other in self.found[id(position.body)]:
            refuse_crossing(block, other)
        self.found[id(position.body)].append(block)

    def open_elif(self, statement: ast.stmt) -> None:
        """Turn an `elif` into an `if` of its own under `else:`, so that something can stand beside it."""
        body = self.statements.position(statement).body
        if self.statements.is_elif(statement) and id(body) not in self.found:
            base, unit = self.statements.owner_indent(statement), self.statements.unit(statement)
            self.found[id(body)].append(Block(body, 0, 0, "else:", base, unit, -1, is_else=True))

    def indent(self, statement: ast.stmt, side: str = "at", outside: Block | None = None) -> str:
        """The white space of the result in front of a statement, at a place beside it, or at a block's header."""
        indent = self.statements.indent(statement)
        for block in self.covering(statement, side):
            if outside is None or block.body is not outside.body or is_around(block, outside):
                indent = deepen(indent, block)
        return indent

    def covering(self, statement: ast.stmt, side: str) -> Iterator[Block]:
        """The new blocks around a statement or a place beside it, from the inside out."""
        around: ast.stmt | None = statement
        while around:
            position = self.statements.position(around)
            yield from (block for block in self.found.get(id(position.body), ()) if block.covers(position.index, side))
            around, side = position.parent, "at"

    def splices(self, deleted: frozenset[ast.stmt]) -> Iterator[Splice]:
        """The indentation of all lines in blocks."""
        for block in self:
            if block.is_else and block.body[0] not in deleted:
                start = self.statements.text.start(block.body[0])
                yield Splice(start, start + len("el"), "", Kind.REPLACE)
            yield from self.indent_lines(block)

    def indent_lines(self, block: Block) -> Iterator[Splice]:
        """Indent the lines of a block, save blank ones and the inner lines of strings."""
        text = self.statements.text
        begin, end = self.lines_of(block)
        strings = inner_lines(text, block.statements)
        for line in range(begin, end):
            start = text.starts[line]
            if line not in strings and not is_blank(text.text, start):
                place = place_of_indent(text.text, start, block.base)
                yield Splice(place, place, block.unit, Kind.INDENT)

    def lines_of(self, block: Block) -> tuple[int, int]:
        """The range of lines that begin inside a block: without the first where that is shared."""
        text = self.statements.text
        first, last = block.body[block.first], block.body[block.last]
        row = self.statements.row(first)
        is_shared = row.suite or row.statements[0] is not first
        begin = text.line(text.start(first)) + 1 if is_shared else text.line(self.statements.head(first))
        is_last = self.statements.row(last).statements[-1] is last
        end = self.statements.tail(last) - 1 if is_last else text.end(last)
        return begin, text.line(end) + 1


def refuse_crossing(block: Block, other: Block) -> None:
    """Raise Conflict when two blocks of a body overlap and neither holds the other."""
    apart = block.last < other.first or other.last < block.first
    nested = (block.first - other.first) * (block.last - other.last) <= 0
    if not apart and not nested:
        raise Conflict("two wraps cross", block.body[block.first])


def is_around(block: Block, other: Block) -> bool:
    """Whether a block lies around another of the same body; of equal ones the later, and an `else:` around all."""
    size, other_size = block.last - block.first, other.last - other.first
    return (block.is_else, size, block.order) > (other.is_else, other_size, other.order)


def deepen(indent: str, block: Block) -> str:
    """White space as it is inside a block."""
    base = block.base if indent.startswith(block.base) else ""
    return base + block.unit + indent[len(base) :]


def is_blank(text: str, start: int) -> bool:
    """Whether the line that starts at an offset holds nothing but white space."""
    while start < len(text) and text[start] in " \t\f":
        start += 1
    return start == len(text) or text[start] in "\r\n"


def place_of_indent(text: str, start: int, base: str) -> int:
    """Where to add indentation on a line: behind the white space that it shares with its block."""
    end = start
    while text[end] in " \t\f":
        end += 1
    start = max(start, text.rfind("\f", start, end) + 1)
    return start + len(base) if text.startswith(base, start) else start
