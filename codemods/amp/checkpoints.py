"""The scaler's state in checkpoints that carry the optimizer's, loaded only where it is there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from speedpatch.edits import AddArgument, AddEntry, Edit, Insert
from speedpatch.facts.evaluate import dotted
from speedpatch.facts.reach import Reach

from .context import Amp


def save_and_load(amp: Amp, reach: Reach) -> Iterator[Edit]:
    """Entries beside the optimizer's wherever the scaler can be had."""
    saves = list(saved_entries(amp, reach))
    yield from saves
    if saves:
        yield from loaded_entries(amp, reach)


def restored_elsewhere(amp: Amp, reach: Reach) -> ast.Call | None:
    """Where code from outside the program is given the optimizer, perhaps to restore it, while only saves are seen."""
    if not any(saved_entries(amp, reach)) or any(loaded_entries(amp, reach)):
        return None
    for call in amp.facts.sites.calls:
        given = [*call.args, *(item.value for item in call.keywords)]
        values = {value for item in given for value in amp.facts.values(item)}
        outside = not amp.facts.sites.local_callees(call) and amp.facts.is_editable(call)
        known = any(name.startswith(("torch.", "builtins.")) for name in amp.facts.sites.callee(call))
        if outside and not known and values & reach.companions:
            return call
    return None


def saved_alone(amp: Amp, reach: Reach) -> ast.Call | None:
    """Where an optimizer's state is saved in a form that no entry for the scaler can be added to."""
    if any(saved_entries(amp, reach)):
        return None
    return next(optimizer_calls(amp, "state_dict"), None)


def optimizer_calls(amp: Amp, method: str) -> Iterator[ast.Call]:
    """Calls of a method on an optimizer, in files that may be edited."""
    for call in amp.facts.sites.attribute_calls(method):
        assert isinstance(call.func, ast.Attribute)
        values = amp.facts.values(call.func.value)
        if amp.facts.is_editable(call) and any(amp.facts.sites.is_optimizer(value) for value in values):
            yield call


def spelled(amp: Amp, reach: Reach, node: ast.AST) -> str | None:
    """The scaler as a place can spell it, if it is made by then."""
    scope = amp.facts.tree.scope(node)
    if not reach.made_by(node):
        return None
    text = reach.expression(scope)
    return text if isinstance(text, str) else None


def saved_entries(amp: Amp, reach: Reach) -> Iterator[Edit]:
    """`"scaler": scaler.state_dict()` behind the optimizer's entry; once per checkpoint."""
    done: set[ast.AST] = set()
    for call in optimizer_calls(amp, "state_dict"):
        up = amp.facts.tree.parent(call)
        holder = amp.facts.tree.parent(up) if isinstance(up, ast.keyword) else up
        if holder in done or holder is None:
            continue
        edit = saved_entry(amp, reach, call, up)
        if edit is not None:
            done.add(holder)
            yield edit


def saved_entry(amp: Amp, reach: Reach, call: ast.Call, up: ast.AST | None) -> Edit | None:
    """The entry in the form that the checkpoint is written in."""
    path = amp.facts.path(call)
    if isinstance(up, ast.Dict):
        key = up.keys[up.values.index(call)]
        if key is None or (scaler := spelled(amp, reach, call)) is None:
            return None
        quote = amp.facts.text(key)[:1] if amp.facts.text(key)[:1] in "'\"" else '"'
        return AddEntry(path, up, f"{quote}scaler{quote}: {scaler}.state_dict()", call)
    if (
        isinstance(up, ast.keyword)
        and isinstance(holder := amp.facts.tree.parent(up), ast.Call)
        and "builtins.dict" in amp.facts.sites.callee(holder)
    ):
        scaler = spelled(amp, reach, call)
        return AddArgument(path, holder, f"scaler={scaler}.state_dict()", up) if scaler else None
    if isinstance(up, ast.Assign) and len(up.targets) == 1 and isinstance(target := up.targets[0], ast.Subscript):
        base = dotted(target.value)
        scaler = spelled(amp, reach, call)
        if base and scaler:
            quote = amp.facts.text(target.slice)[:1] if amp.facts.text(target.slice)[:1] in "'\"" else '"'
            return Insert(path, up, "after", f"{base}[{quote}scaler{quote}] = {scaler}.state_dict()", slot=30)
    return None


def loaded_entries(amp: Amp, reach: Reach) -> Iterator[Edit]:
    """Behind `optimizer.load_state_dict(checkpoint["optimizer"])`; old checkpoints have no scaler."""
    done: set[tuple[ast.AST, str]] = set()
    for call in optimizer_calls(amp, "load_state_dict"):
        statement = amp.facts.tree.statement(call)
        item = call.args[0] if call.args else None
        if (
            not isinstance(item, ast.Subscript)
            or not isinstance(item.slice, ast.Constant)
            or not isinstance(statement, ast.Expr)
        ):
            continue
        base = dotted(item.value)
        scope = amp.facts.tree.scope(call)
        if base is None or (scope, base) in done or (scaler := spelled(amp, reach, call)) is None:
            continue
        done.add((scope, base))
        quote = amp.facts.text(item.slice)[:1]
        key = f"{quote}scaler{quote}"
        text = f"if {base}.get({key}):\n    {scaler}.load_state_dict({base}[{key}])"
        yield Insert(amp.facts.path(call), statement, "after", text, slot=30)
