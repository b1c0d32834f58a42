"""What a model is made of, as far as its code is in the program: parts, and the functions that forward runs."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from speedpatch.facts.evaluate import decorator_names
from speedpatch.facts.facts import Facts
from speedpatch.facts.modules import Modules
from speedpatch.facts.sites import value_line
from speedpatch.facts.values import (
    FUNCTIONS,
    Derived,
    External,
    Function,
    FunctionNode,
    Instance,
    Member,
    Method,
    Value,
)

LIBRARIES = re.compile(r"(torchvision|timm|transformers|segmentation_models_pytorch|efficientnet_pytorch)\b")
KNOWN = re.compile(LIBRARIES.pattern + r"|(torch|torchaudio|einops|pretrainedmodels|numpy|math|builtins)\b")
LOADED = {"torch.load", "torch.jit.load", "torch.hub.load"}
DENSE = re.compile(
    r"torch\.nn\.(modules\.\w+\.)?(Linear|Bilinear|Sequential|ModuleList|ModuleDict|Identity|Flatten|Unflatten"
    r"|Dropout|AlphaDropout|BatchNorm1d|ReLU6?|LeakyReLU|PReLU|ELU|SELU|CELU|GELU|SiLU|Mish|Tanh|Sigmoid|Softmax"
    r"|LogSoftmax|Softplus|Softsign|Hardtanh|Threshold|Parameter)"
)
REFLECTION = {"builtins.getattr", "builtins.vars"}
MIXING = {"matmul", "bmm", "einsum", "baddbmm", "scaled_dot_product_attention", "conv1d", "conv2d", "conv3d"}


@dataclass(frozen=True)
class Layers:
    """`parts`: every object that a model holds; `functions`: what its forward may run, in source order."""

    facts: Facts
    model: Value
    parts: frozenset[Instance]
    functions: tuple[FunctionNode, ...]

    def nodes(self) -> Iterator[ast.AST]:
        """All code that forward may run."""
        for function in self.functions:
            for statement in function.body:
                yield from ast.walk(statement)

    def calls(self) -> Iterator[ast.Call]:
        """All calls in that code."""
        return (node for node in self.nodes() if isinstance(node, ast.Call))

    @cached_property
    def reads(self) -> frozenset[str]:
        """The attributes that this code reads, by name, with those that the properties among them read."""
        found: set[str] = set()
        stack = list(self.nodes())
        while stack:
            node = stack.pop()
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr not in found:
                found.add(node.attr)
                bodies = [item.body for item in self.properties if item.name == node.attr]
                stack += [inner for body in bodies for statement in body for inner in ast.walk(statement)]
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
                found.add(node.target.attr)
        return frozenset(found)

    @cached_property
    def properties(self) -> tuple[FunctionNode, ...]:
        """The functions of the classes that this code is made of which run when an attribute is read."""
        owners = {part.local for part in [self.model, *self.parts] if isinstance(part, Instance) and part.local}
        bases = {base for owner in owners for base in self.facts.state.bases(owner) if isinstance(base, ast.ClassDef)}
        inside = [node for base in bases for node in base.body if isinstance(node, FUNCTIONS)]
        return tuple(node for node in inside if "property" in decorator_names(node))

    def may_read(self, name: str) -> bool:
        """Whether forward may read an attribute of the model; what is not of the program may read any."""
        local = self.model.local if isinstance(self.model, Instance) else None
        bases = self.facts.state.bases(local) if local is not None else ()
        visible = bool(bases) and all(not isinstance(base, str) or base == "torch.nn.Module" for base in bases)
        names = {name for call in self.calls() for name in self.facts.sites.callee(call)}
        return not visible or name in self.reads or bool(names & REFLECTION)

    def external(self) -> Iterator[Instance]:
        """The parts whose classes are not of the program, the model itself among them."""
        parts = sorted(self.parts, key=lambda part: (str(self.facts.path(part.site)), *value_line(part)))
        return (part for part in [self.model, *parts] if isinstance(part, Instance) and part.local is None)

    def unknown(self) -> Instance | None:
        """A part from a package of which nothing is known, if there is one."""
        for part in self.external():
            package, last = part.name.split(".")[0], part.name.rsplit(".", 1)[-1]
            foreign = not KNOWN.match(part.name) and package not in sys.stdlib_module_names
            if part.name in LOADED or (foreign and (last[:1].isupper() or part is self.model)):
                return part
        return None

    def is_dense(self, embeddings: bool = False) -> bool:
        """Whether a model has nothing but linear layers, embeddings if wanted, and what goes between them."""
        layers = [
            part.name for part in self.external() if part.name.startswith("torch.nn.") and "Loss" not in part.name
        ]
        names = {call.func.attr for call in self.calls() if isinstance(call.func, ast.Attribute)}
        mixes = bool(names & MIXING) or any(isinstance(node, ast.MatMult) for node in self.nodes())
        plain = all(DENSE.fullmatch(name) or (embeddings and name == "torch.nn.Embedding") for name in layers)
        return bool(layers) and plain and not mixes


def layers_of(modules: Modules, model: Value) -> Layers:
    """Collect what a model is made of."""
    facts = modules.facts
    parts = modules.parts.inside(model)
    functions: dict[FunctionNode, None] = {}
    for part in [model, *parts]:
        if isinstance(part, Instance) and part.local is not None:
            for value in facts.state.class_attribute(part.local, "forward", part):
                if isinstance(value, (Method, Function)):
                    add_function(facts, value.function.node if isinstance(value, Method) else value.node, functions)
    ordered = sorted(functions, key=lambda node: (str(facts.path(node)), node.lineno))
    return Layers(facts, model, frozenset(part for part in parts if isinstance(part, Instance)), tuple(ordered))


def add_function(facts: Facts, function: FunctionNode, found: dict[FunctionNode, None]) -> None:
    """A function and those of the program that it may call."""
    if function in found:
        return
    found[function] = None
    calls = [node for statement in function.body for node in ast.walk(statement) if isinstance(node, ast.Call)]
    for callee in [callee for call in calls for callee in facts.sites.local_callees(call)]:
        if callee.name != "__init__":
            add_function(facts, callee, found)


def comes_from_library(model: Value) -> bool:
    """Whether an unresolved object was got from a library of models, as in `torchvision.models.__dict__[name]()`."""
    origin: Value | None = model
    while isinstance(origin, (Derived, Member)):
        origin = origin.base
    return isinstance(origin, External) and bool(LIBRARIES.match(origin.name))
