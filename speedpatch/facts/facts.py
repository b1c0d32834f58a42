"""The one description of a training program that codemods read."""

from __future__ import annotations

import ast
import builtins
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from speedpatch.facts.execute import interpret
from speedpatch.facts.sites import Sites, collect
from speedpatch.facts.state import State
from speedpatch.facts.torch_names import ENGINES
from speedpatch.facts.tree import Tree, build_tree, own_nodes
from speedpatch.facts.values import FUNCTIONS, NOTHING, External, FunctionNode, Values
from speedpatch.sources import NEWLINE, Module


@dataclass(frozen=True)
class Facts:
    """A program's modules (the script first), what its expressions stand for, and its training sites.

    The files that are `frozen` are there to be read; edits may be made in the others.
    """

    modules: tuple[Module, ...]
    tree: Tree
    state: State
    sites: Sites
    frozen: frozenset[Path] = frozenset()
    lines: dict[ast.AST, list[bytes]] = field(default_factory=dict, repr=False)

    @property
    def script(self) -> Module:
        """The module that is run."""
        return self.modules[0]

    def values(self, node: ast.AST) -> Values:
        """The objects that an expression may stand for."""
        return self.state.values.get(node, NOTHING)

    def path(self, node: ast.AST) -> Path:
        """The file of a node."""
        return self.tree.module(node).source.path

    def line(self, node: ast.AST) -> int:
        """The line of a node in the user's file."""
        return self.tree.module(node).line(node)

    def in_script(self, node: ast.AST) -> bool:
        """Whether a node lies in the script itself."""
        return self.tree.module(node) is self.script

    def part(self, node: ast.stmt) -> int:
        """The part of its file that a statement lies in: the cell of a notebook."""
        return self.tree.module(node).source.part(node.lineno)

    def is_editable(self, node: ast.AST) -> bool:
        """Whether a node lies in a file that may be edited."""
        return self.path(node) not in self.frozen

    def text(self, node: ast.AST) -> str:
        """The source of an expression or statement, as the user wrote it."""
        root = self.tree.module(node)
        if root.tree not in self.lines:
            self.lines[root.tree] = [line.encode() for line in split_lines(root.source.text)]
        lines = self.lines[root.tree]
        assert isinstance(node, (ast.expr, ast.stmt))
        first, last = node.lineno - 1, (node.end_lineno or 1) - 1
        start, end = node.col_offset, node.end_col_offset
        if first == last:
            return lines[first][start:end].decode()
        return b"".join([lines[first][start:], *lines[first + 1 : last], lines[last][:end]]).decode()

    @cached_property
    def engine(self) -> tuple[ast.Call, str] | None:
        """A call that hands training to another library, with that library's own switch."""
        for call in self.sites.calls:
            for name in self.sites.callee(call):
                if name in ENGINES:
                    return call, ENGINES[name]
        return None

    @property
    def scopes(self) -> list[ast.Module | FunctionNode]:
        """Every module and function of the program that runs and may be edited."""
        live = self.sites.live
        found = [node for node in self.tree.parents if isinstance(node, FUNCTIONS) and node in live]
        mains = [module.tree for module in self.modules]
        return [scope for scope in [*mains, *found] if self.is_editable(scope)]

    def names_in(self, scope: ast.Module | FunctionNode) -> set[str]:
        """Every name that means something in a scope: its own, those of the scopes around, builtins."""
        names = set(dir(builtins))
        for node in [scope, *self.tree.above(scope)]:
            names |= set(self.state.scopes.get(node, {}))
        for node in own_nodes(scope) if isinstance(scope, ast.Module) else ast.walk(scope):
            if isinstance(node, ast.Name):
                names.add(node.id)
            elif isinstance(node, ast.arg):
                names.add(node.arg)
        return names

    def free_name(self, wanted: str, scopes: Iterable[ast.Module | FunctionNode]) -> str:
        """`wanted`, or the nearest spelling of it, that no scope has a meaning for."""
        taken = set().union(*(self.names_in(scope) for scope in scopes))
        choices = [wanted, f"grad_{wanted}", f"amp_{wanted}", *(f"{wanted}_{number}" for number in range(2, 100))]
        return next(name for name in choices if name not in taken)

    def name_for(self, qualified: str, node: ast.AST) -> str | None:
        """How the file of `node` spells a qualified name there, by an import it has; None: it has no usable one."""
        scope = self.tree.scope(node)
        module = self.tree.module(node).tree
        parts = qualified.split(".")
        for length in range(len(parts), 0, -1):
            wanted = External(".".join(parts[:length]))
            for name, values in self.state.scopes[module].items():
                if values == {wanted} and (scope is module or name not in self.state.scopes[scope]):
                    return ".".join([name, *parts[length:]])
        hidden = parts[0] in self.state.scopes.get(scope, {})
        return qualified if not hidden and parts[0] in self.starred[module] else None

    @cached_property
    def starred(self) -> dict[ast.Module, set[str]]:
        """The modules that each file names without an import of its own, so that a star import has to bring them."""
        found: dict[ast.Module, set[str]] = {}
        for module in self.modules:
            bound = self.state.scopes[module.tree]
            names = {node.id: self.values(node) for node in ast.walk(module.tree) if isinstance(node, ast.Name)}
            found[module.tree] = {
                name for name, values in names.items() if name not in bound and values == {External(name)}
            }
        return found

    def visible(self, name: str, scope: ast.AST) -> bool:
        """Whether a module-level name can be read in a scope, that is, is not a local name there."""
        return scope in self.tree.roots or name not in self.state.scopes.get(scope, {})


def split_lines(text: str) -> list[str]:
    """The lines of a text with their endings, as Python counts them: only CR and LF separate."""
    lines, start = [], 0
    for match in NEWLINE.finditer(text):
        lines.append(text[start : match.end()])
        start = match.end()
    return [*lines, text[start:]]


def build_facts(modules: Sequence[Module], frozen: frozenset[Path] = frozenset(), scripts: int = 1) -> Facts:
    """Interpret a program: its first `scripts` modules are run, the others are imported by them."""
    program = tuple(modules)
    tree = build_tree(program)
    state = interpret(tree, tuple(import_names(program, module) for module in program), scripts)
    return Facts(program, tree, state, collect(tree, state), frozen)


def import_names(program: tuple[Module, ...], module: Module) -> dict[str, int]:
    """The names that a module can import the others by: absolute from the script's folders, relative with dots."""
    folder, start = absolute(module).parent, absolute(program[0]).parent
    roots = [place for root in (start, folder, *list(start.parents)[:4]) for place in (root, root / "src")]
    names: dict[str, int] = {}
    for index, other in enumerate(program):
        if other is module:
            continue
        for root in roots:
            name = dotted_name(root, absolute(other))
            if name:
                names.setdefault(name, index)
        for level, base in enumerate([folder, *list(folder.parents)[:3]], start=1):
            name = dotted_name(base, absolute(other))
            if name is not None:
                names.setdefault("." * level + name, index)
    return names


def absolute(module: Module) -> Path:
    """Where a module lies, without asking the file system."""
    return Path(os.path.abspath(module.source.path))


def dotted_name(root: Path, path: Path) -> str | None:
    """`a.b` for root/a/b.py and root/a/b/__init__.py; None when the file is elsewhere."""
    try:
        parts = list(path.relative_to(root).with_suffix("").parts)
    except ValueError:
        return None
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def functions_of(tree: Tree) -> list[FunctionNode]:
    """Every function of the program."""
    return [node for node in tree.parents if isinstance(node, FUNCTIONS)]
