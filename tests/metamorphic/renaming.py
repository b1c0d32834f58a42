"""Rename every variable, parameter, function, class and attribute that belongs to the program.

The new names say nothing true: many of them claim a role (`optimizer_…`) that chance has picked.
"""

from __future__ import annotations

import ast
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.metamorphic.classes import FOREIGN, Classes
from tests.metamorphic.scopes import Callable, Scope, Scopes, Use, all_parameters
from tests.metamorphic.text import NotApplicable, Text, replace_spans

ROLES = ("model", "loss", "optimizer", "loader", "scheduler", "scaler", "device", "batch", "data", "x", "net", "epoch")
ATTRIBUTE = "."
KNOWN_DECORATORS = ("staticmethod", "classmethod", "property", "no_grad", "inference_mode", "contextmanager", "setter")
REFLECTION = {"locals", "globals", "eval", "exec"}
Key = tuple[str, str]
Names = Mapping[Key, str]


@dataclass(frozen=True)
class Renamed:
    """The program with other names; `names` maps (scope, old name) to the new one, scope "." for attributes."""

    text: str
    names: dict[Key, str]


def rename_locals(text: str, names: Names | None = None) -> Renamed:
    """Rename what belongs to the program; with `names` of an earlier call, the same and nothing else.

    The new name depends on the scope's dotted name and the old name alone. So for a rewrite of `before`,
    `rename_locals(rewritten, rename_locals(before).names)` is comparable with the rewrite of the renamed program.
    """
    program = Program(text)
    chosen: dict[Key, str] = dict(program.choose()) if names is None else dict(names)
    return Renamed(program.rename(chosen), chosen)


class Program:
    """One program on its way to other names."""

    def __init__(self, text: str) -> None:
        self.source = Text(text)
        self.tree = ast.parse(text)
        self.scopes = Scopes(self.source, self.tree)
        self.uses = self.scopes.uses
        self.classes = Classes(self.scopes)
        self.calls = list(self.find_calls())

    def choose(self) -> Iterator[tuple[Key, str]]:
        """Every name that can be given another one."""
        if any(use.scope is None and use.name in REFLECTION for use in self.uses):
            raise NotApplicable("the program looks at its own variables")
        constants: set[object] = {node.value for node in ast.walk(self.tree) if isinstance(node, ast.Constant)}
        attributes = set(self.free_attributes(constants))
        blocked = set(self.fixed_parameters())
        keys = {key for use in self.uses if (key := self.key(use)) is not None}
        for scope, name in sorted(keys | {(ATTRIBUTE, name) for name in attributes}):
            fixed = name not in attributes if scope == ATTRIBUTE else (scope, name) in blocked
            if not fixed and not name.startswith("__") and not (scope == "" and name in constants):
                yield (scope, name), self.invent(scope, name)

    def invent(self, scope: str, name: str) -> str:
        """A name that depends on nothing but the arguments."""
        number = zlib.crc32(f"{scope}:{name}".encode())
        new = f"{ROLES[number % len(ROLES)]}_{number:08x}"
        if new in self.source.text:
            raise NotApplicable(f"{new} is taken")
        return new

    def key(self, use: Use) -> Key | None:
        """What a use is called in the table of names; None when it is not the program's to rename."""
        if use.scope is None or use.name in use.scope.imported:
            return None
        return (ATTRIBUTE if use.scope.kind == "class" else use.scope.name, use.name)

    def rename(self, names: Names) -> str:
        """The text with the names; raises NotApplicable when it does not mean the tree with the names."""
        spans: list[tuple[int, int, str]] = []
        for attribute in list(self.own_attributes(names)):
            new, end = names[ATTRIBUTE, attribute.attr], self.source.end(attribute)
            spans.append((end - len(attribute.attr), end, new))
            attribute.attr = new
        for use in self.uses:
            key = self.key(use)
            if key is not None and key in names:
                spans.append((use.start, use.start + len(use.name), names[key]))
                rename_field(use.node, use.attribute, use.name, names[key])
        for call, function in self.calls:
            scope = self.scopes.scopes[function] if isinstance(function, Callable) else None
            for keyword in call.keywords:
                if scope is not None and keyword.arg and (scope.name, keyword.arg) in names:
                    new, start = names[scope.name, keyword.arg], self.source.start(keyword)
                    spans.append((start, start + len(keyword.arg), new))
                    keyword.arg = new
        text = replace_spans(self.source.text, spans)
        if ast.dump(ast.parse(text)) != ast.dump(self.tree):
            raise NotApplicable("a name stands where it cannot be found")
        return text

    def own_attributes(self, names: Names) -> Iterator[ast.Attribute]:
        """Where an attribute in the table is surely one of the program's own classes."""
        for scope, node in self.nodes_by_scope():
            attribute = node if isinstance(node, ast.Attribute) else None
            if attribute and (ATTRIBUTE, attribute.attr) in names and self.classes.class_of(attribute.value, scope):
                yield attribute

    def find_calls(self) -> Iterator[tuple[ast.Call, Callable | str]]:
        """Calls with keywords, and the function of the program that they call, "foreign" or "unknown"."""
        for scope, node in self.nodes_by_scope():
            if isinstance(node, ast.Call) and node.keywords:
                yield node, self.target(node, scope)

    def nodes_by_scope(self) -> Iterator[tuple[Scope, ast.AST]]:
        """Every node with the scope that it is evaluated in; parts of a function's head count as inside."""
        stack: list[tuple[Scope, ast.AST]] = [(self.scopes.module, self.tree)]
        while stack:
            scope, node = stack.pop()
            yield scope, node
            inner = self.scopes.scopes.get(node, scope)
            stack += [(inner, child) for child in ast.iter_child_nodes(node)]

    def target(self, call: ast.Call, scope: Scope) -> Callable | str:
        """What a call calls."""
        function = call.func
        if isinstance(function, ast.Name):
            return self.named_target(function.id, scope)
        if not isinstance(function, ast.Attribute):
            return "unknown"
        name = self.classes.class_of(function.value, scope)
        for owner in self.classes.lineage(name) if name else []:
            if function.attr in self.classes.methods(owner):
                return self.classes.methods(owner)[function.attr]
        ours = any(function.attr in members for members in self.classes.members.values())
        return "unknown" if ours or function.attr == "partial" else "foreign"

    def named_target(self, name: str, scope: Scope) -> Callable | str:
        home = scope.resolve(name)
        if home is None or name in home.imported:
            return "unknown" if name == "partial" else "foreign"
        definitions = home.definitions.get(name, [])
        bound = sum(use.scope is home and use.name == name and is_store(use) for use in self.uses)
        if len(definitions) != 1 or bound != 1:
            return "unknown"
        if isinstance(definitions[0], Callable):
            return definitions[0]
        owners = [part for part in self.classes.lineage(name) if "__init__" in self.classes.methods(part)]
        return self.classes.methods(owners[0])["__init__"] if owners else "unknown"

    def fixed_parameters(self) -> Iterator[Key]:
        """Parameters that somebody could pass by name from where we do not see it."""
        unknown = [call for call, function in self.calls if function == "unknown"]
        named = {keyword.arg for call in unknown for keyword in call.keywords}
        spread = {function for call, function in self.calls if None in {keyword.arg for keyword in call.keywords}}
        for node, scope in self.scopes.scopes.items():
            if isinstance(node, Callable | ast.Lambda):
                marks = node.decorator_list if isinstance(node, Callable) else []
                fixed = None in named or node in spread or not all(map(is_known, marks))
                for parameter in all_parameters(node.args):
                    if fixed or parameter.arg in named:
                        yield scope.name, parameter.arg

    def free_attributes(self, constants: set[object]) -> Iterator[str]:
        """Attributes that only the program's own classes have, and only the program uses."""
        owners = {name for name in self.classes.nodes if self.classes.is_transparent(name)}
        found = {member for name in owners for member in self.classes.members[name]} - FOREIGN
        found -= {member for name in set(self.classes.nodes) - owners for member in self.classes.members[name]}
        inner = {scope for scope in self.scopes.scopes.values() if scope.kind == "class" and "." in scope.name}
        nested = {name for scope in inner for name in scope.bound}
        for scope, node in self.nodes_by_scope():
            if isinstance(node, ast.Attribute) and node.attr in found and not self.is_imported(node):
                owner = self.classes.class_of(node.value, scope)
                if owner is None or owner not in owners or not self.classes.has(owner, node.attr):
                    found.discard(node.attr)
        yield from (name for name in found - nested if name not in constants and not name.startswith("_"))

    def is_imported(self, node: ast.Attribute) -> bool:
        """Whether an attribute is found in a module, as in `torch.device`."""
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            root = root.value
        return isinstance(root, ast.Name) and root.id in self.scopes.module.imported


def is_store(use: Use) -> bool:
    """Whether a use binds its name."""
    return use.attribute in ("arg", "name") or not isinstance(getattr(use.node, "ctx", ast.Load()), ast.Load)


def is_known(decorator: ast.expr) -> bool:
    """Whether a decorated function is still called with its own parameters."""
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")) in KNOWN_DECORATORS


def rename_field(node: ast.AST, attribute: str, old: str, new: str) -> None:
    """Put the new name where the tree has the old one."""
    value = getattr(node, attribute)
    setattr(node, attribute, [new if part == old else part for part in value] if isinstance(value, list) else new)
