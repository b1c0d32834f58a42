"""Hold what the hooks saw of one run, end the run after the wanted steps, and freeze what was seen."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from speedpatch.recorder import tensors
from speedpatch.recorder.job import Job
from speedpatch.recorder.recording import (
    Backward,
    Compiled,
    Fault,
    Forward,
    Loader,
    Recording,
    Scaler,
    Step,
)

ForwardKey = tuple[bool, bool, tuple[str, ...]]


class Stop(BaseException):
    """The wanted steps are recorded; not an Exception, so that `except Exception` lets it through."""


@dataclass
class Calls:
    """How often the methods of one GradScaler ran."""

    scaler: Any
    scales: int = 0
    unscales: int = 0
    steps: int = 0
    updates: int = 0


@dataclass
class Mark:
    """How the gradient of a parameter stands; `scaler` and its `updates` then are those of its last backward."""

    parameter: Any
    state: Literal["plain", "scaled", "unscaled", "stepped"]
    scaler: Calls | None = None
    updates: int = 0


@dataclass
class Watch:
    """Everything seen so far. The one mutable object of the recorder, alive in the script's process only."""

    job: Job
    rank: int = 0
    steps: list[Step] = field(default_factory=list)
    backwards: list[Backward] = field(default_factory=list)
    forwards: Counter[ForwardKey] = field(default_factory=Counter)
    scalers: list[Calls] = field(default_factory=list)
    faults: dict[tuple[str, int], Fault] = field(default_factory=dict)
    loaders: Counter[int] = field(default_factory=Counter)
    loader_objects: dict[int, Any] = field(default_factory=dict)
    modules: dict[int, Any] = field(default_factory=dict)
    marks: dict[int, Mark] = field(default_factory=dict)
    optimizers: list[Any] = field(default_factory=list)
    stepped_by: dict[int, Calls] = field(default_factory=dict)
    scaled: Any = field(default_factory=WeakTensorKeyDictionary)
    precisions: set[str] = field(default_factory=set)
    compiled_backwards: int = 0
    has_optimizer: bool = False
    schedules: int = 0
    ranks: int = 1
    clip_norm: float | None = None
    depth: Counter[str] = field(default_factory=Counter)
    seen_backwards: int = 0
    done: bool = False

    def add_fault(self, code: str, message: str) -> None:
        """Note a call out of order, once a step."""
        self.faults.setdefault((code, len(self.steps)), Fault(code, len(self.steps), message))

    def add_step(self, norm: float | None, optimizer: Any, skipped: bool = False) -> None:
        """Close a step: everything since the last one belongs to it."""
        losses = [backward.loss for backward in self.backwards[self.seen_backwards :]]
        rates = tuple(float(group["lr"]) for group in getattr(optimizer, "param_groups", ()) if "lr" in group)
        self.steps.append(
            Step(
                loss=sum(losses) if losses else None,
                gradient_norm=norm,
                clip_norm=self.clip_norm,
                skipped=skipped,
                optimizer=self._number(optimizer),
                learning_rates=rates,
                schedules=self.schedules,
                backwards=len(losses),
                autocast=bool(tensors.active_autocast()),
            )
        )
        self.seen_backwards = len(self.backwards)
        self.clip_norm = None
        self.ranks = max(self.ranks, _world_size())

    def stop_if_done(self) -> None:
        """End the script when the wanted steps are recorded; if it caught that before, end the process."""
        if self.done:
            leave(0)
        if self.job.steps is not None and len(self.steps) >= self.job.steps:
            self.write(finished=False)
            raise Stop

    def write(self, finished: bool) -> None:
        """Write the recording in one piece; later calls do nothing."""
        if self.done:
            return
        self.done = True
        path = self.job.result(self.rank)
        partial = path.with_suffix(".partial")
        partial.write_text(self.freeze(finished).to_json(), encoding="utf-8")
        os.replace(partial, path)

    def freeze(self, finished: bool) -> Recording:
        """The recording of what was seen so far."""
        trained = self.trained()
        return Recording(
            script=Path(self.job.script).name,
            torch=torch.__version__,
            steps=tuple(self.steps),
            backwards=tuple(self.backwards),
            forwards=tuple(Forward(*key, calls=calls) for key, calls in sorted(self.forwards.items())),
            scalers=tuple(_freeze_scaler(calls) for calls in self.scalers),
            faults=tuple(self.faults.values()),
            loaders=tuple(_freeze_loader(self.loader_objects[key], n) for key, n in self.loaders.items()),
            compiled=_freeze_compiled(self.compiled_backwards),
            precisions=tuple(sorted(self.precisions)),
            parameters=tensors.digest(trained),
            buffers=tensors.digest([buffer for module in self.modules.values() for buffer in module.buffers()]),
            checksum=tensors.checksum(trained),
            ranks=self.ranks,
            finished=finished,
        )

    def trained(self) -> list[Any]:
        """The parameters that are trained: the optimizers', else all that a backward reached."""
        groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        return [p for group in groups for p in group["params"]] or [mark.parameter for mark in self.marks.values()]

    def _number(self, optimizer: Any) -> int:
        if optimizer is None:
            return -1
        for number, known in enumerate(self.optimizers):
            if known is optimizer:
                return number
        self.optimizers.append(optimizer)
        return len(self.optimizers) - 1


def run_within(watch: Watch, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function; `watch.depth[name]` tells hooks below that they are inside of it."""
    watch.depth[name] += 1
    try:
        return function(*args, **kwargs)
    finally:
        watch.depth[name] -= 1


def put(owner: Any, name: str, value: Any) -> None:
    """Set an attribute of torch; a plain assignment would be an error of types."""
    setattr(owner, name, value)


def leave(status: int) -> NoReturn:
    """End the process at once, its output written; threads and exit handlers of the script cannot hold it."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _world_size() -> int:
    distributed = torch.distributed
    return int(distributed.get_world_size()) if distributed.is_available() and distributed.is_initialized() else 1


def _freeze_scaler(calls: Calls) -> Scaler:
    enabled = bool(calls.scaler.is_enabled())
    scale = float(calls.scaler.get_scale()) if enabled else None
    return Scaler(enabled, scale, calls.scales, calls.unscales, calls.steps, calls.updates)


def _freeze_loader(loader: Any, iterations: int) -> Loader:
    workers = int(loader.num_workers)
    prefetch = int(loader.prefetch_factor) if workers and loader.prefetch_factor else None
    return Loader(workers, bool(loader.pin_memory), bool(loader.persistent_workers), prefetch, iterations)


def _freeze_compiled(backwards: int) -> Compiled:
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters = dynamo.counters if dynamo else {}
    frames, stats, breaks = (counters.get(name, {}) for name in ("frames", "stats", "graph_break"))
    return Compiled(frames.get("ok", 0), stats.get("unique_graphs", 0), sum(breaks.values()), backwards)
