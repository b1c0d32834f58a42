"""Edit inside statements: replace expressions, write around them, add to what is in brackets."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as change

from speedpatch.edits import AddArgument, AddEntry, AddParameter, Around, Delete, Edit, Replace, pick
from speedpatch.splice import calls
from speedpatch.splice.blocks import Blocks
from speedpatch.splice.brackets import Addition, add_items
from speedpatch.splice.literals import walk, walk_statement
from speedpatch.splice.merge import Kind, Splice
from speedpatch.splice.statements import Statements
from speedpatch.splice.text import Conflict, Text


def splice_expressions(blocks: Blocks, edits: Sequence[Edit]) -> Iterator[Splice]:
    """The splices of edits inside statements."""
    statements, text = blocks.statements, blocks.statements.text
    kept = keep_edits(statements, edits)
    for edit in unique_replaces(pick(kept, Replace)):
        yield replace(text, edit, *span(statements, edit.node))
    for order, around in enumerate(pick(kept, Around)):
        yield from surround(text, around, *span(statements, around.node), order)
    for call in dict.fromkeys(edit.call for edit in pick(kept, AddArgument)):
        yield from calls.enclose_generator(text, call)
    additions = [within(blocks, edit.call, calls.add_argument(text, edit)) for edit in pick(kept, AddArgument)]
    additions += [within(blocks, edit.node, calls.add_entry(text, edit)) for edit in pick(kept, AddEntry)]
    additions += add_parameters(blocks, pick(kept, AddParameter))
    yield from add_items(text, additions)


def within(blocks: Blocks, node: ast.expr | ast.stmt, addition: Addition) -> Addition:
    """An addition that knows the new blocks around it."""
    statement = node if isinstance(node, ast.stmt) else blocks.statements.around(node)
    return change(addition, blocks=tuple(blocks.covering(statement, "at"))) if statement else addition


def keep_edits(statements: Statements, edits: Iterable[Edit]) -> list[Edit]:
    """The edits inside statements that no other edit removes. Raises Conflict for ones that cannot be made."""
    edits = list(edits)
    anchors = [(edit, node) for edit in edits if (node := anchor_of(edit)) is not None]
    nodes = {node for _, node in anchors if isinstance(node, ast.expr)}
    plain = {node for node in nodes if isinstance(node, ast.Call)}
    plain -= {node for edit, node in anchors if not isinstance(edit, AddArgument) or set(edit.text) & set("'\"\\\n")}
    refuse_templates(statements, nodes, plain)
    replaced = Spans.of(span(statements, edit.node) for edit in pick(edits, Replace))
    gone = Spans.of((statements.start(edit.node), statements.text.end(edit.node)) for edit in pick(edits, Delete))
    kept = []
    for edit, node in anchors:
        place = span(statements, node)
        if isinstance(edit, (AddArgument, AddEntry)) and place in replaced.spans:
            raise Conflict("something is added to an expression that is replaced", node)
        if not gone.hold(*place) and (place in replaced.spans or not replaced.hold(*place)):
            kept.append(edit)
    return kept


def anchor_of(edit: Edit) -> ast.expr | ast.stmt | None:
    """The node that an edit inside a statement is about, None for other edits."""
    if isinstance(edit, (Replace, Around, AddEntry)):
        return edit.node
    if isinstance(edit, AddArgument):
        return edit.call
    return edit.function if isinstance(edit, AddParameter) else None


def unique_replaces(edits: Iterable[Replace]) -> Iterable[Replace]:
    """One replacement for each node. Raises Conflict for two different ones."""
    replaces: dict[ast.expr, Replace] = {}
    for edit in edits:
        if replaces.setdefault(edit.node, edit).text != edit.text:
            raise Conflict("two replacements of one expression", edit.node)
    return replaces.values()


def add_parameters(blocks: Blocks, edits: Sequence[AddParameter]) -> Iterator[Addition]:
    """Where added parameters go, function by function."""
    by_function: dict[calls.Function, list[AddParameter]] = {}
    for edit in edits:
        by_function.setdefault(edit.function, []).append(edit)
    for function, mine in by_function.items():
        blocks.statements.position(function)
        for addition in calls.add_parameters(blocks.statements.text, function, mine):
            yield within(blocks, function, addition)


@dataclass(frozen=True)
class Spans:
    """Spans that lose the edits inside them; sorted, apart from each other."""

    sorted: tuple[tuple[int, int], ...]
    spans: frozenset[tuple[int, int]]

    @classmethod
    def of(cls, spans: Iterable[tuple[int, int]]) -> Spans:
        """Keep the outermost ones."""
        found: list[tuple[int, int]] = []
        for start, end in sorted(set(spans), key=lambda span: (span[0], -span[1])):
            if not found or end > found[-1][1]:
                found.append((start, end))
        return cls(tuple(found), frozenset(found))

    def hold(self, start: int, end: int) -> bool:
        """Whether a span lies inside one of these or is one."""
        index = bisect_right(self.sorted, (start, float("inf"))) - 1
        return index >= 0 and end <= self.sorted[index][1]


def refuse_templates(statements: Statements, nodes: Iterable[ast.expr], plain: set[ast.Call]) -> None:
    """Raise Conflict for a node inside a formatted string, or in no tree of ours.

    `plain` calls, which only get arguments without quotes, may be in a string if they stand where their position
    says: before Python 3.12 positions in strings can be off (https://peps.python.org/pep-0701/).
    """
    wanted = set(nodes)
    for statement in {around for node in wanted if (around := statements.around(node))}:
        wanted.difference_update(walk_statement(statement))
    if wanted:
        wanted.difference_update(walk([statements.tree]))
    if wanted & plain:
        calls_in_strings = (node for node in ast.walk(statements.tree) if node in plain)
        wanted.difference_update(node for node in calls_in_strings if stands_there(statements, node))
    for node in wanted:
        raise Conflict("this expression is inside a formatted string or in another module", node)


def stands_there(statements: Statements, node: ast.AST) -> bool:
    """Whether the text at a call's position is that call, on one line."""
    if not isinstance(node, ast.Call) or node.lineno != node.end_lineno:
        return False
    text = statements.text.text[statements.text.start(node) : statements.text.end(node)]
    try:
        return ast.dump(ast.parse(text, mode="eval").body) == ast.dump(node)
    except (SyntaxError, ValueError):
        return False


def span(statements: Statements, node: ast.expr | ast.stmt) -> tuple[int, int]:
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
    if edit.enclosed:
        start, end, edit = enclosing(text.text, edit, start, end)
    before = " " if are_words(text.text[start - 1 : start], edit.before[:1]) else ""
    after = " " if are_words(edit.after[-1:], text.text[end : end + 1]) else ""
    yield Splice(start, start, before + adapt(text, start, edit.before), Kind.AHEAD, (-end, -order))
    yield Splice(end, end, adapt(text, end, edit.after) + after, Kind.BEHIND, (-start, order))


def enclosing(text: str, edit: Around, start: int, end: int) -> tuple[int, int, Around]:
    """The span with the parentheses right around it; where a comment stands between, new ones inside them."""
    opening = len(text[:start].rstrip()) - 1
    closing = end + len(text[end:]) - len(text[end:].lstrip())
    if text[opening : opening + 1] == "(" and text[closing : closing + 1] == ")":
        return opening, closing + 1, edit
    return start, end, change(edit, before=f"({edit.before}", after=f"){edit.after}")


def are_words(first: str, second: str) -> bool:
    """Whether two characters would run into one word."""
    return bool(first and second) and (first.isalnum() or first == "_") and (second.isalnum() or second == "_")


def adapt(text: Text, offset: int, new: str) -> str:
    """New text with the line endings around its place."""
    return new.replace("\n", text.newline(offset)) if "\n" in new else new
