"""Which expressions hold half-precision tensors once the regions run under autocast, and which certainly do not."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

from speedpatch.facts.state import external_names
from speedpatch.facts.tree import position
from speedpatch.facts.values import FUNCTIONS, Constant, Derived, Function, Instance, Member, Pack, Parameter, Value

from .context import Amp

HALF, FLOAT, OTHER = "half", "float", "other"
"""What an expression may be: an output in half precision, a float32 tensor, or something that a cast would change."""

MOVING = {
    "detach", "view", "view_as", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "t", "flatten",
    "contiguous", "clone", "relu", "clamp", "data", "T", "expand", "repeat", "cpu", "cuda", "to", "abs", "dropout",
    "pad", "narrow", "index_select", "gather", "masked_select", "unbind", "chunk", "split",
}  # fmt: skip
"""Methods, attributes and functions that give what they are given in another shape or place."""
COMPUTING = {
    "sigmoid", "softmax", "softmin", "log_softmax", "logsigmoid", "exp", "expm1", "tanh", "softplus", "logsumexp",
    "log", "log1p", "log2", "log10", "sqrt", "square", "pow", "norm", "normalize", "sum", "mean", "prod", "var", "std",
    "cumsum", "cumprod", "interpolate",
}  # fmt: skip
"""Those that round what they compute to the dtype that they are given, outside of autocast."""
KEEPING = MOVING - {"to"} | COMPUTING
"""Methods, attributes and functions whose result has the dtype of what they are given."""
JOINING = {"cat", "concat", "concatenate", "stack", "vstack", "hstack", "row_stack"}
PAIRS = {"max", "min", "topk", "sort", "kthvalue", "median"}
"""Methods that give values and indices."""
FLOAT32 = {"torch.float32", "torch.float", "torch.float64", "torch.double"}
FACTORIES = {
    "torch.zeros", "torch.ones", "torch.empty", "torch.rand", "torch.randn", "torch.Tensor", "torch.FloatTensor",
}  # fmt: skip
ARRAYS = ("numpy.", "scipy.", "sklearn.", "pandas.", "matplotlib.")
"""Libraries whose functions turn the tensors that they are given into arrays."""
HOOKS = {"register_forward_hook": 2, "register_forward_pre_hook": 1}
"""Which parameter of a hook is what its module gives or is given."""


@dataclass
class Halves:
    """Follows values from the modules that run under autocast to where they are read; `casts` get a `.float()`."""

    amp: Amp
    covered: Collection[ast.AST]
    casts: frozenset[ast.AST] = frozenset()
    memo: dict[object, frozenset[str]] = field(default_factory=dict)

    def holds_half(self, node: ast.expr) -> bool:
        """Whether an expression is an output of a model at half precision, and never what a cast would harm."""
        kinds = self.kinds(node)
        packed = any(isinstance(value, Pack) and self.of_value(value) for value in self.amp.facts.values(node))
        return HALF in kinds and OTHER not in kinds and not packed

    def kinds(self, node: ast.AST) -> frozenset[str]:
        """What an expression may be; one that is being looked at adds nothing of its own."""
        if node in self.casts:
            return frozenset({FLOAT})
        if node not in self.memo:
            self.memo[node] = frozenset()
            self.memo[node] = self.of_node(node)
        return self.memo[node]

    def of_node(self, node: ast.AST) -> frozenset[str]:
        """By the assignments that an expression takes its value from where they are known, else by its values."""
        if isinstance(node, ast.Subscript) and self.pair(node.value):
            first = isinstance(node.slice, ast.Constant) and node.slice.value == 0
            return self.kinds(node.value.func.value) if first else frozenset({OTHER})  # type: ignore[attr-defined]
        if isinstance(node, ast.Call) and self.runs_in_float32(node):
            return frozenset({FLOAT})
        definitions = self.amp.facts.state.reaching.get(node, frozenset())
        sources = [item.value for item in definitions if is_plain(item)]  # type: ignore[attr-defined]
        if sources and len(sources) == len(definitions):
            return frozenset().union(*(self.kinds(source) for source in sorted(sources, key=position)))
        values = self.amp.facts.values(node)
        return frozenset().union(*(self.of_value(value) for value in sorted(values, key=repr)))

    def of_value(self, value: Value) -> frozenset[str]:
        """What one value is; a value that is being looked at adds nothing of its own."""
        if value not in self.memo:
            self.memo[value] = frozenset()
            self.memo[value] = self.look(value)
        return self.memo[value]

    def look(self, value: Value) -> frozenset[str]:
        """Without the memo."""
        if isinstance(value, Constant) and value.value is None:
            return frozenset()
        if isinstance(value, Pack):
            heap = self.amp.facts.state.heap
            names = sorted(self.amp.facts.state.items.get(value, ()))
            items = {item for name in names if name[0] == "[" for item in heap.get((value, name), ())}
            return frozenset().union(*(self.of_value(item) for item in items))
        if isinstance(value, Member):
            return self.of_member(value)
        if isinstance(value, Parameter) and (value.function, value.name) in self.hooked:
            return frozenset({HALF})
        if isinstance(value, (Derived, Instance)) and isinstance(value.site, ast.expr):
            return frozenset({FLOAT}) if value.site in self.casts else self.of_site(value, value.site)
        if isinstance(value, Derived) and isinstance(value.site, ast.AugAssign):
            return self.kinds(value.site.value)
        return frozenset({OTHER})

    def of_member(self, value: Member) -> frozenset[str]:
        """`x.data`; `out.logits` of a model from outside the program."""
        if value.name in KEEPING:
            return self.of_value(value.base)
        site = value.base.site if isinstance(value.base, Derived) else None
        given = isinstance(site, ast.Call) and self.runs_module(site)
        return self.of_value(value.base) if given else frozenset({OTHER})

    def of_site(self, value: Derived | Instance, site: ast.expr) -> frozenset[str]:
        """What the expression that made a value gives."""
        if isinstance(site, ast.Call):
            return self.of_call(value, site)
        if isinstance(site, ast.BinOp):
            sides = self.kinds(site.left) | self.kinds(site.right)
            return frozenset({HALF}) if HALF in sides else frozenset({FLOAT}) if FLOAT in sides else frozenset({OTHER})
        if isinstance(site, ast.UnaryOp) and isinstance(site.op, ast.USub):
            return self.kinds(site.operand)
        if isinstance(site, ast.Subscript):
            return self.kinds(site.value)
        base = value.base if isinstance(value, Derived) else None
        return self.of_value(base) if base is not None else frozenset({OTHER})

    def of_call(self, value: Derived | Instance, call: ast.Call) -> frozenset[str]:
        """What a call gives: a layer's output, a tensor made anew, or what it was given in another shape."""
        names = {name for name in self.amp.facts.sites.callee(call) if name.startswith("torch.")}
        last = {name.rsplit(".", 1)[-1] for name in names}
        if self.runs_module(call):
            return frozenset({HALF if self.is_covered(call) else FLOAT})
        if names & FACTORIES:
            dtypes = [item for item in call.keywords if item.arg == "dtype"]
            return frozenset({OTHER if dtypes else FLOAT})
        given = call.args[:1] or [item.value for item in call.keywords if item.arg in ("input", "tensors")]
        if last and last <= KEEPING | JOINING and given:
            return self.kinds(given[0])
        if names or not isinstance(call.func, ast.Attribute):
            return frozenset({OTHER})
        return self.of_method(call, call.func)

    def of_method(self, call: ast.Call, function: ast.Attribute) -> frozenset[str]:
        """What a tensor's method gives."""
        given = [*call.args, *(item.value for item in call.keywords)]
        dtypes = {name for item in given for name in external_names(self.amp.facts.values(item))}
        if function.attr in ("float", "double") or (function.attr in ("to", "type") and dtypes & FLOAT32):
            return frozenset({FLOAT})
        if function.attr in KEEPING or (
            function.attr == "to" and not any(name.startswith("torch.") for name in dtypes)
        ):
            return self.kinds(function.value)
        return frozenset({OTHER})

    def pair(self, node: ast.expr) -> bool:
        """`x.max(1)`, of which the first is a value and the second an index."""
        method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PAIRS
        return method and not self.amp.facts.sites.callee(node)  # type: ignore[arg-type]

    def runs_module(self, call: ast.Call) -> bool:
        """Whether a call is one of a module itself; a function around it may give tokens or labels as well."""
        return self.amp.facts.sites.is_forward(call) and any(
            self.amp.facts.state.is_module(value) for value in self.amp.facts.values(call.func)
        )

    def runs_in_float32(self, call: ast.Call) -> bool:
        """Whether a call runs a model outside of autocast, itself or by a function that other calls put under it."""
        if self.is_covered(call) or not self.amp.facts.sites.is_forward(call):
            return False
        functions = self.amp.facts.sites.local_callees(call)
        return self.runs_module(call) or (bool(functions) and all(item in self.covered for item in functions))

    def is_covered(self, node: ast.AST) -> bool:
        """Whether code runs under autocast."""
        return node in self.covered or any(up in self.covered for up in self.amp.facts.tree.above(node))

    @cached_property
    def hooked(self) -> frozenset[tuple[ast.AST, str]]:
        """The parameters of forward hooks that a module's output or input comes in."""
        found: set[tuple[ast.AST, str]] = set()
        for call in self.amp.facts.sites.attribute_calls(*HOOKS):
            index = HOOKS[call.func.attr]  # type: ignore[attr-defined]
            for value in self.amp.facts.values(call.args[0]) if call.args else ():
                names = [item.arg for item in value.node.args.args] if isinstance(value, Function) else []
                if isinstance(value, Function) and len(names) > index:
                    found.add((value.node, names[index]))
        return frozenset(found)

    def half_sources(self, node: ast.expr, seen: frozenset[ast.AST] = frozenset()) -> list[ast.expr]:
        """Where an expression is an output only at times: the assignments and arguments that are outputs."""
        if HALF not in self.kinds(node):
            return []
        root = node
        while isinstance(root, (ast.Call, ast.Attribute, ast.Subscript)):
            root = operand(self.amp, root) or root.func if isinstance(root, ast.Call) else root.value
        found: list[ast.expr] = []
        for definition in self.amp.facts.state.reaching.get(root, frozenset()) - seen:
            for source in self.given(definition, root):
                if self.holds_half(source):
                    found.append(source)
                else:
                    found += self.half_sources(source, seen | {definition})
        return sorted(found, key=position)

    def given(self, definition: ast.AST, root: ast.expr) -> list[ast.expr]:
        """What an assignment assigns, or what the calls of a function give to a parameter."""
        if is_plain(definition):
            return [definition.value]  # type: ignore[attr-defined]
        if not isinstance(definition, FUNCTIONS) or not isinstance(root, ast.Name):
            return []
        calls = [call for call in self.amp.facts.state.callers.get(definition, ()) if self.amp.facts.is_editable(call)]
        arguments = [self.amp.facts.state.arguments.get((call, definition), {}).get(root.id) for call in calls]
        return [argument for argument in arguments if argument is not None]


def is_plain(definition: ast.AST) -> bool:
    """`name = value`."""
    return (
        isinstance(definition, ast.Assign)
        and len(definition.targets) == 1
        and isinstance(definition.targets[0], (ast.Name, ast.Attribute))
    )


def operand(amp: Amp, call: ast.Call) -> ast.expr | None:
    """The tensor that a method is called on, or that a function of torch is given first."""
    if any(name.startswith("torch.") for name in amp.facts.sites.callee(call)):
        named = [item.value for item in call.keywords if item.arg in ("input", "tensors")]
        return next((item for item in [*named, *call.args] if not isinstance(item, ast.Starred)), None)
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def last_name(amp: Amp, call: ast.Call) -> str:
    """The name of the method or function that a call calls."""
    names = {name.rsplit(".", 1)[-1] for name in amp.facts.sites.callee(call)}
    return min(names) if names else call.func.attr if isinstance(call.func, ast.Attribute) else ""
