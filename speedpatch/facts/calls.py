"""What calls give: local functions by their summaries, objects by their methods, the rest by name."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from speedpatch.facts.packs import pack_arguments
from speedpatch.facts.state import decorated, parameters_of
from speedpatch.facts.torch_names import PROGRESS, SELF_RETURNING, WRAPPER
from speedpatch.facts.values import (
    NOTHING,
    Class,
    Constant,
    Derived,
    External,
    Function,
    Instance,
    Member,
    Method,
    Pack,
    Super,
    Value,
    Values,
    depth,
)

if TYPE_CHECKING:
    from speedpatch.facts.evaluate import Evaluator

GROWING = {
    "append",
    "extend",
    "add",
    "insert",
    "update",
    "appendleft",
    "put",
    "push",
    "setdefault",
    "copy_",
    "add_",
    "fill_",
}
CONTAINERS = {"torch.nn.Sequential", "torch.nn.ModuleList"}
PASSING = {"list", "tuple", "iter", "reversed", "sorted", "set", "islice", "cycle", "chain", "prefetch"}


def call(self: Evaluator, node: ast.Call) -> Values:
    """The objects that a call may give."""
    functions = self.evaluate(node.func)
    for argument in node.args:
        self.evaluate(argument)
    for keyword in node.keywords:
        self.evaluate(keyword.value)
    if isinstance(node.func, ast.Attribute) and node.func.attr in GROWING | {"load_state_dict"}:
        self.touch(node.func.value, self.state.tree.statement(node))
    found = NOTHING
    for function in functions:
        found |= called(self, function, node)
    return found or self.unknown(node)


def called(self: Evaluator, function: Value, node: ast.Call) -> Values:
    """What calling one object may give."""
    if isinstance(function, Function):
        receiver = None
        return local_call(self, function, node, receiver)
    if isinstance(function, Method):
        return local_call(self, function.function, node, function.receiver)
    if isinstance(function, Class):
        return construct(self, function, node)
    if isinstance(function, External):
        return external_call(self, function.name, node)
    if isinstance(function, Member):
        return method_call(self, function, node)
    if isinstance(function, Instance):
        return instance_call(self, function, node)
    if isinstance(function, Constant):
        return NOTHING
    return frozenset({Derived(node, function if depth(function) < 4 else None)})


def local_call(self: Evaluator, function: Function, node: ast.Call, receiver: Value | None) -> Values:
    """Join the arguments into the parameters; give what the function returns."""
    self.state.callers[function.node][node] = None
    names = [item.arg for item in (*function.node.args.posonlyargs, *function.node.args.args)]
    named = bool(names)
    if receiver is not None and named:
        receiver = (
            Class(receiver.local)
            if decorated(function.node, "classmethod") and isinstance(receiver, Instance) and receiver.local
            else receiver
        )
        self.state.grow(self.state.inputs, (function.node, names[0]), frozenset({receiver}))
        names = names[1:]
    bound = bind_arguments(node, names, {item.arg for item in function.node.args.kwonlyargs})
    self.state.arguments[(node, function.node)] = bound
    for name, argument in bound.items():
        self.state.grow(self.state.inputs, (function.node, name), self.state.values.get(argument, NOTHING))
    if any(isinstance(item, ast.Starred) for item in node.args) or any(item.arg is None for item in node.keywords):
        spread_arguments(self, function, node, bound, names)
    pack_arguments(self, function.node, node, names, None if named else receiver)
    return self.state.returns.get(function.node, NOTHING)


def bind_arguments(node: ast.Call, names: list[str], only_keywords: set[str]) -> dict[str, ast.expr]:
    """The argument expression of each parameter, as far as the call writes them out."""
    bound: dict[str, ast.expr] = {}
    for name, argument in zip(names, node.args, strict=False):
        if isinstance(argument, ast.Starred):
            break
        bound[name] = argument
    for keyword in node.keywords:
        if keyword.arg is not None and (keyword.arg in names or keyword.arg in only_keywords):
            bound[keyword.arg] = keyword.value
    return bound


def spread_arguments(
    self: Evaluator, function: Function, node: ast.Call, bound: dict[str, ast.expr], names: list[str]
) -> None:
    """`*args` and `**kwargs` may reach any parameter that is not given otherwise."""
    for position, item in enumerate(node.args):
        if isinstance(item, ast.Starred):
            unpack_positional(
                self,
                function,
                self.state.values.get(item.value, NOTHING),
                [name for name in names[position:] if name not in bound],
            )
    sources = [item.value for item in node.keywords if item.arg is None]
    for source in sources:
        for value in self.state.values.get(source, NOTHING):
            for name in names:
                if name not in bound:
                    items = self.items(value, [name]) or self.items(value, [])
                    self.state.grow(self.state.inputs, (function.node, name), items)


def unpack_positional(self: Evaluator, function: Function, values: Values, names: list[str]) -> None:
    """`*x` fills parameters in order; what is in no known order may reach any of them."""
    for value in values:
        ordered = isinstance(value, Pack) and not self.state.heap.get((value, "[]"))
        for index, name in enumerate(names):
            items = self.items(value, [index]) if ordered else self.items(value, [])
            self.state.grow(self.state.inputs, (function.node, name), items)


def construct(self: Evaluator, function: Class, node: ast.Call) -> Values:
    """Make an object of a local class."""
    made = Instance(function.node.name, node, function.node)
    for base in self.state.bases(function.node):
        if isinstance(base, str):
            continue
        for init in self.state.scopes[base].get("__init__", NOTHING):
            if isinstance(init, Function):
                local_call(self, init, node, made)
        if "__init__" in self.state.scopes[base]:
            break
    else:
        if takes_fields(self, function.node):
            store_fields(self, function.node, node, made)
    return frozenset({made})


def takes_fields(self: Evaluator, node: ast.ClassDef) -> bool:
    """Whether a class is a dataclass or named tuple, whose fields are the parameters of its constructor."""
    marks = [item.func if isinstance(item, ast.Call) else item for item in node.decorator_list]
    names = {
        value.name for mark in marks for value in self.state.values.get(mark, NOTHING) if isinstance(value, External)
    }
    return "dataclasses.dataclass" in names or bool({"typing.NamedTuple"} & set(map(str, self.state.bases(node))))


def store_fields(self: Evaluator, node: ast.ClassDef, site: ast.Call, made: Instance) -> None:
    """Bind the arguments of a constructor to the fields of its class, in order or by name."""
    own = [base for base in reversed(self.state.bases(node)) if isinstance(base, ast.ClassDef)]
    items = [item for base in own for item in base.body if isinstance(item, ast.AnnAssign)]
    names = [item.target.id for item in items if isinstance(item.target, ast.Name)]
    for name, argument in bind_arguments(site, list(dict.fromkeys(names)), set()).items():
        self.state.store(made, name, self.state.values.get(argument, NOTHING))


def instance_call(self: Evaluator, function: Instance, node: ast.Call) -> Values:
    """Call an object: a module's `forward`, any other local object's `__call__`."""
    found, known = NOTHING, False
    if function.local is not None:
        for name in ("forward", "__call__"):
            for value in self.state.class_attribute(function.local, name, function):
                if isinstance(value, Method):
                    found |= local_call(self, value.function, node, function)
                    known = True
        if found or (known and not self.state.settled):
            return found
    for inner in self.state.heap.get((function, "module"), NOTHING):
        if isinstance(inner, Instance):
            found |= instance_call(self, inner, node)
    if function.name in CONTAINERS:
        for inner in self.state.heap.get((function, "[]"), NOTHING):
            if isinstance(inner, Instance) and inner != function:
                instance_call(self, inner, node)
    return found or frozenset({Derived(node, function)})


def contained(self: Evaluator, node: ast.Call) -> Values:
    """The modules that a container is made of, given one by one, unpacked, or as a list."""
    found = NOTHING
    for argument in node.args:
        inner = argument.value if isinstance(argument, ast.Starred) else argument
        for value in self.state.values.get(inner, NOTHING):
            found |= self.items(value, []) if isinstance(value, Pack) else {value}
    return found


def external_call(self: Evaluator, name: str, node: ast.Call) -> Values:
    """Call something from outside; iteration helpers hand on what they hold, the rest makes an object."""
    last = name.rsplit(".", 1)[-1]
    first = self.state.values.get(node.args[0], NOTHING) if node.args else NOTHING
    if name == "builtins.getattr" and len(node.args) >= 2:
        return dynamic_attribute(self, node, first)
    if name == "builtins.super":
        return super_object(self, node)
    if name == "builtins.next" and node.args:
        return self.elements(first, node)
    if name == "functools.partial" and node.args:
        return partial(self, node, first)
    made = Instance(name, node)
    if last in ("enumerate", "zip") or PROGRESS.fullmatch(name) or last in PASSING:
        return iteration(self, last, node, first)
    if WRAPPER.fullmatch(name) or last in ("deepcopy", "DistributedDataParallel", "prepare"):
        self.state.store(made, "module", first)
    if name in CONTAINERS:
        self.state.store(made, "[]", contained(self, node))
    if name == "builtins.dict":
        pack = Pack(node)
        for keyword in node.keywords:
            self.state.store(pack, f"[{keyword.arg!r}]" if keyword.arg else "[]", self.state.values[keyword.value])
        return frozenset({pack})
    return frozenset({made})


def dynamic_attribute(self: Evaluator, node: ast.Call, bases: Values) -> Values:
    """`getattr(x, name)`: the attribute if its name is a literal, else any attribute, written `?`."""
    keys = [value.value for value in self.state.values.get(node.args[1], NOTHING) if isinstance(value, Constant)]
    literal = keys if isinstance(node.args[1], ast.Constant) else ["?"]
    found = NOTHING
    for base in bases:
        for key in literal:
            if key == "?" and not isinstance(base, External):
                found |= {Derived(node, base if depth(base) < 4 else None)}
            else:
                found |= self.attribute(base, str(key))
    return found or frozenset({Derived(node)})


def super_object(self: Evaluator, node: ast.Call) -> Values:
    """`super()`: lookups go on behind the class that the method is written in."""
    function = self.state.tree.scope(node)
    owner = self.state.tree.owner(function)
    if owner is None or isinstance(function, ast.Module):
        return frozenset({Derived(node)})
    names = parameters_of(function)
    receivers = self.env[names[0]].values if names and names[0] in self.env else NOTHING
    return frozenset(Super(owner, receiver) for receiver in receivers)


def partial(self: Evaluator, node: ast.Call, first: Values) -> Values:
    """`functools.partial` of an outside callable stands for that callable; a local one is not followed."""
    outside = frozenset(value for value in first if isinstance(value, External))
    return outside or frozenset({Derived(node)})


def iteration(self: Evaluator, last: str, node: ast.Call, first: Values) -> Values:
    """An iterable around others, with their elements as its elements."""
    pack = Pack(node)
    if last == "enumerate":
        item = Pack(node.func)
        self.state.store(item, "[0]", frozenset({Derived(node.func)}))
        self.state.store(item, "[1]", self.elements(first, node))
        self.state.store(pack, "[]", frozenset({item}))
    elif last == "zip":
        item = Pack(node.func)
        for index, argument in enumerate(node.args):
            self.state.store(item, f"[{index}]", self.elements(self.state.values.get(argument, NOTHING), argument))
        self.state.store(pack, "[]", frozenset({item}))
    else:
        self.state.store(pack, "[]", self.elements(first, node))
        self.state.store(pack, "iterates", first)
    return frozenset({pack})


def method_call(self: Evaluator, function: Member, node: ast.Call) -> Values:
    """Call a method of an object that has no local class."""
    base, name = function.base, function.name
    if name in SELF_RETURNING and self.state.is_module(base):
        return frozenset({base})
    if isinstance(base, Pack):
        return pack_call(self, base, name, node)
    if name in ("pop", "get") and (items := self.items(base, [])):
        return items
    if isinstance(base, Super):
        return NOTHING if name == "__init__" else frozenset({Derived(node)})
    return frozenset({Derived(node, function if depth(function) < 4 else None)})


def pack_call(self: Evaluator, base: Pack, name: str, node: ast.Call) -> Values:
    """Methods of lists and dicts."""
    arguments = [self.state.values.get(argument, NOTHING) for argument in node.args]
    if name in ("append", "add", "insert", "appendleft") and arguments:
        self.state.store(base, "[]", arguments[-1])
        return frozenset({Constant(None)})
    if name in ("extend", "update"):
        for values in arguments:
            for value in values:
                self.state.store(base, "[]", self.items(value, []))
        return frozenset({Constant(None)})
    if name == "items":
        pack, item = Pack(node), Pack(node.func)
        self.state.store(item, "[0]", frozenset({Derived(node.func)}))
        self.state.store(item, "[1]", self.items(base, []))
        self.state.store(pack, "[]", frozenset({item}))
        return frozenset({pack})
    if name == "values":
        pack = Pack(node)
        self.state.store(pack, "[]", self.items(base, []))
        return frozenset({pack})
    if name in ("pop", "get"):
        keys = [value.value for value in arguments[0] if isinstance(value, Constant)] if arguments else []
        return self.items(base, list(keys)) or frozenset({Derived(node)})
    return frozenset({Derived(node)})
