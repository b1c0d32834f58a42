"""What expressions stand for."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from speedpatch.facts import calls
from speedpatch.facts.state import Binding, Environment, State
from speedpatch.facts.tree import children
from speedpatch.facts.values import (
    LIMIT,
    NOTHING,
    Class,
    Constant,
    Derived,
    External,
    Function,
    Instance,
    LocalModule,
    Member,
    Method,
    Pack,
    Super,
    Value,
    Values,
    depth,
)

if TYPE_CHECKING:
    from speedpatch.facts.tree import Scope


class Evaluator:
    """Evaluates expressions of one scope against the state; records every value it finds."""

    def __init__(self, state: State, scope: Scope, outer: tuple[ast.AST, ...]) -> None:
        self.state = state
        self.scope = scope
        self.outer = outer  # enclosing scopes, innermost first, the module last
        self.env: Environment = {}
        self.rooted: set[str] = set()  # the names that paths such as `a.b` have been bound under

    def evaluate(self, node: ast.expr | None) -> Values:
        """The objects an expression may stand for."""
        if node is None:
            return NOTHING
        method = getattr(self, "on_" + type(node).__name__, None)
        values: Values = method(node) if method else self.operation(node)
        if len(values) > LIMIT:
            values = frozenset({Derived(node)})
        self.state.values[node] = values
        return values

    def unknown(self, node: ast.AST) -> Values:
        """A value of its own for what nothing is known of, once all is known that will be."""
        return frozenset({Derived(node)}) if self.state.settled else NOTHING

    def operation(self, node: ast.expr) -> Values:
        """Any other expression makes a new value out of its operands."""
        for child in children(node):
            if isinstance(child, ast.expr):
                self.evaluate(child)
        return frozenset({Derived(node)})

    def on_Constant(self, node: ast.Constant) -> Values:
        """A literal; bytes and the like are only values."""
        value = node.value
        return frozenset({Constant(value) if isinstance(value, (str, int, float)) or value is None else Derived(node)})

    def on_UnaryOp(self, node: ast.UnaryOp) -> Values:
        """A negative number is a literal; anything else is an operation."""
        self.evaluate(node.operand)
        number = node.operand.value if isinstance(node.operand, ast.Constant) else None
        negative = isinstance(node.op, ast.USub) and isinstance(number, (int, float))
        return frozenset({Constant(-number) if negative and isinstance(number, (int, float)) else Derived(node)})

    def on_BinOp(self, node: ast.BinOp) -> Values:
        """An operation; a long sum is worked off in a loop, since it may be deeper than Python recurses."""
        sums = [node]
        while isinstance(left := sums[-1].left, ast.BinOp):
            sums.append(left)
        self.evaluate(left)
        for item in reversed(sums):
            self.evaluate(item.right)
            self.state.values[item] = frozenset({Derived(item)})
        return self.state.values[node]

    def on_Name(self, node: ast.Name) -> Values:
        """The local binding, else any binding of an enclosing scope, else a builtin."""
        binding = self.env.get(node.id)
        if binding is not None:
            self.state.reaching[node] = binding.definitions
            return binding.values
        return self.free(node.id)

    def free(self, name: str) -> Values:
        """A name that this scope has not bound."""
        for scope in self.outer:
            if name in self.state.scopes[scope]:
                return self.state.scopes[scope][name]
        starred = self.state.heap.get((self.outer[-1] if self.outer else self.scope, "*"), NOTHING)
        found = NOTHING
        for value in starred:
            if isinstance(value, LocalModule):
                found |= self.state.scopes[self.state.tree.modules[value.index].tree].get(name, NOTHING)
            elif isinstance(value, External) and not hasattr(builtins, name):
                found |= {External(f"{value.name}.{name}")}
        if not found and not hasattr(builtins, name):
            return frozenset({External(name)}) if name == "torch" else self.unknown(self.scope)
        return found or frozenset({External(f"builtins.{name}")})

    def on_NamedExpr(self, node: ast.NamedExpr) -> Values:
        """`name := value`."""
        values = self.evaluate(node.value)
        self.assign(node.target, values, node)
        return values

    def on_Attribute(self, node: ast.Attribute) -> Values:
        """An attribute, by the last assignment to that path here, else by what its object holds."""
        values = self.evaluate(node.value)
        path = dotted(node) if self.rooted else None
        binding = self.env.get(path) if path else None
        if binding is not None:
            self.state.reaching[node] = binding.definitions
            return binding.values
        found = NOTHING
        for value in values:
            found |= self.attribute(value, node.attr)
        return found or self.unknown(node)

    def attribute(self, value: Value, name: str) -> Values:
        """What one attribute of one object may be."""
        if isinstance(value, External):
            return frozenset({External(f"{value.name}.{name}")})
        if isinstance(value, LocalModule):
            module = self.state.tree.modules[value.index].tree
            return self.state.scopes[module].get(name, NOTHING)
        if isinstance(value, Constant):
            return NOTHING
        self.state.use(value, name)
        found = NOTHING
        for item in (
            self.super_attribute(value, name)
            if not isinstance(value, (Instance, Class))
            else self.state.read(value, name)
        ):
            if isinstance(item, Method) and "property" in decorator_names(item.function.node):
                self.state.grow(
                    self.state.inputs,
                    (item.function.node, first_parameter(item.function.node)),
                    frozenset({item.receiver}),
                )
                found |= self.state.returns.get(item.function.node, NOTHING)
            else:
                found |= {item}
        return found

    def super_attribute(self, value: Value, name: str) -> Values:
        """An attribute looked up behind a class, or of an object without a local class."""
        if not isinstance(value, Super):
            return self.state.read(value, name)
        for base in self.state.bases(value.owner)[1:]:
            if not isinstance(base, str) and name in self.state.scopes[base]:
                return frozenset(
                    Method(item, value.receiver) if isinstance(item, Function) else item
                    for item in self.state.scopes[base][name]
                )
        return frozenset({Member(value, name)})

    def on_Subscript(self, node: ast.Subscript) -> Values:
        """An item of a container made in the program, else a new value."""
        bases = self.evaluate(node.value)
        index = self.evaluate(node.slice)
        found = NOTHING
        for base in bases:
            found |= self.items(base, [value.value for value in index if isinstance(value, Constant)])
        if found or not bases or all(isinstance(base, Pack) for base in bases):
            return found or self.unknown(node)
        return frozenset({Derived(node, shallow(bases))})

    def items(self, base: Value, keys: list[object]) -> Values:
        """The items of a container under some keys, or all of them when no key is known."""
        heap = self.state.heap
        if keys:
            found = heap.get((base, "[]"), NOTHING)
            for key in keys:
                found |= heap.get((base, f"[{key!r}]"), NOTHING)
            return found
        if not isinstance(base, Pack):
            return heap.get((base, "[]"), NOTHING)
        names = self.state.items.get(base, ())
        return frozenset().union(*(heap.get((base, name), NOTHING) for name in names if name[0] == "["))

    def on_Tuple(self, node: ast.Tuple | ast.List | ast.Set) -> Values:
        """A display with its items by position."""
        pack = Pack(node)
        for index, item in enumerate(node.elts):
            starred = isinstance(item, ast.Starred)
            values = self.evaluate(item.value if isinstance(item, ast.Starred) else item)
            self.state.store(pack, "[]" if starred else f"[{index!r}]", values)
        return frozenset({pack})

    on_List = on_Tuple
    on_Set = on_Tuple

    def on_Dict(self, node: ast.Dict) -> Values:
        """A dict display with its items by literal key."""
        pack = Pack(node)
        for key, value in zip(node.keys, node.values, strict=True):
            values = self.evaluate(value)
            keys = [item.value for item in self.evaluate(key) if isinstance(item, Constant)] if key else []
            for name in keys or [None]:
                self.state.store(pack, f"[{name!r}]" if keys else "[]", values)
        return frozenset({pack})

    def on_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Values:
        """A comprehension holds what its element may be."""
        self.generators(node.generators)
        pack = Pack(node)
        self.state.store(pack, "[]", self.evaluate(node.elt))
        return frozenset({pack})

    on_SetComp = on_ListComp
    on_GeneratorExp = on_ListComp

    def on_DictComp(self, node: ast.DictComp) -> Values:
        """A dict comprehension holds what its value may be."""
        self.generators(node.generators)
        pack = Pack(node)
        self.evaluate(node.key)
        self.state.store(pack, "[]", self.evaluate(node.value))
        return frozenset({pack})

    def generators(self, generators: list[ast.comprehension]) -> None:
        """Bind the targets of a comprehension."""
        for generator in generators:
            self.assign(
                generator.target, self.elements(self.evaluate(generator.iter), generator.iter), generator.target
            )
            for test in generator.ifs:
                self.evaluate(test)

    def elements(self, values: Values, site: ast.AST) -> Values:
        """What iterating over values may give."""
        found = NOTHING
        for value in values:
            inner = self.items(value, [])
            if not inner and isinstance(value, Pack) and not self.state.settled:
                continue
            found |= inner or ({Derived(site, value)} if depth(value) < 4 else {Derived(site)})
        return found

    def on_IfExp(self, node: ast.IfExp) -> Values:
        """Either of two."""
        self.evaluate(node.test)
        return self.evaluate(node.body) | self.evaluate(node.orelse)

    def on_BoolOp(self, node: ast.BoolOp) -> Values:
        """Any of the operands."""
        return frozenset().union(*(self.evaluate(value) for value in node.values))

    def on_Await(self, node: ast.Await) -> Values:
        """What is awaited."""
        return self.evaluate(node.value)

    def on_Starred(self, node: ast.Starred) -> Values:
        """What is unpacked."""
        return self.evaluate(node.value)

    def on_Lambda(self, node: ast.Lambda) -> Values:
        """A lambda's body is read for its uses, with its parameters unknown."""
        saved = dict(self.env)
        for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            self.env[item.arg] = Binding(frozenset({Derived(item)}), frozenset())
        self.evaluate(node.body)
        self.env = saved
        return frozenset({Derived(node)})

    def on_Call(self, node: ast.Call) -> Values:
        """A call; see `speedpatch.facts.calls`."""
        return calls.call(self, node)

    def assign(self, target: ast.expr, values: Values, statement: ast.AST) -> None:
        """Bind a target: a name here and now, an attribute or item in its object."""
        if isinstance(target, ast.Name):
            self.env[target.id] = Binding(values, frozenset({statement}))
            self.state.bind(self.scope_of(target.id), target.id, values)
            self.state.values[target] = values
            if target.id in self.rooted:
                for path in [path for path in self.env if path.startswith(target.id + ".")]:
                    del self.env[path]
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target.elts, values, statement)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, values, statement)
        elif isinstance(target, ast.Attribute):
            self.assign_attribute(target, values, statement)
        elif isinstance(target, ast.Subscript):
            keys = [value.value for value in self.evaluate(target.slice) if isinstance(value, Constant)]
            for base in self.evaluate(target.value):
                self.state.store(base, f"[{keys[0]!r}]" if keys else "[]", values)
            self.touch(target.value, statement)

    def scope_of(self, name: str) -> ast.AST:
        """The scope that an assignment to a name binds it in."""
        return self.scope

    def unpack(self, targets: list[ast.expr], values: Values, statement: ast.AST) -> None:
        """Bind several targets to the items of a container."""
        for index, target in enumerate(targets):
            found = NOTHING
            for value in values:
                items = self.items(value, [index])
                found |= items or ({Derived(target, value)} if depth(value) < 4 else {Derived(target)})
            self.assign(target, found, statement)

    def assign_attribute(self, target: ast.Attribute, values: Values, statement: ast.AST) -> None:
        """Bind an attribute: for good in the object, and for what follows here under its path."""
        for value in self.evaluate(target.value):
            self.state.store(value, target.attr, values)
        self.state.values[target] = values
        path = dotted(target)
        if path:
            self.rooted.add(path.partition(".")[0])
            self.env[path] = Binding(values, frozenset({statement}))

    def touch(self, node: ast.expr, statement: ast.AST) -> None:
        """Record that a statement changes the object that a path stands for."""
        path = dotted(node)
        while path is None and isinstance(node, (ast.Subscript, ast.Attribute)):
            node = node.value
            path = dotted(node)
        binding = self.env.get(path) if path else None
        if path and binding is not None:
            self.env[path] = Binding(binding.values, binding.definitions | {statement})
        elif path and "." in path:
            self.rooted.add(path.partition(".")[0])
            self.env[path] = Binding(self.state.values.get(node, NOTHING), frozenset({statement}))


def dotted(node: ast.expr) -> str | None:
    """`a.b.c` as text when an expression is such a path."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else None
    return None


def decorator_names(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The plain names among a function's decorators."""
    return {item.id for item in node.decorator_list if isinstance(item, ast.Name)}


def first_parameter(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The name of the first parameter, or nothing."""
    every = [*node.args.posonlyargs, *node.args.args]
    return every[0].arg if every else ""


def shallow(values: Values) -> Value | None:
    """The one object behind values, if it is one and not far derived."""
    if len(values) != 1:
        return None
    (value,) = values
    return value if depth(value) < 4 else None
