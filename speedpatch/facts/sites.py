"""The places that make a training program: backwards, steps, zero_grads, forwards, gradient reads, checkpoints."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property

from speedpatch.facts.state import State, decorated
from speedpatch.facts.torch_names import (
    AUTOCAST,
    CLIP,
    LOADER,
    LOSS_FUNCTION,
    LOSS_MODULE,
    SCALER,
    SCHEDULER,
    WRAPPER,
    is_optimizer,
)
from speedpatch.facts.tree import Tree, is_main_guard
from speedpatch.facts.values import (
    FUNCTIONS,
    NOTHING,
    Class,
    Derived,
    External,
    Function,
    FunctionNode,
    Instance,
    Member,
    Method,
    Parameter,
    Value,
    Values,
)

NOT_FORWARD = {
    "parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules", "children",
    "named_children", "train", "eval", "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "apply",
    "requires_grad_", "state_dict", "load_state_dict", "zero_grad", "register_forward_hook", "compile", "add_module",
    "register_buffer", "share_memory", "get_submodule", "save_pretrained", "type", "register_parameter", "init_weights",
    "init_hidden", "reset_parameters", "no_sync", "print_trainable_parameters", "flatten_parameters",
    "resize_token_embeddings", "append", "extend", "insert", "items", "keys", "values", "save", "load",
}  # fmt: skip


@dataclass(frozen=True)
class Backward:
    """`loss.backward()`: the call, and the loss as the user wrote it (inside `scaler.scale(...)`)."""

    call: ast.Call
    losses: tuple[ast.expr, ...]
    scaled: bool = False


@dataclass(frozen=True)
class Step:
    """`x.step(...)` of an optimizer or scheduler; `subject` is the expression of that object."""

    call: ast.Call
    subject: ast.expr
    values: Values
    scaled: bool = False


@dataclass(frozen=True)
class Sites:
    """All sites of a program, in source order, and the questions about single nodes that they rest on."""

    tree: Tree
    state: State
    every_call: tuple[ast.Call, ...]
    memo: dict[tuple[str, ast.AST], bool] = field(default_factory=dict)

    def values(self, node: ast.AST) -> Values:
        """The objects that an expression may stand for."""
        return self.state.values.get(node, NOTHING)

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        """The calls in code that a run may get to."""
        return tuple(call for call in self.every_call if self.is_live(call))

    def is_live(self, node: ast.AST) -> bool:
        """Whether a run of the program's scripts may get to a node."""
        scope = self.tree.scope(node)
        if self.state.is_imported(scope) and any(up in self.guards for up in self.tree.above(node)):
            return False
        return scope in self.live

    @cached_property
    def guards(self) -> frozenset[ast.AST]:
        """Every `if __name__ == "__main__":`."""
        return frozenset(node for node in self.tree.parents if isinstance(node, ast.If) and is_main_guard(node))

    def callee(self, call: ast.Call) -> set[str]:
        """The qualified names of what a call may call."""
        return {value.name for value in self.values(call.func) if isinstance(value, External)}

    def local_callees(self, call: ast.Call) -> list[FunctionNode]:
        """The functions of the program that a call may run, `forward` and `__init__` included."""
        return [function for function, callers in self.reached.get(call, {}).items() if callers]

    @cached_property
    def reached(self) -> dict[ast.Call, dict[FunctionNode, bool]]:
        """Every call with the local functions it may run."""
        found: dict[ast.Call, dict[FunctionNode, bool]] = {}
        for function, callers in self.state.callers.items():
            for call in callers:
                found.setdefault(call, {})[function] = True  # type: ignore[index]
        return found

    @cached_property
    def live(self) -> frozenset[ast.AST]:
        """The functions that a run may get to: all of its scripts, and what they call or hand on elsewhere."""
        outgoing: dict[ast.AST, list[FunctionNode]] = {}
        for call, callees in self.reached.items():
            outgoing.setdefault(self.tree.scope(call), []).extend(callees)
        for function, nodes in self.handed.items():
            for node in nodes:
                outgoing.setdefault(self.tree.scope(node), []).append(function)
        modules = [module.tree for module in self.tree.modules]
        stack: list[ast.AST] = [*modules, *(node for main in self.state.mains for node in ast.walk(main))]
        stack = [node for node in stack if isinstance(node, (ast.Module, *FUNCTIONS))]
        stack += [node for node in self.tree.parents if isinstance(node, FUNCTIONS) and self.runs_unseen(node)]
        found: set[ast.AST] = set()
        while stack:
            scope = stack.pop()
            if scope not in found:
                found.add(scope)
                stack += outgoing.get(scope, [])
        return frozenset(found)

    def runs_unseen(self, function: FunctionNode) -> bool:
        """A property or a special method, which no call names."""
        if self.tree.owner(function) is None:
            return False
        return decorated(function, "property") or (function.name.startswith("__") and function.name != "__init__")

    @cached_property
    def handed(self) -> dict[FunctionNode, list[ast.expr]]:
        """The functions that are passed on as values, or returned, without a call, and where."""
        found: dict[FunctionNode, list[ast.expr]] = {}
        for node, values in self.state.values.items():
            up = self.tree.parent(node)
            if not isinstance(node, (ast.Name, ast.Attribute)) or (isinstance(up, ast.Call) and up.func is node):
                continue
            for value in values if isinstance(node.ctx, ast.Load) else ():
                function = value.function if isinstance(value, Method) else value
                if isinstance(function, Function):
                    found.setdefault(function.node, []).append(node)
        return found

    # ---- roles

    def is_optimizer(self, value: Value) -> bool:
        """By its class, or because it both steps and holds gradients to zero or parameter groups."""
        if isinstance(value, Instance):
            if value.local is not None:
                return self.is_optimizer_class(value.local)
            if is_optimizer(value.name):
                return True
            if SCHEDULER.fullmatch(value.name) or SCALER.fullmatch(value.name):
                return False
        if not isinstance(value, (Instance, Parameter, Derived, Member)):
            return False
        uses = self.state.uses.get(value, set())
        return (
            "step" in uses
            and bool(uses & {"zero_grad", "param_groups"})
            and not uses & {"parameters", "forward", "train"}
        )

    def is_scheduler(self, value: Value) -> bool:
        """By its class, local ones included."""
        if not isinstance(value, Instance):
            return False
        names = (
            [value.name]
            if value.local is None
            else [base for base in self.state.bases(value.local) if isinstance(base, str)]
        )
        return any(SCHEDULER.fullmatch(name) or ".lr_scheduler." in name for name in names)

    def is_scaler(self, value: Value) -> bool:
        """A GradScaler or what wraps one."""
        return isinstance(value, Instance) and value.local is None and bool(SCALER.fullmatch(value.name))

    def is_loss(self, value: Value) -> bool:
        """A loss module of torch, or one of the program's own (`nn.Module` without being trained: see models)."""
        if isinstance(value, Instance):
            names = (
                [value.name]
                if value.local is None
                else [base for base in self.state.bases(value.local) if isinstance(base, str)]
            )
            return any(LOSS_MODULE.fullmatch(name) for name in names)
        return isinstance(value, External) and bool(LOSS_FUNCTION.fullmatch(value.name))

    def unwrap(self, value: Value, seen: Values = NOTHING) -> Values:
        """The modules behind DataParallel, DDP, torch.compile; the object itself otherwise."""
        if isinstance(value, Instance) and value.local is None and WRAPPER.fullmatch(value.name):
            inner = self.state.heap.get((value, "module"), NOTHING) - {value} - seen
            return (
                frozenset().union(*(self.unwrap(item, seen | inner) for item in inner)) if inner else frozenset({value})
            )
        return frozenset({value})

    # ---- sites

    def attribute_calls(self, *names: str) -> list[ast.Call]:
        """Calls of a method or attribute of one of these names."""
        return [call for call in self.calls if isinstance(call.func, ast.Attribute) and call.func.attr in names]

    @cached_property
    def backwards(self) -> tuple[Backward, ...]:
        """Every place that computes gradients by `backward`."""
        found = [self.backward_site(call) for call in self.calls if last_name(call) == "backward"]
        return tuple(site for site in found if site is not None)

    def backward_site(self, call: ast.Call) -> Backward | None:
        """A call of `backward` on a tensor, or of `torch.autograd.backward`."""
        if not isinstance(call.func, ast.Attribute) or self.local_callees(call):
            return None
        if self.callee(call):
            roots = (
                call.args[0].elts if call.args and isinstance(call.args[0], (ast.List, ast.Tuple)) else call.args[:1]
            )
            return Backward(call, tuple(roots)) if "torch.autograd.backward" in self.callee(call) else None
        receiver = call.func.value
        if (
            isinstance(receiver, ast.Call)
            and isinstance(receiver.func, ast.Attribute)
            and receiver.func.attr == "scale"
        ):
            if any(self.is_scaler(value) for value in self.values(receiver.func.value)):
                return Backward(call, tuple(receiver.args[:1]), scaled=True)
        if any(isinstance(value, Instance) and not self.tensor_like(value) for value in self.values(receiver)):
            return None
        return Backward(call, (receiver,))

    def tensor_like(self, value: Instance) -> bool:
        """Whether a named call makes a tensor; engines and other objects have a `backward` of their own."""
        sums = value.name in ("builtins.sum", "builtins.max", "builtins.min", "functools.reduce")
        return value.local is None and (sums or value.name.startswith("torch.") or "loss" in value.name.lower())

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Every step of an optimizer, through a scaler or not."""
        found: list[Step] = []
        for call in self.attribute_calls("step"):
            if self.in_optimizer_step(call):
                continue
            receiver = call.func.value  # type: ignore[attr-defined]
            values = self.values(receiver)
            if any(self.is_scaler(value) for value in values) and call.args:
                found.append(Step(call, call.args[0], self.values(call.args[0]), scaled=True))
            elif any(self.is_optimizer(value) for value in values):
                found.append(Step(call, receiver, values))
        return tuple(found)

    @cached_property
    def scheduler_steps(self) -> tuple[Step, ...]:
        """Every step of a learning-rate scheduler."""
        return tuple(
            Step(call, call.func.value, self.values(call.func.value))  # type: ignore[attr-defined]
            for call in self.attribute_calls("step")
            if any(self.is_scheduler(value) for value in self.values(call.func.value))  # type: ignore[attr-defined]
        )

    @cached_property
    def optimizers(self) -> tuple[Value, ...]:
        """All optimizer objects, in the order of their sites."""
        made = {
            value
            for call in self.calls
            for value in self.values(call)
            if self.is_optimizer(value) and isinstance(value, Instance)
        }
        stepped = {value for step in self.steps for value in step.values if self.is_optimizer(value)}
        return tuple(sorted(made | stepped, key=lambda value: (value_line(value), str(type(value)))))

    @cached_property
    def trained(self) -> dict[Value, Values]:
        """Each optimizer that steps, with the modules whose parameters it was given."""
        stepped = frozenset(value for step in self.steps for value in step.values)
        return {value: self.parameter_owners(value) for value in self.optimizers if value in stepped}

    def parameter_owners(self, optimizer: Value) -> Values:
        """The modules behind the parameters that an optimizer was made with."""
        if not isinstance(optimizer, Instance) or not isinstance(optimizer.site, ast.Call):
            return NOTHING
        return self.owners_in(optimizer.site, set())

    def owners_in(self, node: ast.AST, seen: set[ast.AST]) -> Values:
        """The modules whose parameters an expression and what it reads are made of."""
        found = NOTHING
        for child in ast.walk(node):
            if child in seen:
                continue
            seen.add(child)
            if isinstance(child, ast.Attribute) and child.attr in ("parameters", "named_parameters"):
                for value in self.values(child.value):
                    found |= self.unwrap(value)
            elif isinstance(child, (ast.Name, ast.Attribute)):
                for definition in self.state.reaching.get(child, ()):
                    if (
                        isinstance(definition, (ast.Assign, ast.AugAssign, ast.Expr, ast.For))
                        and definition not in seen
                    ):
                        found |= self.owners_in(
                            definition.iter if isinstance(definition, ast.For) else definition, seen
                        )
        return found

    @cached_property
    def models(self) -> tuple[Value, ...]:
        """The modules that are trained, in the order they are made."""
        found = {value for owners in self.trained.values() for value in owners}
        return tuple(sorted(found, key=value_line))

    # ---- forward work

    def is_forward(self, call: ast.Call) -> bool:
        """Whether a call runs a module that has weights, itself or in a function that it calls."""
        key = ("forward", call)
        if key not in self.memo:
            self.memo[key] = False  # a recursion adds nothing of its own
            self.memo[key] = self.forward_call(call)
        return self.memo[key]

    def forward_call(self, call: ast.Call) -> bool:
        """Without the memo."""
        for value in self.values(call.func):
            if (
                isinstance(value, (Instance, Parameter, Derived))
                and self.state.is_module(value)
                and not self.is_loss(value)
            ):
                if not self.is_pure_loss_class(value):
                    return True
            if (
                isinstance(value, Member)
                and self.state.is_module(value.base)
                and not self.is_loss(value.base)
                and value.name not in NOT_FORWARD
            ):
                return True
        return any(
            self.contains_forward(function) for function in self.local_callees(call) if function.name != "__init__"
        )

    def is_pure_loss_class(self, value: Value) -> bool:
        """A local module that holds no weights: its `__init__` makes no layer (a loss or metric of the user's own)."""
        if not isinstance(value, Instance) or value.local is None:
            return False
        for (owner, _), values in self.state.heap.items():
            if owner in self.state.bases(value.local) and any(
                (self.state.is_module(item) and not self.is_loss(item))
                or (isinstance(item, Instance) and item.name.endswith("nn.Parameter"))
                for item in values
                if isinstance(item, Instance)
            ):
                return False
        return (
            not any(
                isinstance(base, str) and base not in ("torch.nn.Module",) for base in self.state.bases(value.local)
            )
            and value not in self.models
        )

    def contains_forward(self, node: ast.AST) -> bool:
        """Whether code below a node runs a module with weights."""
        key = ("contains", node)
        if key not in self.memo:
            self.memo[key] = False
            self.memo[key] = any(isinstance(child, ast.Call) and self.is_forward(child) for child in ast.walk(node))
        return self.memo[key]

    def contains_backward(self, node: ast.AST) -> bool:
        """Whether code below a node computes gradients or steps, itself or in a function that it calls."""
        key = ("backward", node)
        if key not in self.memo:
            self.memo[key] = False
            self.memo[key] = any(
                isinstance(child, ast.Call)
                and (
                    child in self.training_calls
                    or any(self.contains_backward(function) for function in self.local_callees(child))
                )
                for child in ast.walk(node)
            )
        return self.memo[key]

    @cached_property
    def training_calls(self) -> frozenset[ast.Call]:
        """The calls that are backwards or optimizer steps."""
        return frozenset([site.call for site in self.backwards] + [step.call for step in self.steps])

    @cached_property
    def gradient_reads(self) -> tuple[ast.AST, ...]:
        """Where gradients are clipped or read: calls of `clip_grad_*`, uses of `.grad` that are not plain resets."""
        found: list[ast.AST] = [call for call in self.calls if any(CLIP.fullmatch(name) for name in self.callee(call))]
        for node in self.tree.parents:
            if (
                isinstance(node, ast.Attribute)
                and node.attr == "grad"
                and self.is_live(node)
                and self.reads_gradient(node)
            ):
                found.append(node)
        return tuple(sorted(found, key=lambda node: (node.lineno, node.col_offset)))  # type: ignore[attr-defined]

    def reads_gradient(self, node: ast.Attribute) -> bool:
        """Not `x.grad is None`, `x.grad.zero_()`, `x.grad.detach_()`, `if x.grad:`, `torch.autograd.grad`."""
        up = self.tree.parent(node)
        if self.in_optimizer_step(node):
            return False
        if not isinstance(node.ctx, ast.Load):
            return isinstance(up, ast.AugAssign)
        if any(isinstance(value, External) for value in self.values(node)):
            return False
        if isinstance(up, ast.Compare) and any(
            isinstance(item, ast.Constant) and item.value is None for item in up.comparators
        ):
            return False
        return not (isinstance(up, ast.Attribute) and up.attr in ("zero_", "detach_", "requires_grad_", "fill_"))

    def in_optimizer_step(self, node: ast.AST) -> bool:
        """Whether code is the `step` of the program's own optimizer, which a scaler calls with unscaled gradients."""
        for up in self.tree.above(node):
            owner = self.tree.owner(up) if isinstance(up, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
            if owner is not None and up.name == "step":  # type: ignore[attr-defined]
                return self.is_optimizer_class(owner)
        return False

    def is_optimizer_class(self, node: ast.ClassDef) -> bool:
        """Whether a class of the program derives from a torch optimizer."""
        return any(
            isinstance(base, str) and base.startswith("torch.optim.") and "scheduler" not in base
            for base in self.state.bases(node)
        )

    @cached_property
    def amp_uses(self) -> tuple[ast.AST, ...]:
        """Where the program already uses autocast, a GradScaler, or apex."""
        found: list[ast.AST] = []
        for call in self.calls:
            names = self.callee(call)
            if any(
                AUTOCAST.fullmatch(name) or SCALER.fullmatch(name) or name.startswith("apex.amp.") for name in names
            ):
                found.append(call)
        for function in [node for node in self.tree.parents if isinstance(node, FUNCTIONS) and node in self.live]:
            for item in function.decorator_list:
                target = item.func if isinstance(item, ast.Call) else item
                if any(AUTOCAST.fullmatch(value.name) for value in self.values(target) if isinstance(value, External)):
                    found.append(item)
        return tuple(sorted(found, key=lambda node: node.lineno))  # type: ignore[attr-defined]

    @cached_property
    def loaders(self) -> tuple[ast.Call, ...]:
        """Every call that makes a DataLoader."""
        return tuple(call for call in self.calls if any(LOADER.fullmatch(name) for name in self.callee(call)))


def last_name(call: ast.Call) -> str:
    """The last component of what is called."""
    return (
        call.func.attr
        if isinstance(call.func, ast.Attribute)
        else call.func.id
        if isinstance(call.func, ast.Name)
        else ""
    )


def value_line(value: Value) -> tuple[int, int]:
    """Where an object comes from, for ordering."""
    site = (
        value.site
        if isinstance(value, (Instance, Derived))
        else value.function
        if isinstance(value, Parameter)
        else None
    )
    return getattr(site, "lineno", 0), getattr(site, "col_offset", 0)


def collect(tree: Tree, state: State) -> Sites:
    """Look at every call once."""
    calls = [node for node in tree.parents if isinstance(node, ast.Call)]
    order = {id(module.tree): index for index, module in enumerate(tree.modules)}
    calls.sort(key=lambda call: (order[id(tree.module(call).tree)], call.lineno, call.col_offset))
    return Sites(tree, state, tuple(calls))


def is_local(value: Value) -> bool:
    """Whether a value is code of the program."""
    return isinstance(value, (Function, Method, Class))
