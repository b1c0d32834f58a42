"""Why an object cannot be followed to where it is made."""

from __future__ import annotations

import ast

from speedpatch.facts.facts import Facts
from speedpatch.facts.tree import position
from speedpatch.facts.values import Derived, FunctionNode, Member, Parameter, Value


def handed_on(facts: Facts, function: FunctionNode) -> ast.expr | None:
    """Where a function is passed on as a value instead of being called, as a thread's target or to `partial`."""
    return min(facts.sites.handed.get(function, ()), key=position, default=None)


def out_of_sight(facts: Facts, value: Value) -> tuple[ast.AST, str] | None:
    """Where the way back to the origin of a value ends, and why; None when it is no parameter."""
    root = value
    while isinstance(root, (Member, Derived)) and root.base is not None:
        root = root.base
    if not isinstance(root, Parameter):
        return None
    function = root.function
    node = handed_on(facts, function)
    if node is not None:
        reason = f"{function.name}() is passed on as a value, so what it is given cannot be followed: call it directly"
        return node, reason
    if not facts.state.callers.get(function):
        owner = facts.tree.owner(function)
        missing = f"makes a {owner.name}" if owner is not None else f"calls {function.name}()"
        return function, f"nothing in this file {missing}: name the script that does"
    for item, stars in ((function.args.vararg, "*"), (function.args.kwarg, "**")):
        if item is not None and item.arg == root.name:
            reason = (
                f"{function.name}() takes {stars}{item.arg}, which cannot be followed here: give it named parameters"
            )
            return function, reason
    return None
