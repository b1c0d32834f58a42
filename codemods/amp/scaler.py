"""The one GradScaler of a run: where it is made, and how each loop gets at it."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from speedpatch.codemod import Finding
from speedpatch.facts.reach import Home, Obstacle, Reach, homes
from speedpatch.facts.tree import position
from speedpatch.facts.values import Constant, Instance, Value

from .context import Amp


def find_reach(amp: Amp, nodes: Iterable[ast.AST]) -> Reach | Finding:
    """The home of the scaler that every node can be reached from with the fewest new parameters."""
    facts = amp.facts
    sites = sorted(nodes, key=position)
    optimizers = stepped(amp)
    found = homes(facts, optimizers)
    scopes = [facts.tree.scope(node) for node in sites]
    name = amp.free_name("scaler", "grad_scaler")
    best: Reach | None = None
    obstacle: Obstacle | None = None
    for home in found:
        reach = Reach(facts, home, name, optimizers)
        problem = next((result for scope in scopes if isinstance(result := reach.expression(scope), Obstacle)), None)
        problem = problem or out_of_place(amp, home, sites)
        if problem is not None:
            obstacle = obstacle or problem
        elif best is None or len(reach.edits) < len(best.edits):
            best = reach
    if best is not None:
        return best
    if obstacle is not None:
        return amp.blocked(obstacle)
    if not optimizers:
        return amp.declined(
            "optimizer-elsewhere",
            sites[-1],
            "no optimizer that steps after this backward pass was recognised in this file: build it from "
            "torch.optim here",
        )
    lines = sorted({facts.line(value.site) for value in optimizers if isinstance(value, Instance)})
    places = f" (lines {', '.join(map(str, lines))})" if len(lines) > 1 else ""
    return amp.declined(
        "optimizer-elsewhere",
        sites[-1],
        f"the optimizers{places} are not bound together in one place of this file, so no one GradScaler can stand "
        "beside them: build them in one function, or use --amp-dtype bfloat16",
    )


def stepped(amp: Amp) -> frozenset[Value]:
    """The optimizers that step in the script."""
    return frozenset(
        value
        for step in amp.facts.sites.steps
        for value in step.values
        if not isinstance(value, Constant) and amp.facts.sites.is_optimizer(value)
    )


def out_of_place(amp: Amp, home: Home, sites: list[ast.AST]) -> Obstacle | None:
    """A home inside the loop that it serves would make a scaler every time, unless the optimizer is made there too."""
    tree = amp.facts.tree
    if home.owner is not None and "__slots__" in amp.facts.state.scopes[home.owner]:
        return Obstacle("slots", home.owner, f"{home.owner.name} has __slots__, so it takes no new attribute")
    if isinstance(tree.parent(home.anchor), ast.ClassDef):
        return Obstacle("class-attribute", home.anchor, "the optimizer belongs to a class: make it in __init__")
    made = [value.site for value in stepped(amp) if isinstance(value, Instance)]
    for loop in tree.loops(home.anchor):
        if not any(up is loop for site in made for up in tree.above(site)):
            return Obstacle("scaler-in-loop", home.anchor, "the optimizer is bound inside a loop but made outside it")
    for site in sites:
        if (
            tree.scope(site) is home.scope
            and home.owner is None
            and not home.before
            and position(site) < position(home.anchor)
        ):
            return Obstacle("before-optimizer", site, "this runs before the optimizer is made")
    return None
