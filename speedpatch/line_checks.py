"""Check that every line of the original is still there, in order, and differs only where the program does."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from itertools import accumulate, pairwise

from speedpatch.errors import PatchError
from speedpatch.sources import NEWLINE, Module
from speedpatch.splice.literals import walk

WORD = re.compile(r"\w+|[^\w\s]")
BETWEEN = re.compile(r"[\s;\\]*")
WHITE = " \t\f"
PARTS = (ast.stmt, ast.ExceptHandler, ast.match_case)
Lines = Sequence[tuple[str, str]]


def check_lines(before: Module, after: Module) -> None:
    """Raise PatchError, naming the user's line, when a line outside of the edits is not what it was."""
    old, new = split_lines(before.source.text), split_lines(after.source.text)
    check_origins(before, after, len(old), len(new))
    pieces: dict[int, list[int]] = {}
    for index, origin in enumerate(after.origin):
        if origin:
            pieces.setdefault(origin, []).append(index)
    texts = {number: [new[index][0].lstrip(WHITE) for index in indices] for number, indices in pieces.items()}
    changed = {number for number in texts if not is_kept(old[number - 1][0].lstrip(WHITE), texts[number])}
    for number in sorted(changed):
        check_words(before, old[number - 1][0].lstrip(WHITE), texts[number], number)
    check_gone(before, frozenset(range(1, len(old) + 1)) - pieces.keys(), changed)
    kept = {number for number in texts if number not in changed or not is_pass(texts[number])}
    check_comments(before, after, kept, {number for number in changed if "#" in old[number - 1][0]})
    check_endings(after, old, new)


def is_pass(texts: Sequence[str]) -> bool:
    """Whether a statement, and with it its comments, has become `pass`."""
    return any(text.partition("#")[0].strip() == "pass" for text in texts)


def split_lines(text: str) -> Lines:
    """The lines of a text, each with its ending; the last one may have none."""
    ends = [(match.start(), match.end()) for match in NEWLINE.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    lines = [(text[start:stop], text[stop:end]) for start, (stop, end) in zip(starts, ends, strict=False)]
    return [*lines, (text[starts[-1] :], "")] if starts[-1] < len(text) else lines


def check_origins(before: Module, after: Module, old: int, new: int) -> None:
    """Raise PatchError when the lines of the result cannot come from where they claim to."""
    path = after.source.path
    origins = [origin for origin in after.origin if origin]
    if (
        len(after.origin) != new
        or not set(origins) <= set(range(1, old + 1))
        or before.origin != tuple(range(1, old + 1))
    ):
        raise PatchError(f"{path}: the origin of lines is lost")
    for first, second in pairwise(origins):
        if second < first:
            raise PatchError(f"{path}:{second}: this line has moved behind line {first}")


def is_kept(line: str, texts: Sequence[str]) -> bool:
    """Whether a line is the same up to its indentation, or split into its statements."""
    return texts == [line] or is_split(line, texts)


def is_split(line: str, texts: Sequence[str]) -> bool:
    """Whether a row of statements has been given lines of their own."""
    position = 2 if line.startswith("elif") and texts[0].startswith("if") else 0
    for text in texts:
        start = line.find(text, position)
        if not text or start < 0 or not BETWEEN.fullmatch(line, position, start):
            return False
        position = start + len(text)
    return position == len(line)


def check_words(before: Module, line: str, texts: Sequence[str], number: int) -> None:
    """Raise PatchError when a line is there twice, or says the same as before and only looks different."""
    words, all_words = WORD.findall(line), WORD.findall(" ".join(texts))
    if len(texts) > 1 and line in texts and not Counter(words * 2) - Counter(all_words):
        raise PatchError(f"{before.source.path}:{number}: this line is there twice")
    if words == all_words:
        raise PatchError(f"{before.source.path}:{number}: only white space has changed here")


def check_gone(before: Module, gone: Set[int], changed: Set[int]) -> None:
    """Raise PatchError when lines are gone that are not whole statements or parts of changed ones."""
    accounted: set[int] = set()
    lines = split_lines(before.source.text) if gone else ()
    for first, last, is_block in logical_lines(before.tree) if gone else ():
        span = set(range(first, last + 1))
        is_emptied = is_block and first in changed and span <= gone | {first}
        if span <= gone or is_emptied or (span & changed and not is_block):
            accounted |= span
        if is_block and (span <= gone or is_emptied):
            accounted |= trailing_comments(lines, first, last)
    accounted |= trailing_blank_lines(lines, gone)
    for number in sorted(gone - accounted):
        raise PatchError(f"{before.source.path}:{number}: this line is gone")


def logical_lines(tree: ast.Module) -> Iterator[tuple[int, int, bool]]:
    """The first and last line of simple statements, of blocks, which the last item tells, and of their headers."""
    for node in walk([tree]):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None) or getattr(node, "cases", None)
            first = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))])
            yield first, node.end_lineno or node.lineno, bool(body)
            if body:
                yield first, header_end(node), False


def header_end(node: ast.stmt) -> int:
    """The last line of a block's own header."""
    children = (child for child in ast.iter_child_nodes(node) if not isinstance(child, PARTS))
    return max([node.lineno, *(getattr(inner, "end_lineno", 0) for inner in walk(children))])


def trailing_comments(lines: Lines, first: int, last: int) -> set[int]:
    """The lines behind a block up to the last comment that is indented deeper than its header."""
    depth = indent_width(lines[first - 1][0])
    end = last
    for number in range(last + 1, len(lines) + 1):
        text = lines[number - 1][0]
        if text.strip(WHITE) and not (text.strip(WHITE).startswith("#") and indent_width(text) > depth):
            break
        end = number if text.strip(WHITE) else end
    return set(range(last + 1, end + 1))


def trailing_blank_lines(lines: Lines, gone: Set[int]) -> set[int]:
    """The blank lines that end the text once the lines behind them are gone."""
    last = max((number for number in range(1, len(lines) + 1) if number not in gone), default=0)
    return {number for number in range(last + 1, len(lines) + 1) if not lines[number - 1][0].strip(WHITE)}


def indent_width(line: str) -> int:
    """The column that the white space of a line leads to."""
    return len(line.expandtabs()) - len(line.expandtabs().lstrip(WHITE))


def check_comments(before: Module, after: Module, kept: Set[int], changed: Set[int]) -> None:
    """Raise PatchError when a comment on a changed line is not there any more."""
    there = Counter(text for _, text in comments(after)) if changed else Counter()
    for number, text in comments(before) if changed else ():
        there[text] -= number in kept
        if there[text] < 0 and number in kept and number in changed:
            raise PatchError(f"{before.source.path}:{number}: the comment of this line is gone")


def comments(module: Module) -> Iterator[tuple[int, str]]:
    """The comments of a module with their lines."""
    text = NEWLINE.sub("\n", module.source.text)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def check_endings(after: Module, old: Lines, new: Lines) -> None:
    """Raise PatchError when a line ends in another way than it did, or a new one than the lines around it do."""
    path = after.source.path
    own = [old[origin - 1][1] if origin else "" for origin in after.origin]
    first = (old[0][1] if old else "") or "\n"
    above, below = carry(own, first), carry(own[::-1], "")[::-1]
    for index, (_, ending) in enumerate(new[:-1]):
        allowed = {own[index]} if own[index] else {above[index], below[index]}
        if not ending or ending not in allowed:
            raise PatchError(f"{path}:{after.origin[index] or index + 1}: the line ending is not the one around it")
    if old and new and new[-1][1] not in (own[-1] or above[-1], ""):
        raise PatchError(f"{path}:{after.origin[-1] or len(new)}: the line ending is not the one around it")
    if old and new and bool(old[-1][1]) != bool(new[-1][1]):
        raise PatchError(f"{path}: the newline at the end of the file is not what it was")


def carry(endings: Sequence[str], first: str) -> list[str]:
    """For each line the last ending up to it, as far as there is one."""
    return list(accumulate(endings, lambda last, ending: ending or last, initial=first))[1:]
