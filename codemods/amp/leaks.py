"""Half-precision tensors that leave a region, constants and buffers that do not fit inside one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from speedpatch.codemod import Finding
from speedpatch.edits import Around, Edit, Insert, Replace
from speedpatch.facts.evaluate import dotted
from speedpatch.facts.slices import is_downstream
from speedpatch.facts.state import external_names, parameters_of
from speedpatch.facts.tree import own_nodes
from speedpatch.facts.values import FUNCTIONS, LOOPS, Constant, FunctionNode, Instance, Pack

from .context import Amp
from .islands import find_islands
from .outputs import find_casts
from .regions import Regions

LARGEST_HALF = 65504.0
LARGEST_BFLOAT16 = 3.3895e38
LARGEST_FLOAT32 = 3.4028e38
FILLS = {"masked_fill", "masked_fill_", "fill_", "full_like", "new_full", "index_fill", "index_fill_"}
SOURCES = {
    "scatter_": 2, "scatter_add_": 2, "index_add_": 2, "index_copy_": 2, "masked_scatter_": 1, "scatter": 2,
    "scatter_add": 2, "index_add": 2, "index_copy": 2,
}  # fmt: skip
FLOAT32 = {"torch.float32", "torch.float", "torch.FloatTensor", "torch.cuda.FloatTensor"}
BUFFERS = {"torch.zeros", "torch.empty", "torch.ones", "torch.full", "torch.Tensor", "torch.FloatTensor"}


def find_leaks(amp: Amp, regions: Regions) -> Iterator[Edit | Finding]:
    """All edits and declines around regions."""
    under = covered(amp, regions)
    yield from find_casts(amp, regions, frozenset(under))
    yield from outside_writes(amp, regions)
    for scope in under:
        yield from constants(amp, scope)
        yield from buffer_writes(amp, scope)
        yield from dtype_tests(amp, scope)
    yield from find_islands(amp, [scope for scope in under if isinstance(scope, FUNCTIONS)])
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


# ---- constants


def constants(amp: Amp, scope: ast.AST) -> Iterator[Edit | Finding]:
    """`masked_fill(mask, -1e9)` raises in float16: the smallest number of the tensor's dtype does the same."""
    for node in ast.walk(scope):
        found = fill(amp, node)
        number = fill_number(amp, found[1]) if found is not None else None
        if found is None or number is None or not largest(amp) < abs(number) < float("inf"):
            continue
        base, value = dotted(found[0]), found[1]
        if base is None or not amp.facts.is_editable(node):
            where = "" if amp.facts.is_editable(node) else ", in another file"
            yield amp.declined(
                "fp16-constant",
                node,
                f"this constant is too large for {amp.options.amp_dtype}{where}: write torch.finfo(x.dtype).min",
            )
            continue
        bound = "min" if number < 0 else "max"
        yield Replace(amp.facts.path(value), value, f"{amp.torch('finfo', value)}({base}.dtype).{bound}")


def largest(amp: Amp) -> float:
    """The largest number of the wanted precision."""
    return LARGEST_HALF if amp.half else LARGEST_BFLOAT16


def fill(amp: Amp, node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """A tensor and the number that it is filled with, where a number beyond its dtype raises."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(target := node.targets[0], ast.Subscript):
        return (
            (target.value, node.value)
            if is_downstream(amp.facts, target.value, {}) and not is_buffer(amp, target.value)
            else None
        )
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    functional = {name.split(".")[-1] for name in amp.facts.sites.callee(node) if name.startswith("torch.")}
    name = next(iter(functional), node.func.attr)
    arguments = node.args[1:] if functional else node.args
    value = next(
        (item.value for item in node.keywords if item.arg in ("value", "fill_value")),
        arguments[-1] if arguments else None,
    )
    base = node.func.value if not functional else node.args[0] if node.args else None
    if name not in FILLS or value is None or base is None:
        return None
    return (base, value) if name.startswith("masked_fill") or is_downstream(amp.facts, base, {}) else None


def fill_number(amp: Amp, value: ast.expr) -> float | None:
    """The number of a fill: written out, by name, or as `torch.finfo(torch.float32).min`."""
    number = literal(value)
    if number is not None:
        return number
    if isinstance(value, ast.Attribute) and value.attr in ("min", "max") and isinstance(value.value, ast.Call):
        call = value.value
        single = call.args and external_names(amp.facts.values(call.args[0])) & {"torch.float32", "torch.float"}
        if single and "torch.finfo" in amp.facts.sites.callee(call):
            return LARGEST_FLOAT32 if value.attr == "max" else -LARGEST_FLOAT32
    numbers = [
        item.value
        for item in amp.facts.values(value)
        if isinstance(item, Constant) and isinstance(item.value, (int, float))
    ]
    return float(numbers[0]) if numbers and len(numbers) == len(amp.facts.values(value)) else None


def literal(node: ast.expr) -> float | None:
    """The number that an expression writes out."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return float(value) if isinstance(value, (int, float)) else None


# ---- buffers


def outside_writes(amp: Amp, regions: Regions) -> Iterator[Edit | Finding]:
    """Writes of a region's outputs behind it."""
    memo: dict[ast.AST, bool] = {}
    for scope in {amp.facts.tree.scope(region.first): None for region in regions.all}:
        for node in own_nodes(scope):
            found = buffer_write(amp, node)
            if found and not in_region(amp, node, regions) and is_downstream(amp.facts, found[1], memo):
                yield from buffer_writes(amp, node)


def in_region(amp: Amp, node: ast.AST, regions: Regions) -> bool:
    """Whether a node lies in a region."""
    return any(region.holds(amp.facts, node) for region in regions.all)


def buffer_writes(amp: Amp, scope: ast.AST) -> Iterator[Edit | Finding]:
    """Index writes and scatters into float32 buffers need a source of the buffer's dtype."""
    for node in ast.walk(scope):
        found = buffer_write(amp, node)
        if found is None:
            continue
        base, source = found
        if not amp.facts.is_editable(node):
            yield amp.declined(
                "buffer-write",
                node,
                "a float32 buffer is written by index in another file: add .to(buffer.dtype) to what is written",
            )
            continue
        before, after = (
            ("", "") if isinstance(source, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) else ("(", ")")
        )
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
        (
            isinstance(value, Instance)
            and value.name in BUFFERS
            and isinstance(value.site, ast.Call)
            and not any(item.arg == "dtype" for item in value.site.keywords)
        )
        or is_moved_buffer(amp, value)
        for value in values
    )


def is_moved_buffer(amp: Amp, value: object) -> bool:
    """`torch.zeros(...).to(device)`."""
    site = getattr(value, "site", None)
    if not isinstance(site, ast.Call):
        return False
    if amp.facts.sites.callee(site) & {"torch.autograd.Variable"} and site.args:
        return is_buffer(amp, site.args[0])
    if isinstance(site.func, ast.Attribute) and site.func.attr in (
        "to",
        "cuda",
        "type",
        "float",
        "view",
        "requires_grad_",
    ):
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


# ---- dtype tests


def dtype_tests(amp: Amp, scope: ast.AST) -> Iterator[Finding]:
    """`x.dtype == torch.float32` and `isinstance(x, torch.FloatTensor)` turn out otherwise in half precision."""
    for node in ast.walk(scope):
        tested, kinds = None, []
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "dtype":
            tested, kinds = node.left.value, node.comparators
        elif (
            isinstance(node, ast.Call) and "builtins.isinstance" in amp.facts.sites.callee(node) and len(node.args) == 2
        ):
            tested, kinds = node.args[0], node.args[1:]
        names = set().union(*(external_names(amp.facts.values(kind)) for kind in kinds)) & FLOAT32
        definitions = amp.facts.state.reaching.get(tested, frozenset()) if tested is not None else frozenset()
        if names and any(isinstance(item, ast.stmt) and is_downstream(amp.facts, item, {}) for item in definitions):
            yield amp.declined(
                "dtype-test",
                node,
                f"the program asks whether an output is {min(names)}, which it will not be under autocast: "
                "take the test out first",
            )


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
        if not amp.facts.is_editable(node):
            yield amp.declined(
                "autograd-function",
                node,
                f"the autograd function {node.name} is in another file: decorate it with torch.amp.custom_fwd "
                "and custom_bwd",
            )
            return
        device = f'device_type="{amp.device_type}"'
        cast = "" if calls_what_it_is_given(forward) else f", cast_inputs={amp.torch('float32', node)}"
        yield decorate(amp, forward, f"@{amp.torch('amp.custom_fwd', node)}({device}{cast})")
        yield decorate(amp, backward, f"@{amp.torch('amp.custom_bwd', node)}({device})")


def calls_what_it_is_given(forward: FunctionNode) -> bool:
    """Whether an autograd function runs other code, as checkpointing does, which keeps the precision around it."""
    names = set(parameters_of(forward))
    calls = [node.func for node in ast.walk(forward) if isinstance(node, ast.Call)]
    return any(isinstance(function, ast.Name) and function.id in names for function in calls)


def decorate(amp: Amp, function: FunctionNode, text: str) -> Edit:
    """A decorator right above the definition, below `@staticmethod`."""
    if function.decorator_list:
        first = function.decorator_list[0]
        indent = " " * first.col_offset
        return Around(amp.facts.path(function), first, "", f"\n{indent[:-1]}{text}")
    return Insert(amp.facts.path(function), function, "before", text)
