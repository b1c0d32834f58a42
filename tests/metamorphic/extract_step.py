"""Move the forward pass and the loss of a training step, or the whole step, into a function of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.metamorphic.scopes import Callable, Scope, Scopes, Use
from tests.metamorphic.text import (
    NotApplicable,
    Text,
    free_name,
    indentation,
    indentation_unit,
    reindent,
    replace_spans,
    with_newline,
)

BLOCKS = ("body", "orelse", "finalbody")
TRANSFERS = {"to", "cuda", "zero_grad", "step", "backward", "item", "update", "scale", "unscale_"}


def extract_step(text: str, *, whole: bool = False) -> str:
    """The program with the first training step's forward and loss moved out; `whole`: up to the optimizer's step."""
    program = Program(text)
    site = next((site for site in program.sites() if site is not None), None)
    if site is None:
        raise NotApplicable("no backward whose loss is made beside it")
    result = program.extract(program.widen(site) if whole else site)
    compile(result, "<extract_step>", "exec")
    return result


@dataclass(frozen=True)
class Region:
    """What moves: statements of one body, or an expression (then `statements` holds the one around it)."""

    statements: tuple[ast.stmt, ...]
    following: tuple[ast.stmt, ...]
    scope: Scope
    expression: ast.expr | None = None

    @property
    def lines(self) -> range:
        """The lines that the statements take."""
        return range(self.statements[0].lineno, (self.statements[-1].end_lineno or 0) + 1)


class Program:
    """One program whose step is moved."""

    def __init__(self, text: str) -> None:
        self.source = Text(text)
        self.tree = ast.parse(text)
        self.scopes = Scopes(self.source, self.tree)
        self.uses = self.scopes.uses
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def sites(self) -> Iterator[Region | None]:
        """For every `x.backward()` in the order of the text, what makes `x`."""
        methods = [node for node in ast.walk(self.tree) if isinstance(node, ast.Attribute) and node.attr == "backward"]
        for method in sorted(methods, key=lambda node: (node.lineno, node.col_offset)):
            loss, scope = method.value, self.scope_of(method)
            if isinstance(loss, ast.Name):
                yield self.statements_before(self.statement_of(method), loss.id, scope)
            elif contains_call(loss) and not is_method_call(loss, *TRANSFERS):
                yield Region((self.statement_of(method),), (), scope, loss)

    def statements_before(self, statement: ast.stmt, name: str, scope: Scope) -> Region | None:
        """The neighbours before a statement, or before one around it, that make a variable."""
        body = self.body_of(statement)
        index = body.index(statement)
        stores = [place for place in range(index) if name in stored(body[place])]
        chosen: list[ast.stmt] = []
        for place in range(stores[-1] if stores else -1, -1, -1):
            if not is_plain(body[place]):
                if any(contains_call(part) for part in chosen) or not is_logging(body[place]):
                    break
                chosen = []
            else:
                chosen.insert(0, body[place])
        if any(contains_call(part) for part in chosen):
            return Region(tuple(chosen), tuple(body[body.index(chosen[-1]) + 1 :]), scope)
        around = self.parents[statement]
        if not isinstance(around, ast.If | ast.With) or self.scope_of(around) is not scope:
            return None
        return self.statements_before(around, name, scope)

    def widen(self, site: Region) -> Region:
        """The region up to the last optimizer step of its body."""
        steps = [place for place, part in enumerate(site.following) if contains_step(part)]
        if site.expression is not None or not steps:
            raise NotApplicable("backward and step do not stand in the body that makes the loss")
        chosen = (*site.statements, *site.following[: steps[-1] + 1])
        jumps = ast.Break | ast.Continue | ast.Return
        if any(isinstance(node, jumps) for part in chosen for node in ast.walk(part)):
            raise NotApplicable("the step leaves the loop")
        return Region(chosen, site.following[steps[-1] + 1 :], site.scope)

    def extract(self, region: Region) -> str:
        """The text with the region in a function and a call in its place."""
        parts: Sequence[ast.AST] = region.statements if region.expression is None else [region.expression]
        nodes = {node for part in parts for node in ast.walk(part)}
        if any(isinstance(node, ast.Yield | ast.YieldFrom | ast.Await | ast.NamedExpr) for node in nodes):
            raise NotApplicable("the step does more than compute")
        inside = [use for use in self.uses if use.node in nodes]
        self.check_scopes(inside, region.scope)
        needed, certain = reads_and_writes(parts)
        ours = {use.name for use in inside if self.is_passed(use, region.scope)}
        returned = self.returned(region, nodes)
        if not set(returned) <= certain | needed:
            raise NotApplicable("the step may leave a variable unset")
        arguments = [name for name in ordered(inside) if name in needed & ours]
        self.check_bound(arguments, nodes, region.scope)
        return self.write(region, arguments, returned)

    def check_scopes(self, inside: Sequence[Use], scope: Scope) -> None:
        """Refuse a region that binds variables which other functions see."""
        for use in inside:
            if is_store(use.node) and use.scope is not None and use.scope.kind != "comprehension":
                others = {other.inside for other in self.uses if other.name == use.name and other.scope is use.scope}
                if use.scope is not scope or any(not is_part(other, scope) for other in others):
                    raise NotApplicable(f"{use.name} is seen by other functions")

    def check_bound(self, arguments: Sequence[str], nodes: set[ast.AST], scope: Scope) -> None:
        """Refuse to read a variable for the call that only an earlier pass of the region can have bound."""
        outside = {use.name for use in self.uses if use.scope is scope and use.node not in nodes and binds(use)}
        if not set(arguments) <= outside:
            raise NotApplicable("the step reads what only an earlier step has set")

    def is_passed(self, use: Use, scope: Scope) -> bool:
        """Whether a variable has to be handed to the function: not what every function sees anyway."""
        fixed = use.name in self.scopes.module.imported or use.name in self.scopes.module.definitions
        return use.scope is scope and not (scope.kind == "module" and fixed) and use.name not in scope.imported

    def returned(self, region: Region, nodes: set[ast.AST]) -> list[str]:
        """The variables bound by the region that are read elsewhere, in the order of the text."""
        bound = [use for use in self.uses if use.node in nodes and is_store(use.node) and use.scope is region.scope]
        read = {
            use.name
            for use in self.uses
            if use.node not in nodes and use.scope is region.scope and not is_store(use.node)
        }
        return [name for name in ordered(bound) if name in read]

    def write(self, region: Region, arguments: list[str], returned: list[str]) -> str:
        """Put the function before the definition or statement around the region, as a method in a class."""
        source, unit = self.source, indentation_unit(self.source, self.tree)
        holder, prefix, call_prefix = self.place(region, arguments)
        name = free_name(source.text, "_forward_step" if call_prefix else "forward_step")
        others = [part for part in arguments if part != call_prefix]
        parameters = [call_prefix, *others] if call_prefix else others
        call = f"{call_prefix}.{name}" if call_prefix else name
        call = f"{call}({', '.join(others)})"
        body = self.body_lines(region, prefix + unit)
        if region.expression is None and returned:
            body.append(f"{prefix}{unit}return {', '.join(returned)}{source.newline}")
            call = f"{', '.join(returned)} = {call}"
        head = f"{prefix}def {name}({', '.join(parameters)}):{source.newline}"
        gap = [source.newline] * (1 if prefix else 2)
        start = self.first_line(holder)
        at = source.starts[start - 1]
        definition = "".join([head, *with_newline(body, source.newline), *gap])
        return replace_spans(source.text, [(at, at, definition), self.replacement(region, call)])

    def place(self, region: Region, arguments: list[str]) -> tuple[ast.stmt, str, str]:
        """The statement to stand before, the indentation there, and the object's name in a method."""
        function = region.scope.node
        around = self.parents.get(function)
        first = [part.arg for part in function.args.args[:1]] if isinstance(function, Callable) else []
        if isinstance(around, ast.ClassDef) and isinstance(function, Callable) and first and first[0] in arguments:
            return function, indentation(self.source, function.lineno), first[0]
        statement = region.statements[0]
        while not isinstance(self.parents[statement], ast.Module):
            parent = self.parents[statement]
            statement = parent if isinstance(parent, ast.stmt) else self.statement_of(parent)
        return statement, "", ""

    def body_lines(self, region: Region, prefix: str) -> list[str]:
        source = self.source
        if region.expression is not None:
            value = source.segment(region.expression)
            if "\n" in value:
                raise NotApplicable("the loss goes over several lines")
            return [f"{prefix}return {value}"]
        first, last = region.lines[0], region.lines[-1]
        tail = source.text[source.end(region.statements[-1]) : source.starts[last]].strip()
        old = indentation(source, first)
        alone = source.start(region.statements[0]) == source.starts[first - 1] + len(old)
        if not alone or (tail and not tail.startswith("#")):
            raise NotApplicable("the step shares a line with something else")
        return reindent(source, first, last, old, prefix)

    def replacement(self, region: Region, call: str) -> tuple[int, int, str]:
        if region.expression is not None:
            return self.source.start(region.expression), self.source.end(region.expression), call
        return self.source.start(region.statements[0]), self.source.end(region.statements[-1]), call

    def first_line(self, statement: ast.stmt) -> int:
        decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
        return min([statement.lineno, *(mark.lineno for mark in decorators)])

    def statement_of(self, node: ast.AST) -> ast.stmt:
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def body_of(self, statement: ast.stmt) -> list[ast.stmt]:
        parent = self.parents[statement]
        bodies = [getattr(parent, block, []) for block in (*BLOCKS, "handlers")]
        return next(body for body in bodies if isinstance(body, list) and statement in body)

    def scope_of(self, node: ast.AST) -> Scope:
        while node not in self.scopes.scopes:
            node = self.parents[node]
        return self.scopes.scopes[node]


def is_part(scope: Scope, home: Scope) -> bool:
    """Whether a scope is another one, or a comprehension in it."""
    return scope is home or (scope.kind == "comprehension" and scope.parent is not None and is_part(scope.parent, home))


def is_store(node: ast.AST) -> bool:
    """Whether a node binds a name."""
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)


def binds(use: Use) -> bool:
    """Whether a use binds its name: a target, a parameter, a definition."""
    return is_store(use.node) or use.attribute in ("arg", "name")


def is_method_call(node: ast.AST, *names: str) -> bool:
    """Whether a node is `something.name(...)`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names


def contains_call(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Call) for part in ast.walk(node))


def contains_step(node: ast.AST) -> bool:
    """Whether a statement steps an optimizer; a scheduler's step is as good, it stands behind."""
    return any(is_method_call(part, "step") for part in ast.walk(node))


def is_plain(statement: ast.stmt) -> bool:
    """Whether a statement computes: no transfer, no step, nothing that is only written down."""
    if not isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
        return False
    return not any(is_method_call(node, *TRANSFERS) for node in ast.walk(statement))


def is_logging(statement: ast.stmt) -> bool:
    """Whether a statement reads a loss as a number and keeps it."""
    reads = any(is_method_call(node, "item") for node in ast.walk(statement))
    return isinstance(statement, ast.Assign | ast.AugAssign) and reads


def stored(statement: ast.stmt) -> set[str]:
    """The names that a statement itself binds."""
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
        return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and is_store(node)}
    return set()


def ordered(uses: Sequence[Use]) -> list[str]:
    """The names of uses, in the order of the text."""
    return list(dict.fromkeys(use.name for use in sorted(uses, key=lambda use: use.start)))


def reads_and_writes(parts: Sequence[ast.AST]) -> tuple[set[str], set[str]]:
    """What is read before it is surely written, and what is surely written."""
    needed: set[str] = set()
    certain: set[str] = set()
    for part in parts:
        if isinstance(part, ast.With | ast.If):
            heads = [part.test] if isinstance(part, ast.If) else part.items
            inner, written = reads_and_writes(part.body)
            other, also = reads_and_writes(part.orelse) if isinstance(part, ast.If) else (set(), written)
            needed |= (loaded(*heads) | inner | other) - certain
            certain |= written & also
        else:
            target = part.target if isinstance(part, ast.AugAssign) else None
            needed |= (loaded(part) | ({target.id} if isinstance(target, ast.Name) else set())) - certain
            certain |= stored(part) if isinstance(part, ast.stmt) else set()
    return needed, certain


def loaded(*nodes: ast.AST) -> set[str]:
    """The names that nodes read."""
    parts = [part for node in nodes for part in ast.walk(node)]
    return {part.id for part in parts if isinstance(part, ast.Name) and not is_store(part)}
