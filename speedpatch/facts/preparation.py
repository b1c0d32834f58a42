"""Which statements make a module ready, and which put it to work."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from speedpatch.facts.facts import Facts
from speedpatch.facts.holders import Holders
from speedpatch.facts.torch_names import WRAPPER
from speedpatch.facts.tree import own_nodes
from speedpatch.facts.values import FUNCTIONS, Instance, Value

MOVES = frozenset(
    [
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
        "add_module",
    ]
)
LOADS = MOVES | frozenset(
    ["load_state_dict", "load_weights", "load_from", "load_pretrained", "init_weights", "reset_parameters"]
)
TOOLS = (
    "torch.nn.init.",
    "torch.nn.SyncBatchNorm.",
    "torch.nn.utils.",
    "torch.distributed.fsdp.fully_shard",
    "torch.distributed._composable.fsdp.fully_shard",
    "torch.jit.trace",
    "torch.onnx.export",
    "torchsummary.",
    "torchsummaryX.",
    "torchinfo.",
    "thop.",
    "ptflops.",
    "fvcore.",
    "pytorch_model_summary.",
    "torchstat.",
)
"""Functions that change a module which they are given, or look at it by hooks and traces."""
LOOKS = frozenset({"add_graph"})


@dataclass(frozen=True)
class Preparation:
    """The questions about statements, for the modules that are looked for."""

    holders: Holders
    memo: dict[tuple[ast.AST, Value, frozenset[str]], bool] = field(default_factory=dict, repr=False)

    @property
    def facts(self) -> Facts:
        """The program."""
        return self.holders.facts

    def trains(self, statement: ast.stmt) -> bool:
        """Whether a statement trains; defining a function does not."""
        return not isinstance(statement, (*FUNCTIONS, ast.ClassDef)) and self.facts.sites.contains_backward(statement)

    def wraps(self, statement: ast.stmt, module: Value) -> bool:
        """Whether a statement puts a module into DDP or the like."""
        return any(
            isinstance(node, ast.Call)
            and any(WRAPPER.fullmatch(name) for name in self.facts.sites.callee(node))
            and any(module in self.holders.raw(argument) for argument in node.args)
            for node in own_nodes(statement)
        )

    def makes_optimizer(self, statement: ast.stmt) -> bool:
        """Whether a statement makes an optimizer."""
        values = [
            value for node in own_nodes(statement) if isinstance(node, ast.Call) for value in self.facts.values(node)
        ]
        return any(isinstance(value, Instance) and self.facts.sites.is_optimizer(value) for value in values)

    def sets_up(self, statement: ast.stmt, module: Value, methods: frozenset[str]) -> bool:
        """Whether a statement changes what a module is: moves, loads, freezes it or changes parts of it."""
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            return False
        return any(self.is_set_up(node, module, methods) for node in [statement, *own_nodes(statement)])

    def is_set_up(self, node: ast.AST, module: Value, methods: frozenset[str]) -> bool:
        """One node of such a statement."""
        if isinstance(node, ast.Call):
            return self.call_sets_up(node, module, methods)
        if isinstance(node, (ast.For, ast.AsyncFor)):
            return changes_parameters(node) and self.holders.belongs(node.iter, module)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        parts = [target for target in targets if isinstance(target, (ast.Attribute, ast.Subscript))]
        return isinstance(node, ast.stmt) and any(self.holders.belongs(part.value, module) for part in parts)

    def call_sets_up(self, call: ast.Call, module: Value, methods: frozenset[str]) -> bool:
        """A method of the module, a tool that it is given to, or a function of the program that sets it up."""
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if name in methods and isinstance(call.func, ast.Attribute) and self.holders.belongs(call.func.value, module):
            return True
        arguments = [*call.args, *(item.value for item in call.keywords)]
        if not any(self.holders.belongs(argument, module) for argument in arguments):
            return False
        if name in LOOKS or any(callee.startswith(TOOLS) for callee in self.facts.sites.callee(call)):
            return True
        functions = [item for item in self.facts.sites.local_callees(call) if item.name != "__init__"]
        return any(self.function_sets_up(function, module, methods) for function in functions)

    def function_sets_up(self, function: ast.AST, module: Value, methods: frozenset[str]) -> bool:
        """Whether a function that is given a module sets it up."""
        key = (function, module, methods)
        if key not in self.memo:
            self.memo[key] = False
            self.memo[key] = any(self.is_set_up(node, module, methods) for node in own_nodes(function))
        return self.memo[key]


def changes_parameters(loop: ast.For | ast.AsyncFor) -> bool:
    """Whether a loop over parameters or modules freezes or initializes them."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Attribute) and (isinstance(node.ctx, ast.Store) or node.attr == "data"):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
            return True
    return False


def leaves(statement: ast.stmt) -> bool:
    """Whether control does not get behind a statement."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    ends = isinstance(call, ast.Call) and isinstance(call.func, (ast.Name, ast.Attribute))
    name = getattr(call.func, "attr", getattr(call.func, "id", "")) if isinstance(call, ast.Call) and ends else ""
    return isinstance(statement, (ast.Raise, ast.Return)) or name in ("exit", "_exit", "quit")
