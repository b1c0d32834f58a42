"""Cast outputs that meet float32 by themselves: as arrays, on the CPU, in products outside of the regions.

A cast goes ahead of whatever computes on an output outside of autocast: behind a softmax in half precision it would
come too late, and the probabilities would not add up to 1.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from speedpatch.edits import Edit
from speedpatch.facts.devices import read_move, receiver
from speedpatch.facts.tree import position
from speedpatch.facts.values import Pack, Value

from .context import Amp
from .halves import ARRAYS, COMPUTING, HALF, JOINING, MOVING, Halves, is_plain, last_name, operand
from .precision import float_of, in_model_code
from .regions import Regions

METHODS = {"mm", "bmm", "matmul", "dot", "mv"}
PRODUCTS = {*(f"torch.{name}" for name in METHODS), "torch.nn.functional.linear", "torch.einsum"}
READINGS = {"item", "tolist", "argmax", "argmin", "argsort", "long", "int"}

Seen = frozenset[ast.AST]


def find_casts(amp: Amp, regions: Regions, under: frozenset[ast.AST]) -> Iterator[Edit]:
    """`.float()` for the outputs that meet float32 on the CPU, NumPy or a product, each once."""
    done = frozenset(cast.node for cast in regions.floats)
    moved = list(to_cpu(amp, Halves(amp, under, done)))
    halves = Halves(amp, under, done.union(moved))
    for node in dict.fromkeys([*moved, *to_numpy(amp, halves), *to_products(amp, halves)]):
        yield float_of(amp, node)


def to_cpu(amp: Amp, halves: Halves) -> Iterator[ast.expr]:
    """Outputs that a region moves to the CPU, where CUDA's autocast takes care of no dtypes any more."""
    for call in amp.facts.sites.attribute_calls("cpu", "to"):
        source = receiver(call)
        if amp.device_type != "cuda" or not amp.facts.is_editable(call) or not halves.is_covered(call):
            continue
        if moves_to_cpu(amp, call) and halves.holds_half(source) and not only_read(amp, call):
            yield source


def moves_to_cpu(amp: Amp, call: ast.Call) -> bool:
    """`x.cpu()` and `x.to("cpu")`."""
    move = read_move(amp.facts, call)
    return call.func.attr == "cpu" or (move is not None and move.kind == "cpu")  # type: ignore[attr-defined]


def only_read(amp: Amp, call: ast.Call) -> bool:
    """Whether a tensor becomes numbers of Python or indices at once."""
    up = amp.facts.tree.parent(call)
    method = amp.facts.tree.parent(up) if isinstance(up, ast.Attribute) else None
    if not isinstance(up, ast.Attribute) or not isinstance(method, ast.Call) or method.func is not up:
        return False
    return up.attr in READINGS or (up.attr in MOVING and only_read(amp, method))


def to_numpy(amp: Amp, halves: Halves) -> Iterator[ast.expr]:
    """What is turned into an array: NumPy has no bfloat16, and its float16 overflows in sums."""
    for call in amp.facts.sites.calls:
        if amp.facts.is_editable(call):
            for source in array_sources(amp, call):
                yield from float_outputs(source, halves)


def array_sources(amp: Amp, call: ast.Call) -> list[ast.expr]:
    """The tensors that a call turns into arrays."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "numpy":
        return [call.func.value]
    converts = any(name.startswith(ARRAYS) for name in amp.facts.sites.callee(call))
    return [item for item in call.args if not isinstance(item, ast.Starred)] if converts else []


def float_outputs(node: ast.expr, halves: Halves) -> Iterator[ast.expr]:
    """Where an expression is an output, its places; where it is a parameter that other things are given to, theirs."""
    for item in [node] if halves.holds_half(node) else halves.half_sources(node):
        yield from places(halves, item)


def to_products(amp: Amp, halves: Halves) -> Iterator[ast.expr]:
    """Outputs that are multiplied, or given to a layer, outside of the regions: dtypes must match."""
    for node in amp.facts.tree.parents:
        operands = product_operands(amp, node)
        if not operands or not amp.facts.is_editable(node) or halves.is_covered(node) or in_model_code(amp, node):
            continue
        for item in operands:
            if halves.holds_half(item):
                yield from places(halves, item)


def product_operands(amp: Amp, node: ast.AST) -> list[ast.expr]:
    """What a matrix product or a layer is given."""
    found: list[ast.expr] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        found = [node.left, node.right]
    elif isinstance(node, ast.Call):
        functional = amp.facts.sites.callee(node) & PRODUCTS
        method = isinstance(node.func, ast.Attribute) and node.func.attr in METHODS and not amp.facts.sites.callee(node)
        if functional or method or amp.facts.sites.is_forward(node):
            found = [*node.args, *([node.func.value] if method and isinstance(node.func, ast.Attribute) else [])]
    return [item for item in found if not isinstance(item, (ast.Starred, ast.Constant))]


# ---- places


def places(halves: Halves, node: ast.expr, seen: Seen = frozenset()) -> list[ast.expr]:
    """Where `.float()` goes for an expression to be float32: there, or ahead of what is computed on the way to it."""
    return ahead(halves, node, seen) or [moved_back(halves, node)]


def ahead(halves: Halves, node: ast.expr, seen: Seen) -> list[ast.expr]:
    """The outputs that code outside of autocast computes an expression from; none if it only moves one."""
    if node in seen or not halves.amp.facts.is_editable(node) or halves.is_covered(node):
        return []
    seen |= {node}
    if isinstance(node, ast.Call) and not halves.runs_module(node):
        base, name = operand(halves.amp, node), last_name(halves.amp, node)
        if base is not None and HALF in halves.kinds(base):
            return places(halves, base, seen) if name in COMPUTING else passed_on(halves, name, base, seen)
    if isinstance(node, ast.BinOp):
        halved = [side for side in (node.left, node.right) if HALF in halves.kinds(side)]
        return places(halves, halved[0], seen) if len(halved) == 1 else all_ahead(halves, halved, seen)
    if isinstance(node, ast.UnaryOp):
        return ahead(halves, node.operand, seen)
    if isinstance(node, (ast.List, ast.Tuple)) and not any(isinstance(item, ast.Starred) for item in node.elts):
        return all_ahead(halves, node.elts, seen)
    return ahead_of_names(halves, node, seen)


def passed_on(halves: Halves, name: str, base: ast.expr, seen: Seen) -> list[ast.expr]:
    """Behind a method that moves a tensor, or a function that joins several."""
    return ahead(halves, base, seen) if name in MOVING | JOINING else []


def all_ahead(halves: Halves, nodes: list[ast.expr], seen: Seen) -> list[ast.expr]:
    """For all of several expressions, if there is anything to go ahead of in one of them."""
    if not any(rounds(halves, node, seen) for node in nodes):
        return []
    return [place for node in nodes for place in places(halves, node, seen)]


def rounds(halves: Halves, node: ast.expr, seen: Seen) -> bool:
    """Whether more than a sum or product is computed on the way to an expression."""
    inside = list(ast.walk(node))
    found = ahead(halves, node, seen)
    named = any(place not in inside for place in found)
    return named or (
        bool(found) and any(isinstance(item, ast.Call) and last_name(halves.amp, item) in COMPUTING for item in inside)
    )


def ahead_of_names(halves: Halves, node: ast.expr, seen: Seen) -> list[ast.expr]:
    """For a name by its assignments, else by where its values come from: the items of lists, what functions return."""
    definitions = halves.amp.facts.state.reaching.get(node, frozenset())
    sources = [item.value for item in definitions if is_plain(item)]  # type: ignore[attr-defined]
    if not sources or len(sources) < len(definitions):
        if isinstance(node, (ast.Subscript, ast.Attribute)) and (found := ahead(halves, node.value, seen)):
            return found
        sources = origins(halves, node)
    groups = [ahead(halves, source, seen) for source in sorted(sources, key=position)]
    moved = [place for group in groups for place in group]
    return [*moved, node] if moved and not all(groups) else moved


def origins(halves: Halves, node: ast.expr) -> list[ast.expr]:
    """The expressions that made the values of an expression, and the items of its lists."""
    state = halves.amp.facts.state
    values: set[Value] = set()
    for value in halves.amp.facts.values(node):
        names = state.items.get(value, ()) if isinstance(value, Pack) else ()
        items = {item for name in names if name[0] == "[" for item in state.heap.get((value, name), ())}
        values |= items or {value}
    sites = {getattr(value, "site", None) for value in values}
    return [site for site in sites if isinstance(site, ast.expr) and site is not node]


def moved_back(halves: Halves, node: ast.expr) -> ast.expr:
    """A tensor ahead of `.cpu()`, where a cast is done by the device."""
    found = inner = node
    while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in MOVING:
        if halves.amp.facts.sites.callee(inner):
            break
        cpu, inner = inner.func.attr == "cpu", inner.func.value
        found = inner if cpu else found
    return found
