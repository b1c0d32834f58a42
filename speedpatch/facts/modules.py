"""Which modules a program trains, what each is made of, and who computes with it."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from speedpatch.facts.facts import Facts
from speedpatch.facts.sites import NOT_FORWARD, value_line
from speedpatch.facts.state import heap_key
from speedpatch.facts.torch_names import WRAPPER
from speedpatch.facts.values import (
    FUNCTIONS,
    NOTHING,
    Derived,
    External,
    Function,
    FunctionNode,
    Instance,
    Member,
    Method,
    Pack,
    Parameter,
    Value,
    Values,
)

SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)
CONVERSIONS = {"torch.nn.SyncBatchNorm.convert_sync_batchnorm", "copy.copy"}
NO_GRADIENTS = {"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad"}


@dataclass(frozen=True)
class Work:
    """A call that computes with a module: `method` is None for `model(x)`, else the method or part that is called."""

    call: ast.Call
    method: str | None
    trains: bool


@dataclass(frozen=True)
class Modules:
    """The questions about modules, each answered in one pass over the program."""

    facts: Facts
    parts: dict[Value, frozenset[Value]] = field(default_factory=dict, repr=False)

    # ---- which modules are trained

    @cached_property
    def trained(self) -> tuple[Value, ...]:
        """The outermost modules that are called, with the parameters that optimizers step."""
        owners = [owner for optimizer in self.facts.sites.trained for owner in self.owners(optimizer)]
        if not self.facts.sites.trained:
            owners = self.called_outside()
        modules = dict.fromkeys(module for owner in owners for module in self.unwrap(owner) if self.is_model(module))
        found = dict.fromkeys(self.container(module) for module in modules)
        inner = {part for module in found for part in self.inside(module)}
        return tuple(sorted((module for module in found if module not in inner), key=value_line))

    def is_model(self, value: Value) -> bool:
        """Whether an object of which an optimizer has parameters is a module that is known by now."""
        return (
            isinstance(value, (Instance, Derived, Parameter))
            and not self.facts.sites.is_loss(value)
            and not self.is_stale(value)
        )

    def owners(self, optimizer: Value) -> list[Value]:
        """The modules whose parameters an optimizer was given, as far as can be told."""
        given = self.facts.sites.trained[optimizer]
        if given:
            return [self.module_of(value) or value for value in sorted(given, key=value_line)]
        if isinstance(optimizer, Instance) and isinstance(optimizer.site, ast.Call):
            return self.mentioned(optimizer.site)
        return self.called_outside()

    def called_outside(self) -> list[Value]:
        """The modules that are called where gradients are recorded, by code that is not itself a module's."""
        return [
            module for module, work in self.work.items() if any(item.trains and self.is_outside(item) for item in work)
        ]

    def is_stale(self, value: Value) -> bool:
        """Whether a value stood for something of which more is known by now."""
        if isinstance(value, Derived):
            known = self.facts.values(value.site)
            return bool(known) and value not in known
        if isinstance(value, Parameter):
            return bool(self.facts.state.inputs.get((value.function, value.name), frozenset()) - {value})
        return False

    def mentioned(self, call: ast.Call) -> list[Value]:
        """The modules in the arguments of a call, and in the statements that these arguments come from."""
        found: dict[Value, None] = {}
        seen: set[ast.AST] = set()
        stack: list[ast.AST] = [*call.args[:1], *(item.value for item in call.keywords if item.arg in ("params", None))]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            for child in ast.walk(node):
                for value in self.facts.values(child):
                    module = self.module_of(value.receiver if isinstance(value, Method) else value)
                    found.update(dict.fromkeys(self.unwrap(module)) if module else {})
                stack += [item for item in self.facts.state.reaching.get(child, ()) if isinstance(item, SIMPLE)]
        return list(found)

    def module_of(self, value: Value) -> Value | None:
        """The outermost module that a value is a part of or was got from."""
        found = None
        inner: Value | None = value
        while inner is not None:
            found = inner if self.facts.state.is_module(inner) else found
            inner = inner.base if isinstance(inner, (Member, Derived)) else None
        return found

    def is_outside(self, work: Work) -> bool:
        """Whether a module is called as a function by code that is not itself a module's."""
        owner = self.facts.tree.owner(self.facts.tree.scope(work.call))
        return work.method is None and not (owner is not None and self.facts.state.is_module_class(owner))

    def container(self, owner: Value) -> Value:
        """The module itself if anything calls it, else the module that it is a part of and that does the work."""
        if self.is_called(owner):
            return owner
        around = [module for module in self.work if owner in self.inside(module)]
        around.sort(key=lambda module: (not self.is_called(module), value_line(module)))
        return around[0] if around else owner

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
        """What a wrapper wraps, or what a conversion that gives the module back was given."""
        if is_wrapper(value):
            return self.facts.state.heap.get((value, "module"), NOTHING)
        if (
            isinstance(value, Instance)
            and value.name in CONVERSIONS
            and isinstance(value.site, ast.Call)
            and value.site.args
        ):
            return self.facts.values(value.site.args[0])
        return NOTHING

    def is_called(self, module: Value) -> bool:
        """Whether the program calls a module as a function."""
        return any(item.method is None for item in self.work.get(module, ()))

    def inside(self, module: Value) -> frozenset[Value]:
        """The objects that a module holds, directly or in one of its parts; itself left out."""
        if module not in self.parts:
            found: set[Value] = set()
            stack = list(self.holds(module))
            while stack:
                value = stack.pop()
                if value not in found and value != module:
                    found.add(value)
                    stack += self.holds(value)
            self.parts[module] = frozenset(found)
        return self.parts[module]

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
    def made(self) -> dict[ast.ClassDef, list[Value]]:
        """The modules that the constructor of each local class makes, in the functions that it calls too."""
        found: dict[ast.ClassDef, list[Value]] = {}
        for owner in self.facts.state.lineage:
            functions = [
                value.node
                for value in self.facts.state.scopes[owner].get("__init__", ())
                if isinstance(value, Function)
            ]
            calls = [
                call
                for function in self.callees(functions)
                for call in ast.walk(function)
                if isinstance(call, ast.Call)
            ]
            values = [value for call in calls for value in self.facts.values(call)]
            found[owner] = [
                value for value in values if isinstance(value, Instance) and self.facts.state.is_module(value)
            ]
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
                stack += [
                    callee
                    for call in calls
                    for callee in self.facts.sites.local_callees(call)
                    if callee.name not in ("__init__", "forward")
                ]
        return found

    @cached_property
    def held(self) -> dict[object, list[Value]]:
        """The objects among the attributes and items of each object."""
        found: dict[object, list[Value]] = defaultdict(list)
        for (owner, _), values in self.facts.state.heap.items():
            found[owner] += [value for value in values if isinstance(value, (Instance, Pack))]
        return found

    # ---- who computes with them

    @cached_property
    def work(self) -> dict[Value, list[Work]]:
        """Every module with the calls that compute with it."""
        found: dict[Value, list[Work]] = defaultdict(list)
        for call in self.facts.sites.calls:
            subjects = [pair for value in self.facts.values(call.func) for pair in self.subjects(call, value)]
            trains = bool(subjects) and not self.without_gradients(call)
            for module, method in dict.fromkeys(subjects):
                found[module].append(Work(call, method, trains))
        return found

    def subjects(self, call: ast.Call, value: Value) -> Iterator[tuple[Value, str | None]]:
        """The modules that calling one value computes with, and how."""
        state, sites = self.facts.state, self.facts.sites
        if isinstance(value, Member):
            base = self.module_of(value.base)
            if base is not None and value.name not in NOT_FORWARD:
                yield from ((module, path_of(value)) for module in self.unwrap(base))
        elif isinstance(value, Method):
            receiver, function = value.receiver, value.function.node
            works = function.name == "forward" or sites.contains_forward(function)
            if works and state.is_module(receiver) and not self.is_own_code(call, receiver):
                yield from ((module, function.name) for module in self.unwrap(receiver))
        elif state.is_module(value) and not sites.is_loss(value) and not sites.is_pure_loss_class(value):
            yield from ((module, None) for module in self.unwrap(value))

    def is_own_code(self, node: ast.AST, module: Value) -> bool:
        """Whether a node lies in a method of a module's own class."""
        owner = self.facts.tree.owner(self.facts.tree.scope(node))
        return (
            owner is not None
            and isinstance(module, Instance)
            and module.local is not None
            and owner in self.facts.state.bases(module.local)
        )

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
        target = node.func if isinstance(node, ast.Call) else node
        names = {value.name for value in self.facts.values(target) if isinstance(value, External)}
        off = (
            isinstance(node, ast.Call)
            and bool(node.args)
            and isinstance(node.args[0], ast.Constant)
            and node.args[0].value is False
        )
        return bool(names & NO_GRADIENTS) or ("torch.set_grad_enabled" in names and off)


def root(value: Value) -> Value:
    """The object that an attribute of an attribute belongs to."""
    while isinstance(value, (Member, Derived)) and value.base is not None:
        value = value.base
    return value


def is_wrapper(value: Value) -> bool:
    """Whether an object is a module around another one."""
    return isinstance(value, Instance) and value.local is None and bool(WRAPPER.fullmatch(value.name))


def path_of(value: Member) -> str:
    """`encoder.layers` for such an attribute of an object."""
    base = value.base
    return f"{path_of(base)}.{value.name}" if isinstance(base, Member) else value.name
