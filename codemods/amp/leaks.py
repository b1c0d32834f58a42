"""Half-precision tensors that leave a region, constants and buffers that do not fit inside one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from speedpatch.codemod import Finding
from speedpatch.codemods.amp.context import Amp
from speedpatch.codemods.amp.islands import find_islands
from speedpatch.codemods.amp.regions import Regions
from speedpatch.codemods.amp.precision import is_float
from speedpatch.edits import Around, Edit, Insert, Replace
from speedpatch.facts.evaluate import dotted
from speedpatch.facts.slices import is_downstream
from speedpatch.facts.values import FUNCTIONS, LOOPS, Constant, FunctionNode, Instance, Pack

LARGEST_HALF = 65504
SHAPES = {
    "detach", "view", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "flatten", "contiguous", "clone",
    "sigmoid", "softmax", "exp", "tanh", "clamp", "mean", "sum", "data", "T", "expand", "repeat", "cpu", "abs",
}  # fmt: skip
SOURCES = {
    "scatter_": 2, "scatter_add_": 2, "index_add_": 2, "index_copy_": 2, "masked_scatter_": 1, "scatter": 2,
    "scatter_add": 2, "index_add": 2, "index_copy": 2,
}  # fmt: skip
BUFFERS = {"torch.zeros", "torch.empty", "torch.ones", "torch.full"}


def find_leaks(amp: Amp, regions: Regions) -> Iterator[Edit | Finding]:
    """All edits and declines around regions."""
    yield from to_numpy(amp, regions)
    for scope in covered(amp, regions):
        yield from constants(amp, scope)
        yield from buffer_writes(amp, scope)
    yield from find_islands(amp, [scope for scope in covered(amp, regions) if isinstance(scope, FUNCTIONS)])
    yield from autograd_functions(amp)


def covered(amp: Amp, regions: Regions) -> list[ast.AST]:
    """The code that runs under autocast: the regions' statements and every function they may call."""
    roots: list[ast.AST] = [statement for region in regions.all for statement in region.block]
    found: dict[ast.AST, None] = {}
    while roots:
        node = roots.pop()
        if node in found:
            continue
        found[node] = None
        for call in ast.walk(node):
            if isinstance(call, ast.Call):
                roots += [function for function in amp.facts.sites.local_callees(call) if function.name != "__init__"]
    return list(found)


# ---- numpy


def to_numpy(amp: Amp, regions: Regions) -> Iterator[Edit]:
    """`.float()` ahead of `.numpy()`: NumPy has no bfloat16, and its float16 overflows in sums."""
    for call in amp.facts.sites.calls:
        source = numpy_source(amp, call)
        if source is None or not amp.facts.in_script(call):
            continue
        if isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) and source.func.attr == "cpu":
            source = source.func.value
        if not is_float(source) and is_output(amp, source, regions):
            yield Around(amp.facts.path(source), source, "", ".float()")


def numpy_source(amp: Amp, call: ast.Call) -> ast.expr | None:
    """The tensor that a call turns into an array."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "numpy" and not call.args:
        return call.func.value
    if amp.facts.sites.callee(call) & {"numpy.array", "numpy.asarray"} and call.args and isinstance(call.args[0], ast.Call):
        inner = call.args[0]
        return inner if isinstance(inner.func, ast.Attribute) and inner.func.attr in ("cpu", "detach") else None
    return None


def is_output(amp: Amp, node: ast.expr, regions: Regions) -> bool:
    """Whether an expression is a floating-point output of a model computed in a region, at most reshaped."""
    node = bare(amp, node)
    if isinstance(node, ast.Call):
        return amp.facts.sites.is_forward(node) and in_region(amp, node, regions)
    definitions = amp.facts.state.reaching.get(node, frozenset())
    return bool(definitions) and all(
        isinstance(item, ast.Assign) and in_region(amp, item, regions) and comes_from_forward(amp, item) for item in definitions
    )


def bare(amp: Amp, node: ast.expr) -> ast.expr:
    """A tensor without the reshaping and pointwise functions around it."""
    while True:
        if functional(amp, node):
            node = node.args[0]  # type: ignore[attr-defined]
        elif isinstance(node, ast.BinOp):
            node = next((side for side in (node.left, node.right) if is_downstream(amp.facts, side, {})), node.left)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            node = node.operand
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SHAPES and not amp.facts.sites.is_forward(node):
            node = node.func.value
        elif isinstance(node, ast.Attribute) and node.attr in SHAPES or isinstance(node, ast.Subscript):
            node = node.value
        else:
            return node


def comes_from_forward(amp: Amp, item: ast.Assign) -> bool:
    """Whether an assignment takes what a model gave, not an index into it."""
    value = bare(amp, item.value)
    return isinstance(value, ast.Call) and amp.facts.sites.is_forward(value)


def functional(amp: Amp, value: ast.expr) -> bool:
    """`torch.sigmoid(x)` and the like."""
    return isinstance(value, ast.Call) and bool(value.args) and any(
        name.startswith("torch.") and name.split(".")[-1] in SHAPES for name in amp.facts.sites.callee(value)
    )


def in_region(amp: Amp, node: ast.AST, regions: Regions) -> bool:
    """Whether a node lies in a region."""
    return any(region.holds(amp.facts, node) for region in regions.all)


# ---- constants


def constants(amp: Amp, scope: ast.AST) -> Iterator[Edit | Finding]:
    """`masked_fill(mask, -1e9)` raises in float16: the smallest number of the tensor's dtype does the same."""
    if not amp.half:
        return
    for call in (node for node in ast.walk(scope) if isinstance(node, ast.Call)):
        value = fill_value(amp, call)
        if value is None:
            continue
        base = dotted(call.func.value) if isinstance(call.func, ast.Attribute) and not amp.facts.sites.callee(call) else None
        base = base or (dotted(call.args[0]) if amp.facts.sites.callee(call) and call.args else None)
        if base is None or not amp.facts.in_script(call):
            where = "" if amp.facts.in_script(call) else ", in another file"
            yield amp.declined("fp16-constant", call, f"this constant is too large for float16{where}: write torch.finfo(x.dtype).min, or use --amp-dtype bfloat16")
            continue
        bound = "min" if negative(value) else "max"
        yield Replace(amp.facts.path(value), value, f"{amp.torch('finfo', value)}({base}.dtype).{bound}")


def fill_value(amp: Amp, call: ast.Call) -> ast.expr | None:
    """The value of a masked_fill, when float16 cannot hold it."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("masked_fill", "masked_fill_"):
        return None
    value = next((item.value for item in call.keywords if item.arg == "value"), call.args[-1] if len(call.args) >= 2 else None)
    if value is None:
        return None
    number = literal(value)
    return value if number is not None and LARGEST_HALF < abs(number) < float("inf") else None


def literal(node: ast.expr) -> float | None:
    """The number that an expression writes out."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return float(value) if isinstance(value, (int, float)) else None


def negative(node: ast.expr) -> bool:
    """Whether a literal is below zero."""
    number = literal(node)
    return number is not None and number < 0


# ---- buffers


def buffer_writes(amp: Amp, scope: ast.AST) -> Iterator[Edit | Finding]:
    """Index writes and scatters into float32 buffers need a source of the buffer's dtype."""
    for node in ast.walk(scope):
        found = buffer_write(amp, node)
        if found is None:
            continue
        base, source = found
        if not amp.facts.in_script(node):
            yield amp.declined("buffer-write", node, "a float32 buffer is written by index in another file: add .to(buffer.dtype) to what is written")
            continue
        before, after = ("", "") if isinstance(source, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) else ("(", ")")
        yield Around(amp.facts.path(source), source, before, f"{after}.to({base}.dtype)")


def buffer_write(amp: Amp, node: ast.AST) -> tuple[str, ast.expr] | None:
    """The buffer and the source of a write that needs equal dtypes."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(target := node.targets[0], ast.Subscript):
        base = dotted(target.value)
        if base and is_buffer(amp, target.value) and by_tensor(amp, target.slice) and computed(amp, node.value):
            return base, node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SOURCES:
        base, index = dotted(node.func.value), SOURCES[node.func.attr]
        if base and len(node.args) > index and is_buffer(amp, node.func.value) and computed(amp, node.args[index]):
            return base, node.args[index]
    return None


def is_buffer(amp: Amp, node: ast.expr) -> bool:
    """Whether an expression is a tensor made with the default dtype."""
    values = amp.facts.values(node)
    return bool(values) and all(
        isinstance(value, Instance) and value.name in BUFFERS and isinstance(value.site, ast.Call) and not any(item.arg == "dtype" for item in value.site.keywords)
        or is_moved_buffer(amp, value)
        for value in values
    )


def is_moved_buffer(amp: Amp, value: object) -> bool:
    """`torch.zeros(...).to(device)`."""
    site = getattr(value, "site", None)
    if isinstance(site, ast.Call) and isinstance(site.func, ast.Attribute) and site.func.attr in ("to", "cuda"):
        return is_buffer(amp, site.func.value)
    return False


def by_tensor(amp: Amp, index: ast.expr) -> bool:
    """Whether an index selects by tensor or list: a number or slice copies with a cast of its own."""
    if isinstance(index, ast.Tuple):
        return any(by_tensor(amp, item) for item in index.elts)
    if isinstance(index, (ast.Slice, ast.Constant, ast.UnaryOp)):
        return False
    if isinstance(index, (ast.Compare, ast.List)):
        return True
    return isinstance(index, (ast.Name, ast.Attribute, ast.Call)) and not is_counter(amp, index)


def is_counter(amp: Amp, index: ast.expr) -> bool:
    """Whether an index is the number of a loop over a range, or counted by one."""
    if any(isinstance(item, Pack) for item in amp.facts.values(index)):
        return False
    definitions = amp.facts.state.reaching.get(index, frozenset())
    if any(isinstance(value, Constant) and isinstance(value.value, int) for value in amp.facts.values(index)):
        return True
    return bool(definitions) and all(isinstance(item, LOOPS) for item in definitions)


def computed(amp: Amp, node: ast.expr) -> bool:
    """Whether what is written is more than a literal."""
    return not isinstance(node, ast.Constant) and literal(node) is None


# ---- autograd functions


def autograd_functions(amp: Amp) -> Iterator[Edit | Finding]:
    """`custom_fwd` and `custom_bwd` on the program's own autograd functions, which then run in float32."""
    for node, lineage in amp.facts.state.lineage.items():
        if "torch.autograd.Function" not in lineage and "torch.autograd.function.Function" not in lineage:
            continue
        methods = {item.name: item for item in node.body if isinstance(item, FUNCTIONS)}
        forward, backward = methods.get("forward"), methods.get("backward")
        if forward is None or backward is None or len(forward.decorator_list) > 1 or len(backward.decorator_list) > 1:
            continue
        if not amp.facts.in_script(node):
            yield amp.declined("autograd-function", node, f"the autograd function {node.name} is in another file: decorate it with torch.amp.custom_fwd and custom_bwd")
            return
        device = f'device_type="{amp.device_type}"'
        yield decorate(amp, forward, f"@{amp.torch('amp.custom_fwd', node)}({device}, cast_inputs={amp.torch('float32', node)})")
        yield decorate(amp, backward, f"@{amp.torch('amp.custom_bwd', node)}({device})")


def decorate(amp: Amp, function: FunctionNode, text: str) -> Edit:
    """A decorator right above the definition, below `@staticmethod`."""
    if function.decorator_list:
        first = function.decorator_list[0]
        indent = " " * first.col_offset
        return Around(amp.facts.path(function), first, "", f"\n{indent[:-1]}{text}")
    return Insert(amp.facts.path(function), function, "before", text)
