"""Random edits of random programs give the tree that edits of the tree give."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest

from speedpatch.checks import check_strings
from speedpatch.edits import Delete, Edit, Insert, Wrap, apply_edits
from speedpatch.line_checks import check_lines
from speedpatch.sources import Module
from tests.splice.builders import PATH, module_of
from tests.splice.programs import Writer

Owner = ast.stmt | ast.Module | ast.ExceptHandler | ast.match_case


@dataclass
class Plan:
    """The edits of one body: blocks as first, last and name; insertions by place; deleted statements."""

    blocks: list[tuple[int, int, str]] = field(default_factory=list)
    inserts: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    deleted: frozenset[int] = frozenset()

    @property
    def passes(self) -> set[int]:
        """The last statements of blocks that would be empty."""
        return {last for first, last, _ in self.blocks if self.deleted.issuperset(range(first, last + 1))}


def bodies(node: Owner) -> Iterator[tuple[Owner, str]]:
    """The bodies right below a node, as owner and field."""
    for name in ("body", "orelse", "finalbody"):
        if getattr(node, name, None):
            yield node, name
    for inner in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield inner, "body"


def all_bodies(node: Owner) -> Iterator[tuple[Owner, str]]:
    """All bodies of a tree."""
    for owner, name in bodies(node):
        yield owner, name
        for statement in getattr(owner, name):
            yield from all_bodies(statement)


def plan_edits(module: Module, random: Random) -> tuple[list[Edit], dict[tuple[Owner, str], Plan]]:
    """Some edits, and the same as plans."""
    plans: dict[tuple[Owner, str], Plan] = {}
    edits: list[Edit] = []
    for owner, name in all_bodies(module.tree):
        body: list[ast.stmt] = getattr(owner, name)
        plan = plans[owner, name] = Plan()
        for _ in range(random.choice([0, 0, 1, 3])):
            first = random.randrange(len(body))
            last = random.randrange(first, len(body))
            if all(last < a or b < first or (first - a) * (last - b) <= 0 for a, b, _ in plan.blocks):
                plan.blocks.append((first, last, f"w{len(edits)}"))
                edits.append(Wrap(PATH, body[first], body[last], f"if w{len(edits)}:"))
        for _ in range(random.choice([0, 0, 1, 3])):
            place, slot, text = random.randrange(len(body) + 1), random.choice([0, 0, 1, -1]), f"i{len(edits):04}"
            plan.inserts.setdefault(place, []).append((slot, text))
            edits.append(Insert(PATH, body[max(place - 1, 0)], "after" if place else "before", text, slot))
        if random.random() < 0.3:
            plan.deleted = frozenset(index for index in range(len(body)) if random.random() < 0.4)
            edits.extend(Delete(PATH, body[index]) for index in plan.deleted)
    return edits, plans


@dataclass(frozen=True)
class Builder:
    """Makes the tree that is expected."""

    module: Module
    plans: dict[tuple[Owner, str], Plan]

    def body(self, owner: Owner, name: str) -> list[ast.stmt]:
        """An edited body."""
        body, plan = getattr(owner, name), self.plans[owner, name]
        passes = set(plan.passes)
        if len(plan.deleted) == len(body) and not plan.inserts and self.needs_statement(owner, name):
            passes.add(len(body) - 1)
        inner = self.range(body, plan, passes, (0, len(body) - 1), plan.blocks)
        return [*inserted(plan, 0), *inner, *inserted(plan, len(body))]

    def needs_statement(self, owner: Owner, name: str) -> bool:
        """Whether a body must not be empty."""
        source = ast.get_source_segment(self.module.source.text, getattr(owner, name)[0]) or ""
        return not isinstance(owner, ast.Module) and not (name == "orelse" and source.startswith("elif"))

    def range(
        self,
        body: list[ast.stmt],
        plan: Plan,
        passes: set[int],
        span: tuple[int, int],
        blocks: list[tuple[int, int, str]],
    ) -> list[ast.stmt]:
        """Statements of a body with the blocks in them."""
        result: list[ast.stmt] = []
        index, end = span
        while index <= end:
            here = [block for block in blocks if block[0] == index]
            if here:
                block = max(here, key=lambda block: (block[1], blocks.index(block)))
                inside = [
                    other for other in blocks if other is not block and other[0] >= index and other[1] <= block[1]
                ]
                content = self.range(body, plan, passes, block[:2], inside)
                result.append(ast.If(ast.Name(block[2], ast.Load()), content, []))
                index = block[1]
            elif index in passes:
                result.append(ast.Pass())
            elif index not in plan.deleted:
                result.append(self.statement(body[index]))
            index += 1
            result += inserted(plan, index) if index <= end else []
        return result

    def statement(self, node: ast.stmt) -> ast.stmt:
        """A statement with edited bodies."""
        result = copy.copy(node)
        for kind in ("handlers", "cases"):
            if hasattr(node, kind):
                setattr(result, kind, [copy.copy(inner) for inner in getattr(node, kind)])
        for (old, name), (new, _) in zip(bodies(node), [*bodies(result)], strict=True):
            setattr(new, name, self.body(old, name))
        return result


def inserted(plan: Plan, place: int) -> list[ast.stmt]:
    """The insertions at one place, in order."""
    return [ast.Expr(ast.Name(text, ast.Load())) for _, text in sorted(plan.inserts.get(place, ()))]


@pytest.mark.parametrize("seed", range(150))
def test_edits_of_the_text_are_edits_of_the_tree(seed: int) -> None:
    random = Random(seed)
    module = module_of(Writer(random).program())
    edits, plans = plan_edits(module, random)
    result = apply_edits(module, edits)
    expected = ast.Module(Builder(module, plans).body(module.tree, "body"), [])
    assert ast.dump(result.tree) == ast.dump(expected)
    check_strings(module, result)
    check_lines(module, result)
