"""Run the statements of every scope abstractly, round after round, until nothing new is learned."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from speedpatch.facts.evaluate import Evaluator, dotted
from speedpatch.facts.state import Binding, Environment, State, parameters_of, unknown_parameter
from speedpatch.facts.tree import Scope, Tree, children, is_main_guard, own_nodes
from speedpatch.facts.values import (
    FUNCTIONS,
    NOTHING,
    Class,
    Derived,
    External,
    Function,
    FunctionNode,
    Instance,
    LocalModule,
    Pack,
    Values,
)

ROUNDS = 12


class Executor(Evaluator):
    """Executes one scope; `globals` are the names that it declares as such."""

    def __init__(self, state: State, scope: Scope, outer: tuple[ast.AST, ...], names: dict[str, int]) -> None:
        super().__init__(state, scope, outer)
        self.names = names  # local modules by their import name
        if scope not in state.declared:
            state.declared[scope] = frozenset(declared_in(scope))
        self.globals = state.declared[scope]
        self.exits: list[list[Environment]] = []

    def scope_of(self, name: str) -> ast.AST:
        """Globals are bound in the module."""
        return self.outer[-1] if name in self.globals and self.outer else self.scope

    def block(self, statements: list[ast.stmt]) -> bool:
        """Execute statements in order; whether control reaches the end."""
        for statement in statements:
            method = getattr(self, "do_" + type(statement).__name__, None)
            if method is None:
                self.simple(statement)
            elif method(statement) is False:
                return False
        return True

    def simple(self, statement: ast.stmt) -> None:
        """A statement that only evaluates."""
        for child in children(statement):
            if isinstance(child, ast.expr):
                self.evaluate(child)

    def branch(self, statements: list[ast.stmt], before: Environment) -> Environment | None:
        """The environment behind statements that start from another one; None when control does not get there."""
        self.env = dict(before)
        return self.env if self.block(statements) else None

    def do_Assign(self, node: ast.Assign) -> None:
        """`a = b = value`."""
        values = self.evaluate(node.value)
        for target in node.targets:
            if (
                isinstance(target, (ast.Tuple, ast.List))
                and isinstance(node.value, (ast.Tuple, ast.List))
                and len(target.elts) == len(node.value.elts)
            ):
                for inner, item in zip(target.elts, node.value.elts, strict=True):
                    self.assign(inner, self.state.values.get(item, NOTHING), node)
            else:
                self.assign(target, values, node)

    def do_AnnAssign(self, node: ast.AnnAssign) -> None:
        """`a: T = value`."""
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value), node)

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        """`a += value`: the old definitions go on to matter, and a list stays the same list with more in it."""
        added = self.evaluate(node.value)
        path = dotted(node.target)
        old = self.env.get(path) if path else None
        if isinstance(node.target, (ast.Name, ast.Attribute)):
            lists = frozenset(value for value in self.evaluate(node.target) if isinstance(value, Pack))
            for value in lists:
                self.state.store(value, "[]", frozenset().union(*(self.items(item, []) for item in added)))
            self.assign(node.target, lists or frozenset({Derived(node)}), node)
            if path and old is not None:
                self.env[path] = Binding(self.env[path].values, old.definitions | {node})
        else:
            self.assign(node.target, frozenset({Derived(node)}), node)

    def do_Delete(self, node: ast.Delete) -> None:
        """`del a`."""
        for target in node.targets:
            self.env.pop(dotted(target) or "", None)

    def do_FunctionDef(self, node: FunctionNode) -> None:
        """A definition binds a function; decorators do not hide it."""
        for default in (
            *node.args.defaults,
            *(item for item in node.args.kw_defaults if item is not None),
            *node.decorator_list,
        ):
            self.evaluate(default)
        function = Function(node, self.scope if isinstance(self.scope, ast.ClassDef) else None)
        self.env[node.name] = Binding(frozenset({function}), frozenset({node}))
        self.state.bind(self.scope_of(node.name), node.name, frozenset({function}))

    do_AsyncFunctionDef = do_FunctionDef

    def do_ClassDef(self, node: ast.ClassDef) -> None:
        """A class; its body is a scope that only its own statements see."""
        for item in node.decorator_list:
            self.evaluate(item)
        lineage: list[ast.ClassDef | str] = [node]
        for base in node.bases:
            for value in self.evaluate(base):
                if isinstance(value, Class):
                    lineage += [item for item in self.state.bases(value.node) if item not in lineage]
                elif isinstance(value, External):
                    lineage.append(value.name)
        self.state.lineage[node] = tuple(lineage)
        inner = Executor(self.state, node, (self.scope, *self.outer), self.names)
        inner.env, inner.rooted = dict(self.env), set(self.rooted)
        inner.block(node.body)
        self.env[node.name] = Binding(frozenset({Class(node)}), frozenset({node}))
        self.state.bind(self.scope_of(node.name), node.name, frozenset({Class(node)}))

    def do_Return(self, node: ast.Return) -> bool:
        """Control leaves; the value joins the function's summary."""
        if node.value is not None:
            self.state.grow(self.state.returns, self.scope, self.evaluate(node.value))
        return False

    def do_Expr(self, node: ast.Expr) -> None:
        """An expression; what it yields is what the function's result iterates over."""
        values = self.evaluate(node.value)
        if isinstance(node.value, (ast.Yield, ast.YieldFrom)) and isinstance(self.scope, FUNCTIONS):
            pack = Pack(self.scope)
            inner = self.state.values.get(node.value.value, NOTHING) if node.value.value else values
            self.state.store(pack, "[]", inner if isinstance(node.value, ast.Yield) else self.elements(inner, node))
            self.state.grow(self.state.returns, self.scope, frozenset({pack}))

    def do_Raise(self, node: ast.Raise) -> bool:
        """Control leaves."""
        self.simple(node)
        return False

    def do_If(self, node: ast.If) -> bool:
        """Both branches, joined."""
        ends: list[Environment | None] = []
        while True:
            self.evaluate(node.test)
            before = dict(self.env)
            if not (self.state.is_imported(self.scope) and is_main_guard(node)):
                ends.append(self.branch(node.body, before))
            self.env = before
            if len(node.orelse) != 1 or not isinstance(node.orelse[0], ast.If):
                break
            node = node.orelse[0]  # a loop, since `elif` goes on for longer than Python recurses
        ends.append(self.env if self.block(node.orelse) else None)
        return self.join(ends)

    def join(self, ends: list[Environment | None]) -> bool:
        """Go on from all environments that control can come from."""
        alive = [env for env in ends if env is not None]
        self.env = merge(alive) if alive else {}
        return bool(alive)

    def loop(self, body: list[ast.stmt], orelse: list[ast.stmt], head: object) -> bool:
        """A body that runs any number of times; twice is enough for what goes around to arrive."""
        self.exits.append([])
        before = dict(self.env)
        for _ in range(2):
            if callable(head):
                head()
            start = before
            if self.block(body):
                before = merge([before, self.env])
            before = merge([before, *self.exits[-1]])
            self.env = dict(before)
            if is_same(before, start):
                break
        self.exits.pop()
        self.block(orelse)
        return True

    def do_For(self, node: ast.For | ast.AsyncFor) -> bool:
        """A loop over elements."""
        values = self.evaluate(node.iter)
        return self.loop(
            node.body, node.orelse, lambda: self.assign(node.target, self.elements(values, node.iter), node)
        )

    do_AsyncFor = do_For

    def do_While(self, node: ast.While) -> bool:
        """A loop with a condition."""
        return self.loop(node.body, node.orelse, lambda: self.evaluate(node.test))

    def do_Break(self, node: ast.Break) -> bool:
        """Control goes to the loop's end."""
        if self.exits:
            self.exits[-1].append(dict(self.env))
        return False

    do_Continue = do_Break

    def do_With(self, node: ast.With | ast.AsyncWith) -> bool:
        """A context; its target is what the manager gives, in most cases the manager."""
        for item in node.items:
            values = self.evaluate(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, self.entered(values), node)
        return self.block(node.body)

    do_AsyncWith = do_With

    def entered(self, values: Values) -> Values:
        """What `with ... as` binds: progress bars and files stand for themselves."""
        return values

    def do_Try(self, node: ast.Try) -> bool:
        """The body, the handlers from anywhere in it, the final block from anywhere."""
        before = dict(self.env)
        end = self.branch(node.body, before)
        if end is not None and node.orelse:
            self.env = dict(end)
            end = self.env if self.block(node.orelse) else None
        middle = merge([before, end]) if end is not None else before
        ends = [end, *(self.handler(handler, middle) for handler in node.handlers)]
        alive = self.join(ends)
        if node.finalbody:
            if not alive:
                self.env = dict(middle)
            alive = self.block(node.finalbody) and alive
        return alive

    do_TryStar = do_Try

    def handler(self, handler: ast.ExceptHandler, before: Environment) -> Environment | None:
        """One `except`."""
        self.env = dict(before)
        if handler.name:
            self.env[handler.name] = Binding(frozenset({Derived(handler)}), frozenset({handler}))
        return self.env if self.block(handler.body) else None

    def do_Match(self, node: ast.Match) -> bool:
        """Any case, or none."""
        self.evaluate(node.subject)
        before = dict(self.env)
        return self.join([before, *(self.branch(case.body, before) for case in node.cases)])

    def do_Import(self, node: ast.Import) -> None:
        """`import a.b as c`."""
        for alias in node.names:
            name = alias.name if alias.asname else alias.name.split(".")[0]
            value = self.imported(name, 0)
            bound = alias.asname or name
            self.env[bound] = Binding(frozenset({value}), frozenset({node}))
            self.state.bind(self.scope_of(bound), bound, frozenset({value}))
            if (
                not alias.asname
                and "." in alias.name
                and isinstance(inner := self.imported(alias.name, 0), LocalModule)
            ):
                self.state.store(value, alias.name.split(".")[-1], frozenset({inner}))

    def do_ImportFrom(self, node: ast.ImportFrom) -> None:
        """`from a import b as c`."""
        module = self.imported(node.module or "", node.level)
        for alias in node.names:
            if alias.name == "*":
                self.state.store_star(self.outer[-1] if self.outer else self.scope, module)
                continue
            inner = self.imported(f"{node.module}.{alias.name}" if node.module else alias.name, node.level)
            values = frozenset({inner}) if isinstance(inner, LocalModule) else self.attribute(module, alias.name)
            bound = alias.asname or alias.name
            self.env[bound] = Binding(values, frozenset({node}))
            self.state.bind(self.scope_of(bound), bound, values)

    def imported(self, name: str, level: int) -> External | LocalModule:
        """A module of the program, or one from outside."""
        index = self.names.get(f"{'.' * level}{name}" if level else name)
        return LocalModule(index) if index is not None else External(canonical(name))


def declared_in(scope: ast.AST) -> Iterator[str]:
    """The names that a scope declares as those of a scope around."""
    for node in own_nodes(scope):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            yield from node.names


CANONICAL = {"torch.nn.functional": "torch.nn.functional"}


def canonical(name: str) -> str:
    """The usual path of a module that has several."""
    return CANONICAL.get(name, name)


def merge(environments: list[Environment]) -> Environment:
    """What may hold on any of several ways."""
    if len(environments) == 1:
        return dict(environments[0])
    merged: Environment = dict(environments[0])
    for other in environments[1:]:
        known = merged.get
        for name, binding in [item for item in other.items() if known(item[0]) is not item[1]]:
            mine = known(name)
            if mine is None:
                merged[name] = binding
            elif not (binding.values <= mine.values and binding.definitions <= mine.definitions):
                merged[name] = Binding(mine.values | binding.values, mine.definitions | binding.definitions)
    return merged


def is_same(one: Environment, other: Environment) -> bool:
    """Whether a merge has brought nothing new."""
    return len(one) == len(other) and all(other.get(name) is binding for name, binding in one.items())


def interpret(tree: Tree, imports: tuple[dict[str, int], ...], scripts: int = 1) -> State:
    """Execute all modules and functions until the state stops growing; `imports` are the local modules by name.

    The first `scripts` modules are run, the others imported.
    """
    written = (
        node.attr for node in tree.parents if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    )
    mains = frozenset(module.tree for module in tree.modules[:scripts])
    state = State(tree, mains, frozenset(written))
    scopes = [found for module in tree.modules for found in nested(module.tree, ())]
    names = {module.tree: known for module, known in zip(tree.modules, imports, strict=True)}
    for state.settled in (False, True):
        for _ in range(ROUNDS):
            state.changed = False
            for module in tree.modules:
                Executor(state, module.tree, (), names[module.tree]).block(module.tree.body)
            for function, outer in scopes:
                if state.settled or state.callers.get(function):
                    execute_function(state, function, outer, names[outer[-1]])  # type: ignore[index]
            if not state.changed:
                break
    return state


def nested(scope: ast.AST, outer: tuple[ast.AST, ...]) -> list[tuple[FunctionNode, tuple[ast.AST, ...]]]:
    """All functions below a scope with the scopes around them that they can read."""
    inside = (scope, *outer) if not isinstance(scope, ast.ClassDef) else outer
    found: list[tuple[FunctionNode, tuple[ast.AST, ...]]] = []
    for node in own_nodes(scope):
        if isinstance(node, FUNCTIONS):
            found += [(node, inside), *nested(node, inside)]
        elif isinstance(node, ast.ClassDef):
            found += nested(node, inside)
    return found


def execute_function(state: State, node: FunctionNode, outer: tuple[ast.AST, ...], names: dict[str, int]) -> None:
    """Execute a function with what its parameters may be."""
    executor = Executor(state, node, outer, names)
    spec = node.args
    positional = [*spec.posonlyargs, *spec.args]
    pairs = list(zip(reversed(positional), reversed(spec.defaults), strict=False)) + list(
        zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
    )
    defaults = {item.arg: default for item, default in pairs if default is not None}
    owner = state.tree.owner(node)
    for name in parameters_of(node):
        values = state.inputs.get((node, name), NOTHING)
        if name in defaults:
            values |= state.values.get(defaults[name], NOTHING)
        if state.settled and (not values or (name in defaults and not state.callers.get(node))):
            is_self = owner is not None and positional and name == positional[0].arg
            values |= (
                frozenset({Instance(owner.name, owner, owner)}) if is_self and owner else unknown_parameter(node, name)
            )
        executor.env[name] = Binding(values, frozenset({node}))
        state.bind(node, name, values)
    executor.block(node.body)
