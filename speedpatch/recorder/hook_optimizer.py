"""Watch optimizer steps, clipping and schedulers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from speedpatch.recorder import tensors
from speedpatch.recorder.hook_scaler import note_clip, note_plain_step
from speedpatch.recorder.watch import Watch, put, run_within

Function = Callable[..., Any]
CLIPPING = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "clip_grads_with_norm_")


def hook_optimizers(watch: Watch) -> None:
    """Record every step of every optimizer; a class's step is wrapped where torch wraps it for its profiler."""
    initialize, wrap = Optimizer.__init__, Optimizer.profile_hook_step

    @functools.wraps(initialize)
    def note_optimizer(self: Optimizer, *args: Any, **kwargs: Any) -> None:
        watch.has_optimizer = True
        initialize(self, *args, **kwargs)

    put(Optimizer, "__init__", note_optimizer)
    put(Optimizer, "profile_hook_step", staticmethod(lambda step: _watched_step(watch, wrap(step))))


def _watched_step(watch: Watch, original: Function) -> Function:
    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if watch.depth["step"] or torch.compiler.is_compiling():
            return original(self, *args, **kwargs)
        watch.stop_if_done()
        _note_before_step(watch, self)
        has_closure = callable(args[0] if args else kwargs.get("closure"))
        norm = None if has_closure else _gradient_norm(self)
        skipped = bool(getattr(self, "found_inf", None) or False)
        result = run_within(watch, "step", original, self, *args, **kwargs)
        watch.add_step(_gradient_norm(self) if has_closure else norm, self, skipped)
        if not watch.depth["scaler"]:
            watch.stop_if_done()
        return result

    return step


def _note_before_step(watch: Watch, optimizer: Any) -> None:
    autocast = tensors.active_autocast()
    if autocast:
        watch.add_fault("autocast-step", f"an optimizer stepped under autocast ({', '.join(autocast)})")
    if not watch.depth["scaler"]:
        note_plain_step(watch, optimizer)


def _gradient_norm(optimizer: Any) -> float | None:
    """The norm as the update uses it: a fused optimizer divides by the scale on its own."""
    scale = getattr(optimizer, "grad_scale", None)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return tensors.norm_of((p.grad for p in parameters if p.grad is not None), 1.0 if scale is None else float(scale))


def hook_clipping(watch: Watch) -> None:
    """Record the norm that clipping sees."""
    for module in (torch.nn.utils, torch.nn.utils.clip_grad):
        for name in CLIPPING:
            if hasattr(module, name):
                put(module, name, _watched_clip(watch, getattr(module, name)))


def _watched_clip(watch: Watch, original: Function) -> Function:
    if hasattr(original, "__wrapped__") and getattr(original, "is_watched", False):
        return original

    @functools.wraps(original)
    def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        if watch.depth["clip"] or torch.compiler.is_compiling():
            return original(parameters, *args, **kwargs)
        parameters = parameters if isinstance(parameters, torch.Tensor) else list(parameters)
        _note_norm(watch, [parameters] if isinstance(parameters, torch.Tensor) else parameters)
        return run_within(watch, "clip", original, parameters, *args, **kwargs)

    put(clip, "is_watched", True)
    return clip


def _note_norm(watch: Watch, parameters: Iterable[Any]) -> None:
    with_gradient = [p for p in parameters if p.grad is not None]
    note_clip(watch, with_gradient)
    norm = tensors.norm_of(p.grad for p in with_gradient)
    if norm is not None:
        watch.clip_norm = norm if watch.clip_norm is None else math.hypot(watch.clip_norm, norm)


def hook_schedulers(watch: Watch) -> None:
    """Count the steps that the script asks of schedulers, not those that they take when they are made."""
    for scheduler in _family(LRScheduler):
        if "step" in vars(scheduler):
            put(scheduler, "step", _watched_schedule(watch, scheduler.step, counts=True))
    if hasattr(LRScheduler, "_initial_step"):
        put(LRScheduler, "_initial_step", _watched_schedule(watch, LRScheduler._initial_step, counts=False))


def _watched_schedule(watch: Watch, original: Function, counts: bool) -> Function:
    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        watch.schedules += counts and not watch.depth["schedule"]
        return run_within(watch, "schedule", original, self, *args, **kwargs)

    return step


def _family(kind: type[Any]) -> list[type[Any]]:
    return [kind, *(member for child in kind.__subclasses__() for member in _family(child))]
