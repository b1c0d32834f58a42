"""Where compiling would gain nothing: calls that it does not reach, and models that are done sooner than it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from speedpatch.codemod import Finding
from speedpatch.facts.values import FUNCTIONS, Derived, External, Pack, Value
from speedpatch.facts.work import Use

from .context import Compile

FULL_BATCH = (
    "all of the data goes through a few linear layers at once, so compiling takes longer than it saves: leave it "
    "uncompiled"
)
WITHOUT_LOADER = (
    "a few linear layers are trained without a loader, so compiling takes longer than it saves: leave it uncompiled"
)


def find_losses(program: Compile, model: Value) -> Iterator[Finding]:
    """Every reason that compiling a model would only cost time."""
    yield from past_the_call(program, model)
    yield from tiny(program, model)


def past_the_call(program: Compile, model: Value) -> Iterator[Finding]:
    """Training calls that go past `model(...)`."""
    uses = [use for use in program.modules.uses(model) if use.trains]
    if any(use.method is None for use in uses):
        return
    name = program.name(model)
    for use in uses:
        if is_part(program, use):
            yield program.declined(
                "submodules",
                use.call,
                f"training calls {name}.{use.method}, a part of the model, which compile() does not reach: do the work "
                "in forward and call the model itself",
            )
        else:
            yield program.declined(
                "other-methods",
                use.call,
                f"training calls {name}.{use.method}(), which compile() does not reach: do the work in forward and "
                "call the model itself",
            )
    if not uses and len(program.models) == 1:
        site = program.backwards[0].call
        yield program.declined(
            "model-elsewhere",
            site,
            f"where {name} is called could not be found: call it in the function that computes the loss",
        )


def is_part(program: Compile, use: Use) -> bool:
    """Whether what is called is a module inside the model."""
    return any(program.facts.state.is_module(value) for value in program.facts.values(use.call.func))


def tiny(program: Compile, model: Value) -> Iterator[Finding]:
    """A few linear layers, fed without a loader: each call is over before a compiled one has begun."""
    if program.facts.sites.loaders:
        return
    layers = program.layers[model]
    loops = [(site, step_loop(program, site.call)) for site in program.backwards]
    for site, loop in loops:
        if loop is not None and not goes_over_data_of_its_own(program, loop):
            continue
        if loop is not None and layers.is_dense(embeddings=True) and is_full_batch(program, model, loop):
            yield program.declined("tiny-full-batch", site.call, FULL_BATCH)
        elif layers.is_dense():
            yield program.declined("tiny-model", site.call, WITHOUT_LOADER)
        return


def step_loop(program: Compile, call: ast.Call) -> ast.stmt | None:
    """The innermost loop around a backward, in its function or around the calls of that."""
    tree = program.facts.tree
    scope = tree.scope(call)
    places = [call, scope, *program.facts.state.callers.get(scope, ())] if isinstance(scope, FUNCTIONS) else [call]
    return next((tree.loops(place)[0] for place in places if tree.loops(place)), None)


def goes_over_data_of_its_own(program: Compile, loop: ast.stmt) -> bool:
    """Whether a loop goes over numbers or a list of the program, not over what may be a loader."""
    if not isinstance(loop, ast.For):
        return True
    calls = [node for node in ast.walk(loop.iter) if isinstance(node, ast.Call)]
    values = program.facts.values(loop.iter)
    lists = bool(values) and all(isinstance(origin(value), Pack) and not calls for value in values)
    names = [value.name for node in calls for value in program.facts.values(node.func) if isinstance(value, External)]
    return lists or any(name.rsplit(".", 1)[-1] in ("range", "trange", "count") for name in names)


def origin(value: Value) -> Value:
    """What an item, a slice or an attribute was got from."""
    while isinstance(value, Derived) and value.base is not None:
        value = value.base
    return value


def is_full_batch(program: Compile, model: Value, loop: ast.stmt) -> bool:
    """Whether what the model is given comes from outside the loop."""
    calls = [use.call for use in program.modules.uses(model) if use.trains and use.method is None]
    nodes = [node for call in calls for argument in call.args for node in ast.walk(argument)]
    return not any(isinstance(node, ast.Call) or is_made_in(program, node, loop) for node in nodes)


def is_made_in(program: Compile, node: ast.AST, loop: ast.stmt) -> bool:
    """Whether what an expression reads may have been bound by a loop."""
    definitions = program.facts.state.reaching.get(node, frozenset())
    return any(definition is loop or loop in program.facts.tree.above(definition) for definition in definitions)
