"""Turn the edits of a module into splices, and these into a new module."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace as change

from speedpatch.edits import Delete, Edit, Import, Insert, Wrap, pick
from speedpatch.errors import PatchError, SourceError
from speedpatch.parse import parse_text
from speedpatch.sources import Module
from speedpatch.splice.blocks import Blocks
from speedpatch.splice.deletes import find_deletes, splice_deletes
from speedpatch.splice.expressions import splice_expressions
from speedpatch.splice.imports import find_place
from speedpatch.splice.lines import NewLines
from speedpatch.splice.merge import Overlap, Splice, merge
from speedpatch.splice.statements import Statements
from speedpatch.splice.text import Conflict


def splice_edits(module: Module, edits: Sequence[Edit]) -> Module:
    """The module with all edits made. Raises PatchError for edits that contradict each other."""
    path = module.source.path
    if foreign := [edit for edit in edits if edit.path != path]:
        raise PatchError(f"{path}: an edit is meant for {foreign[0].path}")
    try:
        return splice(module, edits) if edits else module
    except Conflict as conflict:
        raise PatchError(f"{path}:{module.line(conflict.node)}: {conflict.reason}") from None
    except Overlap as overlap:
        raise PatchError(f"{path}:{overlap.line}: two edits change the same text") from None
    except SyntaxError as error:
        raise PatchError(f"{path}: an import is no valid Python: {error.msg}") from None
    except SourceError as error:
        raise PatchError(f"the edits give no valid Python: {error}") from None


def splice(module: Module, edits: Sequence[Edit]) -> Module:
    """Change the text and parse it again."""
    statements = Statements.of(module.source.text, module.tree)
    blocks = Blocks(statements)
    splices = [*splice_statements(blocks, edits), *splice_expressions(blocks, edits)]
    text, origin = merge(statements.text, module.origin, splices)
    source = module.source.with_text(text)
    return change(module, source=source, tree=parse_text(source), origin=origin)


def splice_statements(blocks: Blocks, edits: Sequence[Edit]) -> Iterator[Splice]:
    """The splices of edits that add, remove or indent lines; the new blocks are known from then on."""
    statements = blocks.statements
    deleted = frozenset(edit.node for edit in pick(edits, Delete))
    for order, wrap in enumerate(pick(edits, Wrap)):
        if not is_inside(statements, wrap.first, deleted):
            blocks.add(wrap, order)
    lines = NewLines(statements, blocks)
    inserts = [edit for edit in pick(edits, Insert) if not is_lost(statements, edit, deleted)]
    anchors = [lines.insert(edit, order) for order, edit in enumerate(inserts)]
    add_imports(lines, pick(edits, Import), deleted)
    for block in blocks:
        lines.add_header(block)
    outermost = frozenset(node for node in deleted if not is_inside(statements, node, deleted))
    deletes = find_deletes(blocks, outermost, anchors)
    yield from blocks.splices(outermost)
    yield from splice_deletes(lines, deletes)
    yield from lines.splices(deletes.gone)


def is_lost(statements: Statements, insert: Insert, deleted: frozenset[ast.stmt]) -> bool:
    """Whether an insertion goes into a deleted statement."""
    is_within = insert.where in ("first", "last") and insert.anchor in deleted
    return is_within or is_inside(statements, insert.anchor, deleted)


def is_inside(statements: Statements, node: ast.stmt, deleted: frozenset[ast.stmt]) -> bool:
    """Whether a statement lies in a deleted one."""
    around = statements.position(node).parent if deleted else None
    while around and around not in deleted:
        around = statements.position(around).parent
    return around is not None


def add_imports(lines: NewLines, imports: Iterable[Import], deleted: frozenset[ast.stmt]) -> None:
    """Add import lines that are not at the top already."""
    place = find_place(lines.statements)
    above = lines.statements.above(place.anchor) if place.anchor else []
    present = {ast.dump(node) for node in above if node not in deleted}
    wanted = dict.fromkeys(edit.text for edit in imports)
    texts = [text for text in wanted if ast.dump(ast.parse(text).body[0]) not in present]
    if texts:
        lines.add_import(place.anchor, place.offset, "\n".join([*[""] * place.above, *texts, *[""] * place.below]))
