"""What `*args` and `**kwargs` of a local function hold: the arguments that its other parameters do not take."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from speedpatch.facts.state import unknown_parameter
from speedpatch.facts.values import NOTHING, FunctionNode, Pack, Value, Values

if TYPE_CHECKING:
    from speedpatch.facts.evaluate import Evaluator


def pack_arguments(
    self: Evaluator, function: FunctionNode, node: ast.Call, names: Sequence[str], receiver: Value | None
) -> None:
    """Bind what a call gives beyond the named parameters; `receiver` is what comes ahead of the arguments."""
    spec = function.args
    if spec.vararg is not None:
        pack_positional(self, function, spec.vararg, node, len(names), receiver)
    if spec.kwarg is not None:
        pack_keywords(self, function, spec.kwarg, node, {*names, *(item.arg for item in spec.kwonlyargs)})


def pack_positional(
    self: Evaluator, function: FunctionNode, target: ast.arg, node: ast.Call, taken: int, receiver: Value | None
) -> None:
    """`*args`, by position; behind something unpacked, whose length is not known, in no order."""
    values = self.state.values
    given = [(str(index), values.get(argument, NOTHING)) for index, argument in enumerate(node.args)]
    starred = next((index for index, item in enumerate(node.args) if isinstance(item, ast.Starred)), None)
    if starred is not None:
        behind = [("", found) for _, found in given[starred + 1 :]]
        given = [*given[:starred], *unpacked(self, function, target, given[starred][1], starred), *behind]
    lead = [("0", frozenset({receiver}))] if receiver is not None else []
    shift = len(lead) - taken
    moved = [(str(int(key) + shift) if key else "", found) for key, found in given]
    for key, found in [*lead, *(item for item in moved if not item[0].startswith("-"))]:
        hold(self, function, target, f"[{key}]", found)


def unpacked(
    self: Evaluator, function: FunctionNode, target: ast.arg, values: Values, first: int
) -> list[tuple[str, Values]]:
    """The items of `*x` with their positions in the call, from `first` on."""
    found: list[tuple[str, Values]] = []
    for value in values:
        if not isinstance(value, Pack):
            leave_open(self, function, target)
        for name in [name for name in self.state.items.get(value, ()) if name[0] == "["]:
            key = name[1:-1]
            position = str(int(key) + first) if key.isdigit() else ""
            found.append((position, self.state.heap.get((value, name), NOTHING)))
    return found


def pack_keywords(self: Evaluator, function: FunctionNode, target: ast.arg, node: ast.Call, taken: set[str]) -> None:
    """`**kwargs`, by name."""
    for keyword in node.keywords:
        values = self.state.values.get(keyword.value, NOTHING)
        if keyword.arg is not None:
            if keyword.arg not in taken:
                hold(self, function, target, f"[{keyword.arg!r}]", values)
            continue
        for value in values:
            if not isinstance(value, Pack):
                leave_open(self, function, target)
            for name in [name for name in self.state.items.get(value, ()) if name[0] == "["]:
                hold(self, function, target, name, self.state.heap.get((value, name), NOTHING))


def hold(self: Evaluator, function: FunctionNode, target: ast.arg, name: str, values: Values) -> None:
    """Store an item."""
    pack = Pack(target)
    self.state.store(pack, name, values)
    self.state.grow(self.state.inputs, (function, target.arg), frozenset({pack}))


def leave_open(self: Evaluator, function: FunctionNode, target: ast.arg) -> None:
    """Something of which nothing is known may be among the items."""
    if self.state.settled:
        self.state.grow(self.state.inputs, (function, target.arg), unknown_parameter(function, target.arg))
