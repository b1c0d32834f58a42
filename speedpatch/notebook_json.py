"""Find the sources of the code cells in a notebook's JSON, and rewrite lines of them; no other character changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from speedpatch.magics import split_lines

DECODER = json.JSONDecoder()
SPACE = re.compile(r"[ \t\r\n]*")
OPENING = re.compile(r'\[\s*"|"')
CLOSING = re.compile(r'"\s*\]\Z|"\Z')
GAP = re.compile(r'"\s*,\s*"')
GAPS = re.compile(rf"(?:{GAP.pattern})*")
PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
ATOM = re.compile(rf'(?P<one>{PAIR}|\\u[0-9a-fA-F]{{4}}|\\.)|(?P<gap>{GAP.pattern})|[^\\"]+')


@dataclass(frozen=True)
class CodeSource:
    """The source of a code cell: which cell of the notebook (from 1), where it stands in the JSON, what it says."""

    number: int
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Layout:
    """How a source is written: what comes ahead of its lines, between two of them, and behind them."""

    opening: str
    gap: str
    closing: str


@dataclass(frozen=True)
class Line:
    """A line of a source as it stands in the JSON, and what stands between it and the next."""

    text: str
    raw: str
    gap: str


def find_code(file: str) -> list[CodeSource]:
    """The sources of the code cells of a notebook, which has to be a valid one, in their order."""
    cells = dict(members(file, skip_space(file, 0)))["cells"]
    return list(find_sources(file, cells))


def find_sources(file: str, cells: int) -> Iterator[CodeSource]:
    """The sources of the code cells in the list that starts at an offset."""
    for number, cell in enumerate(items(file, cells), 1):
        places = dict(members(file, cell))
        if DECODER.raw_decode(file, places["cell_type"])[0] == "code":
            start = places["source"]
            source, end = DECODER.raw_decode(file, start)
            yield CodeSource(number, start, end, "".join(source))


def members(file: str, start: int) -> Iterator[tuple[str, int]]:
    """The keys of the object at an offset, with where their values start."""
    position = skip_space(file, start + 1)
    while file[position] != "}":
        key, position = DECODER.raw_decode(file, position)
        value = skip_space(file, skip_space(file, position) + 1)
        yield key, value
        position = next_item(file, value)


def items(file: str, start: int) -> Iterator[int]:
    """Where the items of the list at an offset start."""
    position = skip_space(file, start + 1)
    while file[position] != "]":
        yield position
        position = next_item(file, position)


def next_item(file: str, value: int) -> int:
    """Where the item behind the value at an offset starts, or the bracket that ends them."""
    end = skip_space(file, DECODER.raw_decode(file, value)[1])
    return skip_space(file, end + 1) if file[end] == "," else end


def skip_space(file: str, position: int) -> int:
    """The first offset that is no white space."""
    match = SPACE.match(file, position)
    return match.end() if match else position


def replace_sources(file: str, changes: Iterable[tuple[CodeSource, str]]) -> str:
    """The JSON with other text in some sources, which are given in their order."""
    parts: list[str] = []
    position = 0
    for source, text in changes:
        parts += [file[position : source.start], rewrite(file, source, text)]
        position = source.end
    return "".join([*parts, file[position:]])


def rewrite(file: str, source: CodeSource, text: str) -> str:
    """The source with another text: lines that stay keep the characters that they have, new ones follow their style."""
    raw = file[source.start : source.end]
    old = list(raw_lines(raw, source.text))
    is_list = raw.startswith("[")
    if not text:
        return "[]" if is_list else '""'
    layout = layout_of(raw, old) or (common_layout(file) if is_list else Layout('"', "", '"'))
    lines = list(merge_lines(old, text, layout.gap, file.isascii()))
    body = "".join(line.raw + line.gap for line in lines[:-1]) + lines[-1].raw
    return layout.opening + body + layout.closing


def raw_lines(raw: str, text: str) -> Iterator[Line]:
    """The lines of a source as they stand in the JSON; empty items count to the line ahead of them."""
    opening, closing = OPENING.match(raw), CLOSING.search(raw)
    if not text or not opening or not closing:
        return
    content = raw[opening.end() : closing.start()]
    lines = split_lines(text)
    cuts = list(raw_cuts(content, lines))
    start = 0
    for line, cut in zip(lines, [*cuts[:-1], len(content)], strict=True):
        gaps = GAPS.match(content, cut)
        end = gaps.end() if gaps else cut
        yield Line(line, content[start:cut], content[cut:end])
        start = end


def raw_cuts(content: str, lines: list[str]) -> Iterator[int]:
    """Where each line ends in the JSON."""
    remaining = len(lines[0])
    index = 0
    for atom in ATOM.finditer(content):
        remaining -= 0 if atom["gap"] else 1 if atom["one"] else len(atom[0])
        if remaining == 0 and not atom["gap"]:
            yield atom.end()
            index += 1
            remaining = len(lines[index]) if index < len(lines) else 0


def layout_of(raw: str, lines: list[Line]) -> Layout | None:
    """The layout of a source; nothing when it has no lines to tell."""
    opening, closing = OPENING.match(raw), CLOSING.search(raw)
    if not lines or not opening or not closing:
        return None
    if opening[0] == '"':
        return Layout('"', "", '"')
    space = opening[0][1:-1]
    gap = f'",{space or " "}"'
    for line in lines[:-1]:
        match = GAP.match(line.gap)
        gap = match[0] if match else ""
    return Layout(opening[0], gap, closing[0])


def common_layout(file: str) -> Layout:
    """How the other sources of a notebook are laid out."""
    for source in find_code(file):
        raw = file[source.start : source.end]
        layout = layout_of(raw, list(raw_lines(raw, source.text)))
        if layout and layout.gap:
            return layout
    return Layout('["', '", "', '"]')


def merge_lines(old: list[Line], text: str, gap: str, is_ascii: bool) -> Iterator[Line]:
    """The lines of a new text: those that were there before as they were, with what stood behind them."""
    new = split_lines(text)
    matcher = SequenceMatcher(None, [line.text for line in old], new, autojunk=False)
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag == "equal":
            for index in range(first, last):
                is_last = index == len(old) - 1
                yield Line(old[index].text, old[index].raw, gap if is_last else old[index].gap)
        else:
            for line in new[start:end]:
                yield Line(line, quoted(line, is_ascii), gap)


def quoted(line: str, is_ascii: bool) -> str:
    """A line as it stands in a JSON string."""
    is_encodable = not any("\ud800" <= character <= "\udfff" for character in line)
    return json.dumps(line, ensure_ascii=is_ascii or not is_encodable)[1:-1]
