"""What the parts of this codemod share."""

from __future__ import annotations

import ast
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
from speedpatch.facts.values import Value


@dataclass(frozen=True)
class Compile:
    """One program under one choice of options."""

    facts: Facts
    options: Options

    # ---- the code that a run of the script may reach

    @property
    def scopes(self) -> frozenset[ast.AST]:
        """The functions and modules of that code."""
        return self.facts.sites.live

    def functions_below(self, node: ast.AST) -> frozenset[ast.AST]:
        """The functions that run while a node does."""
        stack: list[ast.AST] = [node]
        found: set[ast.AST] = set()
        while stack:
            for call in ast.walk(stack.pop()):
                callees = self.facts.sites.local_callees(call) if isinstance(call, ast.Call) else []
                stack += [callee for callee in callees if callee not in found]
                found.update(callees)
        return frozenset(found)

    @property
    def calls(self) -> tuple[ast.Call, ...]:
        """The calls in that code."""
        return self.facts.sites.calls

    @cached_property
    def backwards(self) -> tuple[Backward, ...]:
        """The backward passes in that code, those of the script first."""
        return tuple(sorted(self.facts.sites.backwards, key=lambda site: not self.facts.in_script(site.call)))

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
