"""Where a program holds its modules: names they are bound to, expressions that read them, calls that give them."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from speedpatch.facts.facts import Facts
from speedpatch.facts.modules import Modules
from speedpatch.facts.state import parameters_of
from speedpatch.facts.tree import position
from speedpatch.facts.values import FUNCTIONS, Member, Pack, Value

Node = ast.Name | ast.Attribute
SIMPLE = (ast.Assign, ast.AnnAssign, ast.Expr)
TUPLE = 8
"""Items of a returned tuple that are looked at."""


@dataclass(frozen=True)
class Holders:
    """Looks for some modules in a program."""

    about: Modules
    modules: frozenset[Value]

    @property
    def facts(self) -> Facts:
        """The program."""
        return self.about.facts

    @cached_property
    def stores(self) -> dict[Value, list[Node]]:
        """The names and attributes that each module is bound to, in source order."""
        return self.index(ast.Store)

    @cached_property
    def loads(self) -> dict[Value, list[Node]]:
        """The expressions that read each module, in source order."""
        return self.index(ast.Load)

    def index(self, context: type[ast.expr_context]) -> dict[Value, list[Node]]:
        """The nodes of a context that stand for each module."""
        found: dict[Value, list[Node]] = defaultdict(list)
        for node in self.facts.state.values:
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, context):
                for module in self.raw(node):
                    found[module].append(node)
        for nodes in found.values():
            nodes.sort(key=position)
        return found

    def raw(self, node: ast.AST) -> Iterator[Value]:
        """The modules behind an expression, out of their wrappers."""
        for value in self.facts.values(node):
            yield from (module for module in self.about.unwrap(value) if module in self.modules)

    def belongs(self, node: ast.AST, module: Value) -> bool:
        """Whether an expression is a module or a part of it."""
        while True:
            if module in self.raw(node):
                return True
            if any(isinstance(value, Member) and base_of(value) == module for value in self.facts.values(node)):
                return True
            if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
                node = node.value
            elif isinstance(node, ast.Call):
                node = node.func
            else:
                return False

    def outside_stores(self, module: Value) -> Iterator[ast.Attribute]:
        """Where code outside of a module sets one of its attributes."""
        for node in self.facts.state.values:
            is_store = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            if is_store and module in self.raw(node.value) and not self.is_receiver(node.value):  # type: ignore[attr-defined]
                yield node  # type: ignore[misc]

    def is_receiver(self, node: ast.expr) -> bool:
        """Whether an expression is the `self` of its method."""
        scope = self.facts.tree.scope(node)
        if not isinstance(scope, FUNCTIONS) or self.facts.tree.owner(scope) is None:
            return False
        return isinstance(node, ast.Name) and node.id in parameters_of(scope)[:1]

    def births(self, module: Value) -> list[ast.AST]:
        """The calls that give a module for good: its construction, or the calls of the factory that returns it."""
        stack, found, seen = [site_of(self.facts, module)], [], set()
        while stack:
            node = stack.pop()
            scope = self.facts.tree.scope(node)
            callers = [call for call in self.facts.state.callers.get(scope, ()) if self.gives(call, module)]
            if not callers or self.facts.sites.contains_backward(scope):
                found.append(node)
            elif scope not in seen:
                seen.add(scope)
                stack += callers
        return found

    def gives(self, call: ast.Call, module: Value) -> bool:
        """Whether a call returns a module, by itself or in a tuple."""
        values = set(self.facts.values(call))
        for pack in [value for value in values if isinstance(value, Pack)]:
            for index in range(TUPLE):
                values |= self.facts.state.heap.get((pack, f"[{index}]"), frozenset())
        return any(module in self.about.unwrap(value) for value in values)

    def targets(self, birth: ast.AST, module: Value) -> list[Node]:
        """What the statement of a call binds a module to."""
        tree = self.facts.tree
        statement = tree.statement(birth)
        if not isinstance(statement, SIMPLE):
            return []
        return [node for node in self.stores[module] if tree.statement(node) is statement]


def site_of(facts: Facts, module: Value) -> ast.AST:
    """The node that an object comes from."""
    site = getattr(module, "site", None) or getattr(module, "function", None)
    return site if isinstance(site, ast.AST) and site in facts.tree.parents else facts.script.tree.body[0]


def base_of(value: Member) -> Value:
    """The object at the root of an attribute."""
    base = value.base
    while isinstance(base, Member):
        base = base.base
    return base
