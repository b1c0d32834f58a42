"""The one GradScaler of a run: where it is made, and how each loop gets at it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from speedpatch.codemod import Finding
from speedpatch.edits import AddArgument
from speedpatch.facts.reach import Home, Obstacle, Reach, homes
from speedpatch.facts.tree import position
from speedpatch.facts.values import Constant, Instance, Value

from .context import Amp
from .enabled import path_binders, test_at


def find_reach(amp: Amp, nodes: Iterable[ast.AST]) -> Reach | Finding:
    """The homes of the scaler that every node can be reached from with the fewest new parameters."""
    facts = amp.facts
    sites = sorted(nodes, key=position)
    optimizers = stepped(amp)
    name = amp.free_name("scaler", "grad_scaler")
    found = [try_way(amp, Reach(facts, way, name, optimizers), sites) for way in homes(facts, optimizers)]
    reached = [reach for reach in found[:-1] if isinstance(reach, Reach)] or [
        reach for reach in found[-1:] if isinstance(reach, Reach)
    ]
    if reached:
        best = min(reached, key=lambda reach: len(reach.edits))
        best.homes = tuple(behind_device(amp, home, best, sites) for home in best.homes)
        return best
    obstacle = next((item for item in found if isinstance(item, Obstacle)), None)
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


def try_way(amp: Amp, reach: Reach, sites: list[ast.AST]) -> Reach | Obstacle:
    """The same with what brings it everywhere, or why some place is out of its reach."""
    scopes = [amp.facts.tree.scope(site) for site in sites]
    problem = next((result for scope in scopes if isinstance(result := reach.expression(scope), Obstacle)), None)
    reach.keep_used()
    problem = problem or next((spot for home in reach.homes if (spot := out_of_place(amp, home)) is not None), None)
    return problem or too_early(reach, sites) or reach


def stepped(amp: Amp) -> frozenset[Value]:
    """The optimizers that step in the script."""
    return frozenset(
        value
        for step in amp.facts.sites.steps
        for value in step.values
        if not isinstance(value, Constant) and amp.facts.sites.is_optimizer(value)
    )


def behind_device(amp: Amp, home: Home, reach: Reach, sites: list[ast.AST]) -> Home:
    """A home further down, where the device is known by then and nothing has needed the scaler yet."""
    if amp.device.kind not in ("object", "flag") or home.before or known_behind(amp, home, home.anchor):
        return home
    tree = amp.facts.tree
    needs = [*sites, *(edit.call for edit in reach.edits if isinstance(edit, AddArgument)), *kept_states(amp)]
    block = tree.block(home.anchor)
    for statement in block[block.index(home.anchor) + 1 :]:
        if any(tree.lift(node, [statement]) is not None for node in needs):
            break
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and known_behind(amp, home, statement):
            return replace(home, anchor=statement)
    return home


def known_behind(amp: Amp, home: Home, statement: ast.stmt) -> bool:
    """Whether the scope of a home can ask for the device behind a statement, and has set what it asks by then."""
    test = test_at(amp, home.scope, statement, after=True)
    setting = path_binders(amp, test, home.scope) if test is not None else []
    return test is not None and (not setting or any(position(item) <= position(statement) for item in setting))


def kept_states(amp: Amp) -> list[ast.Call]:
    """Where optimizers are saved and loaded, and with them the scaler."""
    calls = amp.facts.sites.attribute_calls("state_dict", "load_state_dict")
    return [
        call
        for call in calls
        if any(amp.facts.sites.is_optimizer(value) for value in amp.facts.values(call.func.value))  # type: ignore[attr-defined]
    ]


def out_of_place(amp: Amp, home: Home) -> Obstacle | None:
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
    return None


def too_early(reach: Reach, sites: list[ast.AST]) -> Obstacle | None:
    """Something that needs the scaler ahead of the place where its scope makes it."""
    for site in sites:
        home = reach.home_in(reach.facts.tree.scope(site))
        if home is not None and home.owner is None and not home.before and not reach.made_by(site):
            return Obstacle("before-optimizer", site, "this runs before the optimizer is made")
    return None
