"""Keep multi-line strings as they are while the lines around them are indented."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator

from speedpatch.sources import NEWLINE
from speedpatch.splice.text import Text

TEMPLATES: tuple[type[ast.expr], ...] = tuple(
    getattr(ast, name) for name in ("JoinedStr", "TemplateStr") if hasattr(ast, name)
)
LITERALS: tuple[type[ast.expr], ...] = (ast.Constant, *TEMPLATES)
OPENINGS = tuple(getattr(tokenize, name) for name in ("FSTRING_START", "TSTRING_START") if hasattr(tokenize, name))
CLOSINGS = tuple(getattr(tokenize, name) for name in ("FSTRING_END", "TSTRING_END") if hasattr(tokenize, name))
TEXT_INDENT = 4


def walk(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes below some, themselves included, save those inside formatted strings."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, TEMPLATES):
            waiting.extend(ast.iter_child_nodes(node))


def walk_statement(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement's own line or header, save those inside formatted strings."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, TEMPLATES):
            waiting.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt))


def inner_lines(text: Text, nodes: Iterable[ast.AST]) -> frozenset[int]:
    """The indices of lines that begin inside a string."""
    found: set[int] = set()
    for node in walk(nodes):
        if isinstance(node, ast.expr) and isinstance(node, LITERALS) and node.lineno != node.end_lineno:
            literal = text.text[text.start(node) : text.end(node)]
            found.update(node.lineno - 1 + line for line in lines_within(literal))
    return frozenset(found)


def lines_within(literal: str) -> Iterator[int]:
    """The lines, counted from the first as 0, of adjacent strings that begin inside one of them."""
    depth, start = 0, 0
    source = "(" + NEWLINE.sub("\n", literal) + ")\n"
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in OPENINGS:
            start = start if depth else token.start[0]
            depth += 1
        elif token.type in CLOSINGS:
            depth -= 1
            if not depth:
                yield from range(start, token.end[0])
        elif token.type == tokenize.STRING and not depth:
            yield from range(token.start[0], token.end[0])


def reindent(text: str, indent: str, unit: str) -> str:
    """Statements written with four spaces a level, at an indentation and with its unit; they need no last newline."""
    lines = NEWLINE.split(text)
    lines = lines[:-1] if len(lines) > 1 and not lines[-1] else lines
    inner = text_lines(text) if len(lines) > 1 else frozenset()
    return "\n".join(line if index in inner else place(line, indent, unit) for index, line in enumerate(lines))


def text_lines(text: str) -> frozenset[int]:
    """The lines of new code that begin inside a string; a header is no code of its own and holds none."""
    try:
        return inner_lines(Text.of(text), [ast.parse(text)])
    except SyntaxError:
        return frozenset()


def place(line: str, indent: str, unit: str) -> str:
    """One line of new code at an indentation; a blank one stays empty."""
    code = line.lstrip(" ")
    level, rest = divmod(len(line) - len(code), TEXT_INDENT)
    return indent + unit * level + " " * rest + code if code.strip() else ""
