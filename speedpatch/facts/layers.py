"""What a model is made of, as far as the program shows it: layers, classes, and the functions that forward runs."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from speedpatch.facts.facts import Facts
from speedpatch.facts.modules import Modules
from speedpatch.facts.sites import value_line
from speedpatch.facts.values import Derived, External, Function, FunctionNode, Instance, Member, Method, Value

KNOWN = re.compile(
    r"(torch|torchvision|torchaudio|timm|transformers|einops|segmentation_models_pytorch|efficientnet_pytorch|pretrainedmodels|numpy|math|builtins)\b.*"
)
LIBRARIES = re.compile(r"(torchvision\.models|timm|transformers|segmentation_models_pytorch|efficientnet_pytorch)\b")
DENSE = re.compile(
    r"torch\.nn\.(modules\.\w+\.)?(Linear|Bilinear|Sequential|ModuleList|ModuleDict|Identity|Flatten|Unflatten|Dropout|AlphaDropout|BatchNorm1d|"
    r"ReLU6?|LeakyReLU|PReLU|ELU|SELU|CELU|GELU|SiLU|Mish|Tanh|Sigmoid|Softmax|LogSoftmax|Softplus|Hardtanh|Parameter|Softsign|Threshold)"
)
MIXING = {
    "matmul",
    "bmm",
    "einsum",
    "baddbmm",
    "scaled_dot_product_attention",
    "conv1d",
    "conv2d",
    "conv3d",
    "embedding",
}


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

    def external(self) -> Iterator[Instance]:
        """The parts whose classes are not of the program, the model itself among them."""
        parts = sorted(self.parts, key=lambda part: (str(self.facts.path(part.site)), *value_line(part)))
        return (part for part in [self.model, *parts] if isinstance(part, Instance) and part.local is None)

    def unknown(self) -> Instance | None:
        """A part from a package of which nothing is known, if there is one."""
        for part in self.external():
            last = part.name.rsplit(".", 1)[-1]
            foreign = not KNOWN.fullmatch(part.name) and part.name.split(".")[0] not in sys.stdlib_module_names
            if foreign and (last[:1].isupper() or part is self.model):
                return part
        return None

    def is_dense(self, embeddings: bool = False) -> bool:
        """Whether a model has nothing but linear layers, embeddings if wanted, and what goes between them."""
        layers = [part for part in self.external() if part.name.startswith("torch.nn.") and "Loss" not in part.name]
        mixes = any(isinstance(node, ast.MatMult) for node in self.nodes()) or any(
            isinstance(call.func, ast.Attribute) and call.func.attr in MIXING for call in self.calls()
        )
        return (
            bool(layers)
            and not mixes
            and all(DENSE.fullmatch(part.name) or (embeddings and part.name == "torch.nn.Embedding") for part in layers)
        )


def comes_from_library(model: Value) -> bool:
    """Whether an unresolved object was got from a library of models, as in `torchvision.models.__dict__[name]()`."""
    origin: Value | None = model
    while isinstance(origin, (Derived, Member)):
        origin = origin.base
    return isinstance(origin, External) and bool(LIBRARIES.match(origin.name))


def layers_of(modules: Modules, model: Value) -> Layers:
    """Collect what a model is made of."""
    facts = modules.facts
    parts = modules.inside(model)
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
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call):
                for callee in facts.sites.local_callees(node):
                    if callee.name != "__init__":
                        add_function(facts, callee, found)
