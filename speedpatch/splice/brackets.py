"""Add items to what stands in brackets: arguments of a call, parameters of a function, entries of a dict."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from speedpatch.splice.blocks import Block, deepen
from speedpatch.splice.merge import Kind, Splice
from speedpatch.splice.text import Text

COMMENT = re.compile(r"[ \t\f]*#[^\r\n]*")
TOKEN = re.compile(r"#[^\r\n]*|\\?(?:\r\n|\n|\r)|[ \t\f]+|[\w.]+|.", re.DOTALL)


@dataclass(frozen=True)
class Item:
    """One item with its own parentheses and stars; `comma` is the offset of the comma behind it."""

    start: int
    end: int
    comma: int | None


@dataclass(frozen=True)
class Bracket:
    """The inside of a pair of brackets: the offset behind the opening one, that of the closing one, the items."""

    open: int
    close: int
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Addition:
    """An item to add in front of the one with this index; at one index, those of smaller `rank` come first.

    `blocks` are the new ones around it, from the inside out.
    """

    bracket: Bracket
    index: int
    text: str
    rank: int = 0
    blocks: tuple[Block, ...] = ()


def read_bracket(text: Text, open: int, spans: Sequence[tuple[int, int]]) -> Bracket:
    """Find the items behind an opening bracket, given the spans of the nodes in it."""
    items: list[Item] = []
    start = end = -1
    depth = 0
    for offset, token in outside(text.text, open, spans):
        if token in ("(", "["):
            depth += 1
        elif token in (")", "]", "}"):
            depth -= 1
        if depth < 0:
            break
        if token == "," and not depth:
            items.append(Item(start, end, offset))
            start = -1
        elif not token.isspace() and token[0] not in "#\\":
            start, end = (offset if start < 0 else start), offset + len(token)
    if start >= 0:
        items.append(Item(start, end, None))
    return Bracket(open, offset, tuple(items))


def outside(text: str, offset: int, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, str]]:
    """The tokens from an offset on; each span is one token."""
    for start, end in [*spans, (len(text), len(text))]:
        while offset < start:
            match = TOKEN.match(text, offset)
            if match is None:
                break
            yield offset, match[0]
            offset = match.end()
        if start < end:
            yield start, text[start:end]
            offset = end


def find_open(text: Text, offset: int) -> int:
    """The offset behind the first opening parenthesis from an offset on."""
    return next(start for start, token in outside(text.text, offset, ()) if token == "(") + 1


def add_items(text: Text, additions: Iterable[Addition]) -> Iterator[Splice]:
    """The splices that add items, those for one place together."""
    places: dict[tuple[int, int], list[Addition]] = {}
    for addition in additions:
        places.setdefault((addition.bracket.open, addition.index), []).append(addition)
    for (_, index), group in places.items():
        ranked = sorted(group, key=lambda addition: addition.rank)
        texts = list(dict.fromkeys(addition.text for addition in ranked))
        yield from add_at(text, group[0].bracket, index, texts, group[0].blocks)


def add_at(text: Text, bracket: Bracket, index: int, texts: Sequence[str], blocks: Iterable[Block]) -> Iterator[Splice]:
    """Add items in front of the one with this index."""
    if not bracket.items:
        yield Splice(bracket.open, bracket.open, ", ".join(texts), Kind.ITEM)
    elif has_lines(text, bracket):
        newline = text.newline(bracket.open) + indent_of_items(text, bracket, blocks)
        yield from add_lines(text, bracket, index, texts, newline)
    elif index == 0:
        start = bracket.items[0].start
        yield Splice(start, start, "".join(f"{item}, " for item in texts), Kind.ITEM)
    else:
        end = bracket.items[index - 1].end
        yield Splice(end, end, "".join(f", {item}" for item in texts), Kind.ITEM)


def indent_of_items(text: Text, bracket: Bracket, blocks: Iterable[Block]) -> str:
    """The white space in front of an item on a line of its own, as the others have it."""
    model = next(item for item in bracket.items if starts_line(text, item))
    indent = text.text[text.line_start(model.start) : model.start]
    for block in blocks:
        indent = deepen(indent, block)
    return indent


def has_lines(text: Text, bracket: Bracket) -> bool:
    """Whether each item has a line of its own."""
    starts = [starts_line(text, item) for item in bracket.items]
    return all(starts[1:]) and (starts[0] or len(starts) > 1)


def starts_line(text: Text, item: Item) -> bool:
    """Whether an item is the first on its line."""
    return not text.text[text.line_start(item.start) : item.start].strip()


def add_lines(text: Text, bracket: Bracket, index: int, texts: Sequence[str], newline: str) -> Iterator[Splice]:
    """Add items on lines of their own; `newline` leads to their column."""
    neighbour = bracket.items[max(index - 1, 0)]
    if index == 0:
        lines = "".join(f"{item},{newline}" for item in texts)
        yield Splice(neighbour.start, neighbour.start, lines, Kind.ITEM)
        return
    is_last = neighbour.comma is None
    if is_last:
        yield Splice(neighbour.end, neighbour.end, ",", Kind.ITEM)
    behind = neighbour.end if is_last else (neighbour.comma or 0) + 1
    end = end_of_comment(text.text, behind)
    lines = f",{newline}".join(texts) + ("" if is_last else ",")
    yield Splice(end, end, newline + lines, Kind.ITEM, (1,))


def end_of_comment(text: str, offset: int) -> int:
    """The end of a comment that follows an offset on its line, the offset itself if there is none."""
    match = COMMENT.match(text, offset)
    return match.end() if match else offset


def item_behind(bracket: Bracket, offset: int) -> int:
    """The index behind the item that an offset lies in."""
    return next(index + 1 for index, item in enumerate(bracket.items) if item.start <= offset < item.end)


def spans_of(text: Text, nodes: Iterable[ast.expr | ast.keyword | ast.arg]) -> list[tuple[int, int]]:
    """The spans of nodes in the order of the text."""
    return sorted((text.start(node), text.end(node)) for node in nodes)
