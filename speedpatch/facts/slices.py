"""Which statements compute a loss: backward slices over reaching definitions, and the regions they fill."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from speedpatch.facts.facts import Facts
from speedpatch.facts.values import FUNCTIONS

HARMLESS = {"zero_grad", "append", "fill_", "update", "add", "zero_"}
"""Methods that a region may sweep in when they are called for their effect."""

Barrier = Callable[[ast.stmt], bool]

GAP = 4
"""Statements that a region may sweep in between two of its own; a longer gap splits it."""


@dataclass(frozen=True)
class Region:
    """Neighbouring statements first..last of one statement list."""

    block: tuple[ast.stmt, ...]

    @property
    def first(self) -> ast.stmt:
        """Where the region starts."""
        return self.block[0]

    @property
    def last(self) -> ast.stmt:
        """Where it ends."""
        return self.block[-1]

    def holds(self, facts: Facts, node: ast.AST) -> bool:
        """Whether a node lies in the region."""
        return facts.tree.lift(node, list(self.block)) is not None


SHAPE = {"shape", "size", "device", "dtype", "ndim", "dim", "numel", "is_cuda", "get_device"}
"""What one can ask of a tensor without using what it holds."""


def reads(facts: Facts, node: ast.AST) -> Iterable[ast.AST]:
    """The definitions that reach what a piece of code reads, but for questions about shape and place."""
    for child in ast.walk(node):
        definitions = facts.state.reaching.get(child)
        if definitions and not asks_shape(facts, child):
            yield from definitions


def asks_shape(facts: Facts, node: ast.AST) -> bool:
    """`x.shape`, `x.size(0)`, `len(x)`."""
    up = facts.tree.parent(node)
    if isinstance(up, ast.Attribute):
        return up.attr in SHAPE
    return isinstance(up, ast.Call) and isinstance(up.func, ast.Name) and up.func.id == "len"


def slice_of(facts: Facts, roots: Iterable[ast.AST], scope: ast.AST) -> set[ast.stmt]:
    """All statements of a scope that the roots' values flow from."""
    found: set[ast.stmt] = set()
    visited: set[ast.AST] = set()
    stack: list[ast.AST] = list(roots)
    while stack:
        for definition in reads(facts, stack.pop()):
            statement = definition if isinstance(definition, ast.stmt) else None
            if (
                statement is None
                or statement in found
                or isinstance(statement, (*FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom))
            ):
                continue
            if isinstance(statement, (ast.With, ast.AsyncWith)):
                continue
            if isinstance(statement, (ast.For, ast.AsyncFor)):
                if statement.iter not in visited:
                    visited.add(statement.iter)
                    stack.append(statement.iter)
                continue
            if facts.tree.scope(statement) is scope:
                found.add(statement)
                stack.append(statement)
    return found


def is_downstream(facts: Facts, node: ast.AST, memo: dict[ast.AST, bool]) -> bool:
    """Whether code computes with a model's outputs: it runs a forward, or reads what came from one."""
    if node not in memo:
        memo[node] = False
        sources = [source for definition in reads(facts, node) if (source := value_source(definition)) is not None]
        sources += [argument for _, argument in arguments_behind(facts, node)]
        memo[node] = facts.sites.contains_forward(node) or any(
            source is not node and is_downstream(facts, source, memo) for source in sources
        )
    return memo[node]


def value_source(definition: ast.AST) -> ast.AST | None:
    """Where a definition takes its value from."""
    if isinstance(definition, (ast.For, ast.AsyncFor)):
        return definition.iter
    return definition if isinstance(definition, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)) else None


def arguments_behind(facts: Facts, node: ast.AST) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The calls whose arguments are what a piece of code reads as parameters, with those arguments."""
    for child in ast.walk(node):
        for definition in facts.state.reaching.get(child, ()):
            if isinstance(definition, FUNCTIONS) and isinstance(child, ast.Name) and not asks_shape(facts, child):
                for call in facts.state.callers.get(definition, ()):
                    argument = facts.state.arguments.get((call, definition), {}).get(child.id)
                    if argument is not None:
                        yield call, argument


def group(facts: Facts, members: Iterable[ast.stmt], site: ast.stmt | None, barrier: Barrier) -> list[Region]:
    """Regions around member statements: runs of neighbours, in the outermost list that leaves `site` outside."""
    chosen = list(members)
    common = facts.tree.common_block(*chosen) if chosen and site is None else None
    lifted: dict[int, tuple[list[ast.stmt], dict[int, list[ast.stmt]]]] = {}
    for member in chosen:
        block, statement = home(facts, member, site, barrier, common)
        entry = lifted.setdefault(id(block), (block, {}))
        entry[1].setdefault(block.index(statement), []).append(member)
    regions: list[Region] = []
    for block, held in lifted.values():
        for region in runs(facts, block, sorted(held), barrier):
            inner = [member for index, some in held.items() if block[index] in region.block for member in some]
            regions += descend(facts, region, inner, barrier)
    return sorted(outermost(facts, regions), key=lambda region: region.first.lineno)


def descend(facts: Facts, region: Region, members: list[ast.stmt], barrier: Barrier) -> list[Region]:
    """A region that is one `with` goes inside it: `no_grad` and the like stay outermost."""
    only = region.first
    if len(region.block) > 1 or not isinstance(only, ast.With) or only in members:
        return [region]
    indexes = sorted(
        {only.body.index(up) for member in members if (up := facts.tree.lift(member, only.body)) is not None}
    )
    return [
        deeper
        for inner in runs(facts, only.body, indexes, barrier)
        for deeper in descend(facts, inner, [member for member in members if inner.holds(facts, member)], barrier)
    ]


def home(
    facts: Facts, member: ast.stmt, site: ast.stmt | None, barrier: Barrier, common: list[ast.stmt] | None
) -> tuple[list[ast.stmt], ast.stmt]:
    """The statement list that a member's region lies in, and the statement there that holds the member."""
    own = facts.tree.block(member)
    if site is None:
        up = facts.tree.lift(member, common) if common is not None else None
        return (common, up) if common is not None and up is not None and not barrier(up) else (own, member)
    for block in facts.tree.blocks(site):
        statement = facts.tree.lift(member, block)
        if statement is not None:
            if statement is facts.tree.lift(site, block) or barrier(statement):
                return own, member
            return block, statement
    return own, member


def runs(facts: Facts, block: list[ast.stmt], indexes: list[int], barrier: Barrier) -> list[Region]:
    """Join members that are near each other, unless something between them has to stay outside."""
    found: list[list[int]] = []
    for index in indexes:
        gap = block[found[-1][1] + 1 : index] if found else []
        light = len(gap) <= GAP and all(is_light(statement) and not barrier(statement) for statement in gap)
        if found and light and facts.part(block[found[-1][1]]) == facts.part(block[index]):
            found[-1][1] = index
        else:
            found.append([index, index])
    return [Region(tuple(block[first : last + 1])) for first, last in found]


def is_light(statement: ast.stmt) -> bool:
    """Whether a statement may be swept into a region without being part of it."""
    if isinstance(statement, ast.Expr):
        call = statement.value
        return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in HARMLESS
    return isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Pass, ast.Assert, ast.Delete))


def outermost(facts: Facts, regions: list[Region]) -> list[Region]:
    """Without the regions that lie in another one."""
    return [
        region
        for region in regions
        if not any(
            other is not region and other.holds(facts, region.first) and region.first not in other.block
            for other in regions
        )
    ]
