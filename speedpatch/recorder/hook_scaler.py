"""Watch GradScaler, and find its calls out of order."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler

from speedpatch.recorder import tensors
from speedpatch.recorder.watch import Calls, Mark, Watch, put, run_within

Function = Callable[..., Any]


def hook_scaler(watch: Watch) -> None:
    """Record every GradScaler and the calls of its methods."""
    for name, wrap in {
        "__init__": _watched_init, "scale": _watched_scale, "unscale_": _watched_unscale,
        "step": _watched_step, "update": _watched_update,
    }.items():  # fmt: skip
        put(GradScaler, name, wrap(watch, getattr(GradScaler, name)))


def note_plain_step(watch: Watch, optimizer: Any) -> None:
    """Find a step that takes scaled gradients for true ones."""
    marks = _marks(watch, optimizer)
    if any(mark.state == "scaled" for mark in marks):
        watch.add_fault("plain-step", "optimizer.step() ran on scaled gradients; scaler.step(optimizer) was due")
    _set_state(marks, "stepped")


def note_clip(watch: Watch, parameters: Iterable[Any]) -> None:
    """Find clipping of gradients that are still scaled."""
    marks = [watch.marks[id(parameter)] for parameter in parameters if id(parameter) in watch.marks]
    if any(mark.state == "scaled" for mark in marks):
        watch.add_fault("scaled-clip", "gradients were clipped while scaled; scaler.unscale_(optimizer) was due")


def _watched_init(watch: Watch, original: Function) -> Function:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        if watch.job.init_scale is not None:
            bound.arguments["init_scale"] = watch.job.init_scale
        original(*bound.args, **bound.kwargs)
        watch.scalers.append(Calls(self))

    return initialize


def _watched_scale(watch: Watch, original: Function) -> Function:
    @functools.wraps(original)
    def scale(self: Any, outputs: Any) -> Any:
        outputs = outputs if isinstance(outputs, torch.Tensor) else list(outputs)
        calls = _calls(watch, self)
        scaled = original(self, outputs)
        if self.is_enabled() and not watch.depth["scale"]:
            calls.scales += 1
            _note_scaled(watch, calls, outputs, scaled)
        return scaled

    return scale


def _note_scaled(watch: Watch, calls: Calls, outputs: Any, scaled: Any) -> None:
    factor = float(calls.scaler.get_scale())
    pairs = [(outputs, scaled)] if isinstance(outputs, torch.Tensor) else zip(outputs, scaled, strict=True)
    for before, after in pairs:
        if isinstance(after, torch.Tensor):
            watch.scaled[after] = before.detach()
            tensors.mark_scaled(after, calls, factor)


def _watched_unscale(watch: Watch, original: Function) -> Function:
    @functools.wraps(original)
    def unscale(self: Any, optimizer: Any) -> Any:
        result = original(self, optimizer)
        if self.is_enabled() and not watch.depth["scaler"]:
            _calls(watch, self).unscales += 1
            _set_state(_marks(watch, optimizer), "unscaled")
        return result

    return unscale


def _watched_step(watch: Watch, original: Function) -> Function:
    @functools.wraps(original)
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.is_enabled():
            return original(self, optimizer, *args, **kwargs)
        watch.stop_if_done()
        calls = _calls(watch, self)
        calls.steps += 1
        _note_scaler_step(watch, calls, optimizer)
        before = len(watch.steps)
        result = run_within(watch, "scaler", original, self, optimizer, *args, **kwargs)
        _set_state(_marks(watch, optimizer), "stepped")
        if len(watch.steps) == before:
            gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
            watch.add_step(tensors.norm_of(gradients), optimizer, skipped=True)
        return result

    return step


def _note_scaler_step(watch: Watch, calls: Calls, optimizer: Any) -> None:
    other = watch.stepped_by.setdefault(id(optimizer), calls)
    if other is not calls:
        watch.add_fault("several-scalers", "another GradScaler stepped this optimizer before; one serves the whole run")
    marks = _marks(watch, optimizer)
    if any(mark.state == "plain" for mark in marks):
        watch.add_fault("unscaled-backward", "scaler.step() divides gradients of a loss that was not scaled")
    if any(mark.state in ("scaled", "unscaled") and mark.updates != calls.updates for mark in marks):
        watch.add_fault("early-update", "scaler.update() ran between backward and scaler.step()")


def _watched_update(watch: Watch, original: Function) -> Function:
    @functools.wraps(original)
    def update(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if self.is_enabled():
            _calls(watch, self).updates += 1
            watch.stop_if_done()
        return result

    return update


def _calls(watch: Watch, scaler: Any) -> Calls:
    for calls in watch.scalers:
        if calls.scaler is scaler:
            return calls
    watch.scalers.append(Calls(scaler))
    return watch.scalers[-1]


def _marks(watch: Watch, optimizer: Any) -> list[Mark]:
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    return [watch.marks[id(parameter)] for parameter in parameters if id(parameter) in watch.marks]


def _set_state(marks: Iterable[Mark], state: Any) -> None:
    for mark in marks:
        mark.state = state
