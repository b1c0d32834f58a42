"""Which modules a program trains: the outermost ones that are called, with the parameters that optimizers step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from speedpatch.facts.facts import Facts
from speedpatch.facts.parts import Parts
from speedpatch.facts.sites import value_line
from speedpatch.facts.values import FUNCTIONS, NOTHING, Derived, Instance, Method, Parameter, Value, Values
from speedpatch.facts.work import Use, Work

SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)


@dataclass(frozen=True)
class Modules:
    """What is known of the modules of a program."""

    facts: Facts

    @cached_property
    def parts(self) -> Parts:
        """What they are made of."""
        return Parts(self.facts)

    @cached_property
    def work(self) -> Work:
        """Who computes with them."""
        return Work(self.facts, self.parts)

    def uses(self, module: Value) -> list[Use]:
        """The calls that compute with a module."""
        return self.work.uses.get(module, [])

    def unwrap(self, value: Value) -> Values:
        """The modules behind DataParallel, DDP and the like; the object itself otherwise."""
        return self.parts.unwrap(value)

    @cached_property
    def trained(self) -> tuple[Value, ...]:
        """The modules that are trained, in the order in which they are made."""
        owners = [owner for optimizer in self.facts.sites.trained for owner in self.owners(optimizer)]
        if not self.facts.sites.trained:
            owners = list(self.work.called_outside)
        modules = dict.fromkeys(module for owner in owners for module in self.unwrap(owner) if self.is_model(module))
        found = dict.fromkeys(self.container(module) for module in modules)
        inside = {module: frozenset(self.parts.inside(module)) for module in found}
        inner = {part for module in found for part in inside[module] if module not in inside.get(part, frozenset())}
        return tuple(sorted((module for module in found if module not in inner), key=value_line))

    def is_model(self, value: Value) -> bool:
        """Whether an object of which an optimizer has parameters is a module, as far as is known by now."""
        known = isinstance(value, (Instance, Derived, Parameter)) and not self.is_stale(value)
        return known and not self.facts.sites.is_loss(value)

    def is_stale(self, value: Value) -> bool:
        """Whether a value stood for something of which more is known by now."""
        if isinstance(value, Derived):
            known = self.facts.values(value.site)
            return bool(known) and value not in known
        if isinstance(value, Parameter):
            return bool(self.facts.state.inputs.get((value.function, value.name), NOTHING) - {value})
        return False

    def owners(self, optimizer: Value) -> list[Value]:
        """The modules whose parameters an optimizer was given, as far as can be told."""
        given = self.facts.sites.trained[optimizer]
        if given:
            return [self.parts.module_of(value) or value for value in given]
        if isinstance(optimizer, Instance) and isinstance(optimizer.site, ast.Call):
            return self.mentioned(optimizer.site)
        return list(self.work.called_outside)

    def mentioned(self, call: ast.Call) -> list[Value]:
        """The modules among what an optimizer is made from."""
        found: dict[Value, None] = {}
        for node in self.sources(call):
            for value in self.facts.values(node):
                module = self.parts.module_of(value.receiver if isinstance(value, Method) else value)
                found.update(dict.fromkeys(self.unwrap(module)) if module else {})
        return list(found)

    def sources(self, call: ast.Call) -> Iterator[ast.AST]:
        """What an optimizer's parameters come from: the nodes of its first argument, and those that give these."""
        seen: set[ast.AST] = set()
        stack: list[ast.AST] = [*parameters_given(call)]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            for child in ast.walk(node):
                yield child
                stack += [*self.given(child), *self.groups(child)]

    def given(self, node: ast.AST) -> Iterator[ast.AST]:
        """The statements that bind a name, or the arguments of the calls that do."""
        state = self.facts.state
        for item in state.reaching.get(node, ()):
            if isinstance(item, SIMPLE):
                yield item
            elif isinstance(item, FUNCTIONS) and isinstance(node, ast.Name):
                calls = [state.arguments.get((call, item), {}) for call in state.callers.get(item, ())]
                yield from (arguments[node.id] for arguments in calls if node.id in arguments)

    def groups(self, node: ast.AST) -> Iterator[ast.AST]:
        """The parameters of the optimizer whose `param_groups` an expression is."""
        if isinstance(node, ast.Attribute) and node.attr == "param_groups":
            for value in self.facts.values(node.value):
                if isinstance(value, Instance) and isinstance(value.site, ast.Call):
                    yield from parameters_given(value.site)

    def container(self, owner: Value) -> Value:
        """The module itself if anything calls it, else the module that it is a part of and that does the work."""
        if self.work.is_called(owner):
            return owner
        around = [module for module in self.work.uses if owner in self.parts.inside(module)]
        around.sort(key=lambda module: (not self.work.is_called(module), value_line(module)))
        return around[0] if around else owner


def parameters_given(call: ast.Call) -> Iterator[ast.expr]:
    """The argument with the parameters, of a call that makes an optimizer."""
    yield from call.args[:1]
    yield from (item.value for item in call.keywords if item.arg in ("params", None))
