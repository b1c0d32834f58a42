"""What the code of a model does that a compiler cannot follow, or has to compile again for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from speedpatch.codemod import Finding
from speedpatch.facts.layers import Layers, comes_from_library
from speedpatch.facts.setup import site_of
from speedpatch.facts.sites import last_name
from speedpatch.facts.state import parameters_of
from speedpatch.facts.tree import own_nodes
from speedpatch.facts.values import Constant, Derived, Instance, Pack, Value

from .context import Compile

RECURRENT = re.compile(r"torch\.nn\.(modules\.rnn\.)?(RNN|LSTM|GRU)(Base|Cell|CellBase)?")
PACKING = re.compile(r"torch\.nn\.utils\.rnn\.(pack_padded_sequence|pack_sequence)")
DATA_PARALLEL = re.compile(r"torch\.nn\.(parallel\.)?(data_parallel\.)?(DataParallel|data_parallel)")
COMPLEX = re.compile(
    r"torch\.(fft\.\w+|stft|istft|complex|view_as_complex|view_as_real|polar|cfloat|complex64|complex128)"
)
SPARSE = re.compile(r"torch\.(sparse\.\w+|spmm|smm|sspaddmm|sparse_\w+_tensor)")
DETECTION = "torchvision.models.detection."
COUNTING = {"nonzero", "unique", "unique_consecutive", "masked_select", "argwhere"}
VALUES = {"item", "tolist", "numpy"}
TESTS = {"any", "all", "sum", "mean", "max", "min", "norm", "isnan", "isinf", "isfinite", "equal", "allclose", "item"}


def find_model_hazards(program: Compile, model: Value) -> Iterator[Finding]:
    """Every reason not to compile a model; the first one is told."""
    layers = program.layers[model]
    yield from out_of_sight(program, model, layers)
    yield from sharded(program, model)
    yield from data_parallel(program, model, layers)
    yield from plain_container(program, model)
    yield from recurrent(program, layers)
    yield from data_dependent(program, layers)
    yield from changing_attributes(program, model, layers)
    yield from numbers(program, layers)


def out_of_sight(program: Compile, model: Value, layers: Layers) -> Iterator[Finding]:
    """Models, or parts of them, whose code is not here."""
    site = site_of(program.facts, model)
    if not isinstance(getattr(model, "site", None), ast.Call) or (
        not isinstance(model, Instance) and not comes_from_library(model)
    ):
        yield program.declined(
            "model-elsewhere",
            site,
            f"{program.name(model)} is made where this program cannot be followed: name the script that makes it",
        )
        return
    unknown = layers.unknown()
    if unknown is not None:
        yield program.declined(
            "unknown-code",
            unknown.site,
            f"{unknown.name} is not in the program, so what its forward does is not known: compile it by hand "
            "and compare the speed",
        )
    if isinstance(model, Instance) and model.local is not None:
        own = program.facts.state.class_attribute(model.local, "compile", model) | program.facts.state.class_attribute(
            model.local, "__call__", model
        )
        if own:
            yield program.declined(
                "own-call", model.local, f"{model.local.name} has a compile() or __call__() of its own: rename it"
            )


def sharded(program: Compile, model: Value) -> Iterator[Finding]:
    """Wrappers that take a model to pieces."""
    if isinstance(model, Instance) and model.name.startswith(("torch.distributed.", "fairscale.", "deepspeed.")):
        yield program.declined(
            "sharded",
            model.site,
            f"{model.name.rsplit('.', 1)[-1]} splits the model up: compile the parts by hand, or shard with "
            "fully_shard",
        )


def plain_container(program: Compile, model: Value) -> Iterator[Finding]:
    """Before torch 2.14, compiling in place reaches only a forward that is not torch's own."""
    if program.options.target_torch >= (2, 14) or not isinstance(model, Instance):
        return
    own = model.local is not None and program.facts.state.class_attribute(model.local, "forward", model)
    if not own and (model.local is not None or model.name.startswith("torch.nn.")):
        yield program.declined(
            "plain-container",
            site_of(program.facts, model),
            "before torch 2.14 compile() in place does nothing for a plain torch.nn module: give it a class "
            "with a forward, or use --target-torch 2.14",
        )


def data_parallel(program: Compile, model: Value, layers: Layers) -> Iterator[Finding]:
    """DataParallel copies a model in each step, and the copies are not compiled."""
    reason = (
        "DataParallel copies the model in each step, and compiling falls apart on the copies: with one process "
        "for each GPU (DistributedDataParallel)"
    )
    for call in program.calls:
        if any(DATA_PARALLEL.fullmatch(name) for name in program.facts.sites.callee(call)):
            held = {
                program.modules.module_of(value) or value
                for argument in call.args
                for value in program.facts.values(argument)
            }
            ours = {model, *layers.parts}
            if (
                held & ours
                or any(module in ours for value in held for module in program.modules.unwrap(value))
                or call in set(layers.calls())
            ):
                yield program.declined("data-parallel", call, reason)


def recurrent(program: Compile, layers: Layers) -> Iterator[Finding]:
    """Recurrent layers: the compiler leaves them to cuDNN."""
    for part in layers.external():
        arguments = part.site.args if isinstance(part.site, ast.Call) else []
        if RECURRENT.fullmatch(part.name) or (part.name == "torch.nn.?" and len(arguments) > 1):
            yield program.declined(
                "rnn",
                part.site,
                "recurrent layers run outside of compiled code, so there is nothing to gain: leave this "
                "model uncompiled",
            )
    for call in layers.calls():
        if any(PACKING.fullmatch(name) for name in program.facts.sites.callee(call)):
            yield program.declined(
                "rnn",
                call,
                "packed sequences run outside of compiled code, so there is nothing to gain: leave this "
                "model uncompiled",
            )


def data_dependent(program: Compile, layers: Layers) -> Iterator[Finding]:
    """Values of tensors that decide what runs, or how large a result is."""
    for part in layers.external():
        if part.name.startswith(DETECTION):
            yield program.declined(
                "data-dependent",
                part.site,
                f"{part.name} has results whose size depends on the data: compile its backbone by hand",
            )
    for node in layers.nodes():
        what = depends_on_data(program, node)
        if what:
            yield program.declined(
                "data-dependent", node, f"forward {what}, where compiled code has to stop: take that out of forward"
            )


def depends_on_data(program: Compile, node: ast.AST) -> str | None:
    """What a node does with the values of tensors."""
    if isinstance(node, ast.Call):
        return call_depends_on_data(program, node)
    if isinstance(node, (ast.If, ast.While, ast.IfExp)) and any(
        is_tensor_test(program, inner) for inner in ast.walk(node.test)
    ):
        return "branches on the values of a tensor"
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if any(is_mask(program, item) for item in items):
            return "picks elements by a mask"
    return None


def call_depends_on_data(program: Compile, call: ast.Call) -> str | None:
    """Calls that read values out of tensors, or count elements."""
    names = program.facts.sites.callee(call)
    if "builtins.print" in names:
        return "prints"
    if isinstance(call.func, ast.Attribute):
        name = call.func.attr
        foreign = any(not value.startswith("torch.") for value in names)
        if name in VALUES and not call.args and not foreign:
            return f"reads a tensor by .{name}()"
        if name in COUNTING and not foreign:
            return f"calls {name}(), whose result has another size for each batch"
    if "torch.where" in names and len(call.args) == 1:
        return "calls torch.where() with a condition alone, whose result has another size for each batch"
    return None


def is_tensor_test(program: Compile, node: ast.AST) -> bool:
    """Whether part of a condition asks for the values of a tensor, or for a random number."""
    if not isinstance(node, ast.Call):
        return False
    names = program.facts.sites.callee(node)
    if any(name.startswith(("random.", "numpy.random.")) for name in names):
        return True
    foreign = any(not name.startswith("torch.") for name in names)
    return isinstance(node.func, ast.Attribute) and node.func.attr in TESTS and not foreign


def is_mask(program: Compile, node: ast.AST) -> bool:
    """Whether an index is the result of a comparison."""
    sites = [node, *(value.site for value in program.facts.values(node) if isinstance(value, Derived))]
    return any(
        isinstance(site, ast.Compare)
        or (isinstance(site, ast.UnaryOp) and isinstance(site.op, ast.Invert))
        or (isinstance(site, ast.Call) and last_name(site) in ("bool", "eq", "ne", "gt", "lt", "ge", "le"))
        for site in sites
    )  # fmt: skip


def changing_attributes(program: Compile, model: Value, layers: Layers) -> Iterator[Finding]:
    """Python numbers and lists in a module that differ at each call."""
    for function in layers.functions:
        owner = program.facts.tree.owner(function)
        names = parameters_of(function)
        if owner is None or not names:
            continue
        for node in own_nodes(function):
            attribute = changed_attribute(node, names[0])
            if attribute and holds_python(program, owner, attribute):
                yield program.declined(
                    "changing-attribute",
                    node,
                    f"forward changes self.{attribute}, and each new value compiles the model again: keep it "
                    "in a buffer or outside of the model",
                )
    for node in program.set_up.outside_stores(model):
        statement = program.facts.tree.statement(node)
        constant = isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        if program.in_training_loop(node) and not constant:
            yield program.declined(
                "changing-attribute",
                node,
                f"the training loop sets .{node.attr} of the model, and each new value compiles it again: "
                "pass it to forward as a tensor",
            )


def changed_attribute(node: ast.AST, receiver: str) -> str | None:
    """The attribute of self that a statement counts up or appends to."""
    target: ast.expr | None = None
    if isinstance(node, ast.AugAssign):
        target = node.target
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
        target = node.targets[0]
        if not any(ast.dump(inner) == ast.dump(target).replace("Store()", "Load()") for inner in ast.walk(node.value)):
            return None
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "extend"):
        target = node.func.value
    plain = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == receiver
    return target.attr if plain and isinstance(target, ast.Attribute) else None


def holds_python(program: Compile, owner: ast.ClassDef, attribute: str) -> bool:
    """Whether an attribute starts as a number or a list."""
    values = [
        value
        for base in program.facts.state.bases(owner)
        for value in program.facts.state.heap.get((base, attribute), ())
    ]
    numbers = [
        value
        for value in values
        if isinstance(value, Constant) and isinstance(value.value, (int, float)) and not isinstance(value.value, bool)
    ]
    return bool(numbers) or any(isinstance(value, Pack) for value in values)


def numbers(program: Compile, layers: Layers) -> Iterator[Finding]:
    """Kinds of tensors that the compiler has no kernels for."""
    for call in layers.calls():
        names = program.facts.sites.callee(call)
        if any(COMPLEX.fullmatch(name) for name in names):
            yield program.declined(
                "complex",
                call,
                "forward computes with complex numbers, which compiled code is slower at: leave this model uncompiled",
            )
        elif any(SPARSE.fullmatch(name) for name in names):
            yield program.declined(
                "sparse",
                call,
                "forward computes with sparse tensors, which compiled code cannot: leave this model uncompiled",
            )
