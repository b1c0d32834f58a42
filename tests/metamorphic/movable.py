"""Which top-level statements of a script could as well stand in another file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from tests.metamorphic.into_main import Chunk, binds, evaluated_at_once, is_guard, split, within
from tests.metamorphic.renaming import REFLECTION
from tests.metamorphic.scopes import Callable, Scopes, Use
from tests.metamorphic.text import NotApplicable, Text

Import = ast.Import | ast.ImportFrom
# What a module says of itself: in another file it is something else.
PLACE = {"__name__", "__file__", "__doc__", "__spec__", "__package__"}
# Calls whose result depends on nothing that a script can do before, and that do nothing themselves.
PURE = {
    "torch.device", "torch.cuda.is_available", "torch.no_grad", "torch.inference_mode", "int", "float",
    "torch.nn.MSELoss", "torch.nn.BCELoss", "torch.nn.CrossEntropyLoss", "torch.nn.BCEWithLogitsLoss",
}  # fmt: skip


class Movable:
    """The top-level statements of a script: what each reads, and which of them can move to another file."""

    def __init__(self, text: str) -> None:
        self.source, self.tree = Text(text), ast.parse(text)
        self.scopes = Scopes(self.source, self.tree)
        self.uses = self.scopes.uses
        if any(use.scope is None and use.name in REFLECTION for use in self.uses):
            raise NotApplicable("the program looks at its own variables")
        self.chunks = list(split(self.source, self.tree))

    @cached_property
    def imports(self) -> dict[str, list[Chunk]]:
        """The names that imports at the top level bind, and nothing else does, with those imports."""
        found: dict[str, list[Chunk]] = {}
        for chunk in self.chunks:
            for statement in chunk.statements if all(isinstance(part, Import) for part in chunk.statements) else ():
                assert isinstance(statement, Import)
                for alias in statement.names:
                    found.setdefault((alias.asname or alias.name).split(".")[0], []).append(chunk)
        return {name: chunks for name, chunks in found.items() if not self.times_bound(name)}

    @cached_property
    def homes(self) -> dict[str, Chunk]:
        """The names that a definition or a constant binds once and for all, with those."""
        found = {}
        for chunk in self.chunks:
            names = list(bound_names(chunk))
            if names and all(self.times_bound(name) == 1 and name not in self.scopes.module.imported for name in names):
                found.update(dict.fromkeys(names, chunk))
        return found

    @cached_property
    def moved(self) -> list[Chunk]:
        """The classes and functions that need nothing of the script, and the constants that they need."""
        entries = {use.name for use in self.uses if within(use, [c for c in self.chunks if is_guard(c.statement)])}
        fixed = {name for name in entries if isinstance(getattr(self.homes.get(name), "statement", None), Callable)}
        able = {chunk for name, chunk in self.homes.items() if name not in fixed and self.is_pure(chunk)}
        while stuck := {chunk for chunk in able if not self.reads(chunk) <= self.known(able)}:
            able -= stuck
        wanted = {chunk for chunk in able if is_definition(chunk)}
        while more := {self.homes[name] for chunk in wanted for name in self.reads(chunk) & set(self.homes)} - wanted:
            wanted |= more
        return [chunk for chunk in self.chunks if chunk in wanted]

    def known(self, able: set[Chunk]) -> set[str]:
        """The names that another file has if these statements are in it."""
        return set(self.imports) | {name for name, chunk in self.homes.items() if chunk in able}

    def times_bound(self, name: str) -> int:
        """How often a module's variable is bound otherwise than by imports."""
        return sum(binds(use, name, self.scopes) for use in self.uses)

    def uses_in(self, chunk: Chunk) -> Iterator[Use]:
        """The uses of variables in a statement."""
        return (use for use in self.uses if within(use, [chunk]))

    def reads(self, chunk: Chunk) -> set[str]:
        """The module's variables that a statement needs, and what it asks of the module itself."""
        uses = [use for use in self.uses_in(chunk) if use.scope is self.scopes.module or use.name in PLACE]
        return {use.name for use in uses} - set(bound_names(chunk))

    def is_pure(self, chunk: Chunk) -> bool:
        """Whether a statement means the same wherever it is executed."""
        parts = [part for expression in evaluated_at_once(chunk.statement) for part in ast.walk(expression)]
        calls = all(self.dotted(part.func) in PURE for part in parts if isinstance(part, ast.Call))
        values = [part for part in parts if isinstance(part, ast.Attribute | ast.Subscript | ast.Await)]
        return calls and (is_definition(chunk) or all(map(self.dotted, values)))

    def dotted(self, node: ast.AST) -> str:
        """The full name of what an expression gets from an import, or the name of a builtin; empty otherwise."""
        path: list[str] = []
        while isinstance(node, ast.Attribute):
            path.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        if node.id not in self.imports:
            return "" if node.id in self.scopes.module.bound else ".".join([node.id, *path])
        return ".".join([self.origin(node.id), *path])

    def origin(self, name: str) -> str:
        """What an imported name stands for."""
        for statement in self.imports[name][0].statements:
            assert isinstance(statement, Import)
            for alias in statement.names:
                if (alias.asname or alias.name.split(".")[0]) == name:
                    inner = alias.name if alias.asname else name
                    return f"{statement.module}.{alias.name}" if isinstance(statement, ast.ImportFrom) else inner
        return ""


def is_definition(chunk: Chunk) -> bool:
    """Whether a statement is a single function or class."""
    return len(chunk.statements) == 1 and isinstance(chunk.statement, Callable | ast.ClassDef)


def bound_names(chunk: Chunk) -> Iterator[str]:
    """The names that a definition or a plain assignment binds; nothing for other statements."""
    statement = chunk.statement
    if len(chunk.statements) > 1:
        return
    if isinstance(statement, Callable | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign) and all(isinstance(target, ast.Name) for target in statement.targets):
        yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
