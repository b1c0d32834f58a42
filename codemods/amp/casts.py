"""Take what a hand-written loss reads to float32, where it was computed: a cast afterwards would come too late."""

from __future__ import annotations

import ast

from speedpatch.edits import Around
from speedpatch.facts.slices import asks_shape, is_downstream
from speedpatch.facts.tree import position
from speedpatch.facts.values import Pack

from .context import Amp
from .precision import NUMBERS, complement, float_of, is_float, is_logarithm, is_number, tiny_sum

SQUASHING = {"sigmoid", "softmax", "exp", "tanh"}


def float_names(
    amp: Amp, statement: ast.stmt | ast.expr, outside: list[ast.stmt], memo: dict[ast.AST, bool]
) -> list[Around] | ast.AST:
    """`.float()` for every half-precision tensor that a piece of code reads by name; what cannot be cast instead."""
    found: list[Around] = []
    for node in tensor_names(amp, statement, memo):
        definitions = [item for item in amp.facts.state.reaching.get(node, frozenset()) if isinstance(item, ast.stmt)]
        if any(item in outside or is_number(amp, getattr(item, "value", None)) for item in definitions):
            continue
        values = [
            item.value
            for item in definitions
            if isinstance(item, ast.Assign) and isinstance(item.targets[0], (ast.Name, ast.Attribute))
        ]
        rounded = any(amp.facts.sites.contains_forward(item) for item in definitions) and not any(
            squashed(amp, value) is not value for value in values
        )
        if any(isinstance(value, Pack) for value in amp.facts.values(node)) or (
            rounded and takes_complement(amp, statement, node)
        ):
            return node
        targets = (
            [squashed(amp, value) for value in sorted(values, key=position)]
            if len(values) == len(definitions)
            else [node]
        )
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
            if (
                is_downstream(amp.facts, node, memo)
                and not asks_shape(amp.facts, node)
                and not is_called(amp, node)
                and not cast_here(amp, node)
            ):
                found.append(node)
        else:
            stack.extend(ast.iter_child_nodes(node))
    return sorted(found, key=position)


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
