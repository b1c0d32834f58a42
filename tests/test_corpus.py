"""Edits of every statement in real programs give valid Python, and nothing else is touched."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from speedpatch.checks import check_strings
from speedpatch.edits import AddArgument, AddEntry, AddParameter, Around, Edit, Insert, Wrap, apply_edits
from speedpatch.errors import SourceError
from speedpatch.line_checks import check_lines
from speedpatch.parse import parse_module
from speedpatch.read import read_source
from speedpatch.sources import Module

FOLDER = os.environ.get("SPEEDPATCH_CORPUS")
MARK = "speedpatch_was_here"
INDENT = re.compile(r"^[ \t\f]*(el(?=if\b))?")
BETWEEN = re.compile(r"[\s;]+")

pytestmark = pytest.mark.skipif(not FOLDER, reason="set SPEEDPATCH_CORPUS to a folder of training programs")


def programs() -> list[Path]:
    """The files of the corpus."""
    return sorted(Path(FOLDER).rglob("*.py")) if FOLDER else []


def bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """All statement lists of a tree."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield body


def is_pinned(statement: ast.stmt) -> bool:
    """Whether nothing may stand above a statement: docstrings and future imports."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__")


def wraps(module: Module) -> Iterator[Edit]:
    """Wrap every second statement list, as far as it may be wrapped."""
    for number, body in enumerate(bodies(module.tree)):
        free = [statement for statement in body if not is_pinned(statement)]
        if free and number % 2 == 0:
            yield Wrap(module.source.path, free[0], free[-1], f"if {MARK}:")


def insertions(module: Module) -> Iterator[Edit]:
    """Insert something behind every statement."""
    for statement in chain.from_iterable(bodies(module.tree)):
        if not is_pinned(statement):
            yield Insert(module.source.path, statement, "after", f"if {MARK}:\n    {MARK}()")


def additions(module: Module) -> Iterator[Edit]:
    """Add something to every call, function and dict, and write parentheses around every expression."""
    path = module.source.path
    for node in outside_of_templates(module.tree):
        if isinstance(node, ast.Call):
            yield AddArgument(path, node, f"{MARK}=1")
            yield AddArgument(path, node, MARK)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield AddParameter(path, node, f"{MARK}=1")
        if isinstance(node, ast.Dict) and node.values:
            yield AddEntry(path, node, f"{MARK}: {MARK}", node.values[len(node.values) // 2])
        if isinstance(node, ast.expr) and may_have_parentheses(node):
            yield Around(path, node, "(", ")")


def outside_of_templates(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes that edits may touch; `(a).b: int` is no Python."""
    yield node
    if not isinstance(node, (ast.JoinedStr, ast.pattern)):
        for child in ast.iter_child_nodes(node):
            if not (isinstance(node, ast.AnnAssign) and child is node.target):
                yield from outside_of_templates(child)


def may_have_parentheses(node: ast.expr) -> bool:
    """Whether an expression means the same in parentheses."""
    inner = node.elts if isinstance(node, ast.Tuple) else [node]
    is_read = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
    return is_read and not any(isinstance(item, (ast.Starred, ast.Slice)) for item in inner)


class Remove(ast.NodeTransformer):
    """Take the edits of these tests out of a tree."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if not is_mark(node.test):
            return node
        return [statement for statement in node.body if MARK not in ast.dump(statement)]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        node.args = [argument for argument in node.args if not is_mark(argument)]
        node.keywords = [keyword for keyword in node.keywords if keyword.arg != MARK]
        return node

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        self.generic_visit(node)
        if MARK in [argument.arg for argument in node.args]:
            node.args.pop()
            node.defaults.pop()
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        kept = [(key, value) for key, value in zip(node.keys, node.values, strict=True) if not is_mark(key)]
        node.keys, node.values = [key for key, _ in kept], [value for _, value in kept]
        return node


def is_mark(node: ast.AST | None) -> bool:
    """Whether a node is the name that these tests write."""
    return isinstance(node, ast.Name) and node.id == MARK


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
@pytest.mark.parametrize("path", programs(), ids=lambda path: str(path.relative_to(FOLDER or "/")))
def test_survives_edits_everywhere(path: Path) -> None:
    try:
        module = parse_module(read_source(path))
    except SourceError as error:
        pytest.skip(str(error))
    check_edits(module, lines=[*wraps(module), *insertions(module)], inside=[])
    check_edits(module, lines=[], inside=[*additions(module)])
    check_edits(module, lines=[*wraps(module), *insertions(module)], inside=[*additions(module)])


def check_edits(module: Module, lines: list[Edit], inside: list[Edit]) -> None:
    """The result compiles, and is the original once the edits are taken out."""
    result = apply_edits(module, [*lines, *inside])
    compile(result.source.text, module.source.path, "exec", dont_inherit=True)
    check_strings(module, result)
    check_lines(module, result)
    if not inside:
        check_pieces(module, result)
    assert ast.dump(Remove().visit(result.tree)) == ast.dump(module.tree)


def check_pieces(before: Module, after: Module) -> None:
    """Every line is still there, in order; only indentation, `elif` and rows of statements may look different."""
    pieces: dict[int, str] = {}
    for origin, line in zip(after.origin, lines_of(after), strict=True):
        if origin:
            pieces[origin] = pieces.get(origin, "") + line
    assert list(pieces) == list(before.origin)
    for number, line in enumerate(lines_of(before), 1):
        old, new = (INDENT.sub("", text) for text in (line, pieces[number]))
        assert old == new or BETWEEN.sub("", old) == BETWEEN.sub("", new)


def lines_of(module: Module) -> list[str]:
    """The lines of a module, with their endings."""
    return re.findall(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z", module.source.text)
