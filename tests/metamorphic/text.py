"""Positions and lines of a program's text, and its edits."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Sequence

LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|$)")


class NotApplicable(Exception):
    """The program cannot be rewritten like this, or not surely without changing what it does."""


class Text:
    """A program's text by lines, and the way from positions of `ast` to offsets."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines: list[str] = [line for line in LINE.findall(text) if line]
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.newline = "\r\n" if "\r\n" in text else "\n"

    def offset(self, line: int, column: int) -> int:
        """The place of a line (from 1) and a column in bytes of UTF-8."""
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def start(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword | ast.pattern | ast.excepthandler) -> int:
        """Where a node begins."""
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword | ast.pattern | ast.excepthandler) -> int:
        """Where a node ends."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.offset(node.end_lineno, node.end_col_offset)

    def segment(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node."""
        return self.text[self.start(node) : self.end(node)]


def replace_spans(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """The text with every span (start, end) replaced; the same edit given twice counts once."""
    parts, position = [], 0
    for start, end, new in sorted(set(spans)):
        if start < position:
            raise NotApplicable("two edits of one place")
        parts += [text[position:start], new]
        position = end
    return "".join([*parts, text[position:]])


def string_lines(text: str) -> set[int]:
    """The lines (from 1) that begin inside a string, whose indentation is part of the program."""
    inside: set[int] = set()
    opened: list[int] = []
    for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
        name = tokenize.tok_name[token.type]
        if name == "FSTRING_START":
            opened.append(token.start[0])
        elif name == "FSTRING_END":
            inside.update(range(opened.pop() + 1, token.end[0] + 1))
        elif name == "STRING":
            inside.update(range(token.start[0] + 1, token.end[0] + 1))
    return inside


def reindent(source: Text, first: int, last: int, old: str, new: str) -> list[str]:
    """Lines first..last (from 1) with the indentation `new` where `old` was; strings keep theirs."""
    keep = string_lines(source.text)
    lines = []
    for number in range(first, last + 1):
        line = source.lines[number - 1]
        if number not in keep and line.strip():
            if not line.startswith(old):
                bare = line.lstrip(" \t")
                if not bare.startswith("#"):
                    raise NotApplicable("a line that is indented less than its block")
                line = old + bare
            line = new + line[len(old) :]
        lines.append(line)
    return lines


def indentation_unit(source: Text, tree: ast.AST) -> str:
    """What the program indents a block with; four spaces when it has none."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, ast.stmt) and isinstance(body, list) and body[0].lineno > node.lineno:
            outer, inner = indentation(source, node.lineno), indentation(source, body[0].lineno)
            if len(inner) > len(outer):
                return inner[len(outer) :]
    return "    "


def indentation(source: Text, line: int) -> str:
    """The white space that a line begins with."""
    return source.lines[line - 1][: len(source.lines[line - 1]) - len(source.lines[line - 1].lstrip(" \t"))]


def with_newline(lines: Sequence[str], newline: str) -> list[str]:
    """The lines, the last of them ended."""
    return [line if line.endswith(("\n", "\r")) else line + newline for line in lines]


def free_name(text: str, *candidates: str) -> str:
    """The first of the names that the program does not know."""
    for name in candidates:
        if not re.search(rf"\b{name}\b", text):
            return name
    raise NotApplicable(f"{candidates[0]} is taken")
