"""What the parts of this codemod share."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from speedpatch.codemod import Finding, Options, Status
from speedpatch.facts import Facts
from speedpatch.facts.evaluate import dotted
from speedpatch.facts.holders import Holders
from speedpatch.facts.layers import Layers, layers_of
from speedpatch.facts.modules import Modules
from speedpatch.facts.preparation import Preparation
from speedpatch.facts.setup import SetUp
from speedpatch.facts.sites import Backward
from speedpatch.facts.values import FUNCTIONS, FunctionNode, Value


@dataclass(frozen=True)
class Compile:
    """One program under one choice of options."""

    facts: Facts
    options: Options

    # ---- the code that a run of the script may reach

    @cached_property
    def scopes(self) -> frozenset[ast.AST]:
        """All of the script, and what it calls elsewhere."""
        script = self.facts.script.tree
        return self.reached([script, *(node for node in ast.walk(script) if isinstance(node, FUNCTIONS))])

    @cached_property
    def outgoing(self) -> dict[ast.AST, list[FunctionNode]]:
        """What the code of each scope calls."""
        found: dict[ast.AST, list[FunctionNode]] = defaultdict(list)
        for call, callees in self.facts.sites.reached.items():
            found[self.facts.tree.scope(call)] += callees
        return found

    def reached(self, scopes: Iterable[ast.AST]) -> frozenset[ast.AST]:
        """Scopes, and those of what they call."""
        stack, found = list(scopes), set[ast.AST]()
        while stack:
            scope = stack.pop()
            if scope not in found:
                found.add(scope)
                stack += self.outgoing.get(scope, ())
        return frozenset(found)

    def functions_below(self, node: ast.AST) -> frozenset[ast.AST]:
        """The functions that run while a node does."""
        calls = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call)]
        return self.reached(callee for call in calls for callee in self.facts.sites.local_callees(call))

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        """The calls in that code."""
        return tuple(call for call in self.facts.sites.calls if self.facts.tree.scope(call) in self.scopes)

    @cached_property
    def backwards(self) -> tuple[Backward, ...]:
        """The backward passes in that code, those of the script first."""
        found = [site for site in self.facts.sites.backwards if self.facts.tree.scope(site.call) in self.scopes]
        return tuple(sorted(found, key=lambda site: not self.facts.in_script(site.call)))

    def in_training_loop(self, node: ast.AST) -> bool:
        """Whether a node runs again while its program trains: in a loop that trains, or called from one."""
        seen: set[ast.AST] = set()
        stack = [node]
        while stack:
            inner = stack.pop()
            if any(self.facts.sites.contains_backward(loop) for loop in self.facts.tree.loops(inner)):
                return True
            scope = self.facts.tree.scope(inner)
            if scope not in seen:
                seen.add(scope)
                stack += self.facts.state.callers.get(scope, ())
        return False

    # ---- the models

    @cached_property
    def modules(self) -> Modules:
        """What is known of modules."""
        return Modules(self.facts)

    @cached_property
    def models(self) -> tuple[Value, ...]:
        """The models that are trained in that code."""
        tree = self.facts.tree
        uses = {model: self.modules.uses(model) for model in self.modules.trained}
        return tuple(
            model
            for model, found in uses.items()
            if not found or any(tree.scope(use.call) in self.scopes for use in found)
        )

    @cached_property
    def holders(self) -> Holders:
        """Where the program holds them."""
        return Holders(self.modules, frozenset(self.models))

    def set_up(self, wanted: Iterable[Value]) -> SetUp:
        """Where those of them are ready that are to be compiled."""
        return SetUp(self.holders, Preparation(self.holders), frozenset(wanted))

    @cached_property
    def layers(self) -> dict[Value, Layers]:
        """What each is made of."""
        return {model: layers_of(self.modules, model) for model in self.models}

    def is_about(self, node: ast.AST, model: Value) -> bool:
        """Whether an expression may be a model, in a wrapper or not."""
        return model in self.holders.raw(node)

    def name(self, model: Value) -> str:
        """How the program calls a model, for messages."""
        paths = [dotted(node) for node in self.holders.stores.get(model, ())]
        return next((path for path in paths if path), "the model")

    # ---- what is said of it

    def declined(self, code: str, node: ast.AST, reason: str) -> Finding:
        """A decline at a node."""
        return self.finding("declined", f"compile.{code}", node, reason)

    def finding(self, status: Status, code: str, node: ast.AST, reason: str) -> Finding:
        """A word on a node."""
        return Finding(status, code, str(self.facts.path(node)), self.facts.line(node), reason)


def last_name(call: ast.Call) -> str:
    """The last component of what is called."""
    return (
        call.func.attr
        if isinstance(call.func, ast.Attribute)
        else call.func.id
        if isinstance(call.func, ast.Name)
        else ""
    )
