"""What is seen of a run: steps, losses, norms, skipped steps, schedulers, and what was active."""

from __future__ import annotations

import math

import pytest

from speedpatch.recorder import inactive
from tests.recorder.conftest import HEAD, RecordText

SCALER = "scaler = torch.amp.GradScaler('cpu', init_scale={scale})\n"
SCALED = """\
for factor in {factors}:
    optimizer.zero_grad()
    loss = model(inputs).pow(2).mean() * factor
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def test_step_holds_loss_norm_and_rate(record_text: RecordText) -> None:
    text = "print(step().item(), torch.stack([p.grad.norm() for p in model.parameters()]).norm().item())\n"
    recording = record_text(text)
    loss, norm = map(float, recording.stdout.split())
    assert recording.steps[0].loss == pytest.approx(loss)
    assert recording.steps[0].gradient_norm == pytest.approx(norm)
    assert recording.steps[0].learning_rates == (0.1,)


def test_losses_of_one_step_are_summed(record_text: RecordText) -> None:
    text = "losses = [model(inputs).mean(), model(inputs).pow(2).mean()]\nfor one in losses:\n    one.backward()\n"
    recording = record_text(text + "optimizer.step()\nprint(sum(losses).item())\n")
    assert recording.steps[0].loss == pytest.approx(float(recording.stdout))
    assert recording.steps[0].backwards == 2


def test_backward_of_many_numbers_is_weighted(record_text: RecordText) -> None:
    text = "out = model(inputs)\nw = torch.rand_like(out)\nout.backward(w)\noptimizer.step()\n"
    recording = record_text(text + "print((out * w).sum().item())\n")
    assert recording.steps[0].loss == pytest.approx(float(recording.stdout))


def test_scaling_is_seen_through(record_text: RecordText) -> None:
    plain = record_text("for _ in range(3):\n    step()\n")
    scaled = record_text(SCALER.format(scale=1024.0) + SCALED.format(factors="[1, 1, 1]"))
    assert scaled.losses == plain.losses
    assert [s.gradient_norm for s in scaled.steps] == [s.gradient_norm for s in plain.steps]
    assert all(backward.scaled for backward in scaled.backwards)
    assert scaled.faults == ()
    (scaler,) = scaled.scalers
    assert (scaler.enabled, scaler.scale, scaler.scales, scaler.steps, scaler.updates) == (True, 1024.0, 3, 3, 3)


def test_scaled_loss_divided_afterwards_is_seen_through(record_text: RecordText) -> None:
    text = SCALER.format(scale=1024.0) + SCALED.format(factors="[1]").replace("(loss).b", "(loss).div(2).b")
    assert record_text(text).losses[0] == pytest.approx(record_text("step()\n").losses[0] / 2)


def test_skipped_step_is_a_step(record_text: RecordText) -> None:
    recording = record_text(SCALER.format(scale=8.0) + SCALED.format(factors="[1, float('inf'), 1]"), steps=3)
    assert [step.skipped for step in recording.steps] == [False, True, False]
    assert not math.isfinite(recording.steps[1].gradient_norm or 0.0)
    assert recording.skipped == 1


@pytest.mark.parametrize("factor", ["1", "float('inf')"])
def test_fused_optimizer_divides_and_skips_on_its_own(record_text: RecordText, factor: str) -> None:
    head = HEAD.replace("lr=0.1", "lr=0.1, fused=True")
    recording = record_text(SCALER.format(scale=1024.0) + SCALED.format(factors=f"[{factor}]"), head=head)
    assert recording.steps[0].skipped == (factor != "1")
    if factor == "1":
        assert recording.steps[0].gradient_norm == pytest.approx(record_text("step()\n").steps[0].gradient_norm)


def test_initial_scale_can_be_given(record_text: RecordText) -> None:
    recording = record_text(SCALER.format(scale=8.0) + SCALED.format(factors="[1]"), init_scale=64.0)
    assert recording.scalers[0].scale == 64.0


def test_disabled_scaler_leaves_no_trace(record_text: RecordText) -> None:
    text = SCALER.format(scale=8.0).replace("8.0", "8.0, enabled=False") + SCALED.format(factors="[1, 1]")
    plain, disabled = record_text("step()\nstep()\n"), record_text(text)
    assert (disabled.steps, disabled.parameters) == (plain.steps, plain.parameters)
    assert disabled.scalers[0].enabled is False


@pytest.mark.parametrize("kind", ["model.parameters()", "list(model.parameters())", "p for p in model.parameters()"])
def test_norm_before_clipping(record_text: RecordText, kind: str) -> None:
    text = f"model(inputs).pow(2).mean().backward()\nprint(float(nn.utils.clip_grad_norm_(({kind}), 1e-3)))\n"
    recording = record_text(text + "optimizer.step()\n")
    assert recording.steps[0].clip_norm == pytest.approx(float(recording.stdout))
    assert recording.steps[0].gradient_norm == pytest.approx(1e-3, rel=1e-2)


def test_clipping_imported_by_name_is_seen(record_text: RecordText) -> None:
    text = "from torch.nn.utils import clip_grad_value_\nmodel(inputs).mean().backward()\n"
    recording = record_text(text + "clip_grad_value_(model.parameters(), 0.1)\noptimizer.step()\n")
    assert recording.steps[0].clip_norm


def test_scheduler_steps_are_counted_without_the_first(record_text: RecordText) -> None:
    text = "from torch.optim.lr_scheduler import ExponentialLR, LinearLR, SequentialLR\n"
    text += "schedule = SequentialLR(optimizer, [LinearLR(optimizer), ExponentialLR(optimizer, 0.5)], [2])\n"
    recording = record_text(text + "for _ in range(4):\n    step()\n    schedule.step()\n")
    assert [step.schedules for step in recording.steps] == [0, 1, 2, 3]
    assert len({step.learning_rates for step in recording.steps}) == 4


def test_plateau_scheduler_is_counted(record_text: RecordText) -> None:
    text = "schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n"
    recording = record_text(text + "for _ in range(2):\n    schedule.step(step().item())\n")
    assert [step.schedules for step in recording.steps] == [0, 1]


def test_manual_updates_are_recorded_by_backward(record_text: RecordText) -> None:
    head = "import torch\nw = torch.ones(3, requires_grad=True)\n"
    text = "for _ in range(5):\n    w.pow(2).sum().backward()\n"
    text += "    with torch.no_grad():\n        w -= 0.1 * w.grad\n        w.grad = None\n"
    recording = record_text(text, head=head, steps=3)
    assert len(recording.steps) == 3
    assert recording.losses == pytest.approx([3.0, 3 * 0.8**2, 3 * 0.8**4])
    assert recording.checksum == pytest.approx(3 * 0.8**3)
    assert {step.optimizer for step in recording.steps} == {-1}


def test_lbfgs_closure_belongs_to_its_step(record_text: RecordText) -> None:
    text = "optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)\ndef closure():\n    optimizer.zero_grad()\n"
    text += "    loss = model(inputs).pow(2).mean()\n    loss.backward()\n    return loss\n"
    recording = record_text(text + "for _ in range(4):\n    optimizer.step(closure)\n", steps=2)
    assert len(recording.steps) == 2
    assert recording.steps[0].backwards > 1
    assert recording.steps[0].gradient_norm is not None


def test_optimizer_that_calls_its_base_steps_once(record_text: RecordText) -> None:
    text = "class Mine(torch.optim.SGD):\n    def step(self, closure=None):\n        return super().step(closure)\n"
    text += "optimizer = Mine(model.parameters(), lr=0.1)\nstep()\nstep()\n"
    assert len(record_text(text).steps) == 2


def test_optimizers_are_told_apart(record_text: RecordText) -> None:
    text = "first, second = optimizer, torch.optim.Adam(nn.Linear(4, 1).parameters())\n"
    text += "for optimizer in (second, first, second):\n    step()\n"
    assert [step.optimizer for step in record_text(text).steps] == [0, 1, 0]


def test_loaders_and_their_workers(record_text: RecordText) -> None:
    text = "from torch.utils.data import DataLoader\nloader = DataLoader(inputs, batch_size=2, num_workers=1)\n"
    recording = record_text(text + "for batch in loader:\n    step()\n")
    (loader,) = recording.loaders
    assert (loader.workers, loader.prefetch, loader.iterations, recording.workers) == (1, 2, 1, 1)
    assert inactive(recording, "dataloader") == ()


def test_autocast_is_seen_where_it_is_on(record_text: RecordText) -> None:
    text = "with torch.autocast('cpu', dtype=torch.bfloat16):\n    loss = model(inputs).mean()\n"
    recording = record_text(text + "loss.backward()\noptimizer.step()\n")
    assert recording.autocast() == ("cpu:bfloat16",)
    assert "bfloat16" in recording.precisions
    assert not recording.backwards[0].autocast
    assert inactive(recording, "amp", "bfloat16") == ()
    assert inactive(recording, "amp", "float16")


def test_model_in_half_precision_is_not_autocast(record_text: RecordText) -> None:
    recording = record_text("model.bfloat16()\ninputs = inputs.bfloat16()\nstep()\n")
    assert "bfloat16" in recording.precisions
    assert "no forward call ran under bfloat16 autocast" in inactive(recording, "amp", "bfloat16")


def test_digest_tells_one_bit(record_text: RecordText) -> None:
    nudge = "w = model.weight.data[0]\nw[0] = torch.nextafter(w[0], torch.tensor(9.0))\n"
    one, other = record_text("step()\n"), record_text("step()\n" + nudge)
    assert one.steps == other.steps
    assert one.parameters != other.parameters


@pytest.mark.parametrize("how", ["model.compile({})", "whole = torch.compile(model, {})"])
def test_compiled_code_is_seen_to_run(record_text: RecordText, how: str) -> None:
    backend = "backend='aot_eager'"
    text = "class Net(nn.Linear):\n    def forward(self, x):\n        return super().forward(x)\nmodel = Net(4, 1)\n"
    text += f"{how.format(backend)}\nmodel = globals().get('whole', model)\nstep()\nstep()\n"
    recording = record_text(text)
    assert recording.compiled.frames >= 1
    assert recording.compiled.backwards == 2
    assert recording.compiled.breaks == 0
    assert inactive(recording, "compile") == ()


def test_eager_code_is_not_compiled(record_text: RecordText) -> None:
    assert inactive(record_text("step()\n"), "compile") == ("no frame was compiled",)
