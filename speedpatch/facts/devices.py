"""Where a program trains: on the CPU only, on CUDA always, or on what it finds at run time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from speedpatch.facts.evaluate import dotted
from speedpatch.facts.facts import Facts
from speedpatch.facts.state import parameters_of
from speedpatch.facts.tree import position
from speedpatch.facts.values import (
    FUNCTIONS,
    Constant,
    External,
    FunctionNode,
    Instance,
    LocalModule,
    Member,
    Value,
    Values,
)

Kind = Literal["cpu", "cuda", "flag", "object", "unknown"]


@dataclass(frozen=True)
class Device:
    """`kind` "object": `node` is an expression for the device; "flag": `node` is the condition of the move to CUDA."""

    kind: Kind
    node: ast.expr | None = None
    values: Values = frozenset()


def find_device(facts: Facts) -> Device:
    """The device of the program's training, from how things are moved; the script's trained models count first."""
    moves = list(find_moves(facts))
    ranks = {call: rank(facts, call) for call, _ in moves}
    if not any(move.kind == "object" for _, move in moves) and any(
        move.kind == "cuda" and facts.in_script(call) for call, move in moves
    ):
        return Device("cuda")  # without CUDA the program would not even start
    for wanted in sorted(set(ranks.values())):
        away = [move for call, move in moves if ranks[call] == wanted and move.kind != "cpu"]
        if away:
            return agree(facts, away)
    return default_device(facts) or (Device("unknown") if names_cuda(facts) else Device("cpu"))


def rank(facts: Facts, call: ast.Call) -> int:
    """How much a move says of where training happens, 0 the most."""
    moved = frozenset().union(*(facts.sites.unwrap(value) for value in facts.values(receiver(call))))
    module = any(facts.state.is_module(value) and not facts.sites.is_loss(value) for value in moved)
    kind = 0 if moved & set(facts.sites.models) else 1 if module else 2
    return kind if facts.in_script(call) else kind + 3


def agree(facts: Facts, moves: list[Device]) -> Device:
    """What several moves say together: a device object, CUDA without a condition, or the one condition of all."""
    objects = [move for move in moves if move.kind == "object"]
    if objects:
        return objects[0]
    conditions = {facts.text(move.node) if move.node is not None else move.kind for move in moves}
    if "cuda" in conditions:
        return Device("cuda")
    return moves[0] if len(conditions) == 1 else Device("unknown")


def find_moves(facts: Facts) -> Iterator[tuple[ast.Call, Device]]:
    """Every call that moves something to a device, in source order."""
    for call in facts.sites.attribute_calls("cuda", "to", "xpu"):
        move = read_move(facts, call)
        if move is not None:
            yield call, move


def receiver(call: ast.Call) -> ast.expr:
    """The object that a method is called on."""
    assert isinstance(call.func, ast.Attribute)
    return call.func.value


def read_move(facts: Facts, call: ast.Call) -> Device | None:
    """What one `.cuda()` or `.to(...)` says of the device; None when it is about something else."""
    assert isinstance(call.func, ast.Attribute)
    if any(isinstance(value, External) and value.name.startswith("torch.cuda") for value in facts.values(call.func)):
        return None
    if call.func.attr == "cuda":
        condition = guard(facts, call)
        if condition is None:
            return Device("cuda")
        known = condition in facts.tree.parents and is_flag(facts, condition)
        return Device("flag", condition) if known else Device("unknown")
    if call.func.attr != "to":
        return None
    argument = next((item.value for item in call.keywords if item.arg == "device"), call.args[0] if call.args else None)
    return classify(facts, argument) if argument is not None else None


def guard(facts: Facts, call: ast.Call) -> ast.expr | None:
    """The innermost condition under which a move to CUDA happens."""
    inner: ast.AST = call
    for up in facts.tree.above(call):
        if isinstance(up, (*FUNCTIONS, ast.ClassDef, ast.Module)):
            return None
        if isinstance(up, ast.IfExp) and inner is not up.test:
            return up.test if inner is up.body else ast.UnaryOp(ast.Not(), up.test)
        if isinstance(up, ast.If) and inner is not up.test and not holds_training(facts, up):
            return up.test if inner in up.body else ast.UnaryOp(ast.Not(), up.test)
        inner = up
    return None


def holds_training(facts: Facts, node: ast.If) -> bool:
    """Whether a condition is about more than the device: the main guard, or one around the training as well."""
    names = {item.id for item in ast.walk(node.test) if isinstance(item, ast.Name)}
    return "__name__" in names or any(node in facts.tree.above(site.call) for site in facts.sites.backwards)


def is_flag(facts: Facts, test: ast.expr) -> bool:
    """Whether a condition is about the device: a name, an attribute, or `torch.cuda.is_available()`."""
    if isinstance(test, ast.Call):
        return bool(facts.sites.callee(test) & {"torch.cuda.is_available", "torch.accelerator.is_available"})
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return dotted(test.operand) is not None
    return dotted(test) is not None


def classify(facts: Facts, node: ast.expr) -> Device | None:
    """What an argument of `.to()` says of the device."""
    values = facts.values(node)
    if any(isinstance(value, External) and value.name.startswith("torch.") for value in values):
        return None  # a dtype
    places = {place for value in values for place in places_of(facts, value)}
    if not places:
        return None
    if places == {"cpu"}:
        return Device("cpu")
    if places == {"cuda"}:
        return Device("cuda")
    return Device("object", node, values)


def places_of(facts: Facts, value: Value, depth: int = 0) -> Iterator[str]:
    """The device types that a value may stand for; "?" for one known only at run time."""
    if isinstance(value, Constant):
        if isinstance(value.value, str):
            yield "cuda" if value.value.startswith("cuda") else "cpu" if value.value == "cpu" else "?"
        elif isinstance(value.value, int) and not isinstance(value.value, bool):
            yield "cuda"
    elif (
        isinstance(value, Instance)
        and value.name == "torch.device"
        and isinstance(value.site, ast.Call)
        and value.site.args
        and depth < 3
    ):
        for inner in facts.values(value.site.args[0]):
            yield from places_of(facts, inner, depth + 1)
    elif isinstance(value, Instance) and value.name == "builtins.int":
        yield "cuda"
    elif not (isinstance(value, Instance) and value.local is not None):
        yield "?"


def moved_before(facts: Facts, values: Values, before: ast.AST) -> bool:
    """Whether objects have been moved to a device in the same scope ahead of a place."""
    scope = facts.tree.scope(before)
    wanted = unwrapped(facts, values)
    return any(
        facts.tree.scope(call) is scope
        and position(call) < position(before)
        and unwrapped(facts, facts.values(receiver(call))) & wanted
        for call, _ in find_moves(facts)
    )


def unwrapped(facts: Facts, values: Values) -> Values:
    """Objects without DataParallel and the like around them."""
    return frozenset().union(*(facts.sites.unwrap(value) for value in values))


def default_device(facts: Facts) -> Device | None:
    """What `torch.set_default_device` says."""
    calls = [call for call in facts.sites.calls if "torch.set_default_device" in facts.sites.callee(call) and call.args]
    return classify(facts, calls[0].args[0]) if calls else None


def names_cuda(facts: Facts) -> bool:
    """Whether a program without moves still says that it trains on CUDA."""
    for call in facts.sites.calls:
        names = facts.sites.callee(call)
        if names & {"torch.set_default_device", "torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel"}:
            return True
        if "torch.set_default_tensor_type" in names and "cuda" in facts.text(call):
            return True
    return False


def is_device_object(facts: Facts, values: Values) -> bool:
    """Whether all values are `torch.device` objects."""
    made = {"torch.device", "torch.accelerator.current_accelerator", "accelerate.Accelerator.device"}
    return bool(values) and all(
        (isinstance(value, Instance) and value.name in made) or (isinstance(value, Constant) and value.value is None)
        for value in values
    )


def is_boolean(facts: Facts, node: ast.expr) -> bool:
    """Whether an expression is surely a bool."""
    if isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        return True
    if isinstance(node, ast.BoolOp):
        return all(is_boolean(facts, value) for value in node.values)
    values = facts.values(node)
    return bool(values) and all(boolean_value(facts, value) for value in values)


def boolean_value(facts: Facts, value: Value) -> bool:
    """Whether a value is a bool: a literal, a test, a switch of the command line."""
    if isinstance(value, Constant):
        return isinstance(value.value, bool)
    if isinstance(value, Instance):
        return value.name.endswith("is_available")
    if isinstance(value, Member):
        return is_switch(facts, value.name)
    site = getattr(value, "site", None)
    return (
        isinstance(site, (ast.Compare, ast.UnaryOp, ast.BoolOp)) and is_boolean(facts, site)
        if isinstance(site, ast.expr)
        else False
    )


def is_switch(facts: Facts, name: str) -> bool:
    """Whether the command line has a `store_true` switch of that name."""
    for call in facts.sites.attribute_calls("add_argument"):
        flags = [item.value for item in call.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        stores = any(
            isinstance(item.value, ast.Constant) and str(item.value.value).startswith("store_")
            for item in call.keywords
            if item.arg == "action"
        )
        if stores and any(flag.lstrip("-").replace("-", "_") == name for flag in flags):
            return True
    return False


def device_expression(facts: Facts, device: Device, scope: ast.Module | FunctionNode, before: ast.AST) -> str | None:
    """How code of `scope`, just before `before`, can spell the program's device: a name or path bound by then."""
    if device.node is None:
        return None
    names = [*moved_to(facts, scope), *candidates(facts, device, scope), *kept_in(facts, device, scope, before)]
    for name in [*names, *attributes_of_self(facts, device, scope)]:
        root = name.split(".")[0]
        if bound_before(facts, root, scope, before):
            return name
    return None


def moved_to(facts: Facts, scope: ast.Module | FunctionNode) -> Iterator[str]:
    """The names and paths that a scope itself moves modules and tensors to."""
    for call, move in find_moves(facts):
        path = dotted(move.node) if move.kind == "object" and move.node is not None else None
        if path and facts.tree.scope(call) is scope:
            yield path


def candidates(facts: Facts, device: Device, scope: ast.Module | FunctionNode) -> Iterator[str]:
    """Names and paths whose values are the device's: of this scope first, then of the module."""
    known = frozenset(value for value in device.values if not (isinstance(value, Constant) and value.value is None))
    nodes = [
        node
        for node in ast.walk(scope)
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load)
    ]
    for node in sorted(nodes, key=position):
        path = dotted(node)
        if path and facts.values(node) & known and not facts.values(node) - device.values:
            yield path
    for table in [scope, facts.tree.module(scope).tree if scope not in facts.tree.roots else scope]:
        for name, values in facts.state.scopes.get(table, {}).items():
            shadowed = table is not scope and name in facts.state.scopes.get(scope, {})
            if values & known and not values - device.values and not shadowed:
                yield name


def attributes_of_self(facts: Facts, device: Device, scope: ast.Module | FunctionNode) -> Iterator[str]:
    """The attributes of a method's object that hold the device, set before any method but `__init__` runs."""
    owner = facts.tree.owner(scope)
    if not isinstance(scope, FUNCTIONS) or owner is None or scope.name == "__init__" or not parameters_of(scope):
        return
    derived = [node for node, lineage in facts.state.lineage.items() if owner in lineage]
    classes = [base for base in (*facts.state.bases(owner), *derived) if isinstance(base, ast.ClassDef)]
    for name in sorted(name for base in classes for name in facts.state.items.get(base, ()) if name.isidentifier()):
        values = frozenset().union(*(facts.state.heap.get((base, name), frozenset()) for base in classes))
        if values and values <= device.values:
            yield f"{parameters_of(scope)[0]}.{name}"


def kept_in(facts: Facts, device: Device, scope: ast.Module | FunctionNode, before: ast.AST) -> Iterator[str]:
    """The attributes that a scope has surely put the device into by then, as in `args.device = ...`."""
    for node in ast.walk(scope):
        if (
            not isinstance(node, ast.Assign)
            or facts.tree.scope(node) is not scope
            or position(node) >= position(before)
        ):
            continue
        values = facts.values(node.value)
        if not values or values - device.values or facts.tree.lift(before, facts.tree.block(node)) in (None, node):
            continue
        for path in filter(None, map(dotted, node.targets)):
            rebound = map(position, binders(facts, path.split(".")[0], scope))
            if "." in path and not any(position(node) < place < position(before) for place in rebound):
                yield path


def bound_before(facts: Facts, name: str, scope: ast.Module | FunctionNode, before: ast.AST) -> bool:
    """Whether a name has surely been bound when control reaches `before` in `scope`."""
    if name in facts.state.scopes.get(scope, {}) or scope in facts.tree.roots:
        if isinstance(scope, FUNCTIONS) and name in parameters_of(scope):
            return True
        found = [statement for statement in binders(facts, name, scope) if position(statement) < position(before)]
        block = facts.tree.common_block(*found) if found else None
        whole = [facts.tree.lift(found[0], block)] if block is not None else []
        return any(
            facts.tree.lift(before, facts.tree.block(statement)) not in (None, statement)
            and (statement in found or isinstance(statement, (ast.If, ast.Try)))
            for statement in [*found, *whole]
            if statement is not None
        )
    outer = [
        up
        for up in facts.tree.above(scope)
        if not isinstance(up, ast.ClassDef)
        and (name in facts.state.scopes.get(up, {}) or (up in facts.tree.roots and any(binders(facts, name, up))))
    ]
    return bool(outer)


def binders(facts: Facts, name: str, scope: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a scope that bind a name."""
    for node in ast.walk(scope):
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)
            and node.id == name
            and facts.tree.scope(node) is scope
        ) or (isinstance(node, ast.alias) and (node.asname or node.name.split(".")[0]) == name):
            yield facts.tree.statement(node)
        elif isinstance(node, ast.ImportFrom) and node.names[0].name == "*" and brings(facts, node, name, scope):
            yield node


def brings(facts: Facts, star: ast.ImportFrom, name: str, scope: ast.AST) -> bool:
    """Whether `from module import *` binds a name, as far as the module is one of the program's."""
    last = (star.module or "").split(".")[-1]
    for value in facts.state.heap.get((scope, "*"), frozenset()):
        module = facts.tree.modules[value.index] if isinstance(value, LocalModule) else None
        path = module.source.path if module is not None else None
        if module is not None and path is not None and last in (path.stem, path.parent.name):
            return name in facts.state.scopes[module.tree] and not name.startswith("_")
    return False
