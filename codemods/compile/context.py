"""What the parts of this codemod share."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

from speedpatch.codemod import Finding, Options
from speedpatch.facts import Facts
from speedpatch.facts.evaluate import dotted
from speedpatch.facts.layers import Layers, layers_of
from speedpatch.facts.modules import Modules
from speedpatch.facts.setup import SetUp
from speedpatch.facts.sites import Backward
from speedpatch.facts.values import FUNCTIONS, FunctionNode, Value


@dataclass(frozen=True)
class Compile:
    """One program under one choice of options."""

    facts: Facts
    options: Options

    @cached_property
    def modules(self) -> Modules:
        """What is known of modules."""
        return Modules(self.facts)

    @cached_property
    def scopes(self) -> frozenset[ast.AST]:
        """The code that a run of the script may reach: all of the script, and what it calls elsewhere."""
        reached: set[ast.AST] = {self.facts.script.tree}
        stack = [node for node in self.facts.tree.parents if isinstance(node, FUNCTIONS) and self.facts.in_script(node)]
        outgoing: dict[ast.AST, list[FunctionNode]] = defaultdict(list)
        for call, callees in self.facts.sites.reached.items():
            outgoing[self.facts.tree.scope(call)] += callees
        stack += outgoing[self.facts.script.tree]
        while stack:
            scope = stack.pop()
            if scope not in reached:
                reached.add(scope)
                stack += outgoing[scope]
        return frozenset(reached)

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        """The calls in that code."""
        return tuple(call for call in self.facts.sites.calls if self.facts.tree.scope(call) in self.scopes)

    @cached_property
    def backwards(self) -> tuple[Backward, ...]:
        """The backward passes in that code, those of the script first."""
        found = [site for site in self.facts.sites.backwards if self.facts.tree.scope(site.call) in self.scopes]
        return tuple(sorted(found, key=lambda site: not self.facts.in_script(site.call)))

    @property
    def trains(self) -> bool:
        """Whether a run of the script trains."""
        return bool(self.backwards)

    def in_training_loop(self, node: ast.AST) -> bool:
        """Whether a node runs again while its program trains: in a loop that trains, or called from one."""
        tree = self.facts.tree
        seen: set[ast.AST] = set()
        stack = [node]
        while stack:
            inner = stack.pop()
            if any(self.facts.sites.contains_backward(loop) for loop in tree.loops(inner)):
                return True
            scope = tree.scope(inner)
            if scope not in seen:
                seen.add(scope)
                stack += self.facts.state.callers.get(scope, ())
        return False

    @cached_property
    def models(self) -> tuple[Value, ...]:
        """The models that are trained in that code."""
        work = self.modules.work
        return tuple(
            model
            for model in self.modules.trained
            if not work[model] or any(self.facts.tree.scope(item.call) in self.scopes for item in work[model])
        )

    @cached_property
    def set_up(self) -> SetUp:
        """Where they are ready."""
        return SetUp(self.modules, frozenset(self.models))

    @cached_property
    def layers(self) -> dict[Value, Layers]:
        """What each is made of."""
        return {model: layers_of(self.modules, model) for model in self.models}

    def name(self, model: Value) -> str:
        """How the program calls a model, for messages."""
        for node in self.set_up.stores.get(model, ()):
            path = dotted(node)
            if path:
                return path
        return "the model"

    def declined(self, code: str, node: ast.AST, reason: str) -> Finding:
        """A decline at a node."""
        return self.finding("declined", f"compile.{code}", node, reason)

    def finding(self, status: str, code: str, node: ast.AST, reason: str) -> Finding:
        """A word on a node."""
        return Finding(status, code, str(self.facts.path(node)), self.facts.line(node), reason)  # type: ignore[arg-type]
