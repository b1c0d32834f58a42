"""What forward does that compiled code has to stop at, or is compiled again for, and what to do about it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from speedpatch.codemod import Finding
from speedpatch.facts.layers import Layers
from speedpatch.facts.state import parameters_of
from speedpatch.facts.tree import own_nodes
from speedpatch.facts.values import Constant, Derived, Pack, Value

from .context import Compile

COMPLEX = re.compile(r"torch\.(fft\.\w+|stft|istft|complex|view_as_complex|view_as_real|polar)")
SPARSE = re.compile(r"torch\.(sparse\.\w+|spmm|smm|sspaddmm|sparse_\w+_tensor)")
COUNTING = {"nonzero", "unique", "unique_consecutive", "masked_select", "argwhere"}
VALUES = {"item", "tolist", "numpy"}
TESTS = {"any", "all", "sum", "mean", "max", "min", "norm", "isnan", "isinf", "isfinite", "equal", "allclose", "item"}
COMPARISONS = {"bool", "eq", "ne", "gt", "lt", "ge", "le"}
CHANCE = ("random.", "numpy.random.")
TENSORS = re.compile(
    r"torch\.(tensor|as_tensor|from_numpy|zeros|ones|full|rand|randn|randint|arange|stack|cat)(_like)?"
)
FRACTIONS = {"builtins.float", "math.cos", "math.exp", "math.sqrt"}
MAKING = {"to", "cuda", "detach", "clone", "mean", "sum"}
IMAGINARY = "forward computes with complex numbers, which compiled code is slower at: leave this model uncompiled"
WITH_HOLES = "forward computes with sparse tensors, which are not compiled: leave this model uncompiled"


def find_code_hazards(program: Compile, model: Value, layers: Layers) -> Iterator[Finding]:
    """Every such place."""
    for node in layers.nodes():
        what = depends_on_data(program, node)
        if what:
            yield program.declined(
                "data-dependent", node, f"forward {what}, where compiled code has to stop: take that out of forward"
            )
    yield from changed_in_forward(program, layers)
    yield from changed_from_outside(program, model, layers)
    for call in layers.calls():
        names = program.facts.sites.callee(call)
        if any(COMPLEX.fullmatch(name) for name in names):
            yield program.declined("complex", call, IMAGINARY)
        elif any(SPARSE.fullmatch(name) for name in names):
            yield program.declined("sparse", call, WITH_HOLES)


def depends_on_data(program: Compile, node: ast.AST) -> str | None:
    """What a node does with the values of tensors."""
    if isinstance(node, ast.Call):
        return call_depends_on_data(program, node)
    if isinstance(node, (ast.If, ast.While, ast.IfExp)) and any(
        is_test(program, inner) for inner in ast.walk(node.test)
    ):
        return "branches on the values of a tensor or on chance"
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return "picks elements by a mask" if any(is_mask(program, item) for item in items) else None
    return None


def call_depends_on_data(program: Compile, call: ast.Call) -> str | None:
    """Calls that read values out of tensors, or count elements."""
    names = program.facts.sites.callee(call)
    if "builtins.print" in names:
        return "prints"
    if "torch.where" in names and len(call.args) == 1 and not call.keywords:
        return "calls torch.where() with a condition alone, whose result has another size for each batch"
    if not isinstance(call.func, ast.Attribute) or is_foreign(names):
        return None
    if call.func.attr in VALUES and not call.args:
        return f"reads a tensor by .{call.func.attr}()"
    if call.func.attr in COUNTING:
        return f"calls {call.func.attr}(), whose result has another size for each batch"
    return None


def is_foreign(names: set[str]) -> bool:
    """Whether a call is known to be one of another library."""
    return any(not name.startswith("torch.") for name in names)


def is_test(program: Compile, node: ast.AST) -> bool:
    """Whether part of a condition asks for the values of a tensor, or for a random number."""
    if not isinstance(node, ast.Call):
        return False
    names = program.facts.sites.callee(node)
    if any(name.startswith(CHANCE) for name in names):
        return True
    return isinstance(node.func, ast.Attribute) and node.func.attr in TESTS and not is_foreign(names)


def is_mask(program: Compile, node: ast.AST) -> bool:
    """Whether an index is the result of a comparison."""
    sites = [node, *(value.site for value in program.facts.values(node) if isinstance(value, Derived))]
    return any(
        isinstance(site, ast.Compare)
        or (isinstance(site, ast.UnaryOp) and isinstance(site.op, ast.Invert))
        or (isinstance(site, ast.Call) and isinstance(site.func, ast.Attribute) and site.func.attr in COMPARISONS)
        for site in sites
    )


def changed_in_forward(program: Compile, layers: Layers) -> Iterator[Finding]:
    """Python numbers and lists in a module that differ at each call."""
    for function in layers.functions:
        owner = program.facts.tree.owner(function)
        names = parameters_of(function)
        for node in own_nodes(function) if owner is not None and names else ():
            attribute = changed_attribute(node, names[0])
            if owner is not None and attribute and holds_python(program, owner, attribute):
                yield program.declined(
                    "changing-attribute",
                    node,
                    f"forward changes self.{attribute}, and each new value compiles the model again: keep it in a "
                    "buffer, or outside of the model",
                )


def changed_attribute(node: ast.AST, receiver: str) -> str | None:
    """The attribute of self that a node counts up or appends to."""
    target: ast.expr | None = None
    if isinstance(node, ast.AugAssign):
        target = node.target
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
        target = node.targets[0] if ast.unparse(node.targets[0]) in map(ast.unparse, ast.walk(node.value)) else None
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "extend"):
        target = node.func.value
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == receiver:
        return target.attr
    return None


def holds_python(program: Compile, owner: ast.ClassDef, attribute: str) -> bool:
    """Whether an attribute starts as a number or a list."""
    state = program.facts.state
    values = [value for base in state.bases(owner) for value in state.heap.get((base, attribute), ())]
    numbers = [value.value for value in values if isinstance(value, Constant) and not isinstance(value.value, bool)]
    return any(isinstance(number, (int, float)) for number in numbers) or any(
        isinstance(value, Pack) for value in values
    )


def changed_from_outside(program: Compile, model: Value, layers: Layers) -> Iterator[Finding]:
    """Whole numbers that forward reads and the training loop sets; tensors and fractions become arguments."""
    for node in program.holders.outside_stores(model):
        statement = program.facts.tree.statement(node)
        value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
        plain = isinstance(value, ast.Constant) or (value is not None and is_argument(program, value))
        if not plain and layers.may_read(node.attr) and program.in_training_loop(node):
            yield program.declined(
                "changing-attribute",
                node,
                f"the training loop sets .{node.attr} of the model, and forward is compiled again for each new number "
                "there: keep it in a tensor, or outside of the model",
            )


def is_argument(program: Compile, node: ast.expr) -> bool:
    """Whether an expression surely makes a tensor or a fraction, whose value compiled code does not depend on."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Div)
    if not isinstance(node, ast.Call):
        return False
    names = program.facts.sites.callee(node)
    made = bool(names) and all(TENSORS.fullmatch(name) or name in FRACTIONS for name in names)
    return made or (isinstance(node.func, ast.Attribute) and node.func.attr in MAKING and not names)
