"""What is known so far while the program is being interpreted; it only ever grows."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from speedpatch.facts.torch_names import WRAPPER, is_module
from speedpatch.facts.tree import Tree
from speedpatch.facts.values import (
    LIMIT,
    NOTHING,
    Class,
    Constant,
    External,
    Function,
    FunctionNode,
    Instance,
    Member,
    Method,
    Parameter,
    Value,
    Values,
    depth,
)


@dataclass(frozen=True)
class Binding:
    """What a name stands for at a place, and the statements that may have bound it last."""

    values: Values
    definitions: frozenset[ast.AST]


Environment = dict[str, Binding]


@dataclass
class State:
    """Scopes, heap, parameters and returns.

    `changed` tells whether another round is needed. Until `settled`, what is not known yet is nothing; then it is
    a value of its own, since nothing else will ever be known of it.
    """

    tree: Tree
    mains: frozenset[ast.AST] = frozenset()  # the modules that are run, not imported
    stored: frozenset[str] = frozenset()  # every attribute that the program assigns anywhere
    scopes: dict[ast.AST, dict[str, Values]] = field(default_factory=lambda: defaultdict(dict))
    heap: dict[tuple[object, str], Values] = field(default_factory=dict)
    items: dict[object, set[str]] = field(default_factory=lambda: defaultdict(set))  # names in the heap by owner
    inputs: dict[tuple[ast.AST, str], Values] = field(default_factory=dict)
    returns: dict[ast.AST, Values] = field(default_factory=dict)
    callers: dict[ast.AST, dict[ast.Call, None]] = field(default_factory=lambda: defaultdict(dict))
    arguments: dict[tuple[ast.Call, ast.AST], dict[str, ast.expr]] = field(default_factory=dict)
    uses: dict[Value, set[str]] = field(default_factory=lambda: defaultdict(set))
    values: dict[ast.AST, Values] = field(default_factory=dict)
    reaching: dict[ast.AST, frozenset[ast.AST]] = field(default_factory=dict)
    lineage: dict[ast.ClassDef, tuple[ast.ClassDef | str, ...]] = field(default_factory=dict)
    declared: dict[ast.AST, frozenset[str]] = field(default_factory=dict)  # `global` and `nonlocal` names by scope
    changed: bool = False
    settled: bool = False

    def is_imported(self, scope: ast.AST) -> bool:
        """Whether a scope is the module level of a file that is imported, where `__name__` is not `__main__`."""
        return isinstance(scope, ast.Module) and scope not in self.mains

    def grow(self, table: dict[Any, Values], key: object, values: Values) -> None:
        """Add values at a key of a table."""
        known = table.get(key, NOTHING)
        if values <= known or len(known) > LIMIT:
            return
        table[key] = known | values
        self.changed = True

    def bind(self, scope: ast.AST, name: str, values: Values) -> None:
        """Record that a name of a scope may stand for values, wherever it is read."""
        self.scopes[scope].setdefault(name, NOTHING)
        self.grow(self.scopes[scope], name, values)

    def store(self, value: Value, name: str, values: Values) -> None:
        """Write an attribute or item of an object."""
        owner = heap_key(value)
        self.items[owner].add(name)
        self.grow(self.heap, (owner, name), values)

    def store_star(self, scope: ast.AST, module: Value) -> None:
        """Record `from module import *`."""
        self.grow(self.heap, (scope, "*"), frozenset({module}))

    def use(self, value: Value, name: str) -> None:
        """Record that a method or attribute of an object is used."""
        if name not in self.uses[value]:
            self.uses[value].add(name)
            self.changed = True

    def bases(self, node: ast.ClassDef) -> tuple[ast.ClassDef | str, ...]:
        """A class and its bases in lookup order: local ones as nodes, others by qualified name."""
        return self.lineage.get(node, (node,))

    def is_module_class(self, node: ast.ClassDef) -> bool:
        """Whether a local class is an `nn.Module`."""
        return any(isinstance(base, str) and (is_module(base) or base.endswith("Module")) for base in self.bases(node))

    def is_module(self, value: Value) -> bool:
        """Whether an object is an `nn.Module`, by its class or by how it is used."""
        if isinstance(value, Instance):
            if value.local is not None:
                return self.is_module_class(value.local)
            if is_module(value.name):
                return True
            if WRAPPER.fullmatch(value.name):
                inner = self.heap.get((value, "module"), NOTHING)
                return value.name != "torch.compile" or any(self.is_module(item) for item in inner if item is not value)
        return bool(self.uses.get(value, set()) & {"parameters", "named_parameters", "load_state_dict", "train", "eval"}
                    and not self.uses[value] & {"param_groups", "zero_grad_", "step"})  # fmt: skip

    def read(self, value: Value, name: str) -> Values:
        """What an attribute of an object may be."""
        found = self.heap.get((heap_key(value), name), NOTHING)
        if isinstance(value, Instance) and value.local is not None:
            found |= self.class_attribute(value.local, name, value)
        elif isinstance(value, Class):
            found |= self.class_attribute(value.node, name, None)
        if found or (name in self.stored and isinstance(value, Instance) and value.local and not self.settled):
            return found
        return frozenset({Member(value, name)}) if depth(value) < 4 else NOTHING

    def class_attribute(self, node: ast.ClassDef, name: str, receiver: Value | None) -> Values:
        """What a class and its local bases define under a name."""
        found = NOTHING
        for base in self.bases(node):
            if isinstance(base, str):
                continue
            found |= self.heap.get((base, name), NOTHING)
            defined = self.scopes[base].get(name, NOTHING)
            if defined:
                return found | frozenset(bound(value, receiver) for value in defined)
        return found


def heap_key(value: Value) -> object:
    """Attributes of local classes are kept per class, those of other objects per object."""
    if isinstance(value, Instance) and value.local is not None:
        return value.local
    if isinstance(value, Class):
        return value.node
    return value


def bound(value: Value, receiver: Value | None) -> Value:
    """A function read from a class through an object."""
    if isinstance(value, Function) and receiver is not None and not decorated(value.node, "staticmethod"):
        return Method(value, receiver)
    return value


def decorated(node: FunctionNode, name: str) -> bool:
    """Whether a function carries a plain decorator of that name."""
    return any(isinstance(item, ast.Name) and item.id == name for item in node.decorator_list)


def external_names(values: Values) -> set[str]:
    """The qualified names among values."""
    return {value.name for value in values if isinstance(value, External)}


def constants(values: Values) -> set[str | int | float | bool | None]:
    """The literals among values."""
    return {value.value for value in values if isinstance(value, Constant)}


def parameters_of(node: FunctionNode) -> list[str]:
    """The names of all parameters, in order."""
    spec = node.args
    extra = [item.arg for item in (spec.vararg, spec.kwarg) if item is not None]
    return [item.arg for item in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)] + extra


def unknown_parameter(node: FunctionNode, name: str) -> Values:
    """The symbol for a parameter that nothing calls."""
    return frozenset({Parameter(node, name)})
