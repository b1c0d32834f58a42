"""What the parts of this codemod share: the wanted precision, the device, the spelling of things."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path

from speedpatch.codemod import Finding, Options
from speedpatch.edits import Import
from speedpatch.facts import Facts
from speedpatch.facts.devices import Device
from speedpatch.facts.reach import Obstacle
from speedpatch.facts.values import FUNCTIONS


@dataclass(frozen=True)
class Amp:
    """One program under one choice of options."""

    facts: Facts
    options: Options
    device: Device
    imports: dict[Path, Import] = field(default_factory=dict)

    @property
    def half(self) -> bool:
        """Whether the precision is float16, which needs loss scaling."""
        return self.options.amp_dtype == "float16"

    @property
    def device_type(self) -> str:
        """The device type that autocast is for."""
        return "cpu" if self.device.kind == "cpu" else "cuda"

    def torch(self, name: str, node: ast.AST) -> str:
        """How the file of `node` spells `torch.<name>`; adds `import torch` when it has no way to."""
        spelled = self.facts.name_for(f"torch.{name}", node)
        if spelled is None:
            path = self.facts.path(node)
            self.imports[path] = Import(path, "import torch")
        return spelled or f"torch.{name}"

    def free_name(self, wanted: str, spare: str) -> str:
        """`wanted`, else `spare`, else a numbered form, that means nothing wherever training or evaluation happens."""
        sites = self.facts.sites
        functions = [node for node in self.facts.scopes if isinstance(node, FUNCTIONS)]
        modules = [node for node in self.facts.scopes if isinstance(node, ast.Module)]
        concerned = [node for node in functions if sites.contains_backward(node) or sites.contains_forward(node)]
        classes = [owner for node in concerned if (owner := self.facts.tree.owner(node)) is not None]
        attributes = {
            node.attr for scope in [*concerned, *classes] for node in ast.walk(scope) if isinstance(node, ast.Attribute)
        }
        attributes |= {item.arg for call in sites.calls for item in call.keywords if item.arg is not None}
        taken = attributes.union(*(self.facts.names_in(scope) for scope in [*modules, *concerned]))
        return next(
            name for name in [wanted, spare, *(f"{spare}_{number}" for number in range(2, 100))] if name not in taken
        )

    def declined(self, code: str, node: ast.AST, reason: str) -> Finding:
        """A decline at a node."""
        return Finding("declined", f"amp.{code}", str(self.facts.path(node)), self.facts.line(node), reason)

    def blocked(self, obstacle: Obstacle) -> Finding:
        """A decline because the scaler cannot get somewhere."""
        return self.declined(obstacle.code, obstacle.node, obstacle.reason)
