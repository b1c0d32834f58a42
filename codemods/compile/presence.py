"""Programs that there is nothing to compile in: compiled already, trained by an engine, or not trained at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from speedpatch.codemod import Finding
from speedpatch.facts.evaluate import dotted
from speedpatch.facts.origins import out_of_sight
from speedpatch.facts.values import FUNCTIONS, Derived, External, Instance, Parameter, Value

from .context import Compile

COMPILERS = {"torch.compile", "torch._dynamo.optimize"}
DATA = {"torch", "numpy", "builtins", "itertools", "functools", "copy", "collections", "math", "torchvision", "PIL"}
"""The packages whose functions give tensors, or hand on what they are given."""
SWITCHES = {
    "transformers": "pass `torch_compile=True` to its TrainingArguments",
    "pytorch_lightning": "call `model.compile()` on the LightningModule before `trainer.fit`",
    "lightning": "call `model.compile()` on the module before it is handed over",
    "accelerate": 'pass `dynamo_backend="inductor"` to Accelerator',
    "deepspeed": "call `engine.compile()` behind `deepspeed.initialize`",
    "fastai": "call `learn.model.compile()` before `learn.fit`",
}
"""How to compile under each training engine, by its package."""
BY_HAND = "gradients come from torch.autograd.grad, not from loss.backward(): compile the model by hand"
DISTRIBUTED = "gradients come from torch.distributed.autograd, not from loss.backward(): compile the model by hand"
UNTRAINED = "no backward pass found, so this file trains nothing by itself: name the script that trains"
TENSORS = "tensors are trained here, not a module: there is no model to compile"


def not_for_us(program: Compile) -> Iterator[Finding]:
    """What there is to say of such a program."""
    facts = program.facts
    present = next(find_compiled(program), None)
    if facts.engine is not None:
        yield trained_by_engine(program, facts.engine[0])
    elif present is not None:
        yield program.finding("already", "compile.already", *present)
    elif not program.backwards and (call := next(gradient_calls(program), None)) is not None:
        distributed = "torch.autograd.grad" not in facts.sites.callee(call)
        yield program.declined("autograd-grad", call, DISTRIBUTED if distributed else BY_HAND)
    elif not program.backwards:
        yield program.finding("not_applicable", "compile.no-training", facts.script.tree, UNTRAINED)
    elif not program.models:
        yield without_model(program)


def gradient_calls(program: Compile) -> Iterator[ast.Call]:
    """Calls that compute gradients which some optimizer steps with, by other ways than `backward()`."""
    names = {"torch.distributed.autograd.backward", *(["torch.autograd.grad"] if program.facts.sites.steps else [])}
    return (call for call in program.calls if program.facts.sites.callee(call) & names)


def trained_by_engine(program: Compile, call: ast.Call) -> Finding:
    """Another library runs the loop."""
    packages = sorted(name.split(".")[0] for name in program.facts.sites.callee(call))
    switch = next((SWITCHES[name] for name in packages if name in SWITCHES), "see its manual")
    return program.finding("not_applicable", "compile.engine", call, f"another engine runs the training: {switch}")


def find_compiled(program: Compile) -> Iterator[tuple[ast.AST, str]]:
    """Where the program compiles or scripts by itself, and what to say of it."""
    facts = program.facts
    for call in program.calls:
        names = facts.sites.callee(call)
        if names & COMPILERS:
            yield call, f"the program uses torch.compile{mode_of(program, call)} already"
        elif (
            isinstance(call.func, ast.Attribute) and call.func.attr == "compile" and is_module(program, call.func.value)
        ):
            yield call, f"the program compiles a model{mode_of(program, call)} already"
        elif "torch.jit.script" in names and any(is_module(program, argument) for argument in call.args):
            yield call, "the model is scripted by torch.jit.script already"
    definitions = [
        node
        for node in facts.tree.parents
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and (facts.in_script(node) or node in program.scopes)
    ]
    for item in [item for node in definitions for item in node.decorator_list]:
        target = item.func if isinstance(item, ast.Call) else item
        if any(isinstance(value, External) and value.name in COMPILERS for value in facts.values(target)):
            yield item, "the program uses torch.compile already"


def is_module(program: Compile, node: ast.expr) -> bool:
    """Whether an expression may be a module."""
    found = {module for value in program.facts.values(node) for module in program.modules.unwrap(value)}
    return any(program.facts.state.is_module(module) for module in found)


def mode_of(program: Compile, call: ast.Call) -> str:
    """The mode that is written out or has a name, for the message."""
    mode = next((item.value for item in call.keywords if item.arg == "mode"), None)
    is_short = mode is not None and (isinstance(mode, ast.Constant) or dotted(mode) is not None)
    return f" (mode={program.facts.text(mode)})" if mode is not None and is_short else ""


def without_model(program: Compile) -> Finding:
    """Training of something that is no module of this program."""
    site = program.backwards[0].call
    if is_about_tensors(program):
        return program.finding("not_applicable", "compile.no-model", site, TENSORS)
    unknown = "the model that is trained could not be followed to where it is made: name the script that makes it"
    node, reason = unfollowed(program) or (site, unknown)
    return program.declined("model-elsewhere", node, reason)


def unfollowed(program: Compile) -> tuple[ast.AST, str] | None:
    """Where the way back from something that is called ends, and why."""
    values = {value for call in program.calls for value in program.facts.values(call.func) if is_parameter(value)}
    called = sorted({*program.modules.work.called_outside, *values}, key=repr)
    origins = (out_of_sight(program.facts, value) for value in called)
    return next((origin for origin in origins if origin is not None), None)


def is_about_tensors(program: Compile) -> bool:
    """Whether everything that trains and that is called is in sight, and no module is trained."""
    if program.facts.sites.models:
        return False
    optimizers = program.facts.sites.trained
    called = program.modules.work.called_outside
    values = [value for call in program.calls for value in program.facts.values(call.func)]
    visible = all(isinstance(value, Instance) and isinstance(value.site, ast.Call) for value in optimizers)
    known = all(isinstance(module, Instance) for module in called)
    sites = [value.site for value in optimizers if isinstance(value, Instance) and isinstance(value.site, ast.Call)]
    foreign = any(is_foreign(program, node) for site in sites for node in program.modules.sources(site))
    return visible and known and not foreign and bool(optimizers or not called) and not any(map(is_parameter, values))


def is_foreign(program: Compile, node: ast.AST) -> bool:
    """Whether a node calls a package that may well give the parameters of a model."""
    names = program.facts.sites.callee(node) if isinstance(node, ast.Call) else ()
    return any(name.split(".")[0] not in DATA for name in names)


def is_parameter(value: Value) -> bool:
    """Whether nothing is known of a value but that it, or what it is an item of, is given to a function."""
    while isinstance(value, Derived) and value.base is not None:
        value = value.base
    return isinstance(value, Parameter)
