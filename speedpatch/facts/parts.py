"""What modules are made of: the objects they hold, the wrappers around them."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from speedpatch.facts.facts import Facts
from speedpatch.facts.state import heap_key
from speedpatch.facts.torch_names import WRAPPER
from speedpatch.facts.values import (
    NOTHING,
    Derived,
    Function,
    FunctionNode,
    Instance,
    Member,
    Pack,
    Value,
    Values,
)

CONVERSIONS = {"torch.nn.SyncBatchNorm.convert_sync_batchnorm"}
"""Functions that give back the module that they are given."""


@dataclass(frozen=True)
class Parts:
    """The questions about what modules hold, each answered once."""

    facts: Facts
    known: dict[Value, frozenset[Value]] = field(default_factory=dict, repr=False)

    def inside(self, module: Value) -> frozenset[Value]:
        """The objects that a module holds, directly or in one of its parts; itself left out."""
        if module not in self.known:
            found: set[Value] = set()
            stack = list(self.holds(module))
            while stack:
                value = stack.pop()
                if value not in found and value != module:
                    found.add(value)
                    stack += self.holds(value)
            self.known[module] = frozenset(found)
        return self.known[module]

    def holds(self, value: Value) -> Iterator[Value]:
        """What is stored in an object, and what it was made from."""
        yield from self.held.get(heap_key(value), ())
        if isinstance(value, Instance) and value.local is not None:
            for base in self.facts.state.bases(value.local):
                if not isinstance(base, str):
                    yield from self.held.get(base, ())
                    yield from self.made.get(base, ())
        elif isinstance(value, Instance) and isinstance(value.site, ast.Call) and value.name.startswith("torch.nn."):
            for argument in value.site.args:
                inner = argument.value if isinstance(argument, ast.Starred) else argument
                yield from (item for item in self.facts.values(inner) if isinstance(item, (Instance, Pack)))

    @cached_property
    def held(self) -> dict[object, list[Value]]:
        """The objects among the attributes and items of each object."""
        found: dict[object, list[Value]] = defaultdict(list)
        for (owner, _), values in self.facts.state.heap.items():
            found[owner] += [value for value in values if isinstance(value, (Instance, Pack))]
        return found

    @cached_property
    def made(self) -> dict[ast.ClassDef, list[Value]]:
        """The modules that the constructor of each local class makes, in the functions that it calls too."""
        found: dict[ast.ClassDef, list[Value]] = {}
        for owner in self.facts.state.lineage:
            defined = self.facts.state.scopes[owner].get("__init__", NOTHING)
            functions = self.callees(value.node for value in defined if isinstance(value, Function))
            calls = [node for function in functions for node in ast.walk(function) if isinstance(node, ast.Call)]
            values = [value for call in calls for value in self.facts.values(call) if isinstance(value, Instance)]
            found[owner] = [value for value in values if self.facts.state.is_module(value)]
        return found

    def callees(self, functions: Iterable[FunctionNode]) -> Iterable[FunctionNode]:
        """Functions and those of the program that they may call, constructors and forwards left out."""
        found: dict[FunctionNode, None] = {}
        stack = list(functions)
        while stack:
            function = stack.pop()
            if function not in found:
                found[function] = None
                calls = [call for call in ast.walk(function) if isinstance(call, ast.Call)]
                inner = [callee for call in calls for callee in self.facts.sites.local_callees(call)]
                stack += [callee for callee in inner if callee.name not in ("__init__", "forward")]
        return found

    def module_of(self, value: Value) -> Value | None:
        """The outermost module that a value is a part of or was got from."""
        found = None
        inner: Value | None = value
        while inner is not None:
            found = inner if self.facts.state.is_module(inner) else found
            inner = inner.base if isinstance(inner, (Member, Derived)) else None
        return found

    def unwrap(self, value: Value) -> Values:
        """The modules behind DataParallel, DDP and the like; the object itself otherwise."""
        found: set[Value] = set()
        seen: set[Value] = set()
        stack = [value]
        while stack:
            inner = stack.pop()
            if inner in seen:
                continue
            seen.add(inner)
            wrapped = self.behind(inner)
            stack += wrapped
            found |= set() if wrapped else {inner}
        return frozenset(found)

    def behind(self, value: Value) -> Values:
        """What a wrapper wraps, or what a conversion was given."""
        if is_wrapper(value):
            return self.facts.state.heap.get((value, "module"), NOTHING)
        if isinstance(value, Instance) and value.name in CONVERSIONS and isinstance(value.site, ast.Call):
            return self.facts.values(value.site.args[0]) if value.site.args else NOTHING
        return NOTHING


def is_wrapper(value: Value) -> bool:
    """Whether an object is a module around another one."""
    return isinstance(value, Instance) and value.local is None and bool(WRAPPER.fullmatch(value.name))
