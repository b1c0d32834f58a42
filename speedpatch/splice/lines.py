"""Add whole lines: above, behind and inside the rows (`a; b`) that statements stand in."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from speedpatch.splice.blocks import Block, Blocks
from speedpatch.splice.literals import reindent
from speedpatch.splice.merge import Kind, Splice
from speedpatch.splice.statements import Definition, Row, Statements, is_text
from speedpatch.splice.text import Conflict

if TYPE_CHECKING:
    from speedpatch.edits import Insert

BEHIND, ELSE, AHEAD, HEADER = range(4)


@dataclass(frozen=True)
class Line:
    """Lines to add at one place; `rank` orders them: deeper ones first behind a block, then by slot."""

    rank: tuple[float, ...]
    text: str


@dataclass
class NewLines:
    """The lines to add to one module, by the offset of a line or by the statement in a row that follows them."""

    statements: Statements
    blocks: Blocks
    at_offset: dict[int, list[Line]] = field(default_factory=lambda: defaultdict(list))
    at_statement: dict[ast.stmt, list[Line]] = field(default_factory=lambda: defaultdict(list))
    broken: set[ast.stmt] = field(default_factory=set)

    def insert(self, edit: Insert, order: int) -> ast.stmt:
        """Take in statements to insert; the result is the statement that they stand beside."""
        anchor, side = resolve(edit)
        self.blocks.open_elif(anchor)
        place = "after" if side == "after" else "before"
        text = reindent(edit.text, self.blocks.indent(anchor, place), self.statements.unit(anchor))
        self.add(anchor, side, (-self.statements.position(anchor).depth, edit.slot, order), text)
        return anchor

    def add(self, anchor: ast.stmt, side: str, rank: tuple[float, ...], text: str) -> None:
        """Put lines at the side of a statement, inside its row if there are neighbours in it."""
        row = self.statements.row(anchor)
        place = row.statements.index(anchor) + (side == "after")
        is_end = place == len(row.statements)
        if is_end:
            self.at_offset[self.statements.tail(anchor)].append(Line((BEHIND, *rank), text))
        elif place or row.suite:
            self.at_statement[row.statements[place]].append(Line((BEHIND, *rank), text))
        else:
            self.add_above(anchor, side, rank, text)
        if row.suite or (place and not is_end):
            self.broken.add(row.statements[0])

    def add_above(self, anchor: ast.stmt, side: str, rank: tuple[float, ...], text: str) -> None:
        """Put lines above a statement that starts a line."""
        offset = self.statements.opening(anchor) if side == "opening" else self.statements.head(anchor)
        previous = self.statements.previous(anchor)
        touches = previous is not None and self.statements.tail(previous) == offset
        self.at_offset[offset].append(Line((BEHIND if touches else AHEAD, *rank), text))

    def add_import(self, anchor: ast.stmt | None, offset: int, text: str) -> None:
        """Put imports behind the statement at an anchor, or at an offset; they come first there."""
        rank = (0, float("-inf"))
        if anchor is not None:
            self.add(anchor, "after", rank, text)
        else:
            self.at_offset[offset].append(Line((BEHIND, *rank), text))

    def add_header(self, block: Block) -> None:
        """Put the header of a block above its first statement, and its last statement at the end of a row."""
        first, last = block.body[block.first], block.body[block.last]
        text = reindent(block.header, self.blocks.indent(first, outside=block), block.unit)
        line = Line((ELSE,) if block.is_else else (HEADER, -block.last, -block.order), text)
        row, end = self.statements.row(first), self.statements.row(last)
        if row.statements[0] is first and not row.suite:
            self.at_offset[self.statements.head(first)].append(line)
        else:
            self.at_statement[first].append(line)
            self.broken.add(row.statements[0])
        if end.statements[-1] is not last or end.suite:
            self.broken.add(end.statements[0])

    def splices(self, deleted: frozenset[ast.stmt]) -> Iterator[Splice]:
        """All lines as splices, in rows that are broken up where they have to be."""
        for first in self.broken:
            yield from self.break_row(self.statements.row(first), deleted)
        for offset, lines in self.at_offset.items():
            is_fresh = self.statements.text.starts_line(offset) or self.is_emptied(offset, deleted)
            yield Splice(offset, offset, self.render(offset, lines, is_fresh), Kind.LINES)

    def is_emptied(self, offset: int, deleted: frozenset[ast.stmt]) -> bool:
        """Whether the line that ends the text at an offset is deleted."""
        last = next((node for node in deleted if self.statements.tail(node) == offset), None)
        if last is None:
            return False
        row = self.statements.row(last)
        is_fresh = not row.suite
        for node in row.statements:
            is_fresh = (is_fresh or node in self.at_statement) and node in deleted
        has_comment = "#" in self.statements.text.text[self.statements.text.end(last) : offset]
        return is_fresh and not (has_comment and row.statements[0] in self.broken)

    def break_row(self, row: Row, deleted: frozenset[ast.stmt]) -> Iterator[Splice]:
        """Give every statement of a row a line of its own, below the header if it has one."""
        text = self.statements.text
        newline = text.newline(text.end(row.statements[-1]))
        begin = self.statements.head(row.statements[0])
        is_fresh = not row.suite
        for index, node in enumerate(row.statements):
            start, is_kept = self.statements.start(node), node not in deleted
            if index or row.suite:
                lines = in_order(self.at_statement.get(node, ()), newline)
                piece = newline if not is_fresh and (lines or is_kept) else ""
                is_fresh = is_fresh or bool(piece)
                piece += "".join(line + newline for line in lines)
                yield Splice(begin, start, piece + (self.blocks.indent(node) if is_kept else ""), Kind.GAP)
                begin = start
            if not is_kept:
                yield Splice(begin, text.end(node), "", Kind.DELETE)
            begin, is_fresh = text.end(node), is_fresh and not is_kept
        if row.statements[-1] in deleted:
            yield self.clean_end(row.statements[-1], is_fresh)

    def clean_end(self, last: ast.stmt, is_fresh: bool) -> Splice:
        """Remove what is left of a row behind a deleted statement, save a comment."""
        begin, end = self.statements.text.end(last), self.statements.tail(last)
        rest = self.statements.text.text[begin:end]
        comment = rest.find("#")
        if comment >= 0:
            return Splice(begin, begin + comment, self.blocks.indent(last) if is_fresh else "  ", Kind.DELETE)
        return Splice(begin, end if is_fresh else begin + len(rest.rstrip("\r\n")), "", Kind.DELETE)

    def render(self, offset: int, lines: Sequence[Line], is_fresh: bool) -> str:
        """The lines to add at an offset: with their endings, or behind one where the text ends without."""
        newline = self.statements.text.newline(offset - 1 if offset else 0)
        texts = in_order(lines, newline)
        return "".join(line + newline for line in texts) if is_fresh else "".join(newline + line for line in texts)


def resolve(edit: Insert) -> tuple[ast.stmt, str]:
    """The statement that an insertion stands beside, and on which side: "opening" is the head of its body."""
    if edit.where == "before" or edit.where == "after":
        return edit.anchor, edit.where
    body = getattr(edit.anchor, "body", None)
    if not body:
        raise Conflict("this statement has no body to insert into", edit.anchor)
    if edit.where == "last":
        return body[-1], "after"
    has_docstring = isinstance(edit.anchor, Definition) and is_text(body[0])
    return body[0], "after" if has_docstring else "opening"


def in_order(lines: Sequence[Line], newline: str) -> list[str]:
    """The texts of lines as they follow each other."""
    return [line.text.replace("\n", newline) for line in sorted(lines, key=lambda line: line.rank)]
