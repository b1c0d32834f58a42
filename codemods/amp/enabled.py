"""Whether mixed precision is on, where that is known only at run time: `use_amp`, or the test itself."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from speedpatch.edits import Insert
from speedpatch.facts.devices import Device, binders, bound_before, device_expression, is_boolean, is_device_object
from speedpatch.facts.evaluate import dotted
from speedpatch.facts.reach import Home, Obstacle, Reach, last_together
from speedpatch.facts.setup import behind_compiles
from speedpatch.facts.slices import Region
from speedpatch.facts.tree import position
from speedpatch.facts.values import FUNCTIONS, Constant, External, FunctionNode

from .context import Amp

Scope = ast.Module | FunctionNode


@dataclass
class Enabled:
    """Spells the condition in each scope; `inserts` are the lines that define `use_amp`."""

    amp: Amp
    reach: Reach | None
    regions: list[Region]
    name: str = "use_amp"
    inserts: list[Insert] = field(default_factory=list)
    variables: dict[ast.AST, str] = field(default_factory=dict)
    defined: dict[ast.AST, ast.stmt] = field(default_factory=dict)

    @property
    def always(self) -> bool:
        """Whether there is nothing to ask: hard-coded CUDA, or a CPU script."""
        return self.amp.device.kind in ("cuda", "cpu")

    def prepare(self) -> None:
        """Define variables where the condition is needed more than once."""
        if self.always:
            return
        uses = [(self.amp.facts.tree.scope(region.first), region.first) for region in self.regions]
        for home in self.reach.homes if self.reach is not None else ():
            if home is self.reach.home_in(home.scope):  # type: ignore[union-attr]
                self.share(home, uses)
        for scope in {scope for scope, _ in uses}:
            mine = [statement for where, statement in uses if where is scope]
            if self.variable(scope) is None and (
                len(mine) > 1 or (not isinstance(scope, FUNCTIONS) and self.functions_use(uses))
            ):
                self.define_in(scope, min(mine, key=position))

    def functions_use(self, uses: list[tuple[Scope, ast.stmt]]) -> bool:
        """Whether functions could share a module-level variable."""
        return any(isinstance(scope, FUNCTIONS) for scope, _ in uses)

    def share(self, home: Home, uses: list[tuple[Scope, ast.stmt]]) -> None:
        """A variable, or attribute, beside the scaler if regions can see it."""
        test = self.test(home.scope, home.anchor, after=not home.before)
        if test is None or (is_path(test) and home.owner is None):
            return
        if not any(self.sees(home, scope) for scope, _ in uses):
            return
        name = self.amp.free_name("use_amp", "amp_enabled")
        anchor = self.anchor(
            home.scope, home.anchor, test, [statement for scope, statement in uses if scope is home.scope]
        )
        where = "before" if home.before and anchor is home.anchor else "after"
        anchor = anchor if where == "before" else behind_compiles(self.amp.facts, anchor)
        self.inserts.append(Insert(self.amp.facts.path(anchor), anchor, where, f"{home.target(name)} = {test}", slot=1))  # type: ignore[arg-type]
        self.name = name
        self.variables[home.scope if home.owner is None else home.owner] = home.target(name)
        self.defined[home.scope] = anchor

    def sees(self, home: Home, scope: Scope) -> bool:
        """Whether code of a scope can read what stands at a home."""
        assert self.reach is not None
        if not isinstance(home.scope, ast.Module) or scope is home.scope:
            return self.reach.direct_from(home, scope) is not None
        facts = self.amp.facts
        if facts.tree.module(scope) is not facts.tree.module(home.scope):
            return False
        root = self.amp.device.node and test_root(facts.text(self.amp.device.node))
        local = root in facts.state.scopes.get(scope, {})
        return home.anchor in home.scope.body and not local

    def define_in(self, scope: Scope, before: ast.stmt) -> None:
        """A local variable ahead of the first region of a scope, behind the device."""
        test = self.test(scope, before)
        if test is None or is_path(test):
            return
        name = self.amp.free_name("use_amp", "amp_enabled")
        root = test_root(test)
        binding = [item for item in binders(self.amp.facts, root, scope) if position(item) < position(before)]
        anchor = last_together(self.amp.facts, binding) if binding else None
        if anchor is not None and anchor in scope.body:
            anchor = behind_compiles(self.amp.facts, anchor)
            self.inserts.append(Insert(self.amp.facts.path(anchor), anchor, "after", f"{name} = {test}", slot=1))
            self.defined[scope] = anchor
        elif isinstance(scope, FUNCTIONS):
            self.inserts.append(Insert(self.amp.facts.path(scope), scope, "first", f"{name} = {test}", slot=1))
        else:
            return
        self.variables[scope] = name

    def anchor(self, scope: Scope, home: ast.stmt, test: str, uses: list[ast.stmt]) -> ast.stmt:
        """Behind the line that binds the device if that is in plain sight, else where the scaler is made."""
        facts = self.amp.facts
        binding = sorted(path_binders(self.amp, test, scope), key=position)
        anchor = last_together(facts, binding) if binding else None
        if anchor is None or anchor not in scope.body or (home not in scope.body and not isinstance(scope, ast.Module)):
            return home
        return anchor if position(anchor) < position(home) else home

    def variable_at(self, scope: Scope, node: ast.AST) -> str | None:
        """The variable that a scope can read at a node: behind the line that defines it, if that is in this scope."""
        line = self.defined.get(scope)
        return self.variable(scope) if line is None or position(line) <= position(node) else None

    def variable(self, scope: Scope) -> str | None:
        """The variable that a scope can read."""
        around = [scope, *(up for up in self.amp.facts.tree.above(scope) if isinstance(up, (*FUNCTIONS, ast.Module)))]
        for up in around:
            home = self.reach.home_in(up) if self.reach is not None else None
            if up in self.variables and (home is None or self.sees(home, scope)):
                return self.variables[up]
        owners = [home for home in self.reach.homes if home.owner in self.variables] if self.reach is not None else []
        direct = self.reach.direct_from(owners[0], scope) if self.reach is not None and owners else None
        return direct.rsplit(".", 1)[0] + "." + self.name if direct else None

    def expression(self, scope: Scope, before: ast.stmt, region: Region | None = None) -> str | Obstacle | None:
        """The condition in a scope just before a statement; None: it needs none."""
        if self.always:
            return None
        found = self.variable_at(scope, before) or self.test(scope, before)
        if found is None and self.reach is not None and isinstance(spelled := self.reach.spelled.get(scope), str):
            return f"{spelled}.is_enabled()"
        if found is None and region is not None:
            found = model_test(self.amp, region)
        return found or Obstacle(
            "device-unknown",
            before,
            "the device of this loop is not known here: pass it in, or put the model and its device in this function",
        )

    def test(self, scope: Scope, before: ast.stmt, after: bool = False) -> str | None:
        """The condition spelled out with names that the scope has."""
        return test_at(self.amp, scope, before, after)


def test_at(amp: Amp, scope: Scope, before: ast.stmt, after: bool = False) -> str | None:
    """Whether the device is CUDA, spelled out with names that a scope has before a statement, or `after` it."""
    device = amp.device
    if device.kind == "object":
        name = device_expression(amp.facts, device, scope, following(amp, before) if after else before)
        return type_test(amp, device, name, before) if name else None
    if device.kind == "flag" and device.node is not None:
        text = respelled(amp, device.node, scope, before)
        if text is not None:
            return text if is_boolean(amp.facts, device.node) else f"bool({text})"
    return None


def respelled(amp: Amp, node: ast.expr, scope: Scope, before: ast.stmt) -> str | None:
    """A condition from elsewhere with the names that a scope has for the same objects."""
    text = amp.facts.text(node)
    for root in [item for item in ast.walk(node) if isinstance(item, ast.Name)]:
        name = same_object(amp, root, scope, before)
        if name is None:
            return None
        text = re.sub(rf"\b{re.escape(root.id)}\b", name, text)
    return text


def same_object(amp: Amp, root: ast.Name, scope: Scope, before: ast.stmt) -> str | None:
    """What a scope calls the object that a name stands for elsewhere, the same name if it can."""
    facts = amp.facts
    values = facts.values(root)
    modules = [value.name for value in values if isinstance(value, External) and not value.name.startswith("builtins.")]
    if modules:
        return facts.name_for(modules[0], before)
    tables = [up for up in [scope, *facts.tree.above(scope)] if isinstance(up, (*FUNCTIONS, ast.Module))]
    names = [root.id, *(name for table in tables for name in facts.state.scopes.get(table, {}))]
    for name in names:
        owner = next((table for table in tables if name in facts.state.scopes.get(table, {})), None)
        if owner is not None and facts.state.scopes[owner][name] & values and bound_before(facts, name, scope, before):
            return name
    return None


def is_path(test: str) -> bool:
    """A condition that is a name or path already needs no other name."""
    return all(part.isidentifier() for part in test.split("."))


def following(amp: Amp, statement: ast.stmt) -> ast.stmt:
    """The statement behind another one, for asking what is bound by then."""
    block = amp.facts.tree.block(statement)
    index = block.index(statement)
    return block[index + 1] if index + 1 < len(block) else statement


def type_test(amp: Amp, device: Device, name: str, node: ast.AST) -> str:
    """Whether a device is CUDA: `.type` of a device object; strings and numbers are made one first."""
    if is_device_object(amp.facts, device.values):
        return f'{name}.type == "cuda"'
    texts = {value.value for value in device.values if isinstance(value, Constant)}
    if len(texts) == len(device.values) and texts <= {"cuda", "cpu"}:
        return f'{name} == "cuda"'
    return f'{amp.torch("device", node)}({name}).type == "cuda"'


def test_root(test: str) -> str:
    """The first variable of a condition."""
    names = [
        node
        for node in ast.walk(ast.parse(test, mode="eval"))
        if isinstance(node, ast.Name) and node.id not in ("bool", "torch", "th")
    ]
    return min(names, key=lambda node: node.col_offset).id if names else ""


def path_binders(amp: Amp, test: str, scope: Scope) -> list[ast.stmt]:
    """The statements of a scope that bind the name or attribute that a condition asks."""
    paths = {
        dotted(node) for node in ast.walk(ast.parse(test, mode="eval")) if isinstance(node, (ast.Name, ast.Attribute))
    }
    roots = {path.split(".")[0] for path in paths if path}
    found = [item for root in roots for item in binders(amp.facts, root, scope)]
    for node in ast.walk(scope):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and dotted(node) in paths
            and amp.facts.tree.scope(node) is scope
        ):
            found.append(amp.facts.tree.statement(node))
    return [item for item in found if isinstance(item, (ast.Assign, ast.AnnAssign))]


def model_test(amp: Amp, region: Region) -> str | None:
    """Ask the parameters of the model that a region runs."""
    for statement in region.block:
        for call in ast.walk(statement):
            if isinstance(call, ast.Call) and amp.facts.sites.is_forward(call):
                path = dotted(call.func)
                values = amp.facts.values(call.func)
                if path and values and all(amp.facts.state.is_module(value) for value in values):
                    return f"next({path}.parameters()).is_cuda"
    return None
