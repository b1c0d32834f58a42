"""Where compiling would gain nothing: calls that it does not reach, and models that are done sooner than it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from speedpatch.codemod import Finding
from speedpatch.facts.values import FUNCTIONS, LOOPS, Derived, External, Pack, Value

from .context import Compile


def find_losses(program: Compile, model: Value) -> Iterator[Finding]:
    """Every reason that compiling a model would only cost time."""
    yield from other_methods(program, model)
    yield from tiny(program, model)


def other_methods(program: Compile, model: Value) -> Iterator[Finding]:
    """Training calls that go past `model(...)`."""
    work = [item for item in program.modules.work.get(model, ()) if item.trains]
    if any(item.method is None for item in work):
        return
    methods = [item for item in work if item.method is not None]
    for item in methods:
        code = "submodules" if is_part(program, item.call) else "other-methods"
        yield program.declined(
            code,
            item.call,
            f"training calls {program.name(model)}.{item.method}(), which compile() does not reach: do the "
            "work in forward and call the model itself",
        )
    if not methods and len(program.models) == 1:
        site = program.backwards[0].call
        yield program.declined(
            "model-elsewhere",
            site,
            f"where {program.name(model)} is called could not be found: call it in the function that computes the loss",
        )


def is_part(program: Compile, call: ast.Call) -> bool:
    """Whether what is called is a module inside the model."""
    return any(program.facts.state.is_module(value) for value in program.facts.values(call.func))


def tiny(program: Compile, model: Value) -> Iterator[Finding]:
    """A few linear layers, fed without a loader: each call is over before a compiled one has begun."""
    if not program.layers[model].is_dense() or reads_loader(program):
        return
    for site in program.backwards:
        loop = step_loop(program, site.call)
        if loop is None or counts(program, loop):
            full = loop is not None and is_full_batch(program, model, loop)
            code, what = (
                ("tiny-full-batch", "all of the data goes through a few linear layers at once")
                if full
                else ("tiny-model", "a few linear layers are trained without a loader")
            )
            yield program.declined(code, site.call, f"{what}: compiling takes longer than it saves, so leave it")
            return


def reads_loader(program: Compile) -> bool:
    """Whether anything is done with a loader; one that is only made, or handed back, feeds nothing."""
    tree = program.facts.tree
    made = frozenset(value for call in program.facts.sites.loaders for value in program.facts.values(call))
    return any(
        isinstance(node.ctx, ast.Load)
        and program.facts.values(node) & made
        and not isinstance(tree.statement(node), ast.Return)
        for node in tree.parents
        if isinstance(node, (ast.Name, ast.Attribute))
    ) or any(isinstance(tree.parent(call), (ast.Call, ast.For)) for call in program.facts.sites.loaders)


def step_loop(program: Compile, call: ast.Call) -> ast.stmt | None:
    """The innermost loop around a backward, in its function or around the calls of that."""
    tree = program.facts.tree
    scope = tree.scope(call)
    places = [call, scope, *program.facts.state.callers.get(scope, ())] if isinstance(scope, FUNCTIONS) else [call]
    for place in places:
        loops = [loop for loop in tree.loops(place) if isinstance(loop, LOOPS)]
        if loops:
            return loops[0]
    return None


def counts(program: Compile, loop: ast.stmt) -> bool:
    """Whether a loop goes over numbers or a list of the program, not over what may be a loader."""
    if not isinstance(loop, ast.For):
        return True
    calls = [node for node in ast.walk(loop.iter) if isinstance(node, ast.Call)]
    values = program.facts.values(loop.iter)
    lists = bool(values) and all(isinstance(origin(value), Pack) and not calls for value in values)
    return lists or any(last in ("range", "trange", "count") for node in calls for last in names_of(program, node))


def origin(value: Value) -> Value:
    """What an item, a slice or an attribute was got from."""
    while isinstance(value, Derived) and value.base is not None:
        value = value.base
    return value


def names_of(program: Compile, call: ast.Call) -> list[str]:
    """The last components of what a call may call."""
    return [value.name.rsplit(".", 1)[-1] for value in program.facts.values(call.func) if isinstance(value, External)]


def is_full_batch(program: Compile, model: Value, loop: ast.stmt) -> bool:
    """Whether what the model is given comes from outside the loop."""
    tree = program.facts.tree
    for item in program.modules.work[model]:
        if not item.trains or item.method is not None:
            continue
        for node in [inner for argument in item.call.args for inner in ast.walk(argument)]:
            if any(
                loop in tree.above(definition) or definition is loop
                for definition in program.facts.state.reaching.get(node, ())
            ):
                return False
            if isinstance(node, ast.Call):
                return False
    return True
