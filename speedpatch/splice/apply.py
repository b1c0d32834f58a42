"""Turn the edits of a module into splices, and these into a new module."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace as change
from typing import TypeVar

from speedpatch.edits import AddArgument, AddEntry, AddParameter, Around, Delete, Edit, Import, Insert, Replace, Wrap
from speedpatch.errors import PatchError, SourceError
from speedpatch.parse import parse_text
from speedpatch.sources import Module
from speedpatch.splice import calls
from speedpatch.splice.blocks import Blocks
from speedpatch.splice.brackets import Addition, add_items
from speedpatch.splice.expressions import Spans, refuse_templates, replace, span, surround
from speedpatch.splice.imports import find_place
from speedpatch.splice.merge import Splice, merge
from speedpatch.splice.statements import Statements

Kind = TypeVar("Kind", bound=Edit)


def splice_edits(module: Module, edits: Sequence[Edit]) -> Module:
    """The module with all edits made. Raises PatchError for edits that contradict each other."""
    if not edits:
        return module
    statements = Statements.of(module.source.text, module.tree)
    splices = [*splice_statements(statements, edits), *splice_expressions(statements, edits)]
    text, origin = merge(statements.text, module.origin, splices)
    source = module.source.with_text(text)
    try:
        return change(module, source=source, tree=parse_text(source), origin=origin)
    except SourceError as error:
        raise PatchError(f"the edits give no valid Python: {error}") from None


def pick(edits: Iterable[Edit], kind: type[Kind]) -> list[Kind]:
    """The edits of one kind."""
    return [edit for edit in edits if isinstance(edit, kind)]


def splice_statements(statements: Statements, edits: Sequence[Edit]) -> Iterator[Splice]:
    """The splices of edits that add, remove or indent lines."""
    deleted = frozenset(edit.node for edit in pick(edits, Delete))
    blocks = Blocks(statements, frozenset(node for node in deleted if not is_inside(statements, node, deleted)))
    blocks.add_wraps(wrap for wrap in pick(edits, Wrap) if not is_inside(statements, wrap.first, deleted))
    blocks.add_inserts(insert for insert in pick(edits, Insert) if not loses(statements, insert, deleted))
    add_imports(statements, blocks, pick(edits, Import))
    yield from blocks.splices()


def loses(statements: Statements, insert: Insert, deleted: frozenset[ast.stmt]) -> bool:
    """Whether an insertion goes into a deleted statement."""
    is_within = insert.where in ("first", "last") and insert.anchor in deleted
    return is_within or is_inside(statements, insert.anchor, deleted)


def is_inside(statements: Statements, node: ast.stmt, deleted: frozenset[ast.stmt]) -> bool:
    """Whether a statement lies in a deleted one."""
    around = statements.position(node).parent if deleted else None
    while around and around not in deleted:
        around = statements.position(around).parent
    return around is not None


def add_imports(statements: Statements, blocks: Blocks, imports: Sequence[Import]) -> None:
    """Add import lines that are not at the top already."""
    present = {ast.dump(node) for node in statements.tree.body if isinstance(node, (ast.Import, ast.ImportFrom))}
    wanted = dict.fromkeys(edit.text for edit in imports)
    texts = [text for text in wanted if ast.dump(ast.parse(text).body[0]) not in present]
    if texts:
        place = find_place(statements)
        text = "\n".join([*[""] * place.above, *texts, *[""] * place.below])
        rank = (0.0, float("-inf"))
        if place.anchor is not None:
            blocks.add_line(place.anchor, "after", rank, text)
        else:
            blocks.add_at(place.offset, rank, text)


def splice_expressions(statements: Statements, edits: Sequence[Edit]) -> Iterator[Splice]:
    """The splices of edits inside statements."""
    text = statements.text
    replaces = unique_replaces(pick(edits, Replace))
    arounds, arguments, entries = pick(edits, Around), pick(edits, AddArgument), pick(edits, AddEntry)
    others = [*(edit.node for edit in arounds), *(edit.node for edit in entries), *(edit.call for edit in arguments)]
    refuse_templates(statements, [*replaces, *others])
    gone = [(text.line_start(text.start(edit.node)), text.end(edit.node)) for edit in pick(edits, Delete)]
    lost = Spans.of([*(span(statements, node) for node in replaces), *gone])
    for node, edit in replaces.items():
        if not lost.hold(*span(statements, node)):
            yield replace(text, edit, *span(statements, node))
    for order, around in enumerate(arounds):
        if not lost.hold(*span(statements, around.node)):
            yield from surround(text, around, *span(statements, around.node), order)
    arguments = [edit for edit in arguments if not lost.hold(*span(statements, edit.call))]
    for call in dict.fromkeys(edit.call for edit in arguments):
        yield from calls.enclose_generator(text, call)
    additions = [calls.add_argument(text, edit) for edit in arguments]
    additions += [calls.add_entry(text, edit) for edit in entries if not lost.hold(*span(statements, edit.node))]
    additions += add_parameters(statements, pick(edits, AddParameter))
    yield from add_items(text, additions)


def add_parameters(statements: Statements, edits: Sequence[AddParameter]) -> Iterator[Addition]:
    """Where added parameters go, function by function."""
    for function in dict.fromkeys(edit.function for edit in edits):
        statements.position(function)
        mine = [edit for edit in edits if edit.function is function]
        yield from calls.add_parameters(statements.text, function, mine)


def unique_replaces(edits: Iterable[Replace]) -> dict[ast.expr, Replace]:
    """The replacement of each node. Raises PatchError for two different ones."""
    replaces: dict[ast.expr, Replace] = {}
    for edit in edits:
        if replaces.setdefault(edit.node, edit).text != edit.text:
            raise PatchError(f"two replacements of the expression on line {edit.node.lineno}")
    return replaces
