"""What a program does with its models that compiling would break, and what to do about it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from speedpatch.codemod import Finding
from speedpatch.facts.devices import places_of
from speedpatch.facts.values import External

from .context import Compile

GRADIENTS = {"torch.autograd.grad", "torch.autograd.backward"}
TRANSFORMS = ("torch.autograd.functional.", "torch.func.", "functorch.", "higher.", "learn2learn.", "torchopt.")
HOOKS = {
    "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
    "register_full_backward_pre_hook",
    "register_backward_hook", "register_module_forward_hook", "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
}  # fmt: skip
TRACING = {
    "torch.jit.trace",
    "torch.jit.trace_module",
    "torch.onnx.export",
    "torch.fx.symbolic_trace",
    "torch.onnx.dynamo_export",
}
CHILDREN = {"children", "named_children"}


def find_program_hazards(program: Compile) -> Iterator[Finding]:
    """Every reason to compile nothing in a program."""
    yield from double_backward(program)
    yield from retained_graphs(program)
    yield from hooks(program)
    yield from tracing(program)
    yield from default_tensor_type(program)
    yield from other_processes(program)
    yield from moved_in_loop(program)
    yield from taken_apart(program)


def double_backward(program: Compile) -> Iterator[Finding]:
    """Gradients of gradients: penalties, meta-learning, differential equations."""
    reason = (
        "gradients are differentiated again, which a compiled model cannot do: leave this program uncompiled, "
        "or compile only models outside of that loss by hand"
    )
    for call in program.calls:
        names = program.facts.sites.callee(call)
        if (is_on(call, "create_graph") and (names & GRADIENTS or last_name(call) in ("backward", "grad"))) or any(
            name.startswith(TRANSFORMS) for name in names
        ):
            yield program.declined("double-backward", call, reason)


def retained_graphs(program: Compile) -> Iterator[Finding]:
    """Graphs that are gone through twice."""
    for call in program.calls:
        if (
            is_on(call, "retain_graph")
            and not is_on(call, "create_graph")
            and (last_name(call) in ("backward", "grad"))
        ):
            yield program.declined(
                "retain-graph", call,
                "retain_graph=True needs buffers that a compiled backward pass gives away: add the losses up "
                "and call backward once, "
                "or set torch._functorch.config.donated_buffer = False and compile by hand",
            )  # fmt: skip


def hooks(program: Compile) -> Iterator[Finding]:
    """Hooks on modules: a compiled call skips those that come later."""
    for call in program.calls:
        if last_name(call) in HOOKS and concerns_models(program, call):
            yield program.declined(
                "hooks",
                call,
                f"{last_name(call)}() hooks a module, and a compiled one may skip its hooks in silence: "
                "return what the hook reads from forward instead",
            )
        elif any(name.startswith("torch.nn.utils.prune.") for name in program.facts.sites.callee(call)):
            yield program.declined(
                "hooks",
                call,
                "pruning works by hooks, which a compiled module may skip in silence: prune before or after training",
            )


def concerns_models(program: Compile, call: ast.Call) -> bool:
    """Whether a method call may be about a trained model: unless its object is surely another module."""
    assert isinstance(call.func, ast.Attribute)
    facts = program.facts
    owners = {program.modules.module_of(value) for value in facts.values(call.func.value)}
    ours = {part for model in program.models for part in (model, *program.modules.inside(model))}
    return not owners or None in owners or any(owner in ours for owner in owners)


def tracing(program: Compile) -> Iterator[Finding]:
    """Tracers, which refuse compiled modules."""
    for call in program.calls:
        names = program.facts.sites.callee(call) & TRACING
        if names or (last_name(call) == "add_graph" and call.args):
            subject = call.args[0] if call.args else call
            if names and not any(
                module in program.models
                for value in program.facts.values(subject)
                for module in program.modules.unwrap(value)
            ):
                continue
            name = min(names) if names else "add_graph()"
            yield program.declined(
                "export",
                call,
                f"{name} cannot trace a compiled model: give it copy.deepcopy(model), which is not compiled",
            )


def default_tensor_type(program: Compile) -> Iterator[Finding]:
    """A default tensor type on CUDA."""
    for call in program.calls:
        if "torch.set_default_tensor_type" in program.facts.sites.callee(call) and "cuda" in program.facts.text(call):
            yield program.declined(
                "default-tensor-type",
                call,
                "the default tensor type is on CUDA, for the code of the compiler too: use "
                'torch.set_default_device("cuda")',
            )


def other_processes(program: Compile) -> Iterator[Finding]:
    """Models handed to other processes, which get them uncompiled."""
    for call in program.calls:
        arguments = [
            node for item in [*call.args, *(entry.value for entry in call.keywords)] for node in ast.walk(item)
        ]
        spawns = any(
            name.startswith(("torch.multiprocessing.", "multiprocessing.")) for name in program.facts.sites.callee(call)
        )
        if spawns and any(module in program.models for node in arguments for module in program.set_up.raw(node)):
            yield program.declined(
                "processes",
                call,
                "the model is handed to other processes, which get it uncompiled: compile it in the function "
                "that they run",
            )


def moved_in_loop(program: Compile) -> Iterator[Finding]:
    """Models that go to the CPU and back while they are trained."""
    facts = program.facts
    for call in facts.sites.attribute_calls("cpu", "to"):
        assert isinstance(call.func, ast.Attribute)
        if not any(module in program.models for module in program.set_up.raw(call.func.value)) or not goes_to_cpu(
            program, call
        ):
            continue
        if program.in_training_loop(call):
            yield program.declined(
                "moved-in-loop",
                call,
                "the model moves to the CPU and back while it is trained, and is compiled anew each time: "
                "save model.state_dict() without moving it",
            )


def goes_to_cpu(program: Compile, call: ast.Call) -> bool:
    """`.cpu()`, `.to("cpu")`."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr == "cpu":
        return True
    return any(
        {*places_of(program.facts, value)} == {"cpu"}
        for argument in call.args[:1]
        for value in program.facts.values(argument)
        if not isinstance(value, External)
    )


def taken_apart(program: Compile) -> Iterator[Finding]:
    """A trained model whose children are put together anew."""
    facts = program.facts
    for call in facts.sites.attribute_calls(*CHILDREN):
        assert isinstance(call.func, ast.Attribute)
        if not any(module in program.models for module in program.set_up.raw(call.func.value)):
            continue
        up = facts.tree.parent(call)
        if isinstance(up, (ast.Call, ast.Starred)):
            yield program.declined(
                "submodules",
                call,
                "the children of the model are used without it, and these calls are not compiled: give the "
                "part a class of its own and train that",
            )


def is_on(call: ast.Call, name: str) -> bool:
    """Whether a keyword is given as anything but False or None."""
    values = [item.value for item in call.keywords if item.arg == name]
    return any(not (isinstance(value, ast.Constant) and not value.value) for value in values)


def last_name(call: ast.Call) -> str:
    """The last component of what is called."""
    return (
        call.func.attr
        if isinstance(call.func, ast.Attribute)
        else call.func.id
        if isinstance(call.func, ast.Name)
        else ""
    )
