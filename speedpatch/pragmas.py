"""Find what `# speedpatch: off` leaves alone: a line, a block, or a whole file."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from speedpatch.sources import NEWLINE

LEFT_ALONE = "`# speedpatch: off` leaves this alone: take that comment out to have it edited"
NO_TORCH = "the file does not mention torch"
EXCLUDED = "pyproject.toml excludes the file"
OFF = re.compile(r"#\s*speedpatch\s*:\s*off\b")


@dataclass(frozen=True)
class Logical:
    """One logical line: where it is, how deep, and whether an "off" stands on it or alone above it."""

    first: int
    last: int
    depth: int
    on_it: bool
    above_it: bool


def lines_off(text: str) -> frozenset[int]:
    """The numbers of the lines that are to be left alone.

    A comment behind code leaves that statement alone, or the whole block when it opens one. A comment on
    a line of its own stands for the statement below it, for the block when it is the first thing in one,
    and for the whole file when no code but a docstring comes before it.
    """
    if not OFF.search(text):
        return frozenset()
    try:
        lines = list(logical_lines(text))
    except (tokenize.TokenError, SyntaxError):
        return frozenset()
    if is_off_at_top(text, lines):
        return frozenset(range(1, len(NEWLINE.findall(text)) + 2))
    spans = [block_span(lines, index) for index, line in enumerate(lines) if line.on_it or line.above_it]
    return frozenset(number for first, last in spans for number in range(first, last + 1))


def logical_lines(text: str) -> Iterator[Logical]:
    """The statements of a text as the tokenizer sees them, comments attached to what they are about."""
    physical = iter([line + "\n" for line in NEWLINE.split(text)])
    depth, first, last, on_it, above_it = 0, 0, 0, False, False
    for token in tokenize.generate_tokens(lambda: next(physical, "")):
        if token.type == tokenize.COMMENT and OFF.match(token.string):
            between = not first and not token.line[: token.start[1]].strip()
            on_it, above_it = on_it or not between, above_it or between
        elif token.type in (tokenize.INDENT, tokenize.DEDENT):
            depth += 1 if token.type == tokenize.INDENT else -1
        elif token.type == tokenize.NEWLINE:
            yield Logical(first, last, depth, on_it, above_it)
            first, on_it, above_it = 0, False, False
        elif token.type not in (tokenize.NL, tokenize.COMMENT, tokenize.ENDMARKER):
            first, last = first or token.start[0], token.end[0]


def is_off_at_top(text: str, lines: list[Logical]) -> bool:
    """Whether an "off" on its own line comes before all code; a docstring is no code."""
    if not lines or lines[0].above_it:
        return True
    has_docstring = re.match(r"[rRuU]?['\"]", NEWLINE.split(text)[lines[0].first - 1])
    return has_docstring is not None and len(lines) > 1 and lines[1].above_it


def block_span(lines: list[Logical], index: int) -> tuple[int, int]:
    """First and last line of what an "off" at this statement covers."""
    line = lines[index]
    opened = index > 0 and lines[index - 1].depth < line.depth
    start = index - 1 if line.above_it and opened else index
    body = start + 1
    while body < len(lines) and lines[body].depth > lines[start].depth:
        body += 1
    return lines[start].first, lines[body - 1].last
