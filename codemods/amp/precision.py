"""What has to be computed in float32, and the `.float()` that takes it there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from speedpatch.edits import Around
from speedpatch.facts.evaluate import dotted
from speedpatch.facts.torch_names import PROBABILITY_LOSS
from speedpatch.facts.values import External, FunctionNode, Instance

from .context import Amp

FRAGILE = {"torch.log", "torch.log2", "torch.log10", "torch.div"}
LINEAR_ALGEBRA = {
    "det", "slogdet", "logdet", "inverse", "cholesky", "svd", "qr", "eigh", "pinverse", "matrix_rank", "quantile",
    "nanquantile", "complex", "lstsq", "solve", "lu",
}  # fmt: skip
NUMBERS = {"item", "tolist", "numpy"}
SPARSE = {"torch.sparse.mm", "torch.sparse.addmm", "torch.spmm", "torch.smm", "torch.hspmm"}
SMALLEST_HALF = 6e-8
"""The smallest positive float16: what is added to keep a division or logarithm away from 0 vanishes below it."""


def needs_float32(amp: Amp, node: ast.AST) -> ast.AST | None:
    """The code below a statement, or in a loss helper that it calls, that is wrong or refused in half precision.

    Binary cross entropy on probabilities raises under CUDA autocast at any precision
    (https://docs.pytorch.org/docs/stable/amp.html#prefer-binary-cross-entropy-with-logits-over-binary-cross-entropy);
    a logarithm or quotient guarded by a constant that float16 cannot hold becomes infinite without an error.
    """
    for child in ast.walk(node):
        if isinstance(child, ast.Call):
            if is_probability_loss(amp, child) or is_linear_algebra(amp, child):
                return child
            for function in loss_helpers(amp, child):
                cause = fragile_code(amp, function)
                if cause is not None:
                    return cause
    return fragile_expression(amp, node)


def is_probability_loss(amp: Amp, call: ast.Call) -> bool:
    """A call of BCELoss or binary_cross_entropy."""
    for value in amp.facts.values(call.func):
        if (
            isinstance(value, External)
            and PROBABILITY_LOSS.fullmatch(value.name)
            and not value.name.endswith("BCELoss")
        ):
            return True
        if isinstance(value, Instance) and value.local is None and PROBABILITY_LOSS.fullmatch(value.name):
            return True
    return False


def loss_helpers(amp: Amp, call: ast.Call, depth: int = 0) -> Iterator[FunctionNode]:
    """The functions of the program behind a call, as far as they run no model."""
    if depth > 3 or amp.facts.sites.is_forward(call):
        return
    for function in amp.facts.sites.local_callees(call):
        if function.name == "__init__" or amp.facts.sites.contains_forward(function):
            continue
        yield function
        for child in ast.walk(function):
            if isinstance(child, ast.Call):
                yield from loss_helpers(amp, child, depth + 1)


def fragile_code(amp: Amp, function: FunctionNode) -> ast.AST | None:
    """What in a helper needs float32."""
    for child in ast.walk(function):
        if isinstance(child, ast.Call) and (is_probability_loss(amp, child) or is_linear_algebra(amp, child)):
            return child
        if isinstance(child, (ast.Call, ast.BinOp)) and is_gram(amp, child):
            return child
    return fragile_expression(amp, function)


def is_gram(amp: Amp, node: ast.Call | ast.BinOp) -> bool:
    """A product of a matrix with its own transpose, whose sums of squares overflow float16."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult) and transposes(amp, node.right, node.left)
    names = amp.facts.sites.callee(node)
    if names & {"torch.mm", "torch.bmm", "torch.matmul"} and len(node.args) > 1:
        return transposes(amp, node.args[1], node.args[0])
    method = isinstance(node.func, ast.Attribute) and node.func.attr in ("mm", "bmm", "matmul") and not names
    return method and len(node.args) == 1 and transposes(amp, node.args[0], node.func.value)  # type: ignore[attr-defined]


def transposes(amp: Amp, node: ast.expr, other: ast.expr, depth: int = 0) -> bool:
    """Whether an expression is the transpose of another one, directly or by the name it was given."""
    turned = (
        node.func.value
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("t", "transpose", "permute")
        else None
    )
    turned = turned or (node.value if isinstance(node, ast.Attribute) and node.attr in ("T", "mT") else None)
    if turned is not None:
        return dotted(turned) is not None and dotted(turned) == dotted(other)
    definitions = amp.facts.state.reaching.get(node, frozenset())
    return (
        depth < 2
        and len(definitions) == 1
        and all(isinstance(item, ast.Assign) and transposes(amp, item.value, other, depth + 1) for item in definitions)
    )


def is_linear_algebra(amp: Amp, call: ast.Call) -> bool:
    """Decompositions, quantiles and the like, which have no half-precision kernels."""
    names = amp.facts.sites.callee(call)
    return (
        any(
            name.startswith(("torch.linalg.", "torch.fft.rfft"))
            or (name.startswith("torch.") and name.split(".")[-1] in LINEAR_ALGEBRA)
            for name in names
        )
        or bool(names & ({"torch.nn.functional.ctc_loss"} | SPARSE))
        or any(
            isinstance(value, Instance) and value.name == "torch.nn.CTCLoss" for value in amp.facts.values(call.func)
        )
    )


def fragile_expression(amp: Amp, node: ast.AST) -> ast.AST | None:
    """A sum with a constant too small for float16 inside a logarithm or a denominator; a hand-written `log(1 - p)`."""
    for child in ast.walk(node):
        if isinstance(child, ast.Call) and is_logarithm(amp, child):
            if any(
                tiny_sum(amp, item) or complement(item)
                for argument in argument_nodes(child)
                for item in ast.walk(argument)
            ):
                return child
        if (
            isinstance(child, ast.BinOp)
            and isinstance(child.op, ast.Div)
            and any(tiny_sum(amp, item) for item in ast.walk(child.right))
        ):
            return child
    return None


def is_logarithm(amp: Amp, call: ast.Call) -> bool:
    """`torch.log(x)` or `x.log()`."""
    if amp.facts.sites.callee(call) & FRAGILE:
        return True
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("log", "log2", "log10")
        and not amp.facts.sites.callee(call)
    )


def argument_nodes(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call, and the object of a method call."""
    return [*call.args, *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]


def tiny_sum(amp: Amp, node: ast.AST) -> ast.expr | None:
    """What `1e-8` is added to in `x + 1e-8`, the constant written out or by name."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return None
    for item, other in ((node.left, node.right), (node.right, node.left)):
        numbers = [item] if isinstance(item, ast.Constant) else amp.facts.values(item)
        tiny = numbers and all(
            isinstance(number := getattr(value, "value", None), float) and 0 < number < SMALLEST_HALF
            for value in numbers
        )
        definitions = amp.facts.state.reaching.get(other, frozenset())
        if tiny and not (
            definitions and all(is_number(amp, getattr(definition, "value", None)) for definition in definitions)
        ):
            return None if is_number(amp, other) else other
    return None


def is_number(amp: Amp, value: ast.AST | None) -> bool:
    """Whether an expression makes a Python number of a tensor."""
    if not isinstance(value, ast.Call):
        return False
    method = isinstance(value.func, ast.Attribute) and value.func.attr in NUMBERS
    return method or bool(amp.facts.sites.callee(value) & {"builtins.float", "builtins.int", "builtins.len"})


def complement(node: ast.AST) -> bool:
    """`1 - p`."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and isinstance(node.left, ast.Constant)
        and node.left.value == 1
    )


def loss_calls(amp: Amp, statement: ast.stmt) -> list[ast.Call]:
    """The outermost calls of a statement that need float32."""
    found: list[ast.Call] = []
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Call) and (
            is_probability_loss(amp, node)
            or any(fragile_code(amp, item) for item in loss_helpers(amp, node))
            or is_linear_algebra(amp, node)
        ):
            found.append(node)
        else:
            stack.extend(ast.iter_child_nodes(node))
    return found


def is_float(argument: ast.expr) -> bool:
    """Whether an expression is cast already."""
    return (
        isinstance(argument, ast.Call)
        and isinstance(argument.func, ast.Attribute)
        and argument.func.attr in ("float", "double")
    )


def float_of(amp: Amp, argument: ast.expr) -> Around:
    """An expression with `.float()` behind it."""
    path = amp.facts.path(argument)
    if isinstance(argument, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        return Around(path, argument, "", ".float()")
    up = amp.facts.tree.parent(argument)
    if isinstance(up, ast.Attribute) or (isinstance(up, ast.Subscript) and up.value is argument):
        return Around(path, argument, "", ".float()", enclosed=True)
    return Around(path, argument, "(", ").float()")


def in_model_code(amp: Amp, node: ast.AST) -> bool:
    """Whether code is a method of an `nn.Module`, which its callers put under autocast."""
    owners = [up for up in amp.facts.tree.above(node) if isinstance(up, ast.ClassDef)]
    return any(amp.facts.state.is_module_class(owner) for owner in owners)
