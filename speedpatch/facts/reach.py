"""Bring one new object to every place that needs it: where it is made, and how each function gets at it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice, product

from speedpatch.edits import AddArgument, AddParameter
from speedpatch.facts.facts import Facts
from speedpatch.facts.origins import handed_on
from speedpatch.facts.state import parameters_of
from speedpatch.facts.tree import position
from speedpatch.facts.values import FUNCTIONS, LOOPS, Function, FunctionNode, Instance, Value

Scope = ast.Module | FunctionNode


@dataclass(frozen=True)
class Home:
    """A place to make the object: behind `anchor` in `scope`, or `before` it; with `owner` it becomes an attribute."""

    anchor: ast.stmt
    scope: Scope
    owner: ast.ClassDef | None = None
    before: bool = False

    def target(self, name: str) -> str:
        """What the object is assigned to."""
        if self.owner is None:
            return name
        assert isinstance(self.scope, FUNCTIONS)
        return f"{parameters_of(self.scope)[0]}.{name}"


@dataclass(frozen=True)
class Obstacle:
    """Why the object cannot be brought to a place."""

    code: str
    node: ast.AST
    reason: str


Place = tuple[Scope, ast.ClassDef | None]
Bindings = dict[ast.stmt, set[Value]]
CHOICES = 24


def homes(facts: Facts, companions: Iterable[Value]) -> list[tuple[Home, ...]]:
    """The ways to make an object beside others: one in a place that binds all of them, else one for each group.

    Companions belong together when one scope binds them; two functions that each make an optimizer of their own, or
    two scripts that share a loop, need an object each. A scope that makes them again for another run gets it again.
    The last way is a home everywhere, of which `Reach` keeps those that it uses.
    """
    wanted = frozenset(companions)
    places = bindings(facts, wanted)
    found = ways(facts, wanted, places)
    groups = together_by_scope(wanted, places)
    if not found and len(groups) > 1:
        choices = [ways(facts, group, places) for group in groups]
        found = [tuple(home for way in chosen for home in way) for chosen in islice(product(*choices), CHOICES)]
    found.sort(key=lambda way: [(home.owner is None, position(home.anchor)) for home in way])
    everywhere = tuple(dict.fromkeys(home for way in found for home in way))
    return [*found, everywhere] if len(found) > 1 else found


def bindings(facts: Facts, wanted: frozenset[Value]) -> dict[Place, Bindings]:
    """The statements that bind companions, by the scope or class that they are bound in."""
    places: dict[Place, Bindings] = {}
    for node in facts.tree.parents:
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Store):
            continue
        held = set(facts.values(node)) & wanted
        statement = facts.tree.statement(node)
        if not held or not isinstance(statement, (ast.Assign, ast.AnnAssign)) or not facts.is_editable(node):
            continue
        scope = facts.tree.scope(node)
        owner = attribute_owner(facts, node, scope) if isinstance(node, ast.Attribute) else None
        made_here = isinstance(node, ast.Name) and not is_given(facts, statement)
        if (owner is not None or made_here) and facts.sites.is_live(node):
            places.setdefault((scope, owner), {}).setdefault(statement, set()).update(held)
    return places


def is_given(facts: Facts, statement: ast.Assign | ast.AnnAssign) -> bool:
    """Whether a statement only gives a name to what its function was given, or to a part of that."""
    node = statement.value
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    definitions = facts.state.reaching.get(node, frozenset()) if isinstance(node, ast.Name) else frozenset()
    return bool(definitions) and all(isinstance(item, FUNCTIONS) for item in definitions)


def ways(facts: Facts, wanted: frozenset[Value], places: dict[Place, Bindings]) -> list[tuple[Home, ...]]:
    """The places that bind all of some companions."""
    found = []
    for (scope, owner), statements in places.items():
        mine = {statement: held & wanted for statement, held in statements.items() if held & wanted}
        if mine and frozenset().union(*mine.values()) == wanted:
            anchors = [together(facts, run) for run in runs(facts, sorted(mine, key=position))]
            way = tuple(Home(anchor, scope, owner) for anchor in anchors if anchor is not None)
            if len(way) == len(anchors):
                found.append(way)
    binding = {statement for statements in places.values() for statement in statements}
    return [*found, *((home,) for home in nameless(facts, set(wanted)) if home.anchor not in binding)]


def together_by_scope(wanted: frozenset[Value], places: dict[Place, Bindings]) -> list[frozenset[Value]]:
    """The companions in groups: those that one place binds belong together."""
    groups: list[frozenset[Value]] = []
    for held in [*(frozenset().union(*statements.values()) for statements in places.values()), *({v} for v in wanted)]:
        touching = [group for group in groups if group & held]
        groups = [group for group in groups if not group & held]
        groups.append(frozenset(held).union(*touching))
    return sorted(groups, key=lambda group: sorted(map(repr, group)))


def runs(facts: Facts, statements: list[ast.stmt]) -> list[list[ast.stmt]]:
    """The bindings of a scope, apart where training stands between them: what follows is another run."""
    found = [statements[:1]]
    for statement in statements[1:]:
        if trains_between(facts, found[-1][-1], statement):
            found.append([])
        found[-1].append(statement)
    return found


def trains_between(facts: Facts, first: ast.stmt, second: ast.stmt) -> bool:
    """Whether a scope trains, or calls what does, behind one statement and ahead of another."""
    block = facts.tree.common_block(first, second)
    start = facts.tree.lift(first, block) if block is not None else None
    end = facts.tree.lift(second, block) if block is not None else None
    if block is None or start is None or end is None:
        return False
    return any(facts.sites.contains_backward(item) for item in block[block.index(start) + 1 : block.index(end)])


def nameless(facts: Facts, wanted: set[Value]) -> list[Home]:
    """Companions that are made inside a call, `fit(net, Adam(...))`: ahead of that statement."""
    sites = [value.site for value in wanted if isinstance(value, Instance) and isinstance(value.site, ast.Call)]
    statements = sorted({facts.tree.statement(site) for site in sites if facts.is_editable(site)}, key=position)
    if not statements or len(sites) < len(wanted) or len({facts.tree.scope(statement) for statement in statements}) > 1:
        return []
    block = facts.tree.common_block(*statements)
    anchor = facts.tree.lift(statements[0], block) if block is not None else None
    return [Home(anchor, facts.tree.scope(anchor), before=True)] if anchor is not None else []


def attribute_owner(facts: Facts, node: ast.Attribute, scope: ast.AST) -> ast.ClassDef | None:
    """The class whose method writes `self.x`."""
    owner = facts.tree.owner(scope)
    if owner is None or not isinstance(scope, FUNCTIONS) or not isinstance(node.value, ast.Name):
        return None
    names = parameters_of(scope)
    return owner if names and node.value.id == names[0] else None


def together(facts: Facts, statements: list[ast.stmt]) -> ast.stmt | None:
    """Behind all bindings; ahead of a loop that binds again, behind the first."""
    last = last_together(facts, statements)
    if not isinstance(last, LOOPS):
        return last
    block = facts.tree.common_block(*statements)
    first = facts.tree.lift(statements[0], block) if block is not None else None
    return None if isinstance(first, LOOPS) else first


def last_together(facts: Facts, statements: list[ast.stmt]) -> ast.stmt | None:
    """The statement behind which all of several have run, whichever branch was taken."""
    block = facts.tree.common_block(*statements)
    return facts.tree.lift(statements[-1], block) if block is not None else None


@dataclass
class Reach:
    """Finds the expression for a new object in each scope; collects the parameters and arguments it takes."""

    facts: Facts
    homes: tuple[Home, ...]
    name: str
    companions: frozenset[Value]
    spelled: dict[ast.AST, str | Obstacle] = field(default_factory=dict)
    edits: list[AddArgument | AddParameter] = field(default_factory=list)
    used: dict[Home, None] = field(default_factory=dict)

    def keep_used(self) -> None:
        """Forget the homes that nothing is brought from."""
        self.homes = tuple(home for home in self.homes if self.home_in(home.scope) in self.used)

    def home_in(self, scope: ast.AST) -> Home | None:
        """The first home in a scope."""
        return next((home for home in self.homes if home.scope is scope), None)

    def made_by(self, node: ast.AST) -> bool:
        """Whether the object exists when control is at a node, as far as its own scope tells."""
        home = self.home_in(self.facts.tree.scope(node))
        if home is None:
            return True
        return position(node) >= position(home.anchor) if home.before else position(node) > position(home.anchor)

    def expression(self, scope: Scope) -> str | Obstacle:
        """How `scope` spells the object."""
        if scope in self.spelled:
            return self.spelled[scope]
        direct = self.direct(scope)
        if direct is not None:
            self.spelled[scope] = direct
            return direct
        known, edits = dict(self.spelled), list(self.edits)
        self.spelled[scope] = self.name  # a recursion finds its own parameter
        result = self.threaded(scope)
        if isinstance(result, Obstacle):
            self.spelled, self.edits = {**known, scope: result}, edits
        return result

    def direct(self, scope: Scope) -> str | None:
        """Without a new parameter: an attribute of self, a name of this scope or of one around it."""
        for home in self.homes:
            text = self.direct_from(home, scope)
            if text is not None:
                self.used[home] = None
                return text
        return None

    def direct_from(self, home: Home, scope: Scope) -> str | None:
        """The same for one home."""
        around = [scope, *(up for up in self.facts.tree.above(scope) if isinstance(up, (*FUNCTIONS, ast.Module)))]
        if home.owner is not None:
            for up in around:
                owner = self.facts.tree.owner(up)
                if owner is not None and isinstance(up, FUNCTIONS) and self.related(home.owner, owner):
                    names = parameters_of(up)
                    return f"{names[0]}.{self.name}" if names else None
            return None
        if home.scope not in around or (home.scope is not scope and self.given_companion(scope)):
            return None
        return self.name

    def given_companion(self, scope: Scope) -> bool:
        """Whether a function gets a companion as a parameter, so that the object comes the same way."""
        names = parameters_of(scope) if isinstance(scope, FUNCTIONS) else []
        return any(self.facts.state.scopes[scope].get(name, frozenset()) & self.companions for name in names)

    def related(self, mine: ast.ClassDef, owner: ast.ClassDef) -> bool:
        """Whether objects of a class carry the attributes of another."""
        return owner in self.facts.state.bases(mine) or mine in self.facts.state.bases(owner)

    def threaded(self, scope: Scope) -> str | Obstacle:
        """By a new parameter that every call fills."""
        if not isinstance(scope, FUNCTIONS):
            return Obstacle("scope", self.homes[0].anchor, self.out_of_reach())
        obstacle = self.callable_by_all(scope)
        if obstacle is not None:
            return obstacle
        after = self.neighbour(scope)
        self.edits.append(AddParameter(self.facts.path(scope), scope, parameter_text(scope, self.name, after), after))
        for call in self.live_callers(scope):
            if self.without_companion(scope, call, after):
                continue
            inner = self.expression(self.facts.tree.scope(call))
            if isinstance(inner, Obstacle):
                return inner
            if not self.made_by(call):
                return Obstacle("before-optimizer", call, "this runs before the optimizer is made")
            self.edits.append(self.argument(scope, call, inner, after))
        return self.name

    def out_of_reach(self) -> str:
        """Why code at module level cannot get at the object."""
        home = self.homes[0].scope
        if not isinstance(home, FUNCTIONS):
            return "the loop is at module level and the optimizer is not"
        if self.facts.state.declared.get(home):
            return f"{home.name}() binds the optimizer by `global`: bind it at module level"
        return f"the optimizer is built in {home.name}() but used at module level: return it from there"

    def live_callers(self, scope: FunctionNode) -> list[ast.Call]:
        """The calls of a function that a run may get to."""
        return [call for call in self.facts.state.callers.get(scope, ()) if self.facts.sites.is_live(call)]

    def callable_by_all(self, scope: FunctionNode) -> Obstacle | None:
        """Whether all calls of a function are known and can be edited."""
        callers = self.live_callers(scope)
        if not callers:
            return Obstacle(
                "no-callers", scope, f"nothing in this file calls {scope.name}(), so nothing can pass it a scaler"
            )
        unpacked = next((call for call in callers if any(isinstance(item, ast.Starred) for item in call.args)), None)
        if unpacked is not None:
            return Obstacle(
                "unpacked-arguments", unpacked, f"{scope.name}() is called with unpacked positional arguments"
            )
        if scope.args.vararg is not None:
            return Obstacle(
                "unpacked-arguments", scope, f"{scope.name}() takes *{scope.args.vararg.arg}: give it named parameters"
            )
        obstacle = self.signature_is_fixed(scope)
        if obstacle is not None:
            return obstacle
        foreign = [node for node in [scope, *callers] if not self.facts.is_editable(node)]
        if foreign:
            return Obstacle(
                "other-file", foreign[0], f"{scope.name}() or a call of it is in a file that may not be edited"
            )
        node = handed_on(self.facts, scope)
        if node is not None:
            return Obstacle(
                "function-as-value", node, f"{scope.name} is passed around as a value, so its calls cannot be followed"
            )
        return None

    def signature_is_fixed(self, scope: FunctionNode) -> Obstacle | None:
        """What else knows the parameters of a function: a decorator's wrapper, or a method of the same name."""
        for item in scope.decorator_list:
            wrappers = [value.node for value in self.facts.values(item) if isinstance(value, Function)]
            if any(not hands_on_anything(wrapper) for wrapper in wrappers):
                return Obstacle("decorated", scope, f"a decorator of {scope.name}() knows its parameters")
        owner = self.facts.tree.owner(scope)
        if owner is None or scope.name == "__init__":
            return None
        for other, lineage in self.facts.state.lineage.items():
            related = other is not owner and (owner in lineage or other in self.facts.state.bases(owner))
            if related and scope.name in self.facts.state.scopes[other]:
                return Obstacle(
                    "overridden", scope, f"{scope.name}() is also a method of {other.name}, which would differ"
                )
        return None

    def neighbour(self, scope: FunctionNode) -> str | None:
        """The parameter to stand behind: the last one that holds a companion, else the last without a default."""
        positional = [item.arg for item in (*scope.args.posonlyargs, *scope.args.args)]
        holding = [
            name for name in positional if self.facts.state.scopes[scope].get(name, frozenset()) & self.companions
        ]
        if holding:
            return holding[-1]
        required = positional[: len(positional) - len(scope.args.defaults)]
        return required[-1] if required else None

    def without_companion(self, scope: FunctionNode, call: ast.Call, after: str | None) -> bool:
        """Whether a call leaves the companion's parameter at its default, so that it needs the object no more."""
        optional = after is not None and parameter_text(scope, self.name, after) != self.name
        default = default_of(scope, after) if after is not None else None
        empty = isinstance(default, ast.Constant) and default.value is None
        return optional and empty and after not in self.facts.state.arguments.get((call, scope), {})

    def argument(self, scope: FunctionNode, call: ast.Call, text: str, after: str | None) -> AddArgument:
        """The argument of one call: behind the neighbour's when that is positional, else by keyword."""
        path = self.facts.path(call)
        given = self.facts.state.arguments.get((call, scope), {}).get(after or "")
        if given is not None and given in call.args:
            return AddArgument(path, call, text, given)
        keyword = next((item for item in call.keywords if item.value is given), None) if given is not None else None
        positional = [item.arg for item in (*scope.args.posonlyargs, *scope.args.args)]
        bound = 1 if self.facts.tree.owner(scope) is not None else 0
        first = after is None or positional.index(after) + 1 == bound
        if first and not call.args and not call.keywords:
            return AddArgument(path, call, text, None)
        return AddArgument(path, call, f"{self.name}={text}", keyword)


def default_of(scope: FunctionNode, name: str) -> ast.expr | None:
    """The default of a positional parameter."""
    positional = [item.arg for item in (*scope.args.posonlyargs, *scope.args.args)]
    defaults = dict(zip(reversed(positional), reversed(scope.args.defaults), strict=False))
    return defaults.get(name)


def hands_on_anything(decorator: FunctionNode) -> bool:
    """Whether the functions that a decorator makes take whatever they are given."""
    inner = [node for node in ast.walk(decorator) if isinstance(node, FUNCTIONS) and node is not decorator]
    return all(node.args.vararg is not None and node.args.kwarg is not None for node in inner)


def parameter_text(scope: FunctionNode, name: str, after: str | None) -> str:
    """The new parameter, with a default where one before it has one."""
    positional = [item.arg for item in (*scope.args.posonlyargs, *scope.args.args)]
    required = positional[: len(positional) - len(scope.args.defaults)]
    return name if (after is None and not scope.args.defaults) or after in required else f"{name}=None"
