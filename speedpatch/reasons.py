"""Everything that an optimization can say about a script that it leaves alone, by code, read out of its own source."""

from __future__ import annotations

import ast
import inspect
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

from speedpatch.codemod import Codemod
from speedpatch.facts import origins, reach
from speedpatch.facts.values import FUNCTIONS, FunctionNode
from speedpatch.pragmas import EXCLUDED, LEFT_ALONE, NO_TORCH

SHARED = (origins, reach)
"""The modules of facts that word reasons; they count for the optimizations that import them."""
CODE_AND_REASON = {"declined": (0, 2), "Obstacle": (0, 2), "finding": (1, 3), "Finding": (1, 4)}
"""The calls that put a code and a reason together, and the places of both."""
UNKNOWN = "<...>"
MOST = 12
"""Wordings of one reason that are told apart."""


@cache
def reasons_of(codemod: Codemod) -> dict[str, tuple[str, ...]]:
    """The reasons under each code, as far as they are known without a script: `<...>` stands for the rest."""
    wordings = Wordings(tuple(ast.parse(file.read_text(encoding="utf-8")) for file in files_of(codemod)))
    common = {"off": LEFT_ALONE, "no-torch": NO_TORCH, "excluded": EXCLUDED}
    found: dict[str, dict[str, None]] = defaultdict(dict)
    found.update({f"{codemod.name}.{code}": {reason: None} for code, reason in common.items()})
    for code, reason in wordings.pairs():
        if code == codemod.name:
            continue  # what was applied is no reason
        name = code if code.startswith(f"{codemod.name}.") else f"{codemod.name}.{code}"
        found[name][reason] = None
    return {code: known(tuple(found[code])) for code in sorted(found)}


def known(reasons: tuple[str, ...]) -> tuple[str, ...]:
    """The reasons without the one of which nothing is known, if there are others."""
    return tuple(reason for reason in reasons if reason != UNKNOWN) or reasons


def files_of(codemod: Codemod) -> list[Path]:
    """The files that an optimization is written in."""
    path = Path(inspect.getfile(sys.modules[codemod.plan.__module__]))
    files = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    texts = [file.read_text(encoding="utf-8") for file in files]
    return files + [Path(inspect.getfile(item)) for item in SHARED if any(item.__name__ in text for text in texts)]


@dataclass(frozen=True)
class Binding:
    """A value that a name may stand for: an expression, one of the elements of it, or one item of that."""

    value: ast.expr
    element: bool = False
    item: int | None = None


class Wordings:
    """Follows the texts of messages through names, branches and functions of some files."""

    def __init__(self, trees: tuple[ast.Module, ...]) -> None:
        self.nodes = [node for tree in trees for node in ast.walk(tree)]
        self.scopes: dict[ast.AST, FunctionNode] = {}
        for node in self.nodes:
            if isinstance(node, FUNCTIONS):
                self.scopes.update(dict.fromkeys(ast.walk(node), node))
        self.functions: dict[str, list[FunctionNode]] = defaultdict(list)
        self.calls: dict[str, list[ast.Call]] = defaultdict(list)
        self.bound: dict[tuple[ast.AST | None, str], list[Binding]] = defaultdict(list)
        for node in self.nodes:
            if isinstance(node, FUNCTIONS):
                self.functions[node.name].append(node)
            elif isinstance(node, ast.Call):
                self.calls[called(node)].append(node)
            for target, value, element in targets_of(node):
                self.bind(target, Binding(value, element))

    def bind(self, target: ast.expr, binding: Binding) -> None:
        """Note what the names of a target stand for."""
        if isinstance(target, ast.Name):
            self.bound[self.scopes.get(target), target.id].append(binding)
        elif isinstance(target, ast.Tuple):
            for index, inner in enumerate(target.elts):
                self.bind(inner, Binding(binding.value, binding.element, index))

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Every code with each of its reasons."""
        for name, (first, second) in CODE_AND_REASON.items():
            for call in self.calls.get(name, ()):
                scope = self.scopes.get(call)
                if (scope is None or scope.name not in ("declined", "finding")) and len(call.args) > first:
                    codes = [code for code in self.texts(call.args[first], None, frozenset()) if UNKNOWN not in code]
                    yield from product(codes, self.reasons(call, second))

    def reasons(self, call: ast.Call, place: int) -> list[str]:
        """What may stand at one place of a call, unpacked there or not."""
        last = call.args[-1]
        if isinstance(last, ast.Starred):
            return self.texts(last.value, place - len(call.args) + 1, frozenset())
        return self.texts(call.args[place], None, frozenset()) if len(call.args) > place else []

    def texts(self, node: ast.expr, item: int | None, seen: frozenset[ast.AST]) -> list[str]:
        """What an expression, or one item of it, may say."""
        if node in seen:
            return []
        seen |= {node}
        if isinstance(node, ast.Constant):
            return [node.value] if isinstance(node.value, str) else [] if node.value is None else [repr(node.value)]
        if isinstance(node, ast.JoinedStr):
            return self.joined(node.values, seen)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self.joined([node.left, node.right], seen)
        if isinstance(node, (ast.FormattedValue, ast.NamedExpr)):
            return self.texts(node.value, item, seen)
        if isinstance(node, ast.Tuple) and item is not None and item < len(node.elts):
            return self.texts(node.elts[item], None, seen)
        inner = self.sources(node)
        found = [text for source in inner for text in self.from_source(source, item, seen)]
        return list(dict.fromkeys(found))[:MOST] if inner else [UNKNOWN]

    def joined(self, parts: list[ast.expr], seen: frozenset[ast.AST]) -> list[str]:
        """Every way to put parts together."""
        choices = [self.texts(part, None, seen) or [UNKNOWN] for part in parts]
        return list(dict.fromkeys("".join(choice) for choice in product(*choices)))[:MOST]

    def from_source(self, source: Binding, item: int | None, seen: frozenset[ast.AST]) -> list[str]:
        """What one of the values of an expression may say."""
        wanted = source.item if source.item is not None else item
        values = self.elements(source.value, seen) if source.element else [source.value]
        return [text for value in values for text in self.texts(value, wanted, seen)]

    def sources(self, node: ast.expr) -> list[Binding]:
        """The values that an expression may have; none when nothing is known of them."""
        if isinstance(node, ast.IfExp):
            return [Binding(node.body), Binding(node.orelse)]
        if isinstance(node, ast.BoolOp):
            return [Binding(value) for value in node.values]
        if isinstance(node, ast.Name):
            scope = self.scopes.get(node)
            return self.bound.get((scope, node.id)) or self.given(scope, node.id) or self.bound.get((None, node.id), [])
        if isinstance(node, ast.Subscript):
            tables = [binding.value for binding in self.sources(node.value)]
            return [Binding(value) for table in tables if isinstance(table, ast.Dict) for value in table.values]
        if isinstance(node, ast.Call) and called(node) == "next" and node.args:
            return [Binding(node.args[0], element=True), *map(Binding, node.args[1:])]
        return [Binding(value) for value in self.returned(node)] if isinstance(node, ast.Call) else []

    def given(self, scope: FunctionNode | None, name: str) -> list[Binding]:
        """What the calls of a function give for one of its parameters."""
        names = [item.arg for item in scope.args.args] if scope is not None else []
        if scope is None or name not in names:
            return []
        index = names.index(name) - (names[0] == "self")
        found = [call.args[index] for call in self.calls[scope.name] if len(call.args) > index]
        return [*map(Binding, found)]

    def returned(self, call: ast.Call) -> list[ast.expr]:
        """What the functions of a call's name give back."""
        nodes = [(function, node) for function in self.functions[called(call)] for node in ast.walk(function)]
        returns = [node.value for scope, node in nodes if isinstance(node, ast.Return) and self.scopes[node] is scope]
        return [value for value in returns if value is not None]

    def elements(self, node: ast.expr, seen: frozenset[ast.AST]) -> list[ast.expr]:
        """The expressions that iterating over one gives."""
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            return [node.elt]
        if isinstance(node, (ast.Tuple, ast.List)):
            return list(node.elts)
        if isinstance(node, ast.Name) and node not in seen:
            values = [binding.value for binding in self.sources(node)]
            return [inner for value in values for inner in self.elements(value, seen | {node})]
        functions = self.functions[called(node)] if isinstance(node, ast.Call) else []
        yields = [inner for function in functions for inner in ast.walk(function) if isinstance(inner, ast.Yield)]
        return [inner.value for inner in yields if inner.value is not None]


def called(call: ast.Call) -> str:
    """The last name of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def targets_of(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, bool]]:
    """The targets that a node binds, with what they are bound to, and whether that is one of its elements."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value, False) for target in node.targets)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield node.target, node.value, False
    elif isinstance(node, (ast.For, ast.comprehension)):
        yield node.target, node.iter, True
