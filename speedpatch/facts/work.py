"""Who computes with modules: by calling them, their methods or their parts, with gradients or without."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from speedpatch.facts.facts import Facts
from speedpatch.facts.parts import Parts
from speedpatch.facts.sites import NOT_FORWARD
from speedpatch.facts.values import FUNCTIONS, External, Instance, Member, Method, Value

NO_GRADIENTS = {"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad"}


@dataclass(frozen=True)
class Use:
    """A call that computes with a module: `method` is None for `model(x)`, else the method or part that is called."""

    call: ast.Call
    method: str | None
    trains: bool


@dataclass(frozen=True)
class Work:
    """The uses of all modules."""

    facts: Facts
    parts: Parts

    @cached_property
    def uses(self) -> dict[Value, list[Use]]:
        """Every module with the calls that compute with it."""
        found: dict[Value, list[Use]] = defaultdict(list)
        for call in self.facts.sites.calls:
            subjects = [pair for value in self.facts.values(call.func) for pair in self.subjects(call, value)]
            trains = bool(subjects) and not self.without_gradients(call)
            for module, method in dict.fromkeys(subjects):
                found[module].append(Use(call, method, trains))
        return found

    def subjects(self, call: ast.Call, value: Value) -> Iterator[tuple[Value, str | None]]:
        """The modules that calling one value computes with, and how."""
        state, sites = self.facts.state, self.facts.sites
        if isinstance(value, Member):
            base = self.parts.module_of(value.base)
            if base is not None and value.name not in NOT_FORWARD:
                yield from ((module, path_of(value)) for module in self.parts.unwrap(base))
        elif isinstance(value, Method):
            receiver, function = value.receiver, value.function.node
            works = function.name == "forward" or sites.contains_forward(function)
            if works and state.is_module(receiver) and not self.is_own_code(call, receiver):
                yield from ((module, function.name) for module in self.parts.unwrap(receiver))
        elif state.is_module(value) and not sites.is_loss(value) and not sites.is_pure_loss_class(value):
            yield from ((module, None) for module in self.parts.unwrap(value))

    def is_own_code(self, node: ast.AST, module: Value) -> bool:
        """Whether a node lies in a method of a module's own class."""
        owner = self.facts.tree.owner(self.facts.tree.scope(node))
        local = module.local if isinstance(module, Instance) else None
        return owner is not None and local is not None and owner in self.facts.state.bases(local)

    def is_called(self, module: Value) -> bool:
        """Whether the program calls a module as a function."""
        return any(use.method is None for use in self.uses.get(module, ()))

    @cached_property
    def called_outside(self) -> tuple[Value, ...]:
        """The modules that are called where gradients are recorded, by code that is not itself a module's."""
        return tuple(module for module, uses in self.uses.items() if any(self.is_outside(use) for use in uses))

    def is_outside(self, use: Use) -> bool:
        """Whether a use is such a call."""
        owner = self.facts.tree.owner(self.facts.tree.scope(use.call))
        inside = owner is not None and self.facts.state.is_module_class(owner)
        return use.trains and use.method is None and not inside

    def without_gradients(self, node: ast.AST) -> bool:
        """Whether a node lies under `torch.no_grad()`, as a context or as a decorator of its function."""
        for up in self.facts.tree.above(node):
            items: Iterable[ast.expr] = ()
            if isinstance(up, (ast.With, ast.AsyncWith)):
                items = [item.context_expr for item in up.items]
            elif isinstance(up, FUNCTIONS):
                items = up.decorator_list
            if any(self.is_no_grad(item) for item in items):
                return True
        return False

    def is_no_grad(self, node: ast.expr) -> bool:
        """`torch.no_grad()`, `torch.no_grad`, `torch.set_grad_enabled(False)`."""
        call = node if isinstance(node, ast.Call) else None
        names = {value.name for value in self.facts.values(call.func if call else node) if isinstance(value, External)}
        first = call.args[0] if call and call.args else None
        is_off = isinstance(first, ast.Constant) and first.value is False
        return bool(names & NO_GRADIENTS) or ("torch.set_grad_enabled" in names and is_off)


def path_of(value: Member) -> str:
    """`encoder.layers` for such an attribute of an object."""
    base = value.base
    return f"{path_of(base)}.{value.name}" if isinstance(base, Member) else value.name
