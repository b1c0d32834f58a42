"""Insert, delete and wrap statements: everything that adds, removes or indents whole lines."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from speedpatch.errors import PatchError
from speedpatch.splice.literals import inner_lines, reindent
from speedpatch.splice.merge import Kind, Splice
from speedpatch.splice.statements import Definition, Position, Row, Statements

if TYPE_CHECKING:
    from speedpatch.edits import Insert, Wrap

BEHIND, ELSE, AHEAD, HEADER = range(4)


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
    rescues_elif: bool = False

    def covers(self, index: int, side: str) -> bool:
        """Whether the statement at an index is inside, or the place right "before" or "after" it."""
        first, last = self.first + (side == "before"), self.last - (side == "after")
        return self.rescues_elif or first <= index <= last


@dataclass(frozen=True)
class Line:
    """Lines to add at one place; `rank` orders them: deeper ones first behind a block, then by slot."""

    rank: tuple[float, ...]
    text: str


@dataclass
class Blocks:
    """The changes to whole lines of one module; lines to add are kept by offset, or by the statement of a row."""

    statements: Statements
    deleted: frozenset[ast.stmt]
    blocks: dict[int, list[Block]] = field(default_factory=lambda: defaultdict(list))
    at_offset: dict[int, list[Line]] = field(default_factory=lambda: defaultdict(list))
    at_statement: dict[ast.stmt, list[Line]] = field(default_factory=lambda: defaultdict(list))
    broken: set[ast.stmt] = field(default_factory=set)
    filled: set[int] = field(default_factory=set)

    def add_wraps(self, wraps: Iterable[Wrap]) -> None:
        """Take in the blocks that wraps make. Raises PatchError when two of them cross."""
        for order, wrap in enumerate(wraps):
            position, last = self.statements.position(wrap.first), self.statements.position(wrap.last)
            if position.body is not last.body or last.index < position.index:
                raise PatchError(f"the statements to wrap on line {wrap.first.lineno} are no neighbours")
            self.rescue_elif(wrap.first)
            base, unit = self.statements.indent(wrap.first), self.statements.unit(wrap.first)
            block = Block(position.body, position.index, last.index, wrap.header, base, unit, order)
            for other in self.blocks[id(position.body)]:
                refuse_crossing(block, other)
            self.blocks[id(position.body)].append(block)

    def add_inserts(self, inserts: Iterable[Insert]) -> None:
        """Take in statements to insert, each at its place."""
        for order, insert in enumerate(inserts):
            anchor, side, opens = self.resolve(insert)
            position = self.statements.position(anchor)
            self.filled.add(id(position.body))
            self.rescue_elif(anchor)
            unit = self.statements.unit(anchor)
            text = reindent(insert.text, self.indent(anchor, side), unit)
            rank = (-position.depth, insert.slot, order)
            self.add_line(anchor, "opening" if opens else side, rank, text)

    def resolve(self, insert: Insert) -> tuple[ast.stmt, str, bool]:
        """The statement that an insertion stands beside, on which side, and whether it opens the body."""
        if insert.where in ("before", "after"):
            return insert.anchor, insert.where, False
        body = getattr(insert.anchor, "body", None)
        if not body:
            raise PatchError(f"the statement of line {insert.anchor.lineno} has no body to insert into")
        if insert.where == "last":
            return body[-1], "after", False
        has_docstring = isinstance(insert.anchor, Definition) and is_text(body[0])
        return body[0], "after" if has_docstring else "before", not has_docstring

    def add_line(self, anchor: ast.stmt, side: str, rank: tuple[float, ...], text: str) -> None:
        """Put lines at the side of a statement, inside its row if there are neighbours in it."""
        row = self.statements.row(anchor)
        place = row.statements.index(anchor) + (side == "after")
        if place == len(row.statements):
            self.at_offset[self.statements.tail(anchor)].append(Line((BEHIND, *rank), text))
            if row.suite:
                self.broken.add(row.statements[0])
        elif place or row.suite:
            self.at_statement[row.statements[place]].append(Line((BEHIND, *rank), text))
            self.broken.add(row.statements[0])
        else:
            self.add_above(anchor, side, rank, text)

    def add_above(self, anchor: ast.stmt, side: str, rank: tuple[float, ...], text: str) -> None:
        """Put lines above a statement that starts a line."""
        offset = self.statements.opening(anchor) if side == "opening" else self.statements.head(anchor)
        previous = self.statements.previous(anchor)
        touches = previous is not None and self.statements.tail(previous) == offset
        self.at_offset[offset].append(Line((BEHIND if touches else AHEAD, *rank), text))

    def add_at(self, offset: int, rank: tuple[float, ...], text: str) -> None:
        """Put lines at the start of a line."""
        self.at_offset[offset].append(Line((BEHIND, *rank), text))

    def rescue_elif(self, statement: ast.stmt) -> None:
        """Turn an `elif` into an `if` of its own under `else:`, so that something can stand beside it."""
        position = self.statements.position(statement)
        if not self.statements.is_elif(statement) or self.blocks.get(id(position.body)):
            return
        base, unit = self.statements.owner_indent(statement), self.statements.unit(statement)
        self.blocks[id(position.body)].append(Block(position.body, 0, 0, "else:", base, unit, -1, rescues_elif=True))

    def covering(self, statement: ast.stmt, side: str) -> Iterator[Block]:
        """The new blocks around a statement or a place beside it, from the inside out."""
        around: ast.stmt | None = statement
        while around:
            position = self.statements.position(around)
            yield from (block for block in self.blocks.get(id(position.body), ()) if block.covers(position.index, side))
            around, side = position.parent, "at"

    def indent(self, statement: ast.stmt, side: str, outside: Block | None = None) -> str:
        """The white space in front of a statement in the result, or at a place beside it, or of a block's header."""
        indent = self.statements.indent(statement)
        for block in self.covering(statement, side):
            if outside is None or block.body is not outside.body or is_around(block, outside):
                indent = deepen(indent, block)
        return indent

    def splices(self) -> Iterator[Splice]:
        """Everything as splices."""
        for blocks in self.blocks.values():
            for block in blocks:
                self.add_header(block)
        for blocks in self.blocks.values():
            for block in blocks:
                yield from self.indent_lines(block)
        yield from self.delete_lines()
        for first in self.broken:
            yield from self.break_row(self.statements.row(first))
        for offset, lines in self.at_offset.items():
            yield Splice(offset, offset, self.render(offset, lines), Kind.LINES)

    def add_header(self, block: Block) -> None:
        """Put the header of a block above its first statement, and its last statement at the end of a row."""
        first, last = block.body[block.first], block.body[block.last]
        header = reindent(block.header, self.indent(first, "at", outside=block), block.unit)
        rank = (ELSE,) if block.rescues_elif else (HEADER, -block.last, -block.order)
        row = self.statements.row(first)
        if row.statements[0] is first and not row.suite:
            self.at_offset[self.statements.head(first)].append(Line(rank, header))
        else:
            self.at_statement[first].append(Line(rank, header))
            self.broken.add(row.statements[0])
        end = self.statements.row(last)
        if end.statements[-1] is not last or end.suite:
            self.broken.add(end.statements[0])

    def indent_lines(self, block: Block) -> Iterator[Splice]:
        """Indent the lines of a block, save blank ones and the inner lines of strings."""
        text = self.statements.text
        first, last = block.body[block.first], block.body[block.last]
        if block.rescues_elif:
            start = text.start(first)
            yield Splice(start, start + 2, "", Kind.REPLACE)
        row, end_row = self.statements.row(first), self.statements.row(last)
        is_own = row.statements[0] is first and not row.suite
        begin = text.line(self.statements.head(first)) + (not is_own)
        if not is_own:
            begin = text.line(text.start(first)) + 1
        end = self.statements.tail(last) if end_row.statements[-1] is last else text.end(last)
        strings = inner_lines(text, block.body[block.first : block.last + 1])
        for line in range(begin, len(text.starts)):
            start = text.starts[line]
            if start >= end:
                break
            if line not in strings and not is_blank(text.text, start):
                place = place_of_indent(text.text, start, block.base)
                yield Splice(place, place, block.unit, Kind.INDENT)

    def delete_lines(self) -> Iterator[Splice]:
        """Remove deleted statements with their lines, or leave `pass` where a body would be empty."""
        passes = set(self.find_passes())
        text = self.statements.text
        for statement in passes:
            yield Splice(self.statements.start(statement), text.end(statement), "pass", Kind.REPLACE)
        self.deleted -= passes
        rows = {(row := self.statements.row(statement)).statements[0]: row for statement in self.deleted}
        for first, row in rows.items():
            if first not in self.broken:
                yield from self.delete_in_row(row)

    def find_passes(self) -> Iterator[ast.stmt]:
        """The deleted statements that have to become `pass`."""
        positions = [self.statements.position(statement) for statement in self.deleted]
        for body in {id(position.body): position for position in positions}.values():
            if all(node in self.deleted for node in body.body) and self.needs_statement(body):
                yield body.body[-1]
        for blocks in self.blocks.values():
            for block in blocks:
                inside = block.body[block.first : block.last + 1]
                if all(node in self.deleted for node in inside) and not block.rescues_elif:
                    yield inside[-1]

    def needs_statement(self, position: Position) -> bool:
        """Whether a body must not be empty."""
        is_elif = self.statements.is_elif(position.body[0])
        return position.parent is not None and not is_elif and id(position.body) not in self.filled

    def delete_in_row(self, row: Row) -> Iterator[Splice]:
        """Remove statements of a row that stays one line, or the whole line."""
        text = self.statements.text
        kept = [index for index, node in enumerate(row.statements) if node not in self.deleted]
        if not kept:
            start, end = self.statements.head(row.statements[0]), self.statements.tail(row.statements[-1])
            if end == len(text.text) and text.text[-1] not in "\r\n" and start and not self.at_offset.get(start):
                start -= len(text.ending(text.line(start) - 1))
            yield Splice(start, end, "", Kind.DELETE)
            return
        for index, node in enumerate(row.statements):
            if node in self.deleted and index < kept[0]:
                following = row.statements[index + 1]
                yield Splice(self.statements.start(node), self.statements.start(following), "", Kind.REPLACE)
            elif node in self.deleted:
                yield Splice(text.end(row.statements[index - 1]), text.end(node), "", Kind.GAP)

    def break_row(self, row: Row) -> Iterator[Splice]:
        """Give every statement of a row a line of its own, below the header if it has one."""
        text = self.statements.text
        newline = text.newline(text.end(row.statements[-1]))
        fresh = not row.suite
        for index, node in enumerate(row.statements):
            start = self.statements.start(node)
            lines = sorted(self.at_statement.get(node, ()), key=lambda line: line.rank)
            is_deleted = node in self.deleted
            if index or row.suite:
                before = text.end(row.statements[index - 1]) if index else text.lead(start)
                piece = newline if not fresh and (lines or not is_deleted) else ""
                fresh = fresh or bool(piece)
                piece += "".join(line.text.replace("\n", newline) + newline for line in lines)
                piece += "" if is_deleted else self.indent(node, "at")
                yield Splice(before, start, piece, Kind.GAP)
            if is_deleted:
                begin = start if index or row.suite else text.line_start(start)
                yield Splice(begin, text.end(node), "", Kind.DELETE)
            fresh = fresh and is_deleted
        if fresh:
            end = text.end(row.statements[-1])
            yield Splice(end, self.statements.tail(row.statements[-1]), "", Kind.REPLACE)

    def render(self, offset: int, lines: Sequence[Line]) -> str:
        """The lines to add at an offset: with their endings, or behind one where the text ends without."""
        text = self.statements.text
        newline = text.newline(offset - 1 if offset else 0)
        texts = [line.text.replace("\n", newline) for line in sorted(lines, key=lambda line: line.rank)]
        if text.starts_line(offset):
            return "".join(line + newline for line in texts)
        return "".join(newline + line for line in texts)


def refuse_crossing(block: Block, other: Block) -> None:
    """Raise PatchError when two blocks of a body overlap and neither holds the other."""
    apart = block.last < other.first or other.last < block.first
    nested = (block.first - other.first) * (block.last - other.last) <= 0
    if not apart and not nested and not other.rescues_elif:
        raise PatchError(f"two wraps cross on line {block.body[block.first].lineno}")


def is_around(block: Block, other: Block) -> bool:
    """Whether a block lies around another of the same body; of equal ones the later, and any rescued `elif`."""
    if block.rescues_elif or other.rescues_elif:
        return block.rescues_elif and not other.rescues_elif
    size, other_size = block.last - block.first, other.last - other.first
    return block is not other and (size, block.order) > (other_size, other.order)


def deepen(indent: str, block: Block) -> str:
    """White space as it is inside a block."""
    base = block.base if indent.startswith(block.base) else ""
    return base + block.unit + indent[len(base) :]


def is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a string, as a docstring is."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


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
