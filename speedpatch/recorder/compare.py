"""Compare a script before and after a change by what two recordings say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from speedpatch.codemod import Parity
from speedpatch.recorder.recording import Recording, Step
from speedpatch.recorder.tolerance import Tolerance

FLOOR = 0.01
BAND = 0.5
SAME = ("backwards", "schedules", "optimizer")


@dataclass(frozen=True)
class Difference:
    """One thing that differs beyond the tolerance; `step` is the first that shows it, None for the whole run."""

    code: str
    step: int | None
    message: str

    def __str__(self) -> str:
        return self.message if self.step is None else f"step {self.step}: {self.message}"


@dataclass(frozen=True)
class Comparison:
    """The verdict; the figures are the largest relative differences, and `steps` how many were compared."""

    parity: Parity
    steps: int
    loss: float
    norm: float
    clip_norm: float
    differences: tuple[Difference, ...]

    @property
    def holds(self) -> bool:
        """Whether the parity that was asked for is kept."""
        return not self.differences

    @property
    def codes(self) -> frozenset[str]:
        """The codes of what differs."""
        return frozenset(difference.code for difference in self.differences)

    def __str__(self) -> str:
        figures = f"{self.steps} steps, loss {self.loss:.2g}, gradient norm {self.norm:.2g}"
        lines = [f"{self.parity} parity {'holds' if self.holds else 'does not hold'} ({figures})"]
        return "\n  ".join([*lines, *map(str, self.differences)])


def compare(
    before: Recording,
    after: Recording,
    parity: Parity,
    tolerance: Tolerance | None = None,
    band: Sequence[Recording] = (),
    ignore: Collection[str] = (),
) -> Comparison:
    """Whether `after` trains as `before` does, in the class that was asked for.

    `exact` is bit for bit. `close` needs a tolerance. `redrawn` needs a band: recordings of the unchanged script
    with other seeds. `changed` asks only for steps, finite losses and no new faults. Where a GradScaler skipped a
    step, what follows is not compared and the skipping is a difference. `ignore` holds codes of differences that a
    change is meant to make, such as `backwards` where it accumulates.
    """
    pairs = list(takewhile(_same_skipping, zip(before.steps, after.steps, strict=False)))
    differences = (*_basics(before, after), *_judge(parity, before, after, pairs, tolerance, band))
    return Comparison(
        parity=parity,
        steps=len(pairs),
        loss=_widest(pairs, "loss"),
        norm=_widest(pairs, "gradient_norm"),
        clip_norm=_widest(pairs, "clip_norm"),
        differences=tuple(difference for difference in differences if difference.code not in ignore),
    )


def _same_skipping(pair: tuple[Step, Step]) -> bool:
    return pair[0].skipped == pair[1].skipped


def _judge(
    parity: Parity,
    before: Recording,
    after: Recording,
    pairs: Sequence[tuple[Step, Step]],
    tolerance: Tolerance | None,
    band: Sequence[Recording],
) -> Iterator[Difference]:
    if parity == "exact":
        return _exact(before, after, pairs)
    if parity == "close":
        return _close(before, after, pairs, tolerance or Tolerance(0.0, 0.0, ""))
    if parity == "redrawn":
        return _redrawn(before, after, [before, *band])
    return iter(())


def _basics(before: Recording, after: Recording) -> Iterator[Difference]:
    """What no class allows: nothing to compare, numbers that broke, calls out of order."""
    if not before.steps or not after.steps:
        yield Difference("no-steps", None, "nothing is proven: no optimizer step was recorded")
    for number, step in enumerate(after.steps):
        if step.loss is not None and not math.isfinite(step.loss) and _is_finite_at(before, number):
            yield Difference("not-finite", number, f"the loss is {step.loss}")
            break
    known = {fault.code for fault in before.faults}
    for fault in after.faults:
        if fault.code not in known:
            known.add(fault.code)
            yield Difference(fault.code, fault.step, fault.message)


def _exact(before: Recording, after: Recording, pairs: Sequence[tuple[Step, Step]]) -> Iterator[Difference]:
    yield from _counts(before, after)
    yield from _first(pairs, "loss", _is_identical, "the loss")
    yield from _first(pairs, "gradient_norm", _is_identical, "the gradient norm")
    yield from _first(pairs, "clip_norm", _is_identical, "the norm before clipping")
    yield from _schedule(pairs, _is_identical)
    if before.parameters != after.parameters:
        yield Difference("parameters", None, "the parameters at the end are not the same bit for bit")
    if before.buffers != after.buffers and not before.compiled.frames + after.compiled.frames:
        yield Difference("buffers", None, "the buffers at the end are not the same bit for bit")


def _close(
    before: Recording, after: Recording, pairs: Sequence[tuple[Step, Step]], tolerance: Tolerance
) -> Iterator[Difference]:
    yield from _counts(before, after)
    yield from _first(pairs, "loss", _within(pairs, "loss", tolerance.loss), "the loss")
    yield from _first(pairs, "gradient_norm", _within(pairs, "gradient_norm", tolerance.norm), "the gradient norm")
    yield from _first(pairs, "clip_norm", _within(pairs, "clip_norm", tolerance.norm), "the norm before clipping")
    yield from _schedule(pairs, lambda a, b: math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-12))


def _redrawn(before: Recording, after: Recording, band: Sequence[Recording]) -> Iterator[Difference]:
    """The mean loss lies in the band of other seeds, widened by a part of its width on each side."""
    if len(band) < 3:
        yield Difference("no-band", None, "recordings with at least two other seeds are needed to say what chance does")
        return
    yield from _counts(before, after)
    means = [math.fsum(recording.losses) / max(1, len(recording.losses)) for recording in (after, *band)]
    low, high = min(means[1:]), max(means[1:])
    margin = BAND * (high - low)
    if not low - margin <= means[0] <= high + margin:
        yield Difference("band", None, f"mean loss {means[0]:.6g}, other seeds give {low:.6g} to {high:.6g}")


def _counts(before: Recording, after: Recording) -> Iterator[Difference]:
    if len(before.steps) != len(after.steps):
        yield Difference("steps", None, f"{len(after.steps)} steps, {len(before.steps)} before")
    if before.skipped != after.skipped:
        yield Difference("skipped", None, f"{after.skipped} steps skipped, {before.skipped} before")
    if not before.compiled.frames + after.compiled.frames and _modes(before) != _modes(after):
        yield Difference("forward", None, f"calls of modules: {_modes(after)}, {_modes(before)} before")


def _modes(recording: Recording) -> dict[str, int]:
    """How many calls of modules were made in which mode; what compiled code calls is not seen."""
    modes: Counter[str] = Counter()
    for forward in recording.forwards:
        modes[f"{'train' if forward.training else 'eval'}, {'' if forward.gradient else 'no '}gradient"] += (
            forward.calls
        )
    return dict(modes)


def _schedule(pairs: Sequence[tuple[Step, Step]], is_same: Callable[[Any, Any], bool]) -> Iterator[Difference]:
    """What goes with the steps: how many backwards, whose step, which learning rates, how many scheduler steps."""
    for field in SAME:
        yield from _first(pairs, field, lambda a, b: bool(a == b), field)
    for number, (a, b) in enumerate(pairs):
        rates = zip(a.learning_rates, b.learning_rates, strict=False)
        if len(a.learning_rates) != len(b.learning_rates) or not all(is_same(x, y) for x, y in rates):
            yield Difference("learning-rate", number, f"learning rates {b.learning_rates}, {a.learning_rates} before")
            return


def _first(
    pairs: Iterable[tuple[Step, Step]], field: str, is_same: Callable[[Any, Any], bool], words: str
) -> Iterator[Difference]:
    """The first step at which a field is not the same."""
    for number, pair in enumerate(pairs):
        a, b = (getattr(step, field) for step in pair)
        if (a is None) != (b is None) or (a is not None and not is_same(a, b)):
            yield Difference(field.replace("_", "-"), number, f"{words} is {_number(b)}, {_number(a)} before")
            return


def _within(pairs: Sequence[tuple[Step, Step]], field: str, tolerance: float) -> Callable[[float, float], bool]:
    floor = _floor(pairs, field)
    return lambda a, b: _is_identical(a, b) or _relative(a, b, floor) <= tolerance


def _widest(pairs: Sequence[tuple[Step, Step]], field: str) -> float:
    floor = _floor(pairs, field)
    values = [(getattr(a, field), getattr(b, field)) for a, b in pairs]
    return max((_relative(a, b, floor) for a, b in values if a is not None and b is not None), default=0.0)


def _floor(pairs: Sequence[tuple[Step, Step]], field: str) -> float:
    """Values near zero are measured against a hundredth of the largest."""
    values = (getattr(before, field) for before, _ in pairs)
    return FLOOR * max((abs(value) for value in values if value is not None and math.isfinite(value)), default=0.0)


def _relative(a: float, b: float, floor: float) -> float:
    if _is_identical(a, b):
        return 0.0
    size = max(abs(a), floor)
    return abs(a - b) / size if math.isfinite(a) and math.isfinite(b) and size else math.inf


def _is_identical(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def _is_finite_at(recording: Recording, number: int) -> bool:
    losses = [step.loss for step in recording.steps[number : number + 1]]
    return all(loss is None or math.isfinite(loss) for loss in losses)


def _number(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)
