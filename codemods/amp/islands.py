"""Code inside a model that has to be computed in float32: a cast where that is enough, else autocast off around it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from speedpatch.codemod import Finding
from speedpatch.edits import Edit, Wrap
from speedpatch.facts.slices import is_downstream
from speedpatch.facts.values import FunctionNode

from .casts import float_names
from .context import Amp
from .precision import (
    SPARSE,
    argument_nodes,
    complement,
    float_of,
    is_float,
    is_linear_algebra,
    is_logarithm,
    is_probability_loss,
    tiny_sum,
)

FLOAT32_RESULTS = {
    "norm",
    "sum",
    "softmax",
    "log_softmax",
    "exp",
    "pow",
    "prod",
    "cumsum",
    "var",
    "std",
    "cosine_similarity",
}
"""What gives float32 under autocast by itself: https://docs.pytorch.org/docs/stable/amp.html#cuda-ops-that-can-autocast-to-float32."""
TRANSFORMS = {"torch.fft.fft", "torch.fft.fft2", "torch.fft.fftn"}


def find_islands(amp: Amp, functions: list[FunctionNode]) -> Iterator[Edit | Finding]:
    """The edits in functions that run under autocast."""
    wrapped: set[ast.stmt] = set()
    for function in functions:
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and amp.facts.tree.scope(node) is function:
                yield from island(amp, node, wrapped)
                yield from saturated(amp, node)
            elif isinstance(node, ast.BinOp) and amp.facts.tree.scope(node) is function:
                yield from guarded_sum(amp, node)


def island(amp: Amp, call: ast.Call, wrapped: set[ast.stmt]) -> Iterator[Edit | Finding]:
    """One call that raises in half precision or under autocast."""
    refused = is_probability_loss(amp, call) or bool(amp.facts.sites.callee(call) & SPARSE)
    statement = amp.facts.tree.statement(call)
    if amp.facts.sites.callee(call) & TRANSFORMS:
        yield amp.declined(
            "fft",
            call,
            "half-precision FFTs exist only for powers of two: transform x.float(), or keep the loss in float32",
        )
        return
    if not refused and not is_linear_algebra(amp, call):
        return
    if not amp.facts.is_editable(call):
        yield amp.declined(
            "float32-elsewhere",
            call,
            "this has to be computed in float32 but is in another file: turn autocast off around it and cast "
            "with .float() there",
        )
        return
    if refused and (
        amp.facts.sites.contains_forward(statement)
        or not isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr))
    ):
        yield amp.declined(
            "float32-in-model",
            call,
            "this has to be computed in float32 but runs in one statement with a layer: give it a line of its own",
        )
        return
    for argument in half_arguments(amp, call):
        yield float_of(amp, argument)
    if refused and statement not in wrapped:
        wrapped.add(statement)
        yield Wrap(
            amp.facts.path(statement),
            statement,
            statement,
            f'with {amp.torch("autocast", statement)}("{amp.device_type}", enabled=False):',
        )


def half_arguments(amp: Amp, call: ast.Call) -> Iterator[ast.expr]:
    """The first argument, and what else comes from a layer."""
    first = next((item.value for item in call.keywords if item.arg == "input"), None)
    given = call.args if first is None else [first, *call.args]
    given = [*given, *(item.value for item in call.keywords if item.value is not first)]
    for index, argument in enumerate(given):
        sparse = amp.facts.sites.callee(call) & SPARSE
        if is_float(argument) or isinstance(argument, (ast.Constant, ast.Starred)):
            continue
        if (index == 0 and not sparse) or (index == 1 and sparse) or is_downstream(amp.facts, argument, {}):
            yield argument


def saturated(amp: Amp, call: ast.Call) -> Iterator[Edit | Finding]:
    """`log(1 - tanh(x) ** 2)`: half precision rounds what is near 1 to 1, so that it is squashed in float32."""
    inside = (
        [item for argument in argument_nodes(call) for item in ast.walk(argument)] if is_logarithm(amp, call) else []
    )
    if not any(complement(item) for item in inside) or not is_downstream(amp.facts, call, {}):
        return
    floats = float_names(amp, call, [], {})
    if isinstance(floats, list) and all(amp.facts.is_editable(item.node) for item in floats):
        yield from floats
        return
    yield amp.declined(
        "float32-in-model" if amp.facts.is_editable(call) else "float32-elsewhere",
        call,
        "this logarithm of a difference from 1 has to be computed in float32: cast with .float() what the sigmoid, "
        "softmax or tanh ahead of it is taken of",
    )


def guarded_sum(amp: Amp, node: ast.BinOp) -> Iterator[Edit]:
    """`x + 1e-8` in a logarithm or denominator, whose constant is 0 in float16."""
    other = tiny_sum(amp, node)
    if other is None or is_float(other) or not amp.facts.is_editable(node) or not is_downstream(amp.facts, other, {}):
        return
    last = other.func.attr if isinstance(other, ast.Call) and isinstance(other.func, ast.Attribute) else ""
    if last not in FLOAT32_RESULTS | {"item"} and any(guards(amp, up, node) for up in amp.facts.tree.above(node)):
        yield float_of(amp, other)


def guards(amp: Amp, up: ast.AST, node: ast.AST) -> bool:
    """Whether an expression takes the logarithm of a sum or divides by it."""
    if isinstance(up, ast.Call):
        return is_logarithm(amp, up)
    return isinstance(up, ast.BinOp) and isinstance(up.op, ast.Div) and any(item is node for item in ast.walk(up.right))
