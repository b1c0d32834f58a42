"""Which attributes of a program's own classes can be renamed without anybody noticing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.metamorphic.scopes import Callable, Scope, Scopes

# Bases whose own attributes are known, so that what a subclass adds can be told from what it overrides.
KNOWN_BASES = {"object", "Module", "Dataset", "IterableDataset", "Function"}
# The public attributes of torch.nn.Module and autograd.Function that are no dunders.
FOREIGN = {
    "T_destination", "add_module", "apply", "bfloat16", "buffers", "call_super_init", "children", "compile",
    "cpu", "cuda", "double", "dump_patches", "eval", "extra_repr", "float", "forward", "get_buffer",
    "get_extra_state", "get_parameter", "get_submodule", "half", "ipu", "load_state_dict", "modules", "mtia",
    "named_buffers", "named_children", "named_modules", "named_parameters", "parameters",
    "register_backward_hook", "register_buffer", "register_forward_hook", "register_forward_pre_hook",
    "register_full_backward_hook", "register_full_backward_pre_hook", "register_load_state_dict_post_hook",
    "register_load_state_dict_pre_hook", "register_module", "register_parameter",
    "register_state_dict_post_hook", "register_state_dict_pre_hook", "requires_grad_", "set_extra_state",
    "set_submodule", "share_memory", "state_dict", "to", "to_empty", "train", "training", "type", "xpu",
    "zero_grad", "backward", "jvp", "vjp", "vmap", "setup_context", "save_for_backward", "save_for_forward",
    "saved_tensors", "saved_variables", "mark_dirty", "mark_non_differentiable", "materialize_grads",
    "set_materialize_grads", "needs_input_grad", "once_differentiable", "name", "metadata", "next_functions",
    "generate_vmap_rule", "register_prehook", "register_hook", "is_traceable", "functions", "datapipes",
}  # fmt: skip
# Methods that return the module that they are called on.
FLUENT = {"to", "cuda", "cpu", "train", "eval", "float", "double", "half"}


class Classes:
    """The classes that a module defines at its top, and who is surely an instance of one."""

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = scopes
        self.nodes = {
            name: nodes[0]
            for name, nodes in scopes.module.definitions.items()
            if len(nodes) == 1 and isinstance(nodes[0], ast.ClassDef)
        }
        self.members = {name: set(own_members(node)) for name, node in self.nodes.items()}
        self.self_names = {method: name for name in self.nodes for method in self.methods(name).values()}

    def methods(self, name: str) -> dict[str, Callable]:
        """A class's own methods."""
        return {part.name: part for part in self.nodes[name].body if isinstance(part, Callable)}

    def lineage(self, name: str) -> list[str]:
        """A class and its bases among the program's own, nearest first."""
        found, queue = [], [name]
        while queue:
            here = queue.pop(0)
            if here in self.nodes and here not in found:
                found.append(here)
                queue += [base.id for base in self.nodes[here].bases if isinstance(base, ast.Name)]
        return found

    def is_transparent(self, name: str) -> bool:
        """Whether nobody else can define attributes of a class's instances."""
        for part in self.lineage(name):
            node = self.nodes[part]
            bases = {base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "?") for base in node.bases}
            if node.decorator_list or node.keywords or not bases <= KNOWN_BASES | set(self.nodes):
                return False
        return True

    def has(self, name: str, attribute: str) -> bool:
        """Whether the program gives instances of a class that attribute."""
        return any(attribute in self.members[part] for part in self.lineage(name))

    def class_of(self, node: ast.expr, scope: Scope) -> str | None:
        """The class that an expression is surely an instance of, if it is one of the program's."""
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Attribute) and function.attr in FLUENT:
                return self.class_of(function.value, scope)
            known = isinstance(function, ast.Name) and scope.resolve(function.id) is self.scopes.module
            return function.id if isinstance(function, ast.Name) and known and function.id in self.nodes else None
        if not isinstance(node, ast.Name):
            return None
        home = scope.resolve(node.id)
        if home is None:
            return None
        if home.node in self.self_names and self.first_parameter(home.node) == node.id:
            return self.self_names[home.node] if stores(home, self.scopes, node.id) == 1 else None
        values = list(assigned(home, self.scopes, node.id))
        classes = {self.class_of(value, home) if not refers(value, node.id) else "" for value in values} - {""}
        if len(classes) == 1 and len(values) == stores(home, self.scopes, node.id):
            return classes.pop()
        return None

    @staticmethod
    def first_parameter(node: ast.AST) -> str | None:
        """The name by which a method knows its object."""
        assert isinstance(node, Callable)
        static = any(isinstance(mark, ast.Name) and mark.id != "property" for mark in node.decorator_list)
        parameters = [*node.args.posonlyargs, *node.args.args]
        return None if static or not parameters else parameters[0].arg


def own_members(node: ast.AST) -> Iterator[str]:
    """The attributes that a class's body and its methods define."""
    assert isinstance(node, ast.ClassDef)
    for part in node.body:
        if isinstance(part, Callable):
            yield part.name
            first = Classes.first_parameter(part)
            targets = (node for node in ast.walk(part) if isinstance(node, ast.Attribute))
            for target in targets:
                on_self = isinstance(target.value, ast.Name) and target.value.id == first
                if on_self and not isinstance(target.ctx, ast.Load):
                    yield target.attr
        elif isinstance(part, ast.Assign):
            yield from (target.id for target in part.targets if isinstance(target, ast.Name))


def assigned(home: Scope, scopes: Scopes, name: str) -> Iterator[ast.expr]:
    """The values that `name = value`, and `a, name = x, value`, give a variable of a scope."""
    for node in ast.walk(home.node):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for part, value in pairs(target, node.value):
                    if isinstance(part, ast.Name) and part.id == name:
                        yield value


def pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The parts of a target with the parts of the value that they get."""
    both = isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List)
    if both and len(target.elts) == len(value.elts):  # type: ignore[attr-defined]
        for part, piece in zip(target.elts, value.elts, strict=True):  # type: ignore[attr-defined]
            yield from pairs(part, piece)
    else:
        yield target, value


def stores(home: Scope, scopes: Scopes, name: str) -> int:
    """How often a variable is bound, wherever it is done."""
    binding = ("arg", "name")
    return sum(
        use.name == name
        and use.scope is home
        and (use.attribute in binding or not isinstance(getattr(use.node, "ctx", ast.Load()), ast.Load))
        for use in scopes.uses
    )


def refers(value: ast.expr, name: str) -> bool:
    """Whether a value is the variable itself again, as in `net = net.to(device)`."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in FLUENT:
        value = value.func.value
    return isinstance(value, ast.Name) and value.id == name
