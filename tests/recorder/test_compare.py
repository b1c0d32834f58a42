"""Two recordings are judged by class; what differs is named once, at its first step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from speedpatch.codemod import Parity
from speedpatch.recorder import TOLERANCES, Recording, Tolerance, compare, inactive, tolerance_for
from speedpatch.recorder.recording import Backward, Compiled, Fault, Forward, Scaler, Step

STEP = Step(
    loss=1.0, gradient_norm=2.0, clip_norm=None, skipped=False, optimizer=0, learning_rates=(0.1,), schedules=0,
    backwards=1, autocast=False,
)  # fmt: skip
PLAIN = Recording(
    script="train.py", torch="2.15.0", steps=(STEP,) * 4, backwards=(Backward(1.0, 0, False, False),),
    forwards=(Forward(True, True, (), 4),), scalers=(), faults=(), loaders=(), compiled=Compiled(0, 0, 0, 0),
    precisions=("float32",), parameters="a", buffers="b", checksum=1.0, ranks=1, finished=True,
)  # fmt: skip
TENTH = Tolerance(0.1, 0.1, "")


def with_step(number: int, **changes: Any) -> Recording:
    """PLAIN with one step changed."""
    steps = list(PLAIN.steps)
    steps[number] = replace(steps[number], **changes)
    return replace(PLAIN, steps=tuple(steps))


@pytest.mark.parametrize("parity", ["exact", "close", "changed"])
def test_run_is_like_itself(parity: Parity) -> None:
    comparison = compare(PLAIN, PLAIN, parity)
    assert comparison.holds
    assert comparison.steps == 4
    assert "parity holds" in str(comparison)


@pytest.mark.parametrize(
    "after, code",
    [
        pytest.param(with_step(2, loss=1.0000001), "loss", id="loss"),
        pytest.param(with_step(2, gradient_norm=2.0000001), "gradient-norm", id="norm"),
        pytest.param(with_step(2, clip_norm=1.0), "clip-norm", id="clipped"),
        pytest.param(with_step(2, loss=None), "loss", id="no loss"),
        pytest.param(replace(PLAIN, parameters="c"), "parameters", id="parameters"),
        pytest.param(replace(PLAIN, buffers="c"), "buffers", id="buffers"),
    ],
)
def test_exact_forgives_nothing(after: Recording, code: str) -> None:
    assert compare(PLAIN, after, "exact").codes == {code}


@pytest.mark.parametrize(
    "after, code",
    [
        pytest.param(with_step(1, loss=1.2), "loss", id="loss"),
        pytest.param(with_step(1, gradient_norm=1.0), "gradient-norm", id="norm"),
        pytest.param(with_step(1, learning_rates=(0.2,)), "learning-rate", id="rate"),
        pytest.param(with_step(1, schedules=1), "schedules", id="scheduler"),
        pytest.param(with_step(1, backwards=2), "backwards", id="backwards"),
        pytest.param(with_step(1, skipped=True), "skipped", id="skipped"),
        pytest.param(with_step(1, optimizer=1), "optimizer", id="optimizer"),
        pytest.param(replace(PLAIN, steps=PLAIN.steps[:3]), "steps", id="steps"),
        pytest.param(replace(PLAIN, forwards=(Forward(True, False, (), 4),)), "forward", id="mode"),
    ],
)
def test_close_has_limits(after: Recording, code: str) -> None:
    comparison = compare(PLAIN, after, "close", TENTH)
    assert comparison.codes == {code}
    assert compare(PLAIN, after, "close", TENTH, ignore=[code]).holds


def test_close_forgives_what_the_tolerance_allows() -> None:
    after = replace(with_step(1, loss=1.05, gradient_norm=1.9), parameters="c", buffers="d")
    comparison = compare(PLAIN, after, "close", TENTH)
    assert comparison.holds
    assert comparison.loss == pytest.approx(0.05)


def test_losses_near_zero_are_measured_against_the_largest() -> None:
    before, after = with_step(3, loss=1e-9), with_step(3, loss=2e-9)
    assert compare(before, after, "close", TENTH).holds


def test_nothing_is_compared_after_a_skipped_step() -> None:
    after = with_step(1, skipped=True, loss=9.0)
    assert compare(PLAIN, after, "close", TENTH).steps == 1


@pytest.mark.parametrize("parity", ["exact", "close", "redrawn", "changed"])
def test_no_class_allows_a_new_fault_or_a_broken_number(parity: Parity) -> None:
    fault = Fault("plain-step", 1, "a plain step")
    assert "plain-step" in compare(PLAIN, replace(PLAIN, faults=(fault,)), parity).codes
    assert "plain-step" not in compare(replace(PLAIN, faults=(fault,)), replace(PLAIN, faults=(fault,)), parity).codes
    assert "not-finite" in compare(PLAIN, with_step(1, loss=float("nan")), parity).codes
    assert "no-steps" in compare(replace(PLAIN, steps=()), replace(PLAIN, steps=()), parity).codes


def test_redrawn_asks_for_a_band_and_holds_to_it() -> None:
    band = [with_step(0, loss=1.4), with_step(0, loss=0.6)]
    assert compare(PLAIN, PLAIN, "redrawn").codes == {"no-band"}
    assert compare(PLAIN, with_step(0, loss=1.3), "redrawn", band=band).holds
    assert compare(PLAIN, with_step(0, loss=3.0), "redrawn", band=band).codes == {"band"}


def test_differences_are_told_in_words() -> None:
    text = str(compare(PLAIN, with_step(2, loss=1.5), "close", TENTH))
    assert text.splitlines()[0] == "close parity does not hold (4 steps, loss 0.5, gradient norm 0)"
    assert text.splitlines()[1] == "  step 2: the loss is 1.5, 1 before"


def test_tolerance_of_several_codemods_is_the_widest() -> None:
    assert tolerance_for(frozenset({"amp"})) == TOLERANCES["float16"]
    assert tolerance_for(frozenset({"amp"}), "bfloat16") == TOLERANCES["bfloat16"]
    assert tolerance_for(frozenset({"amp", "compile"})) == TOLERANCES["float16"]
    assert tolerance_for(frozenset({"compile"})) == TOLERANCES["compile"]
    assert tolerance_for(frozenset({"non-blocking"})).loss == 0.0


EVALUATION = (Forward(False, False, (), 2),)
AMP = replace(
    PLAIN, forwards=(Forward(True, True, ("cuda:float16",), 4),), precisions=("float16", "float32"),
    scalers=(Scaler(True, 1024.0, 4, 0, 4, 4),), backwards=(Backward(1.0, 0, True, False),),
)  # fmt: skip


@pytest.mark.parametrize(
    "recording, reason",
    [
        pytest.param(PLAIN, "no forward call ran under float16 autocast", id="nothing"),
        pytest.param(replace(AMP, precisions=("float32",)), "nothing behind the losses", id="computed in float32"),
        pytest.param(replace(AMP, scalers=()), "0 GradScalers stepped", id="no scaler"),
        pytest.param(replace(AMP, scalers=AMP.scalers * 2), "2 GradScalers stepped", id="two scalers"),
        pytest.param(replace(AMP, backwards=PLAIN.backwards), "1 of 1 losses were not scaled", id="not scaled"),
        pytest.param(replace(AMP, forwards=AMP.forwards + PLAIN.forwards), "4 forward calls of training", id="partly"),
        pytest.param(replace(AMP, forwards=AMP.forwards + EVALUATION), "no forward call of evaluation", id="unseen"),
    ],
)  # fmt: skip
def test_amp_has_to_be_wholly_at_work(recording: Recording, reason: str) -> None:
    assert reason in "; ".join(inactive(recording, "amp"))
    assert inactive(AMP, "amp") == ()


def test_other_codemods_have_to_be_at_work() -> None:
    assert inactive(PLAIN, "ddp") == ("one process trained alone",)
    assert inactive(PLAIN, "dataloader") == ("no DataLoader ran workers",)
    assert inactive(replace(PLAIN, compiled=Compiled(1, 1, 0, 0)), "compile") == (
        "no loss was computed by compiled code",
    )
    assert inactive(PLAIN, "non-blocking") == ()
