"""Replace expressions and write around them."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from speedpatch.errors import PatchError
from speedpatch.splice.literals import walk
from speedpatch.splice.merge import Kind, Splice
from speedpatch.splice.statements import Statements
from speedpatch.splice.text import Text

if TYPE_CHECKING:
    from speedpatch.edits import Around, Replace


@dataclass(frozen=True)
class Spans:
    """Spans that lose the edits inside them; sorted, apart from each other."""

    spans: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, spans: Iterable[tuple[int, int]]) -> Spans:
        """Keep the outermost ones."""
        found: list[tuple[int, int]] = []
        for start, end in sorted(set(spans), key=lambda span: (span[0], -span[1])):
            if not found or end > found[-1][1]:
                found.append((start, end))
        return cls(tuple(found))

    def hold(self, start: int, end: int) -> bool:
        """Whether a span lies inside one of these and is not that span itself."""
        index = bisect_right(self.spans, (start, float("inf"))) - 1
        return index >= 0 and end <= self.spans[index][1] and (start, end) != self.spans[index]


def refuse_templates(statements: Statements, nodes: Iterable[ast.expr]) -> None:
    """Raise PatchError for a node inside a formatted string, or in no tree of ours."""
    wanted = set(nodes)
    if wanted:
        wanted.difference_update(walk([statements.tree]))
    for node in wanted:
        raise PatchError(f"the expression of line {node.lineno} is inside a formatted string or another module")


def span(statements: Statements, node: ast.expr) -> tuple[int, int]:
    """The span of an expression; a generator that shares the parentheses of a call is what is inside them."""
    text = statements.text
    start, end = text.start(node), text.end(node)
    if isinstance(node, ast.GeneratorExp) and shares_parentheses(statements, node):
        return start + 1, end - 1
    return start, end


def shares_parentheses(statements: Statements, node: ast.GeneratorExp) -> bool:
    """Whether a generator is the only argument of a call, without parentheses of its own."""
    calls = (call for call in walk([statements.tree]) if isinstance(call, ast.Call) and call.args == [node])
    return any(statements.text.end(call) == statements.text.end(node) for call in calls)


def replace(text: Text, edit: Replace, start: int, end: int) -> Splice:
    """Put other text in place of an expression, apart from the words beside it."""
    before = " " if are_words(text.text[start - 1 : start], edit.text[:1]) else ""
    after = " " if are_words(edit.text[-1:], text.text[end : end + 1]) else ""
    return Splice(start, end, before + adapt(text, start, edit.text) + after, Kind.REPLACE)


def surround(text: Text, edit: Around, start: int, end: int, order: int) -> Iterator[Splice]:
    """Write before and after an expression; wider expressions stand further outside, later edits as well."""
    before = " " if are_words(text.text[start - 1 : start], edit.before[:1]) else ""
    after = " " if are_words(edit.after[-1:], text.text[end : end + 1]) else ""
    yield Splice(start, start, before + adapt(text, start, edit.before), Kind.AHEAD, (-end, -order))
    yield Splice(end, end, adapt(text, end, edit.after) + after, Kind.BEHIND, (-start, order))


def are_words(first: str, second: str) -> bool:
    """Whether two characters would run into one word."""
    return bool(first and second) and (first.isalnum() or first == "_") and (second.isalnum() or second == "_")


def adapt(text: Text, offset: int, new: str) -> str:
    """New text with the line endings around its place."""
    return new.replace("\n", text.newline(offset)) if "\n" in new else new
