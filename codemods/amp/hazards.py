"""Code that mixed precision would break or silently change, and what to do about it: the way out is named."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from typing import TypeGuard

from speedpatch.codemod import Finding
from speedpatch.facts.origins import out_of_sight
from speedpatch.facts.sites import Step
from speedpatch.facts.slices import slice_of
from speedpatch.facts.tree import own_nodes, position
from speedpatch.facts.values import LOOPS, Constant, External, Instance, Parameter, Value, Values

from .context import Amp
from .gradients import follows_gradients

EXITS = {"sys.exit", "os._exit", "builtins.exit", "builtins.quit"}
BFLOAT16 = "use --amp-dtype bfloat16, which needs no loss scaling"


def find_hazards(amp: Amp) -> Iterator[Finding]:
    """Every reason to leave the program alone, any precision first."""
    yield from manual_precision(amp)
    yield from tracing(amp)
    if amp.half:
        yield from closures(amp)
        yield from custom_optimizers(amp)
        yield from manual_updates(amp)
        yield from manual_gradients(amp)
        yield from gradient_penalties(amp)
        yield from idle_steps(amp)
        yield from steps_twice(amp)
        yield from gradient_hooks(amp)
        yield from nonfinite_checks(amp)
    else:
        yield from data_parallel(amp)


def manual_precision(amp: Amp) -> Iterator[Finding]:
    """A model in half or double precision, or another default dtype."""
    state = amp.facts.state
    for call in amp.facts.sites.attribute_calls("half", "double", "bfloat16"):
        assert isinstance(call.func, ast.Attribute)
        if any(state.is_module(value) for value in amp.facts.values(call.func.value)):
            reason = f"the model is cast by .{call.func.attr}(): autocast needs float32 weights, so take that out first"
            yield amp.declined("manual-precision", call, reason)
    for call in amp.facts.sites.attribute_calls("to", "type"):
        given = [*call.args, *(item.value for item in call.keywords)]
        names = {
            value.name for argument in given for value in amp.facts.values(argument) if isinstance(value, External)
        }
        odd = names & {"torch.float16", "torch.half", "torch.float64", "torch.double", "torch.bfloat16"}
        if odd and any(state.is_module(value) for value in amp.facts.values(call.func.value)):  # type: ignore[attr-defined]
            yield amp.declined(
                "manual-precision",
                call,
                f"the model is cast to {min(odd)}: autocast needs float32 weights, so take that out first",
            )
    for call in amp.facts.sites.calls:
        names = amp.facts.sites.callee(call)
        if names & {"torch.set_default_dtype", "torch.set_default_tensor_type"} and any(
            word in amp.facts.text(call) for word in ("64", "Double", "16", "Half", "double")
        ):
            yield amp.declined(
                "manual-precision", call, "the default dtype is not float32, and autocast leaves float64 alone"
            )


def tracing(amp: Amp) -> Iterator[Finding]:
    """Models that are trained as traced or scripted ones."""
    for call in amp.facts.sites.calls:
        made = {value.name for value in amp.facts.values(call.func) if isinstance(value, Instance)} & {
            "torch.jit.trace",
            "torch.jit.script",
        }
        if made and any(amp.facts.sites.contains_backward(loop) for loop in amp.facts.tree.loops(call)):
            yield amp.declined(
                "jit",
                call,
                f"the model that is trained comes from {min(made)}: train the plain module, and compile that",
            )


def data_parallel(amp: Amp) -> Iterator[Finding]:
    """DataParallel's threads know that autocast is on, and take its default dtype."""
    for call in amp.facts.sites.calls:
        if any(name.endswith(".DataParallel") and name.startswith("torch.nn") for name in amp.facts.sites.callee(call)):
            yield amp.declined(
                "data-parallel",
                call,
                "the threads of nn.DataParallel would run in float16, without loss scaling: use --amp-dtype "
                "float16, or one process a GPU",
            )


def closures(amp: Amp) -> Iterator[Finding]:
    """LBFGS, and any other step that computes gradients by itself."""
    for step in amp.facts.sites.steps:
        names = {value.name for value in step.values if isinstance(value, Instance)}
        if "torch.optim.LBFGS" in names:
            yield amp.declined(
                "lbfgs",
                step.call,
                f"LBFGS evaluates the loss inside step(), which a GradScaler cannot scale: {BFLOAT16}",
            )
        elif not step.scaled and (step.call.args or step.call.keywords):
            yield amp.declined(
                "closure", step.call, f"step() is given a closure, which a GradScaler cannot scale: {BFLOAT16}"
            )


def custom_optimizers(amp: Amp) -> Iterator[Finding]:
    """Optimizers of unknown make, or that step in ways of their own."""
    for step in amp.facts.sites.steps:
        for value in step.values:
            if isinstance(value, Constant) or is_kept_by_trainer(amp, value):
                continue
            if not isinstance(value, Instance):
                unknown = "where this optimizer is built is not in the program: patch the script that builds it"
                node, reason = out_of_sight(amp.facts, value) or (step.call, unknown)
                yield amp.declined("optimizer-elsewhere", node, reason)
                break
            if value.local is None and not known_optimizer(amp, value):
                yield amp.declined(
                    "optimizer-elsewhere",
                    step.call,
                    f"the optimizer is built by {value.name}(), which is not in the program",
                )
                break
    for call in amp.facts.sites.attribute_calls("first_step", "second_step"):
        yield amp.declined("custom-optimizer", call, f"the optimizer steps by {call.func.attr}(): {BFLOAT16}")  # type: ignore[attr-defined]


def is_kept_by_trainer(amp: Amp, value: Value) -> bool:
    """Whether an optimizer comes in through the constructor of a class that nothing here makes, as of a library."""
    if not isinstance(value, Parameter) or value.function.name != "__init__":
        return False
    owner = amp.facts.tree.owner(value.function)
    return owner is not None and not amp.facts.state.callers.get(value.function)


def known_optimizer(amp: Amp, value: Instance) -> bool:
    """Whether an object is surely a `torch.optim.Optimizer`."""
    from speedpatch.facts.torch_names import is_optimizer

    return is_optimizer(value.name)


def manual_updates(amp: Amp) -> Iterator[Finding]:
    """Parameters changed by hand from their gradients."""
    for node in amp.facts.sites.gradient_reads:
        statement = amp.facts.tree.statement(node)
        if isinstance(node, ast.Attribute) and updates_by_gradient(statement, node):
            yield amp.declined(
                "manual-update", node, f"parameters are updated by hand from their gradients: {BFLOAT16}"
            )


def manual_gradients(amp: Amp) -> Iterator[Finding]:
    """Gradients that are put in place by hand from elsewhere, which the step would unscale."""
    for node in amp.facts.tree.parents:
        up = amp.facts.tree.parent(node)
        if (
            not isinstance(node, ast.Attribute)
            or node.attr != "grad"
            or not isinstance(up, ast.Assign)
            or node not in up.targets
        ):
            continue
        names = {value.name for value in amp.facts.values(up.value) if isinstance(value, (External, Instance))}
        reset = isinstance(up.value, ast.Constant) or names & {"torch.zeros_like", "torch.zeros"}
        if not reset and not follows_gradients(amp, up.value) and not amp.facts.sites.in_optimizer_step(node):
            yield amp.declined(
                "gradient-write",
                node,
                f"gradients that no backward pass of scaled losses gave are put in place by hand: {BFLOAT16}",
            )


def updates_by_gradient(statement: ast.stmt, node: ast.Attribute) -> bool:
    """`p -= lr * p.grad`, `p.data.add_(p.grad, alpha=-lr)`, `p = p - lr * p.grad`."""
    owner = ast.unparse(node.value).removesuffix(".data")
    if isinstance(statement, ast.AugAssign):
        return ast.unparse(statement.target).removesuffix(".data") == owner
    if isinstance(statement, ast.Assign):
        return any(ast.unparse(target).removesuffix(".data") == owner for target in statement.targets)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("add_", "sub_", "copy_", "addcmul_")
    ):
        return ast.unparse(call.func.value).removesuffix(".data") == owner
    return False


def idle_steps(amp: Amp) -> Iterator[Finding]:
    """An optimizer that also steps when nothing that it trains was run: a GradScaler raises without gradients."""
    facts, tree = amp.facts, amp.facts.tree
    for step in facts.sites.steps:
        scope = tree.scope(step.call)
        owners = frozenset().union(*(facts.sites.trained.get(value, frozenset()) for value in step.values))
        losses = [loss for site in facts.sites.backwards if tree.scope(site.call) is scope for loss in site.losses]
        runs = [item for item in slice_of(facts, losses, scope) if owners and runs_any(amp, item, owners)]
        idle = (any(skips(amp, up, item, step, runs) for up in tree.above(item)) for item in runs)
        if runs and (all(idle) or all(chooses(amp, item, owners) for item in runs)):
            yield amp.declined(
                "no-gradients",
                step.call,
                "this optimizer also steps when nothing that it trains was run, which a GradScaler refuses: "
                f"{BFLOAT16}",
            )


def steps_twice(amp: Amp) -> Iterator[Finding]:
    """Two steps of one optimizer behind one backward: the second would unscale the same gradients again."""
    facts, tree = amp.facts, amp.facts.tree
    for first, second in pairwise(sorted(facts.sites.steps, key=lambda step: position(step.call))):
        block = tree.common_block(first.call, second.call) if first.values == second.values else None
        start = tree.lift(first.call, block) if block is not None else None
        end = tree.lift(second.call, block) if block is not None else None
        if block is None or start is None or end is None or start is end:
            continue
        between = block[block.index(start) + 1 : block.index(end)]
        backwards = [site.call for site in facts.sites.backwards]
        own = any(tree.lift(call, [end, start]) is not None for call in backwards)
        if not own and not any(facts.sites.contains_backward(item) for item in between):
            yield amp.declined(
                "step-twice", second.call, f"the optimizer steps again with gradients that it has used: {BFLOAT16}"
            )


def runs_any(amp: Amp, item: ast.stmt, owners: Values) -> bool:
    """Whether a statement runs one of several modules, or code of the program that may."""
    for call in ast.walk(item):
        if isinstance(call, ast.Call) and amp.facts.sites.is_forward(call):
            called = frozenset().union(*(amp.facts.sites.unwrap(value) for value in amp.facts.values(call.func)))
            if called & owners or not all(amp.facts.state.is_module(value) for value in called):
                return True
    return False


def chooses(amp: Amp, item: ast.stmt, owners: Values) -> bool:
    """Whether a statement runs either one of some modules or one that another optimizer trains: `a if x else b`."""
    trained = frozenset(amp.facts.sites.models)
    for call in ast.walk(item):
        if isinstance(call, ast.Call) and amp.facts.sites.is_forward(call):
            called = frozenset().union(*(amp.facts.sites.unwrap(value) for value in amp.facts.values(call.func)))
            by_loop = any(isinstance(item, LOOPS) for item in amp.facts.state.reaching.get(call.func, ()))
            if by_loop or not called <= trained or called <= owners:
                return False
    return True


def skips(amp: Amp, up: ast.AST, item: ast.stmt, step: Step, runs: list[ast.stmt]) -> bool:
    """Whether an `if` around a statement has another way, without any such statement, to the step."""
    if not isinstance(up, ast.If) or up in amp.facts.tree.above(step.call):
        return False
    return not all(
        any(amp.facts.tree.lift(other, block) is not None for other in runs) for block in (up.body, up.orelse)
    )


def gradient_penalties(amp: Amp) -> Iterator[Finding]:
    """Gradients of gradients."""
    for call in amp.facts.sites.calls:
        graph = next((item for item in call.keywords if item.arg == "create_graph"), None)
        on = graph is not None and not (isinstance(graph.value, ast.Constant) and graph.value.value is False)
        if on and (amp.facts.sites.callee(call) & {"torch.autograd.grad"} or call in amp.facts.sites.training_calls):
            yield amp.declined(
                "gradient-penalty",
                call,
                f"a loss is made of gradients (create_graph=True), which would be scaled: {BFLOAT16}",
            )


def gradient_hooks(amp: Amp) -> Iterator[Finding]:
    """Hooks that see scaled gradients."""
    for call in amp.facts.sites.attribute_calls(
        "register_hook", "register_post_accumulate_grad_hook", "register_full_backward_hook", "register_backward_hook"
    ):
        yield amp.declined("gradient-hook", call, f"a hook sees gradients before they can be unscaled: {BFLOAT16}")


def nonfinite_checks(amp: Amp) -> Iterator[Finding]:
    """Checks that stop the run at the overflows that a GradScaler expects."""
    for call in amp.facts.sites.calls:
        names = amp.facts.sites.callee(call)
        raises = next((item for item in call.keywords if item.arg == "error_if_nonfinite"), None)
        if raises is not None and isinstance(raises.value, ast.Constant) and raises.value.value is True:
            yield amp.declined(
                "error-if-nonfinite",
                call,
                f"error_if_nonfinite=True raises at the overflows that a GradScaler skips: {BFLOAT16}",
            )
        if names & {"torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly"} and not turned_off(call):
            yield amp.declined(
                "detect-anomaly", call, f"anomaly detection raises at the overflows that a GradScaler skips: {BFLOAT16}"
            )
    for node in amp.facts.tree.parents:
        if stops_the_run(node, amp) and follows_gradients(amp, node.test):
            yield amp.declined(
                "gradient-check",
                node,
                f"a check of gradients stops the run at the overflows that a GradScaler skips: {BFLOAT16}",
            )


def turned_off(call: ast.Call) -> bool:
    """`set_detect_anomaly(False)`."""
    values = [*call.args, *(item.value for item in call.keywords)]
    return any(isinstance(value, ast.Constant) and value.value is False for value in values)


def stops_the_run(node: ast.AST, amp: Amp) -> TypeGuard[ast.Assert | ast.If]:
    """Whether a statement raises or exits by a condition."""
    if not isinstance(node, (ast.Assert, ast.If)):
        return False
    return isinstance(node, ast.Assert) or any(
        isinstance(item, ast.Raise) or (isinstance(item, ast.Call) and bool(amp.facts.sites.callee(item) & EXITS))
        for item in own_nodes(node)
    )
