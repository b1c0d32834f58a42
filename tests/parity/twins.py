"""Small programs, their right form under mixed precision, and wrong forms that a careless rewrite makes.

A twin is the right form with one passage replaced.
"""

from __future__ import annotations

from dataclasses import dataclass

PLAIN = """\
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
data = torch.randn(6, 2, 16, 8)

for window in data:
    model.train()
    optimizer.zero_grad()
    for inputs in window:
        inputs = inputs.to(device)
        loss = F.mse_loss(model(inputs), inputs.sum(1, keepdim=True)) / 2
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    model.eval()
    with torch.no_grad():
        print(f"{model(inputs).float().mean().item():.3f} {loss.item():.3f}")
"""

RIGHT = """\
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
use_amp = device.type == "cuda"
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
data = torch.randn(6, 2, 16, 8)

for window in data:
    model.train()
    optimizer.zero_grad()
    for inputs in window:
        inputs = inputs.to(device)
        with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
            loss = F.mse_loss(model(inputs), inputs.sum(1, keepdim=True)) / 2
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    model.eval()
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
        print(f"{model(inputs).float().mean().item():.3f} {loss.item():.3f}")
"""

TWO_PLAIN = """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8)).to(device)
critic = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
of_maker = torch.optim.SGD(maker.parameters(), lr=0.05)
of_critic = torch.optim.SGD(critic.parameters(), lr=0.05)
criterion = nn.BCEWithLogitsLoss()
real, noise = torch.randn(6, 16, 8) + 1, torch.randn(6, 16, 4)
ones, zeros = torch.ones(16, 1, device=device), torch.zeros(16, 1, device=device)

for batch, seed in zip(real, noise):
    batch, seed = batch.to(device), seed.to(device)
    of_maker.zero_grad()
    of_critic.zero_grad()
    fake = maker(seed)
    critic_loss = criterion(critic(batch), ones) + criterion(critic(fake.detach()), zeros)
    maker_loss = criterion(critic(fake), ones)
    maker_loss.backward()
    of_critic.zero_grad()
    critic_loss.backward()
    of_critic.step()
    of_maker.step()
"""

TWO_RIGHT = """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
use_amp = device.type == "cuda"
maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8)).to(device)
critic = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
of_maker = torch.optim.SGD(maker.parameters(), lr=0.05)
of_critic = torch.optim.SGD(critic.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
criterion = nn.BCEWithLogitsLoss()
real, noise = torch.randn(6, 16, 8) + 1, torch.randn(6, 16, 4)
ones, zeros = torch.ones(16, 1, device=device), torch.zeros(16, 1, device=device)

for batch, seed in zip(real, noise):
    batch, seed = batch.to(device), seed.to(device)
    of_maker.zero_grad()
    of_critic.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
        fake = maker(seed)
        critic_loss = criterion(critic(batch), ones) + criterion(critic(fake.detach()), zeros)
        maker_loss = criterion(critic(fake), ones)
    scaler.scale(maker_loss).backward()
    of_critic.zero_grad()
    scaler.scale(critic_loss).backward()
    scaler.step(of_critic)
    scaler.step(of_maker)
    scaler.update()
"""


@dataclass(frozen=True)
class Twin:
    """A wrong form: what is replaced by what, and one of the codes that must tell; "error" is a script that fails."""

    name: str
    old: str
    new: str
    code: str
    of_two: bool = False

    @property
    def text(self) -> str:
        """The whole program."""
        right = TWO_RIGHT if self.of_two else RIGHT
        assert right.count(self.old) == 1, f"{self.name}: the passage is not there once"
        return right.replace(self.old, self.new)


MAKE = 'scaler = torch.amp.GradScaler("cuda", enabled=use_amp)\n'
REGION = 'with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):\n'
UNSCALE = "    scaler.unscale_(optimizer)\n"
BACKWARD = "        scaler.scale(loss).backward()\n"
REFUSED = "lambda x, y: nn.functional.binary_cross_entropy(x.sigmoid(), y)"
LOSS = "            loss = F.mse_loss(model(inputs), inputs.sum(1, keepdim=True)) / 2\n"
TWINS = (
    Twin("a scaler each step", "for window in data:\n", f"for window in data:\n    {MAKE}", "several-scalers"),
    Twin("clipped while scaled", UNSCALE, "", "scaled-clip"),
    Twin("clipping lost", "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n", "", "clip-norm"),
    Twin("the plain loss goes backward", "scaler.scale(loss).backward()", "loss.backward()", "error"),
    Twin("the optimizer steps plainly", "scaler.step(optimizer)", "optimizer.step()", "inactive"),
    Twin("no update", "    scaler.update()\n", "", "error"),
    Twin("two updates", "    scaler.update()\n", "    scaler.update()\n    scaler.update()\n", "error"),
    Twin("unscaled in each part", UNSCALE, f"{UNSCALE}{UNSCALE}", "error"),
    Twin("updated before the step", f"{UNSCALE}", f"{UNSCALE}    scaler.update()\n", "early-update"),
    Twin("the loss is not divided", ") / 2\n", ")\n", "loss"),
    Twin("the scheduler runs early", UNSCALE, f"    scheduler.step()\n{UNSCALE}", "learning-rate"),
    Twin("the scheduler is lost", "    scheduler.step()\n", "", "schedules"),
    Twin("gradients are kept", "    optimizer.zero_grad()\n", "", "kept-gradients"),
    Twin("gradients go early", "        inputs =", "        optimizer.zero_grad()\n        inputs =", "clip-norm"),
    Twin("backward under autocast", BACKWARD, f"    {BACKWARD}", "autocast-backward"),
    Twin(
        "the loop under autocast",
        "for window in data:\n",
        "torch.set_autocast_enabled('cuda', use_amp)\nfor window in data:\n",
        "autocast-step",
    ),
    Twin("forward outside", f"        {REGION}{LOSS}", LOSS[4:], "inactive"),
    Twin(
        "evaluation outside",
        ', torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):\n        print',
        ":\n        print",
        "inactive",
    ),
    Twin("another type", f"        {REGION}", f"        {REGION.replace('float16', 'bfloat16')}", "inactive"),
    Twin("never enabled", 'use_amp = device.type == "cuda"', "use_amp = False", "inactive"),
    Twin("left in evaluation", "    model.train()\n", "", "forward"),
    Twin("a step too few", "for window in data:", "for window in data[1:]:", "steps"),
    Twin("the scaled loss is logged", BACKWARD, f"{BACKWARD}        loss = scaler.scale(loss)\n", "output"),
    Twin("one plain step", "scaler.step(of_maker)", "of_maker.step()", "plain-step", of_two=True),
    Twin("one loss not scaled", "scaler.scale(maker_loss)", "maker_loss", "unscaled-backward", of_two=True),
    Twin(
        "an update for each step",
        "    scaler.step(of_maker)\n",
        "    scaler.update()\n    scaler.step(of_maker)\n",
        "early-update",
        of_two=True,
    ),
    Twin("one step lost", "    scaler.step(of_maker)\n", "", "steps", of_two=True),
    Twin("a loss twice", "scaler.scale(critic_loss)", "scaler.scale(critic_loss + maker_loss)", "error", of_two=True),
    Twin("a loss that CUDA refuses", "nn.BCEWithLogitsLoss()", REFUSED, "error", of_two=True),
)  # fmt: skip
