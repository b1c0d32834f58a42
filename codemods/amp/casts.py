"""Take what a loss reads to float32, where it was computed: a cast afterwards would come too late."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from speedpatch.edits import Around
from speedpatch.facts.slices import SHAPE, asks_shape, is_downstream
from speedpatch.facts.tree import position
from speedpatch.facts.values import Derived, Instance, Pack

from .context import Amp
from .precision import (
    NUMBERS,
    complement,
    float_of,
    fragile_expression,
    in_model_code,
    is_float,
    is_logarithm,
    is_number,
    is_probability_loss,
    loss_calls,
    tiny_sum,
)

SQUASHING = {"sigmoid", "softmax", "exp", "tanh"}
VIEWS = {
    "detach", "view", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "t", "flatten", "contiguous", "clone",
    "narrow", "expand", "repeat",
}  # fmt: skip
"""Methods that leave every number as it is."""
INTEGERS = {
    "argmax", "argmin", "argsort", "nonzero", "long", "int", "bool", "multinomial", "isnan", "isfinite", "eq", "ne",
    "gt", "lt", "ge", "le",
}  # fmt: skip
"""Methods and functions whose result is no number to compute on in float32."""
SELECTING = {"gather", "index_select", "take", "take_along_dim", "masked_select"}
"""Methods and functions of which only the first tensor is more than an index."""
PAIRS = {"max", "min", "topk", "sort", "kthvalue", "median", "mode"}


def float_casts(
    amp: Amp, statement: ast.stmt, outside: list[ast.stmt], memo: dict[ast.AST, bool]
) -> list[Around] | ast.AST:
    """The casts that let a statement compute in float32 whatever it reads of outputs; what cannot be cast instead."""
    composed = any(isinstance(argument, ast.BinOp) for call in loss_calls(amp, statement) for argument in call.args)
    if composed or fragile_expression(amp, statement) is not None:
        return float_names(amp, statement, outside, memo)
    return float_reads(amp, statement, outside, memo)


def float_reads(
    amp: Amp, statement: ast.stmt, outside: list[ast.stmt], memo: dict[ast.AST, bool]
) -> list[Around] | ast.AST:
    """`.float()` for every output that a statement reads, where it reads it."""
    found: list[Around] = []
    for node in tensor_names(amp, statement, memo):
        read = whole_read(amp, node)
        definitions = amp.facts.state.reaching.get(node, frozenset())
        if any(item in outside for item in definitions) or is_term(amp, statement, read):
            continue
        if is_spread(amp, read) or is_packed(amp, read):
            return read
        found.append(float_of(amp, read))
    return found


def float_names(
    amp: Amp, statement: ast.stmt | ast.expr, outside: list[ast.stmt], memo: dict[ast.AST, bool]
) -> list[Around] | ast.AST:
    """`.float()` for every output that a piece of code reads by name, ahead of a sigmoid or softmax that made it."""
    found: list[Around] = []
    for node in tensor_names(amp, statement, memo):
        read = whole_read(amp, node)
        definitions = [item for item in amp.facts.state.reaching.get(node, frozenset()) if isinstance(item, ast.stmt)]
        known = any(item in outside or is_number(amp, getattr(item, "value", None)) for item in definitions)
        if known or is_term(amp, statement, read):
            continue
        values = [
            item.value
            for item in definitions
            if isinstance(item, ast.Assign) and isinstance(item.targets[0], (ast.Name, ast.Attribute))
        ]
        behind = [squashed(amp, value) for value in sorted(values, key=position)]
        moved = [value for value in behind if value not in values]
        rounded = any(amp.facts.sites.contains_forward(item) for item in definitions) and not moved
        if is_spread(amp, read) or is_packed(amp, read) or (rounded and takes_complement(amp, statement, node)):
            return node
        targets = behind if moved and len(values) == len(definitions) else [read]
        found += [float_of(amp, target) for target in targets if not is_float(target)]
    return found


def tensor_names(amp: Amp, statement: ast.AST, memo: dict[ast.AST, bool]) -> list[ast.expr]:
    """The names and paths of tensors that come from a model, as far as their values are used."""
    found: list[ast.expr] = []
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        known = (
            isinstance(node, (ast.Name, ast.Attribute))
            and isinstance(node.ctx, ast.Load)
            and node in amp.facts.state.reaching
        )
        if known and isinstance(node, (ast.Name, ast.Attribute)):
            if is_read(amp, node, memo):
                found.append(node)
        else:
            stack.extend(used(amp, node))
    return sorted(found, key=position)


def used(amp: Amp, node: ast.AST) -> list[ast.AST]:
    """The parts of a piece of code whose numbers count: no indices, comparisons or what only is iterated over."""
    if isinstance(node, ast.comprehension):
        return []
    if isinstance(node, ast.Subscript):
        return [node.value]
    if isinstance(node, ast.expr) and gives_integers(amp, node):
        return []
    if isinstance(node, ast.Call) and "builtins.sum" in amp.facts.sites.callee(node):
        return [item for item in node.args if not isinstance(item, (ast.Name, ast.Attribute))]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SELECTING:
        return [node.args[0] if amp.facts.sites.callee(node) and node.args else node.func.value]
    return list(ast.iter_child_nodes(node))


def is_read(amp: Amp, node: ast.expr, memo: dict[ast.AST, bool]) -> bool:
    """Whether a name or path is an output's whose numbers are used as they are."""
    read = whole_read(amp, node)
    sources = [*element_sources(amp, node)] or [node]
    return (
        any(is_downstream(amp.facts, source, memo) for source in sources)
        and not asks_shape(amp.facts, read)
        and not is_called(amp, node)
        and not cast_here(amp, read)
        and not gives_integers(amp, read)
        and not is_object(amp, read)
    )


def element_sources(amp: Amp, node: ast.expr) -> Iterator[ast.expr]:
    """What a loop or comprehension takes a variable's values from."""
    for definition in amp.facts.state.reaching.get(node, frozenset()):
        up = amp.facts.tree.parent(definition)
        if isinstance(definition, (ast.For, ast.AsyncFor)):
            yield from iterated(amp, definition.iter, definition.target, node)
        elif isinstance(up, ast.comprehension) and up.target is definition:
            yield from iterated(amp, up.iter, definition, node)


def iterated(amp: Amp, source: ast.expr, target: ast.AST, node: ast.expr) -> Iterator[ast.expr]:
    """What a loop variable is an element of: its own argument of `zip` and `enumerate`."""
    names = amp.facts.sites.callee(source) if isinstance(source, ast.Call) else set()
    elements = target.elts if isinstance(target, ast.Tuple) else []
    places = [index for index, item in enumerate(elements) if isinstance(node, ast.Name) and binds(item, node.id)]
    if not isinstance(source, ast.Call) or not places or not names & {"builtins.zip", "builtins.enumerate"}:
        yield source
    elif "builtins.enumerate" in names and source.args and places[0] == 1:
        yield from iterated(amp, source.args[0], elements[1], node)
    elif "builtins.zip" in names and places[0] < len(source.args):
        yield source.args[places[0]]


def binds(target: ast.AST, name: str) -> bool:
    """Whether a target binds a name."""
    return any(isinstance(item, ast.Name) and item.id == name for item in ast.walk(target))


def whole_read(amp: Amp, node: ast.expr) -> ast.expr:
    """All of `out.logits`, `out["logits"]`, `out[:, 0]` and `out.view(-1)`, which is one tensor that is read."""
    up = amp.facts.tree.parent(node)
    if isinstance(up, ast.Subscript) and up.value is node:
        return whole_read(amp, up)
    if not isinstance(up, ast.Attribute) or up.attr in SHAPE:
        return node
    call = amp.facts.tree.parent(up)
    if not isinstance(call, ast.Call) or call.func is not up:
        return whole_read(amp, up)
    return whole_read(amp, call) if up.attr in VIEWS else node


def gives_integers(amp: Amp, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression gives indices, labels or truth values."""
    if isinstance(node, ast.Compare):
        return True
    if isinstance(node, ast.Subscript):
        second = isinstance(node.slice, ast.Constant) and node.slice.value == 1
        return (second and is_pair(amp, node.value)) or gives_integers(amp, node.value, depth)
    if isinstance(node, ast.Call):
        names = {name.rsplit(".", 1)[-1] for name in amp.facts.sites.callee(node)}
        names = names or ({node.func.attr} if isinstance(node.func, ast.Attribute) else set())
        base = node.func.value if isinstance(node.func, ast.Attribute) else None
        moved = names <= VIEWS | {"to", "cpu", "cuda"}
        return bool(names & INTEGERS) or (base is not None and moved and gives_integers(amp, base, depth))
    definitions = amp.facts.state.reaching.get(node, frozenset())
    return bool(definitions) and depth < 3 and all(defines_integers(amp, item, node, depth) for item in definitions)


def defines_integers(amp: Amp, definition: ast.AST, node: ast.expr, depth: int) -> bool:
    """Whether an assignment gives a name indices or labels: `_, label = out.max(1)`."""
    if not isinstance(definition, ast.Assign):
        return False
    target = definition.targets[0]
    if isinstance(target, ast.Tuple) and is_pair(amp, definition.value):
        return isinstance(node, ast.Name) and binds(target.elts[-1], node.id)
    return isinstance(target, (ast.Name, ast.Attribute)) and gives_integers(amp, definition.value, depth + 1)


def is_pair(amp: Amp, node: ast.expr) -> bool:
    """`x.max(1)`, which gives values and indices."""
    names = {name.rsplit(".", 1)[-1] for name in amp.facts.sites.callee(node)} if isinstance(node, ast.Call) else set()
    method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PAIRS
    return method and names <= PAIRS


def is_object(amp: Amp, node: ast.expr) -> bool:
    """Whether an expression is no tensor but an object that was made of tensors, as a distribution is."""
    return any(
        isinstance(value, Instance) and (value.local is not None or ".distributions." in value.name)
        for value in amp.facts.values(node)
    )


def is_term(amp: Amp, statement: ast.AST, node: ast.expr) -> bool:
    """Whether a loss computed in another statement is only added: adding it to one in float32 gives float32."""
    definitions = amp.facts.state.reaching.get(node, frozenset())
    up = amp.facts.tree.parent(node)
    while isinstance(up, ast.UnaryOp) or (
        isinstance(up, ast.BinOp) and isinstance(up.op, (ast.Add, ast.Sub, ast.Mult))
    ):
        up = amp.facts.tree.parent(up)
    added = bool(definitions) and up is statement and isinstance(statement, ast.stmt)
    return added and not any(amp.facts.sites.contains_forward(item) for item in definitions)


def is_spread(amp: Amp, node: ast.expr) -> bool:
    """`*outs` and `**outs`, which hold more than one tensor."""
    up = amp.facts.tree.parent(node)
    return isinstance(up, ast.Starred) or (isinstance(up, ast.keyword) and up.arg is None)


def is_packed(amp: Amp, node: ast.expr) -> bool:
    """Whether an expression is a list, tuple or dictionary."""
    return any(isinstance(value, Pack) for value in amp.facts.values(node))


def is_called(amp: Amp, node: ast.expr) -> bool:
    """Whether an expression is what a call calls."""
    up = amp.facts.tree.parent(node)
    return isinstance(up, ast.Call) and up.func is node


def cast_here(amp: Amp, node: ast.expr) -> bool:
    """`x.float()`."""
    up = amp.facts.tree.parent(node)
    return isinstance(up, ast.Attribute) and up.attr in {"float", "double", *NUMBERS}


def squashed(amp: Amp, value: ast.expr) -> ast.expr:
    """What a sigmoid or softmax at the end of an expression is taken of; the expression itself without one."""
    node = value
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        names = {name.split(".")[-1] for name in amp.facts.sites.callee(node) if name.startswith("torch.")}
        if names & SQUASHING and node.args:
            return node.args[0]
        if names or amp.facts.sites.is_forward(node):
            break
        if node.func.attr in SQUASHING:
            return node.func.value
        node = node.func.value
    return value


def takes_complement(amp: Amp, statement: ast.AST, node: ast.expr) -> bool:
    """Whether a statement takes the logarithm of `1 - p`, which is minus infinity once half precision rounds p to 1."""
    for call in ast.walk(statement):
        if isinstance(call, ast.Call) and is_logarithm(amp, call) and any(item is node for item in ast.walk(call)):
            inside = list(ast.walk(call))
            if any(complement(item) for item in inside) and not any(tiny_sum(amp, item) for item in inside):
                return True
    return False


def squashed_in_models(amp: Amp, statement: ast.stmt) -> Iterator[Around]:
    """`.float()` ahead of the sigmoid that a model ends in, where binary cross entropy takes what it gives.

    Half precision rounds probabilities near 1 to 1, whose complement has no logarithm; a cast afterwards is too late.
    """
    for call in [node for node in ast.walk(statement) if isinstance(node, ast.Call) and is_probability_loss(amp, node)]:
        for value in amp.facts.values(call.args[0]) if call.args else ():
            site = value.site if isinstance(value, (Derived, Instance)) else None
            if isinstance(site, ast.Call) and amp.facts.is_editable(site) and ends_in_sigmoid(amp, site):
                operand = site.args[0] if site.args else site.func.value  # type: ignore[attr-defined]
                if not is_float(operand):
                    yield float_of(amp, operand)


def ends_in_sigmoid(amp: Amp, site: ast.Call) -> bool:
    """Whether a call is one of a sigmoid, in code of the program's own models."""
    if not in_model_code(amp, site):
        return False
    layers = {item.name for item in amp.facts.values(site.func) if isinstance(item, Instance)}
    named = {name.rsplit(".", 1)[-1] for name in amp.facts.sites.callee(site)}
    method = isinstance(site.func, ast.Attribute) and site.func.attr == "sigmoid" and not site.args
    return layers == {"torch.nn.Sigmoid"} or named == {"sigmoid"} or (method and not layers)
