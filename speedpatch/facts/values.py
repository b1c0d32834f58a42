"""The abstract objects that names can stand for: one per constructor call, one per unresolved parameter.

A name stands for a set of them (`Values`); an empty set is a name of which nothing is known to have been bound.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass(frozen=True)
class External:
    """A module, class or function from outside the program, by its qualified name: `torch.optim.Adam`."""

    name: str


@dataclass(frozen=True)
class LocalModule:
    """A module of the program, by its index."""

    index: int


@dataclass(frozen=True)
class Function:
    """A function of the program; `owner` is the class that it is a method of."""

    node: FunctionNode
    owner: ast.ClassDef | None = None


@dataclass(frozen=True)
class Class:
    """A class of the program."""

    node: ast.ClassDef


@dataclass(frozen=True)
class Instance:
    """What one call made: of a local class (`local`), or of the external callable `name`."""

    name: str
    site: ast.AST
    local: ast.ClassDef | None = None


@dataclass(frozen=True)
class Method:
    """A local function bound to an object."""

    function: Function
    receiver: Value


@dataclass(frozen=True)
class Member:
    """An attribute of an object that is not known further: `args.device`, `model.parameters`."""

    base: Value
    name: str


@dataclass(frozen=True)
class Derived:
    """What an operation or an unknown call at `site` gave, from `base` where there is one."""

    site: ast.AST
    base: Value | None = None


@dataclass(frozen=True)
class Pack:
    """A tuple, list, set or dict made at `site`; its items lie in the heap."""

    site: ast.AST


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function that nothing in the program is known to call."""

    function: FunctionNode
    name: str


@dataclass(frozen=True)
class Constant:
    """A literal."""

    value: str | int | float | bool | None


@dataclass(frozen=True)
class Super:
    """`super()` in a method."""

    owner: ast.ClassDef
    receiver: Value


Value = (
    External
    | LocalModule
    | Function
    | Class
    | Instance
    | Method
    | Member
    | Derived
    | Pack
    | Parameter
    | Constant
    | Super
)
Values = frozenset[Value]
NOTHING: Values = frozenset()
LIMIT = 40


def depth(value: Value) -> int:
    """How many steps a value is away from a named object."""
    base = value.base if isinstance(value, (Member, Derived)) else None
    return 1 + depth(base) if base is not None else 0
