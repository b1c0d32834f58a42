"""Where a module is ready: behind construction, weights, device and layout, before its wrappers and its training."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from speedpatch.facts.evaluate import dotted
from speedpatch.facts.facts import Facts
from speedpatch.facts.holders import Holders, Node, site_of
from speedpatch.facts.parts import is_wrapper
from speedpatch.facts.preparation import LOADS, MOVES, Preparation, leaves
from speedpatch.facts.tree import position
from speedpatch.facts.values import Value

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Ready:
    """A module is ready behind (or `before`) `anchor`, where `path` is the expression for it, inside any wrapper."""

    anchor: ast.stmt
    path: str
    where: Literal["after", "before"] = "after"


@dataclass(frozen=True)
class NotReady:
    """There is no such place: made elsewhere, bound to no name, made in several places, one of many modules that one
    expression makes, or only perhaps that module."""

    kind: Literal["elsewhere", "unbound", "several", "many", "uncertain"]
    node: ast.AST


@dataclass(frozen=True)
class SetUp:
    """Finds where modules are ready; a name that may stand for others than those that are `wanted` is no place."""

    holders: Holders
    preparation: Preparation
    wanted: frozenset[Value]

    @property
    def facts(self) -> Facts:
        """The program."""
        return self.holders.facts

    def ready(self, module: Value) -> list[Ready] | NotReady:
        """The places where a module is ready (several only in branches that exclude each other)."""
        births = [node for node in self.holders.births(module) if self.can_hold(node)]
        if not births:
            return NotReady("elsewhere", site_of(self.facts, module))
        targets = [node for birth in births for node in self.holders.targets(birth, module)]
        targets = targets or [node for node in self.holders.stores[module] if self.can_hold(node)]
        if not targets:
            return NotReady("unbound", births[0])
        if any(self.is_repeated(birth, min(targets, key=position)) for birth in births):
            return NotReady("many", births[0])
        scopes = {self.facts.tree.scope(node) for node in targets}
        if len(scopes) > 1 and any(isinstance(node, ast.Name) for node in targets):
            return NotReady("several", targets[1])
        return self.places(module, min(targets, key=position))

    def can_hold(self, node: ast.AST) -> bool:
        """Whether a run gets to a node, and the call may be written there."""
        return self.facts.is_editable(node) and self.facts.sites.is_live(node)

    def is_repeated(self, birth: ast.AST, target: Node) -> bool:
        """Whether an expression makes many modules, of which a target is one at a time: in a comprehension or loop."""
        tree = self.facts.tree
        if any(isinstance(up, COMPREHENSIONS) for node in (birth, target) for up in tree.above(node)):
            return True
        return tree.scope(birth) is tree.scope(target) and tree.loops(birth) != tree.loops(target)

    def places(self, module: Value, target: Node) -> list[Ready] | NotReady:
        """Behind the last statement that sets a module up, from the one that binds it."""
        made = self.facts.tree.statement(target)
        block = self.block(module, target, made)
        anchor = self.facts.tree.lift(made, block)
        assert anchor is not None
        methods = LOADS
        for statement in block[block.index(anchor) + 1 :]:
            if self.preparation.trains(statement):
                break
            if self.preparation.wraps(statement, module):
                branches = self.in_branches(statement, module, self.facts.text(target))
                if branches:
                    return branches
                break
            methods = MOVES if self.preparation.makes_optimizer(statement) else methods
            anchor = statement if self.preparation.sets_up(statement, module, methods) else anchor
        path = self.path(module, target, block, anchor)
        certain = self.is_certain(module, path, anchor, block)
        return [Ready(anchor, path)] if certain else NotReady("uncertain", anchor)

    def block(self, module: Value, target: Node, made: ast.stmt) -> list[ast.stmt]:
        """The statement list that the module is used in: its own, or one around the branches that choose it."""
        tree = self.facts.tree
        scope, loops = tree.scope(made), tree.loops(made)
        uses = [
            node
            for node in self.holders.loads[module]
            if tree.scope(node) is scope
            and position(node) > position(target)
            and (not loops or loops[0] in tree.above(node))
        ]
        found = tree.common_block(made, *uses)
        return found if found and tree.loops(found[0]) == loops else tree.block(made)

    # ---- a module that is moved and wrapped in one `if`

    def in_branches(self, statement: ast.stmt, module: Value, path: str) -> list[Ready] | None:
        """A place in every branch of an `if` that moves and wraps a module; None: one has no room for it."""
        if not isinstance(statement, ast.If) or not self.preparation.sets_up(statement, module, MOVES):
            return None
        found: list[Ready] = []
        for branch in (statement.body, statement.orelse):
            inside = self.in_branch(branch, module, path)
            if inside is None:
                return None
            found += inside
        return found

    def in_branch(self, branch: list[ast.stmt], module: Value, path: str) -> list[Ready] | None:
        """The place in one branch: behind its moves, before its wrapper; none in one that leaves the program."""
        if not branch:
            return None
        if leaves(branch[-1]):
            return []
        anchor: ast.stmt | None = None
        for statement in branch:
            if self.preparation.wraps(statement, module):
                if self.preparation.sets_up(statement, module, MOVES):
                    return self.in_branches(statement, module, path)
                break
            anchor = statement if self.preparation.sets_up(statement, module, MOVES) else anchor
        if anchor is None and isinstance(branch[0], ast.If):
            return None
        return [Ready(anchor, path)] if anchor is not None else [Ready(branch[0], path, "before")]

    # ---- what it is called there

    def path(self, module: Value, target: Node, block: list[ast.stmt], anchor: ast.stmt) -> str:
        """The expression for the module behind the anchor: the one that is called later, if it is bound by then."""
        bound = [target, *self.bound(module, target, block, anchor)]
        called = {dotted(node) for node in self.holders.loads[module] if self.is_called(node)}
        chosen = next((node for node in bound if dotted(node) in called), target)
        latest = max((node for node in bound if dotted(node) == dotted(chosen)), key=position)
        wrapped = any(is_wrapper(value) for value in self.facts.values(latest))
        return f"{self.facts.text(latest)}.module" if wrapped else self.facts.text(latest)

    def bound(self, module: Value, target: Node, block: list[ast.stmt], anchor: ast.stmt) -> Iterator[Node]:
        """The names of a scope that are bound to a module by the time control is behind the anchor."""
        tree = self.facts.tree
        for node in self.holders.stores[module]:
            same = tree.scope(node) is tree.scope(target) and tree.lift(node, block) is not None
            if same and position(node) <= end(anchor):
                yield node

    def is_called(self, node: Node) -> bool:
        """Whether an expression is called as a function."""
        up = self.facts.tree.parent(node)
        return isinstance(up, ast.Call) and up.func is node

    def is_certain(self, module: Value, path: str, anchor: ast.stmt, block: list[ast.stmt]) -> bool:
        """Whether the path stands for wanted modules alone behind the anchor, all of them wrapped or none."""
        tree = self.facts.tree
        name = path.removesuffix(".module")
        for node in self.holders.loads[module]:
            if position(node) > end(anchor) and tree.lift(node, block) is not None and dotted(node) == name:
                values = self.facts.values(node)
                inner = {item for value in values for item in self.holders.about.unwrap(value)}
                return inner <= self.wanted and {is_wrapper(value) for value in values} == {name != path}
        return True


def end(node: ast.stmt) -> tuple[int, int]:
    """Where a statement ends, for ordering."""
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def behind_compiles(facts: Facts, statement: ast.stmt) -> ast.stmt:
    """The last of the `model.compile()` lines directly behind a statement, or the statement: others go behind these."""
    block = facts.tree.block(statement)
    last = statement
    for following in block[block.index(statement) + 1 :]:
        call = following.value if isinstance(following, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "compile":
            break
        last = following
    return last
