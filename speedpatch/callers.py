"""Tell whether calls still fit a function after its parameters have changed.

Programs that share a module are patched one after the other: what one of them does to a function must not break a
call in another. Calls are matched by the last part of their name, so that none is missed; one of a namesake that
does not fit either version says nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Parameters:
    """What calls of a function can give: names by position, how many of them have to be there, and keywords."""

    names: tuple[str, ...]
    required: frozenset[str]
    keywords: frozenset[str]
    takes_more: bool
    takes_any: bool

    def fit(self, call: ast.Call) -> bool:
        """Whether a call binds; one that unpacks arguments may."""
        if any(isinstance(item, ast.Starred) for item in call.args) or any(item.arg is None for item in call.keywords):
            return True
        given = {item.arg for item in call.keywords if item.arg}
        by_position = set(self.names[: len(call.args)])
        is_known = self.takes_any or given <= {*self.names, *self.keywords}
        is_short = self.takes_more or len(call.args) <= len(self.names)
        return is_known and is_short and not given & by_position and self.required <= given | by_position


Changes = dict[str, list[tuple[Parameters, Parameters]]]


def changed_functions(before: str, after: str) -> Changes:
    """The functions of a module whose parameters differ in two versions of it, by the name that calls use."""
    old, new = dict(functions(ast.parse(before), ())), dict(functions(ast.parse(after), ()))
    changes: Changes = {}
    for path, parameters in old.items():
        if path in new and new[path] != parameters:
            name = path[-2] if path[-1] == "__init__" and len(path) > 1 else path[-1]
            changes.setdefault(name, []).append((parameters, new[path]))
    return changes


def functions(node: ast.AST, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Parameters]]:
    """The functions below a node by their qualified names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield (*path, child.name), parameters_of(child, is_method=isinstance(node, ast.ClassDef))
        name = (child.name,) if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else ()
        yield from functions(child, (*path, *name))


def parameters_of(node: ast.FunctionDef | ast.AsyncFunctionDef, is_method: bool) -> Parameters:
    """What calls of a function can give; the object of a method is not among it."""
    own = node.args
    is_static = any(isinstance(item, ast.Name) and item.id == "staticmethod" for item in node.decorator_list)
    positional = [*own.posonlyargs, *own.args]
    needed = positional[: len(positional) - len(own.defaults)]
    if is_method and not is_static:
        positional, needed = positional[1:], needed[1:]
    required = [item.arg for item in needed]
    required += [item.arg for item, default in zip(own.kwonlyargs, own.kw_defaults, strict=True) if default is None]
    return Parameters(
        tuple(item.arg for item in positional),
        frozenset(required),
        frozenset(item.arg for item in own.kwonlyargs),
        own.vararg is not None,
        own.kwarg is not None,
    )


def broken_call(text: str, changes: Changes) -> ast.Call | None:
    """The first call of a module that fitted a function before it was changed and does not fit it now."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if any(old.fit(node) and not new.fit(node) for old, new in changes.get(name, ())):
                return node
    return None
