"""Which identifier of a program stands for which variable."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from tests.metamorphic.text import Text

Kind = Literal["module", "function", "class", "comprehension"]
Callable = ast.FunctionDef | ast.AsyncFunctionDef
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(eq=False)
class Scope:
    """A scope by its dotted name ("" is the module), with what it binds and how."""

    name: str
    kind: Kind
    node: ast.AST
    parent: Scope | None
    bound: set[str] = field(default_factory=set)
    imported: set[str] = field(default_factory=set)
    definitions: dict[str, list[ast.AST]] = field(default_factory=dict)
    declared: dict[str, Literal["global", "nonlocal"]] = field(default_factory=dict)
    inner: Counter[str] = field(default_factory=Counter)

    def resolve(self, name: str) -> Scope | None:
        """The scope whose variable a name means here; None for what the program does not bind."""
        if self.declared.get(name) == "global":
            return self.module if name in self.module.bound else None
        if name in self.bound and name not in self.declared:
            return self
        scope = self.parent
        while scope is not None and (scope.kind == "class" or name not in scope.bound or name in scope.declared):
            if scope.declared.get(name) == "global":
                return scope.resolve(name)
            scope = scope.parent
        return scope

    @property
    def module(self) -> Scope:
        """The outermost scope."""
        return self if self.parent is None else self.parent.module


@dataclass(frozen=True)
class Use:
    """One identifier in the text: its variable's scope (None: not of the program), its node and field."""

    name: str
    scope: Scope | None
    inside: Scope
    node: ast.AST
    attribute: str
    start: int


class Scopes(ast.NodeVisitor):
    """All scopes of a module and all uses of its variables."""

    def __init__(self, source: Text, tree: ast.Module) -> None:
        self.source = source
        self.module = self.current = Scope("", "module", tree, None)
        self.scopes: dict[ast.AST, Scope] = {tree: self.module}
        self.found: list[tuple[str, Scope, ast.AST, str, int]] = []
        for statement in tree.body:
            self.visit(statement)

    @cached_property
    def uses(self) -> list[Use]:
        """Every identifier that names a variable."""
        return [
            Use(name, scope.resolve(name), scope, node, attribute, start)
            for name, scope, node, attribute, start in self.found
        ]

    def enter(self, label: str, kind: Kind, node: ast.AST) -> Scope:
        outer = self.current
        outer.inner[label] += 1
        count = outer.inner[label]
        name = ".".join(part for part in (outer.name, label if count == 1 else f"{label}#{count}") if part)
        self.current = self.scopes[node] = Scope(name, kind, node, outer)
        return outer

    def note(self, name: str, node: ast.AST, attribute: str, start: int, *, bind: bool = False) -> None:
        self.found.append((name, self.current, node, attribute, start))
        if bind:
            self.current.bound.add(name)

    def visit_Name(self, node: ast.Name) -> None:
        self.note(node.id, node, "id", self.source.start(node), bind=not isinstance(node.ctx, ast.Load))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        inner = self.current
        while self.current.kind == "comprehension" and self.current.parent is not None:
            self.current = self.current.parent
        self.visit(node.target)
        self.current = inner

    def visit_FunctionDef(self, node: Callable) -> None:
        self.define(node, r"(?:async\s+)?def\s+")
        for expression in [*node.decorator_list, *defaults(node.args), *head_annotations(node)]:
            self.visit(expression)
        outer = self.enter(node.name, "function", node)
        self.parameters(node.args)
        for statement in node.body:
            self.visit(statement)
        self.current = outer

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for expression in defaults(node.args):
            self.visit(expression)
        outer = self.enter("<lambda>", "function", node)
        self.parameters(node.args)
        self.visit(node.body)
        self.current = outer

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.define(node, r"class\s+")
        for part in [*node.decorator_list, *node.bases, *node.keywords]:
            self.visit(part)
        outer = self.enter(node.name, "class", node)
        for statement in node.body:
            self.visit(statement)
        self.current = outer

    def define(self, node: Callable | ast.ClassDef, keyword: str) -> None:
        start = self.source.start(node)
        match = re.compile(keyword).match(self.source.text, start)
        self.note(node.name, node, "name", match.end() if match else start, bind=True)
        self.current.definitions.setdefault(node.name, []).append(node)

    def parameters(self, arguments: ast.arguments) -> None:
        for argument in all_parameters(arguments):
            self.note(argument.arg, argument, "arg", self.source.start(argument), bind=True)

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        self.visit(node.generators[0].iter)
        outer = self.enter("<comprehension>", "comprehension", node)
        for index, generator in enumerate(node.generators):
            self.visit(generator.target)
            for part in [*([generator.iter] if index else []), *generator.ifs]:
                self.visit(part)
        for part in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
            self.visit(part)
        self.current = outer

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = comprehension

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name and node.type:
            match = re.compile(r"[\s)]*as\s+").match(self.source.text, self.source.end(node.type))
            self.note(node.name, node, "name", match.end() if match else self.source.start(node), bind=True)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        start = self.source.start(node)
        kind: Literal["global", "nonlocal"] = "global" if isinstance(node, ast.Global) else "nonlocal"
        for name in node.names:
            self.current.declared[name] = kind
            if kind == "global":
                self.module.bound.add(name)
            match = re.search(rf"\b{name}\b", self.source.text[start : self.source.end(node)])
            self.note(name, node, "names", start + (match.start() if match else 0))

    visit_Nonlocal = visit_Global

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        names = {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        self.current.bound |= names
        self.current.imported |= names

    visit_ImportFrom = visit_Import

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        self.generic_visit(node)
        if node.name:
            self.note(node.name, node, "name", self.source.end(node) - len(node.name), bind=True)

    visit_MatchStar = visit_MatchAs


def all_parameters(arguments: ast.arguments) -> list[ast.arg]:
    """Every parameter, `*args` and `**kwargs` too."""
    extra = [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *extra]


def defaults(arguments: ast.arguments) -> list[ast.expr]:
    """What is evaluated where the function is defined."""
    return [*arguments.defaults, *(default for default in arguments.kw_defaults if default)]


def head_annotations(node: Callable) -> list[ast.expr]:
    """The annotations of a function's head."""
    found = [argument.annotation for argument in all_parameters(node.args)]
    return [annotation for annotation in [*found, node.returns] if annotation]
