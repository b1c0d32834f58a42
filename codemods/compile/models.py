"""What kind of model compiling does nothing for, or cannot follow, and what to do about it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from speedpatch.codemod import Finding
from speedpatch.facts.holders import site_of
from speedpatch.facts.layers import Layers, comes_from_library
from speedpatch.facts.origins import out_of_sight as origin
from speedpatch.facts.values import Instance, Value

from .code import find_code_hazards
from .context import Compile

RECURRENT = re.compile(r"torch\.nn\.(modules\.rnn\.)?(RNN|LSTM|GRU)(Base|Cell|CellBase)?")
PACKING = re.compile(r"torch\.nn\.utils\.rnn\.(pack_padded_sequence|pack_sequence)")
DATA_PARALLEL = re.compile(r"torch\.nn\.(parallel\.)?(data_parallel\.)?(DataParallel|data_parallel)")
SHARDING = ("torch.distributed.", "fairscale.", "deepspeed.")
DETECTION = "torchvision.models.detection."
IN_PLACE_OF_ALL = (2, 14)
"""The torch from which compile() in place reaches a forward that is torch's own."""
SPARSE_GRADIENTS = (2, 8)
COPIES = (
    "DataParallel copies the model in each step, and compiling falls apart on the copies: use one process a GPU "
    "(DistributedDataParallel)"
)
NOTHING_TO_GAIN = "recurrent layers run outside of compiled code, so there is nothing to gain: leave it uncompiled"
PLAIN = (
    "before torch 2.14 compile() in place does nothing for a model whose forward is torch's own: give it a class "
    "with a forward, or use --target-torch 2.14"
)


def find_model_hazards(program: Compile, model: Value) -> Iterator[Finding]:
    """Every reason not to compile a model; the first one is told."""
    layers = program.layers[model]
    yield from out_of_sight(program, model, layers)
    yield from wrapped(program, model, layers)
    yield from without_own_forward(program, model)
    yield from recurrent(program, layers)
    yield from odd_parts(program, layers)
    yield from find_code_hazards(program, model, layers)


def out_of_sight(program: Compile, model: Value, layers: Layers) -> Iterator[Finding]:
    """Models, or parts of them, whose code is not here."""
    made = isinstance(getattr(model, "site", None), ast.Call)
    if not made or not (isinstance(model, Instance) or comes_from_library(model)):
        hidden = f"{program.name(model)} is made where this program cannot be followed: name the script that makes it"
        place, reason = origin(program.facts, model) or (site_of(program.facts, model), hidden)
        yield program.declined("model-elsewhere", place, reason)
        return
    unknown = layers.unknown()
    if unknown is not None:
        yield program.declined(
            "unknown-code",
            unknown.site,
            f"what {unknown.name} does in its forward is not known here: compile it by hand and compare the speed",
        )
    local = model.local if isinstance(model, Instance) else None
    state = program.facts.state
    if local is not None and any(state.class_attribute(local, name, model) for name in ("compile", "__call__")):
        yield program.declined(
            "own-call",
            local,
            f"{local.name} has a compile() or __call__() of its own in place of torch's: give that another name",
        )


def wrapped(program: Compile, model: Value, layers: Layers) -> Iterator[Finding]:
    """Wrappers that copy a model in each step, or split it up."""
    if isinstance(model, Instance) and model.name.startswith(SHARDING):
        name = model.name.rsplit(".", 1)[-1]
        yield program.declined(
            "sharded", model.site, f"{name} splits the model up: compile its blocks by hand before they are sharded"
        )
    ours = {model, *layers.parts}
    own = set(layers.calls())
    for call in program.calls:
        if any(DATA_PARALLEL.fullmatch(name) for name in program.facts.sites.callee(call)):
            values = [value for argument in call.args for value in program.facts.values(argument)]
            held = {program.modules.parts.module_of(value) or value for value in values}
            if call in own or any(module in ours for value in held for module in program.modules.unwrap(value)):
                yield program.declined("data-parallel", call, COPIES)


def without_own_forward(program: Compile, model: Value) -> Iterator[Finding]:
    """`nn.Sequential` and the like, in a torch that compiles nothing of them in place."""
    if program.options.target_torch >= IN_PLACE_OF_ALL or not isinstance(model, Instance):
        return
    own = model.local is not None and program.facts.state.class_attribute(model.local, "forward", model)
    if not own and (model.local is not None or model.name.startswith("torch.nn.")):
        yield program.declined("plain-container", model.site, PLAIN)


def recurrent(program: Compile, layers: Layers) -> Iterator[Finding]:
    """Recurrent layers: the compiler leaves them alone."""
    for part in layers.external():
        arguments = part.site.args if isinstance(part.site, ast.Call) else []
        if RECURRENT.fullmatch(part.name) or (part.name == "torch.nn.?" and len(arguments) > 1):
            yield program.declined("rnn", part.site, NOTHING_TO_GAIN)
    for call in layers.calls():
        if any(PACKING.fullmatch(name) for name in program.facts.sites.callee(call)):
            yield program.declined("rnn", call, NOTHING_TO_GAIN)


def odd_parts(program: Compile, layers: Layers) -> Iterator[Finding]:
    """Detectors, and embeddings with sparse gradients in a torch that cannot compile them."""
    for part in layers.external():
        if part.name.startswith(DETECTION):
            yield program.declined(
                "data-dependent",
                part.site,
                f"the results of {part.name} have a size that depends on the data: compile its backbone by hand",
            )
        if (
            part.name == "torch.nn.Embedding"
            and has_sparse_gradients(part)
            and program.options.target_torch < SPARSE_GRADIENTS
        ):
            yield program.declined(
                "sparse",
                part.site,
                "before torch 2.8 sparse gradients cannot be compiled: take sparse=True out, or use --target-torch 2.8",
            )


def has_sparse_gradients(part: Instance) -> bool:
    """`nn.Embedding(..., sparse=True)`."""
    keywords = part.site.keywords if isinstance(part.site, ast.Call) else []
    return any(
        item.arg == "sparse" and not (isinstance(item.value, ast.Constant) and not item.value.value)
        for item in keywords
    )
