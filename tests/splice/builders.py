"""Say edits in a test by the text of what they touch."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

from speedpatch.edits import (
    AddArgument,
    AddEntry,
    AddParameter,
    Around,
    Delete,
    Edit,
    Import,
    Insert,
    Replace,
    Wrap,
    apply_edits,
)
from speedpatch.parse import parse_module
from speedpatch.sources import Module, Source

PATH = Path("train.py")
Build = Callable[[Module], Edit]
Where = Literal["before", "after", "first", "last"]
Node = TypeVar("Node", ast.stmt, ast.expr)


def module_of(text: str) -> Module:
    """A parsed module."""
    return parse_module(Source(PATH, text))


def apply(text: str, *builds: Build) -> Module:
    """The module with the edits made."""
    module = module_of(text)
    return apply_edits(module, [build(module) for build in builds])


def statement(module: Module, start: str) -> ast.stmt:
    """The first statement, in the order of the text, that begins like this."""
    found = [node for node in ast.walk(module.tree) if isinstance(node, ast.stmt)]
    return next(node for node in in_order(found) if segment(module, node).startswith(start))


def expression(module: Module, text: str) -> ast.expr:
    """The first expression with exactly this text; `text@2` is the second one."""
    text, _, count = text.partition("@")
    found = [node for node in ast.walk(module.tree) if isinstance(node, ast.expr)]
    return [node for node in in_order(found) if segment(module, node) == text][int(count or 1) - 1]


def in_order(nodes: list[Node]) -> list[Node]:
    """Nodes sorted by their place."""
    return sorted(nodes, key=lambda node: (node.lineno, node.col_offset))


def segment(module: Module, node: ast.AST) -> str:
    """The text of a node."""
    return ast.get_source_segment(module.source.text, node) or ""


def wrap(first: str, last: str | None = None, header: str = "with amp:") -> Build:
    """Wrap statements given by how they begin."""
    return lambda module: Wrap(PATH, statement(module, first), statement(module, last or first), header)


def insert(where: Where, anchor: str, text: str = "new()", slot: int = 0) -> Build:
    """Insert beside or into the statement that begins like this."""
    return lambda module: Insert(PATH, statement(module, anchor), where, text, slot)


def delete(node: str) -> Build:
    """Delete the statement that begins like this."""
    return lambda module: Delete(PATH, statement(module, node))


def replace(node: str, text: str) -> Build:
    """Replace the expression with this text."""
    return lambda module: Replace(PATH, expression(module, node), text)


def around(node: str, before: str, after: str, enclosed: bool = False) -> Build:
    """Write around the expression with this text."""
    return lambda module: Around(PATH, expression(module, node), before, after, enclosed)


def argument(call: str, text: str, after: str | None = None) -> Build:
    """Add an argument to the call with this text, behind the argument with that text."""

    def build(module: Module) -> Edit:
        node = expression(module, call)
        assert isinstance(node, ast.Call)
        arguments: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
        behind = next((item for item in arguments if segment(module, item) == after), None)
        return AddArgument(PATH, node, text, behind)

    return build


def parameter(function: str, text: str, after: str | None = None) -> Build:
    """Add a parameter to the function of this name."""

    def build(module: Module) -> Edit:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        found = [node for node in ast.walk(module.tree) if isinstance(node, kinds) and node.name == function]
        return AddParameter(PATH, found[0], text, after)

    return build


def entry(node: str, text: str, after: str) -> Build:
    """Add an entry to the dict with this text."""

    def build(module: Module) -> Edit:
        found = expression(module, node)
        assert isinstance(found, ast.Dict)
        return AddEntry(PATH, found, text, next(value for value in found.values if segment(module, value) == after))

    return build


def imports(text: str) -> Build:
    """Add an import."""
    return lambda _: Import(PATH, text)
