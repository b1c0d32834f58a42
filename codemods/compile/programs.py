"""What a program does with its models that compiling would break, and what to do about it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from speedpatch.codemod import Finding
from speedpatch.facts.devices import places_of
from speedpatch.facts.setup import Ready, end
from speedpatch.facts.tree import position
from speedpatch.facts.values import External, Value

from .context import Compile, last_name

GRADIENTS = {"torch.autograd.grad", "torch.autograd.backward"}
TRANSFORMS = re.compile(r"(torch\.autograd\.functional|torch\.func|functorch|higher|learn2learn|torchopt)\..*")
FUNCTIONAL_CALLS = {"torch.func.functional_call", "torch.nn.utils.stateless.functional_call"}
HOOKS = {
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
    "register_backward_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
}
TRACING = {"torch.jit.trace", "torch.jit.trace_module", "torch.onnx.export", "torch.fx.symbolic_trace"}
GRAPHS = {"torch.cuda.graph", "torch.cuda.CUDAGraph", "torch.cuda.make_graphed_callables"}
PROCESSES = ("torch.multiprocessing.", "multiprocessing.")
AGAIN = (
    "gradients are differentiated again, which a compiled model cannot do: leave this program uncompiled, "
    "or compile by hand the models that have no part in it"
)
AGAIN_BY_CALL = (
    "gradients are differentiated again through functional_call, which a compiled model cannot do: leave this program "
    "uncompiled"
)
OTHER_WEIGHTS = (
    "functional_call runs the model with weights that it is given, and these calls are not followed here: compile the "
    "model by hand and compare the speed"
)
RETAINED = (
    "retain_graph=True needs buffers that a compiled backward pass gives away: add the losses up and call backward "
    "once, or set torch._functorch.config.donated_buffer = False and compile by hand"
)
HOOKED = (
    "hooks on modules may be skipped by compiled ones without a word: return from forward what the hook reads, or "
    "leave this program uncompiled"
)
PRUNED = (
    "pruning works by hooks, which a compiled module may skip without a word: prune in a script of its own when "
    "training is done, or leave this program uncompiled"
)
SPECTRAL = (
    "torch.nn.utils.spectral_norm works by a hook, and compiled models compute something else with it: use "
    "torch.nn.utils.parametrizations.spectral_norm"
)
DEFAULT_TYPE = "the default tensor type is on CUDA, for the compiler too: use torch.set_default_device instead"
RECORDED = (
    "the program records CUDA graphs of its own, in which nothing may be compiled: take them out, and use "
    "--compile-mode reduce-overhead"
)
HANDED_ON = "other processes get the model uncompiled: compile it in the function that they run"
MOVED = (
    "the model moves to the CPU and back while it is trained, and is compiled anew for each place: save "
    "model.state_dict() without moving the model"
)
TAKEN_APART = (
    "the children of the model are used without it, and these calls are not compiled: give that part a name in the "
    "model and call the model"
)
TRACED = "a compiled model cannot be traced or exported: trace copy.deepcopy(model), which is not compiled"


def find_program_hazards(program: Compile) -> Iterator[Finding]:
    """Every reason to compile nothing in a program."""
    yield from differentiated_again(program)
    for call in program.calls:
        yield from hazards_of_call(program, call)
    yield from moved_in_loop(program)
    yield from taken_apart(program)


def differentiated_again(program: Compile) -> Iterator[Finding]:
    """Gradients of gradients, and models that run with other weights than their own."""
    functional = functional_calls(program)
    for call in program.calls:
        if differentiates(program, call) and is_on(call, "create_graph"):
            yield program.declined("double-backward", call, AGAIN_BY_CALL if functional else AGAIN)
            return
    for call in program.calls:
        names = sorted(name for name in program.facts.sites.callee(call) if TRANSFORMS.fullmatch(name))
        if names and call not in functional:
            reason = (
                f"{names[0]} runs the model under a transform that compiled code is not made for: leave this program "
                "uncompiled, or compile by hand the models that have no part in it"
            )
            yield program.declined("double-backward", call, reason)
            return
    if functional:
        yield program.declined("functional-call", functional[0], OTHER_WEIGHTS)


def functional_calls(program: Compile) -> list[ast.Call]:
    """The calls that run a model with weights that they are given."""
    return [call for call in program.calls if program.facts.sites.callee(call) & FUNCTIONAL_CALLS]


def differentiates(program: Compile, call: ast.Call) -> bool:
    """Whether a call computes gradients."""
    return bool(program.facts.sites.callee(call) & GRADIENTS) or last_name(call) in ("backward", "grad")


def hazards_of_call(program: Compile, call: ast.Call) -> Iterator[Finding]:
    """What one call does."""
    names, last = program.facts.sites.callee(call), last_name(call)
    if differentiates(program, call) and is_on(call, "retain_graph") and not is_on(call, "create_graph"):
        yield program.declined("retain-graph", call, RETAINED)
    if last in HOOKS and concerns_models(program, call):
        yield program.declined("hooks", call, HOOKED)
    if any(name.startswith("torch.nn.utils.prune.") for name in names):
        yield program.declined("hooks", call, PRUNED)
    if names & {"torch.nn.utils.spectral_norm", "torch.nn.utils.spectral_norm.spectral_norm"}:
        yield program.declined("spectral-norm", call, SPECTRAL)
    if names & GRAPHS:
        yield program.declined("cuda-graphs", call, RECORDED)
    if "torch.set_default_tensor_type" in names and "cuda" in program.facts.text(call):
        yield program.declined("default-tensor-type", call, DEFAULT_TYPE)
    if (last == "share_memory" and is_any_model(program, receiver(call))) or hands_to_processes(program, call):
        yield program.declined("processes", call, HANDED_ON)


def is_on(call: ast.Call, name: str) -> bool:
    """Whether a keyword is given as anything but False or None."""
    values = [item.value for item in call.keywords if item.arg == name]
    return any(not (isinstance(value, ast.Constant) and not value.value) for value in values)


def receiver(call: ast.Call) -> ast.expr:
    """The object that a method is called on."""
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


def is_any_model(program: Compile, node: ast.AST) -> bool:
    """Whether an expression may be one of the models."""
    return any(True for _ in program.holders.raw(node))


def concerns_models(program: Compile, call: ast.Call) -> bool:
    """Whether a method call may be about a trained model: unless its object is surely another module."""
    owners = {program.modules.parts.module_of(value) for value in program.facts.values(receiver(call))}
    ours = {part for model in program.models for part in (model, *program.modules.parts.inside(model))}
    return not owners or None in owners or any(owner in ours for owner in owners)


def hands_to_processes(program: Compile, call: ast.Call) -> bool:
    """Whether a call starts processes with a model among their arguments."""
    if not any(name.startswith(PROCESSES) for name in program.facts.sites.callee(call)):
        return False
    arguments = [*call.args, *(item.value for item in call.keywords)]
    return any(is_any_model(program, node) for argument in arguments for node in ast.walk(argument))


def moved_in_loop(program: Compile) -> Iterator[Finding]:
    """Models that go to the CPU and back while they are trained."""
    for call in program.facts.sites.attribute_calls("cpu", "to"):
        if is_any_model(program, receiver(call)) and goes_to_cpu(program, call) and program.in_training_loop(call):
            yield program.declined("moved-in-loop", call, MOVED)


def goes_to_cpu(program: Compile, call: ast.Call) -> bool:
    """`.cpu()`, `.to("cpu")`; not `.to(device)` when that may be another place."""
    values = [value for argument in call.args[:1] for value in program.facts.values(argument)]
    devices = [{*places_of(program.facts, value)} for value in values if not isinstance(value, External)]
    return last_name(call) == "cpu" or (bool(devices) and all(places == {"cpu"} for places in devices))


def taken_apart(program: Compile) -> Iterator[Finding]:
    """A trained model whose children are put together anew."""
    for call in program.facts.sites.attribute_calls("children", "named_children"):
        up = program.facts.tree.parent(call)
        if is_any_model(program, receiver(call)) and isinstance(up, (ast.Call, ast.Starred)):
            yield program.declined("submodules", call, TAKEN_APART)


def find_late_tracing(program: Compile, model: Value, places: list[Ready]) -> Iterator[Finding]:
    """Tracers, which refuse compiled modules, unless they are done before the model is compiled."""
    for call in program.calls:
        traces = bool(program.facts.sites.callee(call) & TRACING) or last_name(call) == "add_graph"
        about = traces and any(program.is_about(argument, model) for argument in call.args[:1])
        if about and not all(is_before(program, call, place) for place in places):
            yield program.declined("export", call, TRACED)


def is_before(program: Compile, call: ast.Call, place: Ready) -> bool:
    """Whether a call has run, and runs no more, when control is at a place."""
    tree = program.facts.tree
    inside = tree.lift(call, tree.block(place.anchor)) is not None
    return inside and position(call) < end(place.anchor) and tree.loops(call) == tree.loops(place.anchor)
