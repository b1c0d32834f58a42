"""Make functions out of the expressions that build a script's models and optimizers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tests.metamorphic.into_main import Chunk, is_guard
from tests.metamorphic.movable import Movable
from tests.metamorphic.scopes import Callable, Scope
from tests.metamorphic.text import NotApplicable, free_name

BUILT = ("torch.optim.", "torch.nn.")
FLUENT = {"to", "cuda", "train", "float", "double"}
# What ties an expression to the place where it stands.
TIED = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)


@dataclass(frozen=True)
class Maker:
    """A function that returns what an expression was, and the call that stands in its place (start..end)."""

    name: str
    parameters: tuple[str, ...]
    expression: str
    reads: frozenset[str]
    chunk: Chunk
    start: int
    end: int

    @property
    def call(self) -> str:
        """What stands where the expression stood."""
        return f"{self.name}({', '.join(self.parameters)})"


def find_makers(program: Movable) -> Iterator[Maker]:
    """The functions to be made of what stays in the script."""
    taken = program.source.text
    for chunk in program.chunks:
        if chunk in program.moved:
            continue
        for scope, statement in assignments(program, chunk):
            value, target = statement.value, statement.targets[0]
            if isinstance(target, ast.Name) and is_built(program, value):
                try:
                    name = free_name(taken, f"make_{target.id}", f"make_the_{target.id}")
                except NotApplicable:
                    continue
                taken += f" {name} "
                yield maker(program, chunk, scope, value, name)


def assignments(program: Movable, chunk: Chunk) -> Iterator[tuple[Scope, ast.Assign]]:
    """The assignments to one target at module level, under the guard, and in functions of the script."""
    for statement in chunk.statements:
        has_body = isinstance(statement, Callable) or (isinstance(statement, ast.If) and is_guard(statement))
        for part in getattr(statement, "body", []) if has_body else [statement]:
            if isinstance(part, ast.Assign) and len(part.targets) == 1:
                yield program.scopes.scopes.get(statement, program.scopes.module), part


def is_built(program: Movable, value: ast.expr) -> bool:
    """Whether a value is a model or an optimizer that is made right here."""
    if any(isinstance(part, TIED) for part in ast.walk(value)):
        return False
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in FLUENT:
        value = value.func.value
    if not isinstance(value, ast.Call):
        return False
    own = program.homes.get(value.func.id) if isinstance(value.func, ast.Name) else None
    known = own in program.moved and own is not None and isinstance(own.statement, ast.ClassDef)
    return known or program.dotted(value.func).startswith(BUILT)


def maker(program: Movable, chunk: Chunk, scope: Scope, value: ast.expr, name: str) -> Maker:
    """The function for one expression; the variables that it reads become its parameters, in their order."""
    inside = {node for node in ast.walk(value) if node in program.scopes.scopes}
    nodes = set(ast.walk(value))
    parameters: dict[str, None] = {}
    reads = set()
    for use in program.uses:
        if use.node not in nodes or use.scope is None or use.scope.node in inside:
            continue
        home = program.homes.get(use.name) if use.scope is program.scopes.module else None
        is_global = use.scope is program.scopes.module
        if is_global and (use.name in program.imports or (home and home in program.moved)):
            reads.add(use.name)
        else:
            parameters[use.name] = None
    start, end = program.source.start(value), program.source.end(value)
    return Maker(name, tuple(parameters), program.source.text[start:end], frozenset(reads), chunk, start, end)
