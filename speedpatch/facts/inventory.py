"""What a training program is made of, each thing with the node that shows it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from speedpatch.facts.devices import Device, find_device, find_moves
from speedpatch.facts.evaluate import dotted
from speedpatch.facts.facts import Facts
from speedpatch.facts.modules import Modules
from speedpatch.facts.parts import is_wrapper
from speedpatch.facts.sites import value_line
from speedpatch.facts.torch_names import CLIP, ENGINES, SCALER
from speedpatch.facts.tree import position
from speedpatch.facts.values import Derived, External, Instance, Parameter, Value

CHECKPOINTS = {"torch.save", "torch.load", "safetensors.torch.save_file", "safetensors.torch.load_file"}


@dataclass(frozen=True)
class Thing:
    """One thing of a kind: `name` is how the program or its package calls it, empty where nothing does."""

    kind: str
    name: str
    node: ast.AST


@dataclass(frozen=True)
class Inventory:
    """The things of one program, kind after kind."""

    facts: Facts
    memo: dict[ast.AST, frozenset[ast.stmt]] = field(default_factory=dict, repr=False)

    @property
    def trains(self) -> bool:
        """Whether the program trains, by itself or by an engine."""
        sites = self.facts.sites
        return bool(sites.backwards or sites.steps or self.facts.engine)

    @cached_property
    def device(self) -> Device | None:
        """Where it trains; None when it does not, or when that is for an engine to say."""
        return find_device(self.facts) if self.trains and self.facts.engine is None else None

    def things(self) -> Iterator[Thing]:
        """Everything, each once."""
        if self.trains:
            yield from dict.fromkeys([*self.objects(), *self.device_things(), *self.loops(), *self.places()])

    # ---- objects

    def objects(self) -> Iterator[Thing]:
        """What is made: models, wrappers, optimizers, schedulers, losses, loaders, scalers."""
        sites = self.facts.sites
        if self.facts.engine is not None:
            call = self.facts.engine[0]
            yield Thing("engine", min(sites.callee(call) & ENGINES.keys()), call)
        yield from self.made("model", Modules(self.facts).trained)
        yield from self.made("wrapper", filter(is_wrapper, self.instances))
        yield from self.made("optimizer", sites.optimizers)
        yield from self.made("scheduler", filter(sites.is_scheduler, self.instances))
        yield from self.losses()
        yield from (Thing("loader", self.called(call), call) for call in sites.loaders)

    @cached_property
    def instances(self) -> tuple[Value, ...]:
        """What the calls of the program make."""
        found = {
            value
            for call in self.facts.sites.calls
            for value in self.facts.values(call)
            if isinstance(value, Instance) and value.site is call
        }
        return tuple(sorted(found, key=value_line))

    def made(self, kind: str, values: Iterable[Value]) -> Iterator[Thing]:
        """Objects at the lines that make them, parameters at their functions."""
        for value in values:
            if isinstance(value, Parameter):
                yield Thing(kind, value.name, value.function)
            elif isinstance(value, Instance):
                yield Thing(kind, value.name.rpartition(".")[2], value.site)
            elif isinstance(value, Derived):
                yield Thing(kind, self.called(value.site) if isinstance(value.site, ast.Call) else "", value.site)

    def losses(self) -> Iterator[Thing]:
        """Loss modules where they are made, loss functions where they are called."""
        sites = self.facts.sites
        yield from self.made("loss", filter(sites.is_loss, self.instances))
        for call in sites.calls:
            if any(isinstance(value, External) and sites.is_loss(value) for value in self.facts.values(call.func)):
                if not any(isinstance(value, Instance) and sites.is_loss(value) for value in self.facts.values(call)):
                    yield Thing("loss", self.called(call), call)

    def called(self, call: ast.Call) -> str:
        """The last name of what is called, by its own package if that is known."""
        names = sorted(self.facts.sites.callee(call)) or [dotted(call.func) or ""]
        return names[0].rpartition(".")[2]

    # ---- the device

    def device_things(self) -> Iterator[Thing]:
        """Where the device is chosen, or else where something is moved to it."""
        if self.device is None:
            return
        kind, node, parents = self.device.kind, self.device.node, self.facts.tree.parents
        sites = [value.site for value in self.device.values if isinstance(value, Instance)]
        made = sorted((site for site in sites if site in parents), key=position)
        moved: list[ast.AST] = [call for call, move in find_moves(self.facts) if move.kind == kind]
        used = [node] if node is not None and node in parents else moved[:1]
        name = (dotted(node) if node is not None else None) or ""
        yield from (Thing("device", name, place) for place in made or used)

    # ---- loops

    def loops(self) -> Iterator[Thing]:
        """The loops that run a step again and again, and those around them."""
        stepping = frozenset().union(*(self.around(step.call) for step in self.facts.sites.steps))
        inner: dict[ast.stmt, None] = {}
        outer: dict[ast.stmt, None] = {}
        for site in self.facts.sites.backwards:
            around = self.around(site.call)
            found = (around & stepping) or around
            innermost = {loop for loop in found if not any(loop in self.around(other) for other in found - {loop})}
            inner.update(dict.fromkeys(sorted(innermost, key=self.facts.line)))
            outer.update(dict.fromkeys(sorted(found - innermost, key=self.facts.line)))
        for kind, loops in (("epoch_loop", [loop for loop in outer if loop not in inner]), ("step_loop", [*inner])):
            yield from (Thing(kind, "while" if isinstance(loop, ast.While) else "for", loop) for loop in loops)

    def around(self, node: ast.AST) -> frozenset[ast.stmt]:
        """The loops that run a node again, those around the calls of its function too."""
        scope = self.facts.tree.scope(node)
        if scope not in self.memo:
            self.memo[scope] = frozenset()  # a recursion adds nothing of its own
            calls = [call for call in self.facts.state.callers.get(scope, ()) if self.facts.sites.is_live(call)]
            self.memo[scope] = frozenset().union(*(self.around(call) for call in calls))
        return self.memo[scope].union(self.facts.tree.loops(node))

    # ---- places

    def places(self) -> Iterator[Thing]:
        """Where something is done: backward passes, steps, clipping, mixed precision, checkpoints."""
        sites = self.facts.sites
        for site in sites.backwards:
            yield Thing("backward", ", ".join(filter(None, map(dotted, site.losses))), site.call)
        for node in sites.gradient_reads:
            if isinstance(node, ast.Call) and any(CLIP.fullmatch(name) for name in sites.callee(node)):
                yield Thing("clipping", self.called(node), node)
            else:
                yield Thing("gradient_read", "", node)
        yield from (Thing("optimizer_step", dotted(step.subject) or "", step.call) for step in sites.steps)
        yield from (Thing("scheduler_step", dotted(step.subject) or "", step.call) for step in sites.scheduler_steps)
        for node in sites.amp_uses:
            names = sites.callee(node) if isinstance(node, ast.Call) else set()
            is_scaler = any(SCALER.fullmatch(name) for name in names)
            yield Thing("scaler" if is_scaler else "autocast", self.called(node) if names else "autocast", node)  # type: ignore[arg-type]
        yield from (Thing("checkpoint", self.called(call), call) for call in sites.calls if self.keeps(call))

    def keeps(self, call: ast.Call) -> bool:
        """Whether a call writes or reads a checkpoint."""
        return bool(self.facts.sites.callee(call) & CHECKPOINTS)
