"""Add arguments, parameters and dict entries."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from speedpatch.splice.brackets import Addition, Bracket, find_open, item_behind, read_bracket, spans_of
from speedpatch.splice.merge import Kind, Splice
from speedpatch.splice.text import Conflict, Text

if TYPE_CHECKING:
    from speedpatch.edits import AddArgument, AddEntry, AddParameter

KEYWORD = re.compile(r"\s*\w+\s*=(?!=)")
NEXT = "\n, "
NAME = re.compile(r"\W*(\w+)")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_bare_generator(text: Text, call: ast.Call) -> bool:
    """Whether a call's only argument is a generator that shares its parentheses."""
    is_generator = len(call.args) == 1 and isinstance(call.args[0], ast.GeneratorExp)
    return is_generator and text.end(call.args[0]) == text.end(call)


def add_argument(text: Text, edit: AddArgument) -> Addition:
    """Where an argument goes."""
    call = edit.call
    nodes: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    open = find_open(text, text.end(call.func))
    spans = spans_of(text, nodes)
    if is_bare_generator(text, call):
        spans = [(spans[0][0] + 1, spans[0][1] - 1)]
    bracket = read_bracket(text, open, spans)
    if edit.after is not None:
        if edit.after not in nodes:
            raise Conflict("the argument to add behind is not in this call", call)
        return Addition(bracket, item_behind(bracket, max(text.start(edit.after), open)), edit.text, sort_of(edit.text))
    sorts = [sort_of(text.text[item.start : item.end]) for item in bracket.items]
    return Addition(bracket, argument_index(sorts, sort_of(edit.text)), edit.text, sort_of(edit.text))


def sort_of(argument: str) -> int:
    """0 for a positional argument, 1 for a keyword, 2 for `**`."""
    return 2 if argument.lstrip().startswith("**") else int(KEYWORD.match(argument) is not None)


def argument_index(sorts: list[int], sort: int) -> int:
    """Where an argument goes by default: before the trailing `**`, a positional one before all keywords."""
    if sort == 0:
        return next((index for index, other in enumerate(sorts) if other), len(sorts))
    return max((index + 1 for index, other in enumerate(sorts) if other < 2 or sort == 2), default=0)


def enclose_generator(text: Text, call: ast.Call) -> Iterator[Splice]:
    """Give a generator parentheses of its own when another argument joins it."""
    if is_bare_generator(text, call):
        start, end = text.start(call.args[0]) + 1, text.end(call) - 1
        yield Splice(start, start, "(", Kind.AHEAD, (float("-inf"),))
        yield Splice(end, end, ")", Kind.BEHIND, (float("inf"),))


def add_entry(text: Text, edit: AddEntry) -> Addition:
    """Where a dict entry goes."""
    nodes = [node for node in (*edit.node.keys, *edit.node.values) if node is not None]
    bracket = read_bracket(text, text.start(edit.node) + 1, spans_of(text, nodes))
    if edit.after not in edit.node.values:
        raise Conflict("the entry to add behind is not in this dict", edit.node)
    return Addition(bracket, item_behind(bracket, text.start(edit.after)), edit.text)


def read_parameters(text: Text, function: Function) -> Bracket:
    """The parameters of a function."""
    arguments = function.args
    names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    defaults = [*arguments.defaults, *arguments.kw_defaults]
    type_parameters = getattr(function, "type_params", [])
    begin = text.end(type_parameters[-1]) if type_parameters else text.start(function)
    spans = spans_of(text, [node for node in (*names, *defaults) if node is not None])
    return read_bracket(text, find_open(text, begin), spans)


def add_parameters(text: Text, function: Function, edits: list[AddParameter]) -> Iterator[Addition]:
    """Where the parameters go that are added to one function."""
    bracket = read_parameters(text, function)
    sources = [text.text[item.start : item.end] for item in bracket.items]
    added: dict[int, list[str]] = {}
    for edit in dict.fromkeys(edits):
        index = parameter_index(sources, edit)
        if edit.text not in added.setdefault(index, []):
            added[index].append(edit.text)
            yield Addition(bracket, index, edit.text)
    for index in sorted(added, reverse=True):
        sources[index:index] = added[index]
    refuse_parameters(function, sources)


def parameter_index(sources: list[str], edit: AddParameter) -> int:
    """Where a parameter goes."""
    names = [name_of(source) for source in sources]
    if edit.after is None:
        return next((index for index, source in enumerate(sources) if source.startswith("*")), len(sources))
    if edit.after not in names:
        raise Conflict(f"{edit.function.name} has no parameter {edit.after}", edit.function)
    return names.index(edit.after) + 1


def refuse_parameters(function: Function, sources: list[str]) -> None:
    """Raise Conflict when Python would refuse these parameters."""
    names = [name for source in sources if (name := name_of(source))]
    if len(names) > len(set(names)):
        raise Conflict(f"{function.name} has a parameter of this name already", function)
    try:
        ast.parse(f"def function(\n{NEXT.join(sources)}\n): pass")
    except SyntaxError as error:
        raise Conflict(f"cannot add a parameter to {function.name}: {error.msg}", function) from None


def name_of(source: str) -> str:
    """The name of a parameter, empty for `*` and `/`."""
    match = NAME.match(source)
    return match[1] if match else ""
