"""What a recorded run of a training script is: frozen data with a JSON round trip."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

VERSION = 1


class RecordingError(Exception):
    """The script could not be recorded; the message says why and ends with the last lines of its stderr."""


@dataclass(frozen=True)
class Backward:
    """One call of backward: the loss without loss scaling, and the optimizer steps taken before it."""

    loss: float
    step: int
    scaled: bool
    autocast: bool


@dataclass(frozen=True)
class Step:
    """One optimizer step, taken or skipped by a GradScaler; of a script without optimizer, one backward.

    `loss` sums the losses since the last step; None without a backward. `gradient_norm` is what the optimizer
    saw; `clip_norm` is what clipping saw. `optimizer` numbers the optimizers by their first step, -1 is none.
    `schedules` counts scheduler steps so far.
    """

    loss: float | None
    gradient_norm: float | None
    clip_norm: float | None
    skipped: bool
    optimizer: int
    learning_rates: tuple[float, ...]
    schedules: int
    backwards: int
    autocast: bool


@dataclass(frozen=True)
class Forward:
    """Calls of outermost modules under the same conditions; `autocast` holds entries like `cuda:float16`."""

    gradient: bool
    training: bool
    autocast: tuple[str, ...]
    calls: int


@dataclass(frozen=True)
class Scaler:
    """One GradScaler and how often its methods ran; `scale` is the last scale factor."""

    enabled: bool
    scale: float | None
    scales: int
    unscales: int
    steps: int
    updates: int


@dataclass(frozen=True)
class Fault:
    """A call out of order that training may survive in silence; `step` counts the steps before it."""

    code: str
    step: int
    message: str


@dataclass(frozen=True)
class Loader:
    """One DataLoader's settings and how often it was iterated."""

    workers: int
    pinned: bool
    persistent: bool
    prefetch: int | None
    iterations: int


@dataclass(frozen=True)
class Compiled:
    """What dynamo did: frames compiled, graphs, graph breaks, and backwards through compiled code."""

    frames: int
    graphs: int
    breaks: int
    backwards: int


@dataclass(frozen=True)
class Recording:
    """One run. `finished`: the script came to its end before the wanted number of steps.

    `precisions` are the floating point types of the operations behind the losses and of what modules return.
    `parameters` is a digest of the trained parameters at the end, `checksum` the sum of their absolute values,
    `buffers` a digest of the buffers of the modules that ran.
    """

    script: str
    torch: str
    steps: tuple[Step, ...]
    backwards: tuple[Backward, ...]
    forwards: tuple[Forward, ...]
    scalers: tuple[Scaler, ...]
    faults: tuple[Fault, ...]
    loaders: tuple[Loader, ...]
    compiled: Compiled
    precisions: tuple[str, ...]
    parameters: str
    buffers: str
    checksum: float
    ranks: int
    finished: bool
    stdout: str = ""
    stderr: str = ""
    version: int = VERSION

    @property
    def losses(self) -> tuple[float, ...]:
        """The summed loss of each step that had one."""
        return tuple(step.loss for step in self.steps if step.loss is not None)

    @property
    def skipped(self) -> int:
        """How many steps a GradScaler skipped."""
        return sum(step.skipped for step in self.steps)

    @property
    def workers(self) -> int:
        """The most worker processes that a DataLoader ran."""
        return max((loader.workers for loader in self.loaders), default=0)

    def autocast(self, gradient: bool = True) -> tuple[str, ...]:
        """What autocast was on in forward calls with (or without) gradients."""
        return tuple(sorted({entry for f in self.forwards if f.gradient == gradient for entry in f.autocast}))

    def to_json(self) -> str:
        """One JSON object; losses keep every bit."""
        return json.dumps(dataclasses.asdict(self))


PARTS: dict[str, type[Any]] = {
    "steps": Step, "backwards": Backward, "forwards": Forward, "scalers": Scaler, "faults": Fault, "loaders": Loader,
}  # fmt: skip


def recording_from_json(text: str) -> Recording:
    """The recording that `to_json` wrote. Raises RecordingError for another version's."""
    data: dict[str, Any] = json.loads(text)
    if data.get("version") != VERSION:
        raise RecordingError(f"recording of version {data.get('version')}, expected {VERSION}")
    parts = {name: tuple(_build(kind, entry) for entry in data[name]) for name, kind in PARTS.items()}
    compiled = Compiled(**data["compiled"])
    return Recording(**{**data, **parts, "compiled": compiled, "precisions": tuple(data["precisions"])})


def _build(kind: type[Any], entry: dict[str, Any]) -> Any:
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()})
