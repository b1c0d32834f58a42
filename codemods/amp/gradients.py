"""Loss scaling: scaled backwards, unscaled readings, steps through the scaler, one update behind the last step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from speedpatch.codemod import Finding
from speedpatch.edits import Edit, Insert, Replace, Wrap
from speedpatch.facts.reach import Reach
from speedpatch.facts.sites import Step
from speedpatch.facts.slices import slice_of
from speedpatch.facts.tree import own_nodes, position
from speedpatch.facts.values import FUNCTIONS, LOOPS, Instance

from .context import Amp


def scale_steps(amp: Amp, reach: Reach) -> Iterator[Edit | Finding]:
    """All edits of one program's steps and gradient readings."""
    steps = [step for step in amp.facts.sites.steps if amp.facts.is_editable(step.call)]
    by_scope: dict[ast.AST, list[Step]] = {}
    for step in steps:
        by_scope.setdefault(amp.facts.tree.scope(step.call), []).append(step)
    apart = [scope for scope in by_scope if not has_own_backward(amp, scope)]
    if len(by_scope) > 1 and apart:
        yield amp.declined(
            "update-order",
            by_scope[apart[0]][0].call,
            "the steps are in different functions, and which of them is the last of an iteration is not known",
        )
        return
    for scope, group in by_scope.items():
        scaler = reach.expression(scope)  # type: ignore[arg-type]
        assert isinstance(scaler, str)
        for step in group:
            yield Replace(amp.facts.path(step.call), step.call, f"{scaler}.step({amp.facts.text(step.subject)})")
        yield from dict.fromkeys([*updates(amp, scaler, group), *unscale(amp, scaler, group)])
        yield from guard_schedulers(amp, scaler, group)
    yield from stray_readings(amp, steps)
    yield from unreached_readings(amp)


# ---- update


def updates(amp: Amp, scaler: str, steps: list[Step]) -> Iterator[Edit | Finding]:
    """`update()` once in each pass, behind the last step of it."""
    for statement in update_anchors(amp, [amp.facts.tree.statement(step.call) for step in steps]):
        if isinstance(statement, Finding):
            yield statement
        else:
            anchor = outside_gradient_tests(amp, statement)
            yield Insert(amp.facts.path(anchor), anchor, "after", f"{scaler}.update()", slot=20)
            loops = amp.facts.tree.loops(anchor)
            for step in steps:
                if amp.facts.tree.loops(step.call) == loops and position(step.call) < position(anchor):
                    yield from update_at_exits(amp, scaler, amp.facts.tree.statement(step.call), anchor)


def update_anchors(amp: Amp, statements: list[ast.stmt]) -> list[ast.stmt | Finding]:
    """The statements to put updates behind."""
    groups = by_loop(amp, statements)
    if len(groups) > 1:
        return [anchor for group in groups for anchor in update_anchors(amp, group)]
    if len(statements) == 1:
        return [behind(amp, statements[0])]
    block = amp.facts.tree.common_block(*statements)
    if block is None:
        return [amp.declined("update-order", statements[0], "the steps are in different functions")]
    lifted = [amp.facts.tree.lift(statement, block) for statement in statements]
    if any(up is statement for up, statement in zip(lifted, statements, strict=True)):
        last = max((up for up in lifted if up is not None), key=position)
        return [last]
    if all(up is lifted[0] for up in lifted) and isinstance(lifted[0], ast.If):
        return [anchor for branch in branches(amp, lifted[0], statements) for anchor in update_anchors(amp, branch)]
    if all(up is not None and amp.facts.sites.contains_backward(up) and has_own_backward(amp, up) for up in lifted):
        groups_by_lift = [
            [statement for statement, up in zip(statements, lifted, strict=True) if up is one]
            for one in dict.fromkeys(lifted)
        ]
        return [anchor for group in groups_by_lift for anchor in update_anchors(amp, group)]
    return [
        amp.declined(
            "update-order", statements[0], "which of several conditional steps is the last of an iteration is not known"
        )
    ]


def outside_gradient_tests(amp: Amp, statement: ast.stmt) -> ast.stmt:
    """The statement, or the outermost `if` on gradients around it: an update ends every pass that unscaled."""
    found = statement
    for up in amp.facts.tree.above(statement):
        if isinstance(up, (*FUNCTIONS, *LOOPS)):
            break
        if isinstance(up, ast.If) and follows_gradients(amp, up.test):
            found = up
    return found


def follows_gradients(amp: Amp, node: ast.expr) -> bool:
    """Whether an expression reads gradients or was computed from them."""
    if not amp.facts.sites.gradient_reads:
        return False
    scope = amp.facts.tree.scope(node)
    computed = [node, *slice_of(amp.facts, [node], scope)]
    return any(
        up in computed for reading in readings_in(amp, scope) for up in [reading, *amp.facts.tree.above(reading)]
    )


def by_loop(amp: Amp, statements: list[ast.stmt]) -> list[list[ast.stmt]]:
    """Steps of separate loops (two experiments, two phases) are separate; a loop over optimizers is not one."""
    groups: dict[ast.AST | None, list[ast.stmt]] = {}
    for statement in statements:
        loop = next((loop for loop in amp.facts.tree.loops(statement) if has_own_backward(amp, loop)), None)
        groups.setdefault(loop, []).append(statement)
    outer = [loop for loop in groups if loop is not None]
    if any(a is not b and b in amp.facts.tree.above(a) for a in outer for b in outer):
        return nested_groups(amp, groups)
    return list(groups.values())


def nested_groups(amp: Amp, groups: dict[ast.AST | None, list[ast.stmt]]) -> list[list[ast.stmt]]:
    """An inner training loop inside an outer one: each updates for itself, since each has its own backward."""
    return list(groups.values())


def has_own_backward(amp: Amp, node: ast.AST) -> bool:
    """Whether a backward, not only a step, runs below a node."""
    calls = {site.call for site in amp.facts.sites.backwards}
    return any(
        child in calls
        or (
            isinstance(child, ast.Call)
            and any(calls & set(ast.walk(function)) for function in amp.facts.sites.local_callees(child))
        )
        for child in ast.walk(node)
        if isinstance(child, ast.Call)
    )


def behind(amp: Amp, statement: ast.stmt) -> ast.stmt:
    """A single step's own statement, or the loop over optimizers that it stands in."""
    up = amp.facts.tree.parent(statement)
    if isinstance(up, LOOPS) and not has_own_backward(amp, up):
        return behind(amp, up)
    return statement


def branches(amp: Amp, node: ast.If, statements: list[ast.stmt]) -> list[list[ast.stmt]]:
    """Statements by the branch of an `if` that they lie in."""
    found = [
        [item for item in statements if amp.facts.tree.lift(item, block) is not None]
        for block in (node.body, node.orelse)
    ]
    return [branch for branch in found if branch]


# ---- unscale


def unscale(amp: Amp, scaler: str, steps: list[Step]) -> Iterator[Edit | Finding]:
    """`unscale_` ahead of the first reading of gradients that a step follows."""
    done: set[tuple[str, ast.stmt]] = set()
    for step in steps:
        found = readings_before(amp, step)
        if not found:
            continue
        problem = next((item for reading in found if (item := misplaced(amp, reading, step)) is not None), None)
        if problem is not None:
            yield problem
            continue
        mine = [reading for reading in found if concerns(amp, reading, step, steps)]
        if not mine:
            continue
        anchor = first_together(amp, mine, step)
        subject = amp.facts.text(step.subject)
        if (subject, anchor) not in done:
            done.add((subject, anchor))
            yield Insert(amp.facts.path(anchor), anchor, "before", f"{scaler}.unscale_({subject})", slot=10)
            yield from update_at_exits(amp, scaler, anchor, step.call)


def update_at_exits(amp: Amp, scaler: str, first: ast.stmt, last: ast.AST) -> Iterator[Edit]:
    """An update where a pass ends between two places: in the next one, `unscale_` and `step` would raise without it."""
    tree = amp.facts.tree
    block, scope = tree.block(first), tree.scope(last)
    loop = next(iter(tree.loops(last)), None)
    for node in own_nodes(scope):
        inner = next(iter(tree.loops(node)), None)
        leaves = isinstance(node, ast.Return) or (isinstance(node, (ast.Break, ast.Continue)) and inner is loop)
        if leaves and position(first) < position(node) < position(last) and tree.lift(node, block) is not None:
            assert isinstance(node, ast.stmt)
            yield Insert(amp.facts.path(node), node, "before", f"{scaler}.update()", slot=20)


def readings_in(amp: Amp, scope: ast.AST) -> list[ast.AST]:
    """Where a scope reads gradients, itself or in a helper that does nothing else of a step."""
    sites = amp.facts.sites
    here = [node for node in sites.gradient_reads if amp.facts.tree.scope(node) is scope]
    for call in sites.calls:
        if amp.facts.tree.scope(call) is scope and any(
            reads_gradients(amp, function) for function in sites.local_callees(call)
        ):
            here.append(call)
    return sorted(here, key=position)


def reads_gradients(amp: Amp, function: ast.AST, depth: int = 0) -> bool:
    """Whether a helper reads gradients and takes no part in computing them."""
    if depth > 3 or amp.facts.sites.contains_backward(function):
        return False
    if any(function in amp.facts.tree.above(node) for node in amp.facts.sites.gradient_reads):
        return True
    return any(
        reads_gradients(amp, inner, depth + 1)
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        for inner in amp.facts.sites.local_callees(call)
        if inner is not function
    )


def readings_before(amp: Amp, step: Step) -> list[ast.AST]:
    """The readings between the last backward ahead of a step and the step itself."""
    scope = amp.facts.tree.scope(step.call)
    ahead = [
        site.call
        for site in amp.facts.sites.backwards
        if amp.facts.tree.scope(site.call) is scope and position(site.call) < position(step.call)
    ]
    ahead += [call for call in backward_helpers(amp, scope) if position(call) < position(step.call)]
    start = max((position(call) for call in ahead), default=(0, 0))
    return [node for node in readings_in(amp, scope) if start < position(node) < position(step.call)]


def backward_helpers(amp: Amp, scope: ast.AST) -> list[ast.Call]:
    """Calls of a scope to functions of the program that compute gradients."""
    sites = amp.facts.sites
    return [
        call
        for call in sites.calls
        if amp.facts.tree.scope(call) is scope
        and any(sites.contains_backward(function) for function in sites.local_callees(call))
    ]


def misplaced(amp: Amp, reading: ast.AST, step: Step) -> Finding | None:
    """A reading in every micro-batch, when only some of them step."""
    tree = amp.facts.tree
    block = tree.common_block(reading, step.call)
    if block is None:
        return amp.declined("reading-elsewhere", reading, "gradients are read in another function than the step")
    up = tree.lift(step.call, block)
    conditional = isinstance(up, ast.If) and up is not tree.statement(step.call) and tree.lift(reading, block) is not up
    if conditional and isinstance(up, ast.If) and not follows_gradients(amp, up.test):
        return amp.declined(
            "clip-each-micro-batch",
            reading,
            "gradients are read in every micro-batch but only some of them step: move this into the "
            "condition of the step",
        )
    return None


def concerns(amp: Amp, reading: ast.AST, step: Step, steps: list[Step]) -> bool:
    """Whether a reading is about the parameters of a step's optimizer: by its models, else by being the next step."""
    owners = amp.facts.sites.owners_in(amp.facts.tree.statement(reading), set())
    mine = frozenset().union(*(amp.facts.sites.trained.get(value, frozenset()) for value in step.values))
    others = [other for other in steps if other is not step and position(other.call) > position(reading)]
    theirs = frozenset().union(
        *(amp.facts.sites.trained.get(value, frozenset()) for other in others for value in other.values)
    )
    if owners & mine:
        return True
    if owners & theirs:
        return False
    return all(position(step.call) <= position(other.call) for other in others)


def first_together(amp: Amp, readings: list[ast.AST], step: Step) -> ast.stmt:
    """The statement to stand before: the first that holds a reading, outside loops over parameters."""
    tree = amp.facts.tree
    statements = [tree.statement(reading) for reading in readings]
    block = tree.common_block(*statements)
    anchor = (tree.lift(statements[0], block) if block else None) or statements[0]
    around = tree.loops(step.call)
    return next((loop for loop in reversed(tree.loops(anchor)) if loop not in around), anchor)


def stray_readings(amp: Amp, steps: list[Step]) -> Iterator[Finding]:
    """Readings that lie between two backwards of one step, where gradients are a mixture of scaled and not."""
    for step in steps:
        scope = amp.facts.tree.scope(step.call)
        ahead = sorted(
            position(site.call) for site in amp.facts.sites.backwards if amp.facts.tree.scope(site.call) is scope
        )
        loops = amp.facts.tree.loops(step.call)
        earlier = [
            position(other.call)
            for other in steps
            if amp.facts.tree.scope(other.call) is scope and position(other.call) < position(step.call)
        ]
        start = max(earlier, default=(0, 0))
        mine = [place for place in ahead if start < place < position(step.call)]
        for node in readings_in(amp, scope):
            if (
                mine
                and mine[0] < position(node) < mine[-1]
                and not invariant(amp, node)
                and (not loops or loops[0] in amp.facts.tree.above(node))
            ):
                yield amp.declined(
                    "read-between-backwards",
                    node,
                    "gradients are read between two backward passes of one step, where they are still "
                    "scaled: use --amp-dtype bfloat16",
                )


def unreached_readings(amp: Amp) -> Iterator[Finding]:
    """Readings behind a backward of a function that does not step: no `unscale_` can come before them."""
    tree, sites = amp.facts.tree, amp.facts.sites
    for node in sites.gradient_reads:
        scope = tree.scope(node)
        ahead = [
            site.call
            for site in sites.backwards
            if tree.scope(site.call) is scope and position(site.call) < position(node)
        ]
        if ahead and not any(tree.scope(step.call) is scope for step in sites.steps) and not invariant(amp, node):
            yield amp.declined(
                "reading-elsewhere",
                node,
                "gradients are read in another function than the step, where they are still scaled: use "
                "--amp-dtype bfloat16",
            )


def invariant(amp: Amp, node: ast.AST) -> bool:
    """`x.grad.sign()`: the same whatever the scale."""
    inner, up = node, amp.facts.tree.parent(node)
    while isinstance(up, ast.Attribute) and up.attr in ("data", "detach"):
        inner, up = up, amp.facts.tree.parent(up)
    if isinstance(up, ast.Attribute):
        return up.attr in ("sign", "sign_")
    return isinstance(up, ast.Call) and inner in up.args and bool(amp.facts.sites.callee(up) & {"torch.sign"})


# ---- schedulers


def guard_schedulers(amp: Amp, scaler: str, steps: list[Step]) -> Iterator[Edit]:
    """A scheduler that steps with the optimizer stands still when the scaler skipped the step."""
    tree = amp.facts.tree
    for step in steps:
        statement = tree.statement(step.call)
        followers = [other for other in amp.facts.sites.scheduler_steps if follows(amp, other, step)]
        if not followers or any(position(other.call) > position(step.call) for other in steps if other is not step):
            continue
        scope = tree.scope(step.call)
        name = amp.facts.free_name("scale", [scope])
        yield Insert(amp.facts.path(statement), statement, "before", f"{name} = {scaler}.get_scale()", slot=15)
        for other in followers:
            target = tree.statement(other.call)
            yield Wrap(amp.facts.path(target), target, target, f"if {scaler}.get_scale() >= {name}:")


def follows(amp: Amp, other: Step, step: Step) -> bool:
    """Whether a scheduler steps behind an optimizer in the same pass of the same loop."""
    tree = amp.facts.tree
    statement = tree.statement(other.call)
    if tree.scope(other.call) is not tree.scope(step.call) or position(other.call) < position(step.call):
        return False
    if not isinstance(statement, ast.Expr) or tree.loops(other.call) != tree.loops(step.call):
        return False
    if not tree.loops(step.call) and not isinstance(tree.scope(step.call), FUNCTIONS):
        return False
    block = tree.block(tree.statement(step.call))
    return tree.lift(other.call, block) is not None


def optimizer_class(value: object) -> str:
    """The name of an optimizer's class."""
    return value.name if isinstance(value, Instance) else "optimizer"
