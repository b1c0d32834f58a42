"""Find the place for an import at the top of a module."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from speedpatch.splice.statements import Definition, Statements, is_text

HEADER = re.compile(r"(?:#[^\r\n]*(?:\r\n|\n|\r|\Z))*")
MARKS = re.compile(r"(?:#!.*(?:\r\n|\n|\r|\Z))?(?:#.*coding[:=].*(?:\r\n|\n|\r|\Z))?")
BLANK = re.compile(r"(?:[ \t\f]*(?:\r\n|\n|\r))+")


@dataclass(frozen=True)
class Place:
    """Where imports go: behind a statement, or else at an offset, with blank lines around them."""

    anchor: ast.stmt | None
    offset: int
    above: int
    below: int


def find_place(statements: Statements) -> Place:
    """The place behind the last import at the top, or else behind the docstring or the comments there."""
    body = statements.tree.body
    last = last_import(body)
    if last is not None:
        is_future = isinstance(last, ast.ImportFrom) and last.module == "__future__"
        return behind(statements, last, blanks=int(is_future))
    if body and is_text(body[0]):
        return behind(statements, body[0], blanks=1)
    offset = header_end(statements)
    is_crowded = offset < len(statements.text.text) and not BLANK.match(statements.text.text, offset)
    return Place(None, offset, 0, blank_lines(body[0] if body else None) if is_crowded else 0)


def behind(statements: Statements, anchor: ast.stmt, blanks: int) -> Place:
    """A place behind a statement, set apart by blank lines when asked to."""
    text = statements.text.text
    position = statements.position(anchor)
    tail = statements.tail(anchor)
    following = position.body[position.index + 1] if position.index + 1 < len(position.body) else None
    is_crowded = tail < len(text) and not BLANK.match(text, tail)
    return Place(anchor, tail, blanks, blank_lines(following) if blanks and is_crowded and following else 0)


def blank_lines(following: ast.stmt | None) -> int:
    """The blank lines in front of a statement below the imports."""
    return 2 if isinstance(following, Definition) else 1


def last_import(body: Sequence[ast.stmt]) -> ast.stmt | None:
    """The last import above the first statement that does anything else than to prepare imports."""
    last: ast.stmt | None = None
    for index, node in enumerate(body):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            last = node
        elif not (index == 0 and is_text(node)) and not prepares_imports(node):
            break
    return last


def prepares_imports(node: ast.stmt) -> bool:
    """Whether a statement may stand between imports: a guarded import, a setting (`os.environ[...] = ...`), a call."""
    if isinstance(node, (ast.Try, ast.If)):
        return any(isinstance(inner, (ast.Import, ast.ImportFrom)) for inner in node.body)
    if isinstance(node, ast.Assign):
        return all(isinstance(target, (ast.Subscript, ast.Attribute)) for target in node.targets)
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def header_end(statements: Statements) -> int:
    """Where the code starts: behind comments that a blank line sets apart, or a first line for the system."""
    text = statements.text.text
    header = HEADER.match(text)
    end = header.end() if header else 0
    blank = BLANK.match(text, end)
    if end and blank:
        return blank.end()
    marks = MARKS.match(text)
    return end if end == len(text) else (marks.end() if marks else 0)
