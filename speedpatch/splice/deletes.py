"""Delete statements with their lines."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from speedpatch.splice.blocks import Blocks
from speedpatch.splice.lines import NewLines
from speedpatch.splice.merge import Kind, Splice
from speedpatch.splice.statements import Row, Statements


@dataclass(frozen=True)
class Deletes:
    """The statements that go, and those of them that have to become `pass`."""

    gone: frozenset[ast.stmt]
    passes: frozenset[ast.stmt]


def find_deletes(blocks: Blocks, deleted: frozenset[ast.stmt], anchors: Iterable[ast.stmt]) -> Deletes:
    """Tell what goes from what becomes `pass`; bodies get something new beside the anchors."""
    filled = {id(blocks.statements.position(anchor).body) for anchor in anchors}
    passes = frozenset(find_passes(blocks, deleted, filled))
    return Deletes(deleted - passes, passes)


def find_passes(blocks: Blocks, deleted: frozenset[ast.stmt], filled: set[int]) -> Iterator[ast.stmt]:
    """The last statement of each body or new block that would be empty."""
    for body in {id(body): body for body in (blocks.statements.position(node).body for node in deleted)}.values():
        if deleted.issuperset(body) and needs_statement(blocks.statements, body) and id(body) not in filled:
            yield body[-1]
    for block in blocks:
        if deleted.issuperset(block.statements) and not block.is_else:
            yield block.statements[-1]


def needs_statement(statements: Statements, body: list[ast.stmt]) -> bool:
    """Whether a body must not be empty."""
    return statements.position(body[0]).parent is not None and not statements.is_elif(body[0])


def splice_deletes(lines: NewLines, deletes: Deletes) -> Iterator[Splice]:
    """The splices that delete, save in rows that are broken up."""
    statements = lines.statements
    for node in deletes.passes:
        yield Splice(statements.start(node), statements.text.end(node), "pass", Kind.REPLACE)
    rows = [statements.row(node) for node in deletes.gone]
    for row in {row.statements[0]: row for row in rows}.values():
        if row.statements[0] in lines.broken:
            continue
        if deletes.gone.issuperset(row.statements):
            yield Splice(statements.head(row.statements[0]), statements.tail(row.statements[-1]), "", Kind.DELETE)
        elif statements.is_continued(row):
            lines.broken.add(row.statements[0])
        else:
            yield from delete_in_row(statements, row, deletes.gone)


def delete_in_row(statements: Statements, row: Row, gone: frozenset[ast.stmt]) -> Iterator[Splice]:
    """Remove statements of a row that stays one line."""
    kept = [index for index, node in enumerate(row.statements) if node not in gone]
    for index, node in enumerate(row.statements):
        if node in gone and index < kept[0]:
            yield Splice(statements.start(node), statements.start(row.statements[index + 1]), "", Kind.REPLACE)
        elif node in gone:
            yield Splice(statements.text.end(row.statements[index - 1]), statements.text.end(node), "", Kind.GAP)
