"""Where a module is ready: behind its construction, weights, device and layout, before wrappers and training."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from speedpatch.facts.evaluate import dotted
from speedpatch.facts.facts import Facts
from speedpatch.facts.modules import Modules, is_wrapper
from speedpatch.facts.reach import Obstacle
from speedpatch.facts.torch_names import WRAPPER
from speedpatch.facts.tree import own_nodes, position
from speedpatch.facts.values import FUNCTIONS, Instance, Member, Pack, Value

MOVES = frozenset(
    {
        "to",
        "cuda",
        "xpu",
        "half",
        "float",
        "double",
        "bfloat16",
        "type",
        "to_empty",
        "apply",
        "requires_grad_",
        "share_memory",
    }
)
LOADS = frozenset(
    {"load_state_dict", "load_weights", "load_from", "load_pretrained", "init_weights", "reset_parameters"}
)
TOOLS = (
    "torch.nn.init.", "torch.nn.SyncBatchNorm.", "torch.nn.utils.", "torchsummary.", "torchsummaryX.",
    "torchinfo.", "thop.", "ptflops.", "fvcore.",
    "pytorch_model_summary.", "torchstat.", "torch.distributed.fsdp.fully_shard",
)  # fmt: skip
SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)


@dataclass(frozen=True)
class Ready:
    """A module is ready behind `anchor`, where `path` is the expression for it, inside any wrapper."""

    anchor: ast.stmt
    path: str


@dataclass(frozen=True)
class SetUp:
    """Finds where modules are ready."""

    about: Modules
    modules: frozenset[Value]
    memo: dict[tuple[ast.AST, Value, frozenset[str]], bool] = field(default_factory=dict, repr=False)

    @property
    def facts(self) -> Facts:
        """The program."""
        return self.about.facts

    def ready(self, module: Value) -> Ready | Obstacle:
        """Where a module is ready, or why there is no such place in the script."""
        births = [node for node in self.births(module) if self.facts.in_script(node)]
        if not births:
            return Obstacle(
                "model-elsewhere",
                site_of(self.facts, module),
                "the model is made in another file: name the script that makes it",
            )
        targets = [node for birth in births for node in self.targets(birth, module)]
        targets = targets or [node for node in self.stores[module] if self.facts.in_script(node)]
        if not targets:
            return Obstacle(
                "model-unbound", births[0], "the model has no name where it is made: assign it to a variable first"
            )
        scopes = {self.facts.tree.scope(node) for node in targets}
        if len(scopes) > 1 and any(isinstance(node, ast.Name) for node in targets):
            return Obstacle(
                "model-several", targets[1], "the model is made in several places: compile it in each by hand"
            )
        return self.place(module, min(targets, key=position))

    # ---- where it comes from

    @cached_property
    def stores(self) -> dict[Value, list[ast.Name | ast.Attribute]]:
        """The names and attributes that each module is bound to, in source order."""
        return self.index(ast.Store)

    @cached_property
    def loads(self) -> dict[Value, list[ast.Name | ast.Attribute]]:
        """The expressions that read each module, in source order."""
        return self.index(ast.Load)

    def index(self, context: type[ast.expr_context]) -> dict[Value, list[ast.Name | ast.Attribute]]:
        """The nodes of a context that stand for each module."""
        found: dict[Value, list[ast.Name | ast.Attribute]] = defaultdict(list)
        for node, values in self.facts.state.values.items():
            if (
                isinstance(node, (ast.Name, ast.Attribute))
                and isinstance(node.ctx, context)
                and node in self.facts.tree.parents
            ):
                for module in self.raw(node) if values else ():
                    found[module].append(node)
        for nodes in found.values():
            nodes.sort(key=position)
        return found

    def raw(self, node: ast.AST) -> Iterator[Value]:
        """The modules behind an expression, out of their wrappers."""
        for value in self.facts.values(node):
            yield from (module for module in self.about.unwrap(value) if module in self.modules)

    def outside_stores(self, module: Value) -> Iterator[ast.Attribute]:
        """Where code outside of a module sets one of its attributes."""
        for node in self.facts.state.values:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and module in self.raw(node.value):
                if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                    yield node

    def births(self, module: Value) -> list[ast.AST]:
        """The calls that give a module for good: its construction, or the calls of the factory that returns it."""
        stack, found, seen = [site_of(self.facts, module)], [], set()
        while stack:
            node = stack.pop()
            scope = self.facts.tree.scope(node) if not isinstance(node, ast.Module) else node
            if scope in seen:
                continue
            callers = [call for call in self.facts.state.callers.get(scope, ()) if self.gives(call, module)]
            if callers and not self.facts.sites.contains_backward(scope):
                seen.add(scope)
                stack += callers
            else:
                found.append(node)
        return found

    def gives(self, call: ast.Call, module: Value) -> bool:
        """Whether a call returns a module, by itself or in a tuple."""
        values = set(self.facts.values(call))
        packs = [value for value in values if isinstance(value, Pack)]
        for index in range(8):
            for pack in packs:
                values |= self.facts.state.heap.get((pack, f"[{index}]"), frozenset())
        return any(module in self.about.unwrap(value) for value in values)

    def targets(self, birth: ast.AST, module: Value) -> list[ast.Name | ast.Attribute]:
        """What the statement of a call binds a module to."""
        statement = self.facts.tree.statement(birth)
        return [
            node
            for node in self.stores[module]
            if self.facts.tree.statement(node) is statement and isinstance(statement, SIMPLE)
        ]

    # ---- where it is ready

    def place(self, module: Value, target: ast.Name | ast.Attribute) -> Ready | Obstacle:
        """Behind the last statement that sets a module up, from the one that binds it."""
        tree = self.facts.tree
        made = tree.statement(target)
        block = self.block(module, target, made)
        start = tree.lift(made, block)
        assert start is not None
        anchor = start
        loaded = True
        for statement in block[block.index(start) + 1 :]:
            if self.trains(statement) or self.wraps(statement, module):
                break
            loaded = loaded and not self.makes_optimizer(statement)
            if self.sets_up(statement, module, MOVES | LOADS if loaded else MOVES):
                anchor = statement
        path = self.path(module, target, block, anchor)
        if not self.is_certain(module, path, anchor, block):
            return Obstacle(
                "model-uncertain",
                anchor,
                "what this name stands for depends on the run: give the model that is trained a name of its own",
            )
        return Ready(anchor, path)

    def block(self, module: Value, target: ast.Name | ast.Attribute, made: ast.stmt) -> list[ast.stmt]:
        """The statement list that the module is used in: its own, or one around the branches that choose it."""
        tree = self.facts.tree
        scope, loops = tree.scope(made), tree.loops(made)
        uses = [
            node
            for node in self.loads[module]
            if tree.scope(node) is scope
            and position(node) > position(target)
            and (not loops or loops[0] in tree.above(node))
        ]
        found = tree.common_block(made, *uses)
        own = tree.block(made)
        return found if found is not None and all(tree.loops(statement) == loops for statement in found[:1]) else own

    def path(self, module: Value, target: ast.Name | ast.Attribute, block: list[ast.stmt], anchor: ast.stmt) -> str:
        """How the code behind the anchor calls the module: the name that it is called by, if that is bound by then."""
        tree = self.facts.tree
        scope = tree.scope(target)
        bound = [
            node
            for node in self.stores[module]
            if tree.scope(node) is scope and tree.lift(node, block) is not None and position(node) <= end(anchor)
        ]
        called = {
            dotted(node)
            for node in self.loads[module]
            if isinstance(up := tree.parent(node), ast.Call) and up.func is node
        }
        named = [node for node in [target, *bound] if dotted(node) in called] or [target]
        latest = max((node for node in bound if dotted(node) == dotted(named[0])), key=position, default=named[0])
        text = self.facts.text(latest)
        wrapped = any(is_wrapper(value) for value in self.facts.values(latest))
        return f"{text}.module" if wrapped else text

    def is_certain(self, module: Value, path: str, anchor: ast.stmt, block: list[ast.stmt]) -> bool:
        """Whether the path stands for trained modules alone behind the anchor, all of them wrapped or none."""
        tree = self.facts.tree
        name = path.removesuffix(".module")
        for node in self.loads[module]:
            if position(node) > end(anchor) and tree.lift(node, block) is not None and dotted(node) == name:
                values = self.facts.values(node)
                inner = {item for value in values for item in self.about.unwrap(value)}
                return inner <= self.modules and {is_wrapper(value) for value in values} == {name != path}
        return True

    def trains(self, node: ast.AST) -> bool:
        """Whether a statement trains; defining a function does not."""
        return not isinstance(node, (*FUNCTIONS, ast.ClassDef)) and self.facts.sites.contains_backward(node)

    def wraps(self, statement: ast.stmt, module: Value) -> bool:
        """Whether a statement puts a module into DDP or the like."""
        return any(
            isinstance(node, ast.Call)
            and any(WRAPPER.fullmatch(name) for name in self.facts.sites.callee(node))
            and any(module in self.raw(argument) for argument in node.args)
            for node in own_nodes(statement)
        )

    def makes_optimizer(self, statement: ast.stmt) -> bool:
        """Whether a statement makes an optimizer."""
        return any(
            isinstance(node, ast.Call)
            and any(
                isinstance(value, Instance) and self.facts.sites.is_optimizer(value)
                for value in self.facts.values(node)
            )
            for node in own_nodes(statement)
        )

    def sets_up(self, statement: ast.AST, module: Value, methods: frozenset[str]) -> bool:
        """Whether a statement changes what a module is: moves, loads, freezes or takes parts of it."""
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            return False
        return any(self.is_set_up(node, module, methods) for node in [statement, *own_nodes(statement)])

    def is_set_up(self, node: ast.AST, module: Value, methods: frozenset[str]) -> bool:
        """One node of such a statement."""
        if isinstance(node, ast.Call):
            return self.call_sets_up(node, module, methods)
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            return any(
                isinstance(target, (ast.Attribute, ast.Subscript)) and self.belongs(target.value, module)
                for target in targets
            )
        return (
            isinstance(node, (ast.For, ast.AsyncFor)) and self.belongs(node.iter, module) and changes_parameters(node)
        )

    def call_sets_up(self, node: ast.Call, module: Value, methods: frozenset[str]) -> bool:
        """A method of the module, a tool that it is given to, or a function of the program that sets it up."""
        if isinstance(node.func, ast.Attribute) and node.func.attr in methods and self.belongs(node.func.value, module):
            return True
        arguments = [item.value if isinstance(item, ast.Starred) else item for item in node.args] + [
            item.value for item in node.keywords
        ]
        if not any(self.belongs(argument, module) for argument in arguments):
            return False
        if any(name.startswith(TOOLS) for name in self.facts.sites.callee(node)):
            return True
        return any(
            self.function_sets_up(function, module, methods)
            for function in self.facts.sites.local_callees(node)
            if function.name != "__init__"
        )

    def function_sets_up(self, function: ast.AST, module: Value, methods: frozenset[str]) -> bool:
        """Whether a function that is given a module sets it up."""
        key = (function, module, methods)
        if key not in self.memo:
            self.memo[key] = False
            self.memo[key] = any(self.is_set_up(node, module, methods) for node in own_nodes(function))
        return self.memo[key]

    def belongs(self, node: ast.AST, module: Value) -> bool:
        """Whether an expression is a module or a part of it."""
        while True:
            if module in self.raw(node):
                return True
            if any(isinstance(value, Member) and base_of(value) == module for value in self.facts.values(node)):
                return True
            if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
                node = node.value
            elif isinstance(node, ast.Call):
                node = node.func
            else:
                return False


def site_of(facts: Facts, module: Value) -> ast.AST:
    """The node that an object comes from."""
    site = getattr(module, "site", None) or getattr(module, "function", None)
    return site if isinstance(site, ast.AST) else facts.script.tree.body[0]


def base_of(value: Member) -> Value:
    """The object at the root of an attribute."""
    base = value.base
    while isinstance(base, Member):
        base = base.base
    return base


def end(node: ast.stmt) -> tuple[int, int]:
    """Where a statement ends, for ordering."""
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def changes_parameters(loop: ast.For | ast.AsyncFor) -> bool:
    """Whether a loop over parameters or modules freezes or initializes them."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Attribute) and (
            isinstance(node.ctx, ast.Store) or node.attr in ("requires_grad_", "data", "copy_")
        ):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
            return True
    return False
