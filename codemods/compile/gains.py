"""Where compiling would gain nothing: calls that it does not reach, and models that are done sooner than it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from speedpatch.codemod import Finding
from speedpatch.facts.evaluate import dotted
from speedpatch.facts.tree import position
from speedpatch.facts.values import FUNCTIONS, Derived, External, FunctionNode, Pack, Value
from speedpatch.facts.work import Use

from .context import Compile, last_name
from .presence import unfollowed
from .programs import functional_calls

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
        yield not_reached(program, model, use)
    if not uses and len(program.models) == 1 and not functional_calls(program):
        parts = [use for part in program.modules.parts.inside(model) for use in program.modules.uses(part)]
        outside = [use for use in parts if program.modules.work.is_outside(use)]
        for use in sorted(outside, key=lambda use: position(use.call)):
            yield not_reached(program, model, use)
        hidden = f"where {name} is called could not be found: call it in the function that computes the loss"
        node, reason = unfollowed(program) or (program.backwards[0].call, hidden)
        yield program.declined("model-elsewhere", node, reason)


def not_reached(program: Compile, model: Value, use: Use) -> Finding:
    """A training call of a part of a model, or of one of its methods."""
    called = dotted(use.call.func) or last_name(use.call)
    if any(program.facts.state.is_module(value) for value in program.facts.values(use.call.func)):
        return program.declined(
            "submodules",
            use.call,
            f"training calls {called}(), a part of the model, which compile() does not reach: do the work in forward "
            "and call the model itself",
        )
    return program.declined(
        "other-methods",
        use.call,
        f"training calls {called}(), which compile() does not reach: do the work in forward and call the model itself",
    )


def tiny(program: Compile, model: Value) -> Iterator[Finding]:
    """A few linear layers, fed without a loader: each call is over before a compiled one has begun."""
    if reads_loader(program):
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


def reads_loader(program: Compile) -> bool:
    """Whether anything is done with a loader; one that is only made, or handed back, feeds nothing."""
    tree = program.facts.tree
    loaders = program.facts.sites.loaders
    made = frozenset(value for call in loaders for value in program.facts.values(call))
    return any(
        isinstance(node.ctx, ast.Load)
        and program.facts.values(node) & made
        and not isinstance(tree.statement(node), ast.Return)
        for node in (tree.parents if made else ())
        if isinstance(node, (ast.Name, ast.Attribute))
    ) or any(isinstance(tree.parent(call), (ast.Call, ast.For)) for call in loaders)


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
    running = program.functions_below(loop)
    uses = [use for use in program.modules.uses(model) if use.trains and use.method in (None, "forward")]
    calls = [use.call for use in uses if runs_in(program, use.call, loop, running)]
    made = (is_made_in(program, argument, loop, running, set()) for call in calls for argument in call.args)
    return bool(calls) and not any(made)


def is_made_in(
    program: Compile, value: ast.AST, loop: ast.stmt, running: frozenset[ast.AST], seen: set[ast.AST]
) -> bool:
    """Whether an expression is computed in a loop or in the functions that run there."""
    inside = runs_in(program, value, loop, running)
    for node in ast.walk(value):
        if inside and (isinstance(node, ast.Call) or is_kept(program, node, loop, running)):
            return True
        for definition in program.facts.state.reaching.get(node, frozenset()) - seen:
            sources: list[ast.AST] = []
            if isinstance(definition, FUNCTIONS) and isinstance(node, ast.Name):
                sources += arguments_for(program, definition, node.id)
            elif definition is loop or runs_in(program, definition, loop, running):
                if not isinstance(definition, (ast.Assign, ast.AnnAssign)):
                    return True
                sources.append(definition)
            if any(is_made_in(program, source, loop, running, {*seen, definition}) for source in sources):
                return True
    return False


def runs_in(program: Compile, node: ast.AST, loop: ast.stmt, running: frozenset[ast.AST]) -> bool:
    """Whether a node is part of a loop or of the functions that run there."""
    return loop in program.facts.tree.above(node) or program.facts.tree.scope(node) in running


def is_kept(program: Compile, node: ast.AST, loop: ast.stmt, running: frozenset[ast.AST]) -> bool:
    """Whether an expression reads an attribute that the code of a loop has set."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return False
    scopes = [loop, *running]
    nodes = (inner for scope in scopes for inner in ast.walk(scope) if isinstance(inner, ast.Attribute))
    return any(isinstance(inner.ctx, ast.Store) and inner.attr == node.attr for inner in nodes)


def arguments_for(program: Compile, function: FunctionNode, name: str) -> list[ast.expr]:
    """What the calls of a function give for one of its parameters."""
    state = program.facts.state
    bound = [state.arguments.get((call, function), {}) for call in state.callers.get(function, ())]
    return [arguments[name] for arguments in bound if name in arguments]
