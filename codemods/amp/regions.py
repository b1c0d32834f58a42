"""Where autocast goes: around the forward and loss of one step, and of one evaluation batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from speedpatch.codemod import Finding
from speedpatch.edits import Around
from speedpatch.facts.sites import Backward
from speedpatch.facts.slices import Region, arguments_behind, group, is_downstream, reads, slice_of
from speedpatch.facts.state import external_names
from speedpatch.facts.tree import own_nodes, position
from speedpatch.facts.values import (
    FUNCTIONS,
    LOOPS,
    Derived,
    Function,
    FunctionNode,
    Instance,
    Member,
    Method,
    Pack,
    Value,
)

from .casts import float_casts, squashed_in_models
from .context import Amp
from .precision import in_model_code, needs_float32

CALLERS = 3
"""How many calls up a loss is followed that comes in as a parameter."""


UNCHANGED = {
    "tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor", "Variable", "zeros", "ones", "zeros_like",
    "ones_like",
    "cat", "stack", "concat", "detach", "clone", "view", "reshape", "squeeze", "unsqueeze", "permute", "transpose",
    "flatten", "contiguous", "expand", "repeat", "to", "cuda", "cpu", "float", "item", "append", "extend", "mean",
    "abs", "clamp", "min", "max", "minimum", "maximum", "size", "dim", "len", "range", "print", "format", "list",
}  # fmt: skip
"""Calls that do the same with and without autocast; what is missing here only makes a region more than is needed.
https://docs.pytorch.org/docs/stable/amp.html#cuda-op-specific-behavior names what it changes."""


@dataclass
class Regions:
    """The regions to wrap, the one-line losses to take apart, and the arguments that have to be float32."""

    training: list[Region] = field(default_factory=list)
    evaluation: list[Region] = field(default_factory=list)
    hoisted: dict[Backward, ast.expr] = field(default_factory=dict)
    floats: list[Around] = field(default_factory=list)

    @property
    def all(self) -> list[Region]:
        """Training and evaluation."""
        return [*self.training, *self.evaluation]


def find_regions(amp: Amp) -> Regions | Finding:
    """The regions of every backward, then those of evaluation loops."""
    regions = Regions()
    for site in amp.facts.sites.backwards:
        obstacle = add_training(amp, site, regions)
        if obstacle is not None:
            return obstacle
    add_kept(amp, regions)
    for scope in amp.facts.scopes:
        add_evaluation(amp, scope, regions)
    regions.training = unique(regions.training)
    return regions


def unique(regions: list[Region]) -> list[Region]:
    """Each region once; two backwards can share their forward."""
    found: list[Region] = []
    for region in sorted(regions, key=lambda region: (position(region.first), -len(region.block))):
        if not any(statement in other.block for other in found for statement in region.block):
            found.append(region)
    return found


def add_training(amp: Amp, site: Backward, regions: Regions) -> Finding | None:
    """The regions that compute one backward's losses."""
    facts = amp.facts
    if not facts.is_editable(site.call):
        return amp.declined("other-file", site.call, "the backward pass is in a protected file")
    statement = facts.tree.statement(site.call)
    memo: dict[ast.AST, bool] = {}
    inline = [loss for loss in site.losses if contains_compute(amp, loss, memo)]
    count = add_regions(amp, site.losses, statement, memo, regions)
    if isinstance(count, Finding):
        return count
    if not count and not inline and trains_tensors(amp):
        reason = "tensors are trained here, not a module: mixed precision would gain nothing"
        return Finding("not_applicable", "amp.no-model", str(facts.path(site.call)), facts.line(site.call), reason)
    if not count and not inline:
        return amp.declined(
            "forward-not-found",
            site.call,
            "where this loss is computed could not be followed: keep the forward pass and the loss in the "
            "function that calls backward",
        )
    if inline and any(isinstance(node, ast.NamedExpr) for node in ast.walk(inline[0])):
        return amp.declined(
            "inline-loss",
            site.call,
            "the loss is named in the expression that calls backward(): give the loss a line of its own first",
        )
    if inline and needs_float32(amp, inline[0]):
        return amp.declined(
            "inline-loss",
            site.call,
            "the loss has to be computed in float32 but stands in one expression with backward(): give the loss a "
            "line of its own first",
        )
    if inline:
        regions.hoisted[site] = inline[0]
    return None


def trains_tensors(amp: Amp) -> bool:
    """Whether every optimizer is given a list of tensors, and no module runs."""
    sites = amp.facts.sites
    made = [value.site for value in sites.trained if isinstance(value, Instance)]
    given = [site.args[0] for site in made if isinstance(site, ast.Call) and site.args]
    listed = all(isinstance(value, Pack) for item in given for value in amp.facts.values(item))
    alone = listed and len(given) == len(sites.trained) > 0
    return alone and not any(sites.trained.values()) and not any(map(sites.is_forward, sites.calls))


def add_regions(
    amp: Amp,
    roots: Sequence[ast.expr],
    statement: ast.stmt,
    memo: dict[ast.AST, bool],
    regions: Regions,
    depth: int = 0,
) -> int | Finding:
    """The regions that compute some values ahead of a statement, there and in what calls its function; their number."""
    facts = amp.facts
    before = [item for item in slice_of(facts, roots, facts.tree.scope(statement)) if is_before(amp, item, statement)]
    members = [item for item in before if is_downstream(facts, item, memo) and not takes_gradients(amp, item)]
    split = split_float32(amp, members, memo, regions)
    if isinstance(split, Finding):
        return split
    kept, outside = split
    found = group(
        facts,
        kept,
        statement,
        lambda item: (
            is_barrier(amp, item) or holds_any(amp, item, outside) or runs_trained_without_gradients(amp, item)
        ),
    )
    regions.training += [trimmed(amp, region) for region in found if computes(amp, region)]
    count = len(members)
    for call, argument in {pair: None for item in [*roots, *before] for pair in arguments_behind(facts, item)}:
        if depth < CALLERS and facts.is_editable(call) and is_downstream(facts, argument, memo):
            if contains_compute(amp, argument, memo):
                return amp.declined(
                    "inline-loss", call, "an argument computes the loss: give the loss a line of its own first"
                )
            more = add_regions(amp, [argument], facts.tree.statement(call), memo, regions, depth + 1)
            if isinstance(more, Finding):
                return more
            count += more
    return count


def computes(amp: Amp, region: Region) -> bool:
    """Whether a region does anything that autocast changes: more than to add, join and reshape tensors."""
    nodes = [node for statement in region.block for node in ast.walk(statement)]
    return any(
        isinstance(node, ast.MatMult) or (isinstance(node, ast.Call) and casts_inside(amp, node)) for node in nodes
    )


def trimmed(amp: Amp, region: Region, behind: bool = False) -> Region:
    """Without the statements at its head, and `behind`, that autocast does nothing for."""
    block = list(region.block)
    while len(block) > 1 and not computes(amp, Region((block[0],))):
        del block[0]
    while behind and len(block) > 1 and not computes(amp, Region((block[-1],))):
        del block[-1]
    return Region(tuple(block))


def casts_inside(amp: Amp, call: ast.Call) -> bool:
    """Whether autocast may change what a call computes."""
    names = {name.rsplit(".", 1)[-1] for name in amp.facts.sites.callee(call)}
    if isinstance(call.func, ast.Attribute) and not names and not amp.facts.sites.local_callees(call):
        names = {call.func.attr} if not amp.facts.sites.is_forward(call) else set()
    return not names or not names <= UNCHANGED


def is_before(amp: Amp, item: ast.stmt, site: ast.stmt) -> bool:
    """Whether a statement runs before the backward in the same pass, inside the innermost loop that holds both."""
    loops = amp.facts.tree.loops(site)
    step_loop = next(
        (loop for loop in loops if any(is_inside(amp, step.call, loop) for step in amp.facts.sites.steps)), None
    )
    inside = step_loop is None or is_inside(amp, item, step_loop)
    return position(item) < position(site) and inside


def is_inside(amp: Amp, node: ast.AST, loop: ast.AST) -> bool:
    """Whether a loop's body holds a node, directly or in a function that it calls."""
    if any(up is loop for up in amp.facts.tree.above(node)):
        return True
    scope = amp.facts.tree.scope(node)
    return isinstance(scope, FUNCTIONS) and any(
        any(up is loop for up in amp.facts.tree.above(call)) for call in amp.facts.state.callers.get(scope, ())
    )


def contains_compute(amp: Amp, loss: ast.expr, memo: dict[ast.AST, bool]) -> bool:
    """Whether a loss expression itself runs the model or a loss function, more than `loss.mean()` or `a + b`."""
    calls = [node for node in ast.walk(loss) if isinstance(node, ast.Call)]
    return any(amp.facts.sites.is_forward(call) or runs_loss(amp, call) for call in calls)


def runs_loss(amp: Amp, call: ast.Call) -> bool:
    """Whether a call computes a loss from outputs: a loss module or function, or code of the program."""
    sites = amp.facts.sites
    if any(sites.is_loss(value) for value in sites.values(call.func)):
        return True
    return any(function.name != "__init__" for function in sites.local_callees(call))


def split_float32(
    amp: Amp, members: list[ast.stmt], memo: dict[ast.AST, bool], regions: Regions
) -> tuple[list[ast.stmt], list[ast.stmt]] | Finding:
    """The members for autocast, and those that stay in float32, whose half-precision arguments get `.float()`."""
    outside: list[ast.stmt] = []
    for member in sorted(members, key=position):
        if needs_float32(amp, member) is None:
            continue
        if amp.facts.sites.contains_forward(member):
            return amp.declined(
                "loss-with-forward",
                member,
                "this loss has to be computed in float32 but runs in one statement with the model: give the model's "
                "outputs names on lines of their own first, like out = model(x)",
            )
        floats = float_casts(amp, member, outside, memo)
        if isinstance(floats, ast.AST):
            return amp.declined(
                "loss-structure",
                member,
                "this loss has to be computed in float32, but what it is given cannot be cast here: cast the "
                "outputs with .float() first, and take a sigmoid behind that",
            )
        regions.floats += [*floats, *squashed_in_models(amp, member)]
        outside.append(member)
    kept = [member for member in members if member not in outside]
    return (half_members(amp, kept, outside) if outside else kept), outside


def half_members(amp: Amp, kept: list[ast.stmt], outside: list[ast.stmt]) -> list[ast.stmt]:
    """Members that compute in half precision: what only adds up float32 losses gains nothing under autocast."""
    half: list[ast.stmt] = []
    for member in sorted(kept, key=position):
        if amp.facts.sites.contains_forward(member) or any(
            definition in half for definition in reads(amp.facts, member)
        ):
            if amp.facts.sites.contains_forward(member) or any(isinstance(node, ast.Call) for node in ast.walk(member)):
                half.append(member)
    return half


def is_outside(amp: Amp, outside: list[ast.stmt], item: ast.stmt) -> bool:
    """Whether a statement must not run under autocast, or holds one that stays in float32."""
    return is_barrier(amp, item) or holds_any(amp, item, outside)


def holds_any(amp: Amp, item: ast.stmt, members: list[ast.stmt]) -> bool:
    """Whether a statement is or holds one of several."""
    return any(amp.facts.tree.lift(member, [item]) is not None for member in members)


def runs_trained_without_gradients(amp: Amp, statement: ast.stmt) -> bool:
    """A `no_grad` around a model that is trained: older autocast would keep its weights' casts without gradients."""
    sites = amp.facts.sites
    if not isinstance(statement, ast.With) or not is_without_gradients(amp, statement):
        return False
    called = {
        value
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and sites.is_forward(node)
        for value in amp.facts.values(node.func)
    }
    return any(sites.unwrap(value) & set(sites.models) or not amp.facts.state.is_module(value) for value in called)


def takes_gradients(amp: Amp, statement: ast.stmt) -> bool:
    """Whether a statement computes gradients, which is not for autocast, or steps."""
    sites = amp.facts.sites
    return sites.contains_backward(statement) or any(
        isinstance(node, ast.Call) and sites.callee(node) & {"torch.autograd.grad"} for node in ast.walk(statement)
    )


def is_barrier(amp: Amp, statement: ast.stmt) -> bool:
    """Whether a statement must not run under autocast: gradients, steps, control that leaves the region."""
    if takes_gradients(amp, statement):
        return True
    return any(
        isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith))
        for node in [statement, *own_nodes(statement)]
    )


def add_kept(amp: Amp, regions: Regions) -> None:
    """The regions around forwards whose outputs a loss in another method finds in attributes, as in `self.fake`."""
    facts, tree = amp.facts, amp.facts.tree
    nodes = [node for region in regions.training for statement in region.block for node in ast.walk(statement)]
    read = {(node.attr, value) for node in nodes if isinstance(node, ast.Attribute) for value in facts.values(node)}
    blocks: dict[int, list[ast.stmt]] = {}
    for call in left_out(amp, regions):
        statement = tree.statement(call)
        kept = [
            node for node in ast.walk(statement) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        ]
        if any((node.attr, value) in read for node in kept for value in facts.values(node)):
            blocks.setdefault(id(tree.block(statement)), []).append(statement)
    for members in blocks.values():
        chosen = [item for item in dict.fromkeys(members) if needs_float32(amp, item) is None]
        regions.training += group(facts, chosen, None, partial(is_barrier, amp))


# ---- evaluation


def add_evaluation(amp: Amp, scope: ast.Module | FunctionNode, regions: Regions) -> None:
    """The regions of a scope's evaluation: what runs the model, reaches no backward, and has a loop or no gradients."""
    facts = amp.facts
    loops = [node for node in own_nodes(scope) if isinstance(node, LOOPS)]
    blocks = [node for node in [scope, *own_nodes(scope)] if is_without_gradients(amp, node)]
    for block in [*loops, *blocks]:
        if not is_evaluation(amp, block, regions):
            continue
        memo: dict[ast.AST, bool] = {}
        members, outside = evaluation_members(amp, block, memo, regions)
        members = [member for member in members if isinstance(block, LOOPS) or not facts.tree.loops(member)]
        barrier = partial(is_outside, amp, outside)
        for region in group(facts, members, None, barrier):
            if not any(statement in other.block for other in regions.all for statement in region.block):
                regions.evaluation.append(trimmed(amp, region, behind=True))


def left_out(amp: Amp, regions: Regions) -> list[ast.Call]:
    """Where a trained model runs outside of all regions, and of what they call."""
    facts, sites = amp.facts, amp.facts.sites
    trained = frozenset(sites.models)
    inline = {node for loss in regions.hoisted.values() for node in ast.walk(loss)}
    found = []
    for call in sites.calls:
        models = frozenset().union(*(sites.unwrap(value) for value in facts.values(call.func)))
        if not models & trained or not facts.is_editable(call) or call in inline or in_model_code(amp, call):
            continue
        inside = any(region.holds(facts, call) for region in regions.all)
        if not inside and not under_region(amp, facts.tree.scope(call), regions):
            found.append(call)
    return found


NO_GRADIENTS = {"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.inference_mode"}


def is_without_gradients(amp: Amp, node: ast.AST) -> bool:
    """`with torch.no_grad():`, or a function that is decorated so."""
    marks: list[ast.expr] = []
    if isinstance(node, ast.With):
        marks = [item.context_expr for item in node.items]
    elif isinstance(node, FUNCTIONS):
        marks = node.decorator_list
    targets = [mark.func if isinstance(mark, ast.Call) else mark for mark in marks]
    return any(external_names(amp.facts.values(target)) & NO_GRADIENTS for target in targets)


def is_evaluation(amp: Amp, block: ast.AST, regions: Regions) -> bool:
    """Code that runs the model outside every region and backward; of loops, an innermost one."""
    facts, sites = amp.facts, amp.facts.sites
    inside = block if isinstance(block, ast.stmt) and not isinstance(block, FUNCTIONS) else block.body[0]  # type: ignore[attr-defined]
    if sites.contains_backward(block) or not sites.contains_forward(block) or not sites.is_live(inside):
        return False
    scope = facts.tree.scope(inside)
    if any(region.holds(facts, block) for region in regions.training) or under_region(amp, scope, regions):
        return False
    if in_model_code(amp, inside):
        return False
    return not isinstance(block, LOOPS) or not any(
        sites.contains_forward(inner) for inner in own_nodes(block) if isinstance(inner, LOOPS) and inner is not block
    )


def under_region(amp: Amp, scope: ast.AST, regions: Regions, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether a function is called from a training region."""
    if not isinstance(scope, FUNCTIONS) or scope in seen:
        return False
    return any(
        any(region.holds(amp.facts, call) for region in regions.all)
        or under_region(amp, amp.facts.tree.scope(call), regions, seen | {scope})
        for call in amp.facts.state.callers.get(scope, ())
    )


def evaluation_members(
    amp: Amp, block: ast.AST, memo: dict[ast.AST, bool], regions: Regions
) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The statements that run the model, or a loss on its outputs; and those of them that stay in float32."""
    found: list[ast.stmt] = []
    outside: list[ast.stmt] = []
    losses = training_losses(amp, regions)
    for statement in simple_statements(block):
        calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
        forward = any(amp.facts.sites.is_forward(call) for call in calls)
        if forward and any(makes_arrays(amp, call) or evaluates(amp, call) for call in calls):
            continue
        loss = any(
            any(amp.facts.sites.is_loss(value) or value in losses for value in amp.facts.values(call.func))
            for call in calls
        )
        if not forward and not (
            is_downstream(amp.facts, statement, memo) and (loss or (needs_float32(amp, statement) is not None))
        ):
            continue
        if needs_float32(amp, statement) is None:
            found.append(statement)
        elif not forward:
            floats = float_casts(amp, statement, outside, memo)
            regions.floats += floats if isinstance(floats, list) else []
            outside.append(statement)
    return found, outside


def evaluates(amp: Amp, call: ast.Call) -> bool:
    """Whether a call runs a function that has a loop over forwards, and so regions, of its own."""
    return any(
        isinstance(node, LOOPS) and amp.facts.sites.contains_forward(node)
        for function in amp.facts.sites.local_callees(call)
        if amp.facts.is_editable(function) and not in_model_code(amp, function.body[0])
        for node in own_nodes(function)
    )


def makes_arrays(amp: Amp, call: ast.Call) -> bool:
    """Whether a call runs a function that turns tensors into arrays, as methods that decode outputs do."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "numpy"
        for function in amp.facts.sites.local_callees(call)
        if function.name != "__init__"
        for node in ast.walk(function)
    )


def training_losses(amp: Amp, regions: Regions) -> set[Value]:
    """What the training regions call besides models: the same losses are computed alike in evaluation."""
    calls = [
        node
        for region in regions.training
        for statement in region.block
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and not amp.facts.sites.is_forward(node)
    ]
    return {
        value
        for call in calls
        for value in amp.facts.values(call.func)
        if isinstance(value, (Instance, Function, Method, Derived, Member))
    }


def simple_statements(scope: ast.AST) -> Iterator[ast.stmt]:
    """The statements below a node that hold no others."""
    for node in own_nodes(scope):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)) and not (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            yield node
