"""Shapes that real programs have and that a rewriter of text gets wrong."""

from __future__ import annotations

import pytest

from tests.codemods.check import dedent, run, text_of

HEAD = """import torch
from torch import nn
import torch.nn.functional as F
"""

MODEL_IS_TRAINER = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.optimizer = torch.optim.Adam(self.parameters())
    def forward(self, x):
        return self.conv(x).mean((2, 3))
    def train_step(self, x, y):
        loss = F.cross_entropy(self(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
net = Net().cuda()
for x, y in loader:
    net.train_step(x.cuda(), y.cuda())
"""
GLOBAL_CALLED = """
model = nn.Conv2d(3, 8, 3).cuda()
optimizer = torch.optim.Adam(model.parameters())
def train(net, loader):
    for x, y in loader:
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
train(model, loader)
"""
OPT_BEFORE_CUDA = """
model = nn.Conv2d(3, 8, 3)
optimizer = torch.optim.Adam(model.parameters())
if torch.cuda.is_available():
    model.cuda()
for x, y in loader:
    if torch.cuda.is_available():
        x, y = x.cuda(), y.cuda()
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SWAPPED = """
model = nn.Conv2d(3, 8, 3).cuda()
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(20):
    if epoch == 10:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
STEP_AND_UPDATE = """
class ScheduledOptim:
    def __init__(self, optimizer, d):
        self._optimizer = optimizer
        self.n, self.d = 0, d
    def step_and_update_lr(self):
        self._update()
        self._optimizer.step()
    def zero_grad(self):
        self._optimizer.zero_grad()
    def _update(self):
        self.n += 1
        for g in self._optimizer.param_groups:
            g["lr"] = self.d * self.n ** -0.5
model = nn.Conv2d(3, 8, 3).cuda()
optimizer = ScheduledOptim(torch.optim.Adam(model.parameters()), 512)
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step_and_update_lr()
"""
GENERATOR = """
def cycle(loader):
    while True:
        for batch in loader:
            yield batch
model = nn.Conv2d(3, 8, 3).cuda()
optimizer = torch.optim.Adam(model.parameters())
batches = cycle(torch.utils.data.DataLoader(data))
while True:
    x, y = next(batches)
    loss = F.cross_entropy(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
GRAD_AFTER_LOOP = """
model = nn.Conv2d(3, 8, 3).cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    loss = F.cross_entropy(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(model.weight.grad.norm())
"""
ZERO_GRAD_SUB = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 8, 3)
        self.head = nn.Conv2d(8, 8, 3)
    def forward(self, x):
        return self.head(self.body(x))
model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    loss = F.cross_entropy(model(x.cuda()), y.cuda())
    model.body.zero_grad()
    model.head.zero_grad()
    loss.backward()
    optimizer.step()
"""
SEVERAL_BACKWARDS = """
model = nn.Conv2d(3, 8, 3).cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    optimizer.zero_grad()
    a = F.cross_entropy(model(x.cuda()), y.cuda())
    a.backward()
    b = 0.1 * F.mse_loss(model(x.cuda() + 1), x.cuda())
    b.backward()
    optimizer.step()
"""
EXTRA_FORWARD = """
model = nn.Conv2d(3, 8, 3).cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    with torch.no_grad():
        acc = (model(x.cuda()).argmax(1) == y.cuda()).float().mean()
    optimizer.step()
"""
LOSS_REBOUND = """
loss = nn.CrossEntropyLoss
loss = loss()
model = nn.Conv2d(3, 8, 3).cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    optimizer.zero_grad()
    value = loss(model(x.cuda()), y.cuda())
    value.backward()
    optimizer.step()
"""
ALIASES = """
import functools
class Trainer:
    def __init__(self, net):
        self.net = net
        self.opt = getattr(torch.optim, "Adam")(net.parameters())
        self._step = self.train_step
    def __call__(self, loader):
        for batch in loader:
            self._step(*batch)
    def train_step(self, x, y):
        forward = self.net
        loss = F.cross_entropy(forward(x), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
model = nn.Conv2d(3, 8, 3).cuda()
Trainer(model)(loader)
"""


@pytest.mark.parametrize(
    ("source", "marks"),
    [
        pytest.param(
            MODEL_IS_TRAINER,
            ['self.scaler = torch.amp.GradScaler("cuda")', "self.scaler.scale(loss).backward()"],
            id="the model is also the trainer",
        ),
        pytest.param(
            GLOBAL_CALLED,
            ["def train(net, loader):", '\nscaler = torch.amp.GradScaler("cuda")'],
            id="a global is called, not the parameter",
        ),
        pytest.param(
            OPT_BEFORE_CUDA,
            ["use_amp = torch.cuda.is_available()"],
            id="optimizer ahead of cuda()",
        ),
        pytest.param(
            SWAPPED,
            ['optimizer = torch.optim.Adam(model.parameters())\nscaler = torch.amp.GradScaler("cuda")\nfor epoch'],
            id="optimizer swapped in mid-run",
        ),
        pytest.param(
            STEP_AND_UPDATE,
            ["scaler.step(self._optimizer)", '\nscaler = torch.amp.GradScaler("cuda")\noptimizer = ScheduledOptim('],
            id="a wrapper that steps",
        ),
        pytest.param(
            GENERATOR,
            ["    x, y = next(batches)\n    with torch.autocast("],
            id="batches from a generator",
        ),
        pytest.param(
            GRAD_AFTER_LOOP,
            ["    scaler.update()\nprint(model.weight.grad.norm())"],
            id="gradient read after the loop",
        ),
        pytest.param(
            ZERO_GRAD_SUB,
            ["    model.head.zero_grad()\n    scaler.scale(loss).backward()"],
            id="zero_grad on submodules",
        ),
        pytest.param(
            SEVERAL_BACKWARDS,
            [
                "    scaler.scale(a).backward()\n    with torch.autocast",
                "    scaler.scale(b).backward()\n    scaler.step(optimizer)",
            ],
            id="several backwards before a step",
        ),
        pytest.param(
            EXTRA_FORWARD,
            ["    with torch.no_grad():\n        acc"],
            id="a forward between backward and step",
        ),
        pytest.param(
            LOSS_REBOUND,
            ["        value = loss(model(x.cuda()), y.cuda())"],
            id="loss rebound to an instance",
        ),
        pytest.param(
            ALIASES,
            ["self.scaler.step(self.opt)"],
            id="aliases and getattr",
        ),
    ],
)
def test_applies(source: str, marks: list[str]) -> None:
    result = run("amp", HEAD + dedent(source))
    assert [outcome.status for outcome in result.outcomes] == ["applied"]
    assert [mark for mark in marks if mark not in text_of(result)] == []


ENGINES = {
    "hf": """
from transformers import Trainer, TrainingArguments, AutoModelForSequenceClassification
model = AutoModelForSequenceClassification.from_pretrained("x")
Trainer(model=model, args=TrainingArguments("o"), train_dataset=d).train()
import torch
""",
    "lightning": """
import torch
import pytorch_lightning as pl
class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(3, 3)
    def training_step(self, batch, idx):
        return torch.nn.functional.mse_loss(self.net(batch), batch)
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())
pl.Trainer(max_epochs=3).fit(Lit(), loader)
""",
    "accelerate": """
import torch
from torch import nn
import torch.nn.functional as F
from accelerate import Accelerator
accelerator = Accelerator()
model = nn.Conv2d(3, 8, 3)
optimizer = torch.optim.Adam(model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
""",
    "fabric": """
import torch
from torch import nn
import torch.nn.functional as F
from lightning.fabric import Fabric
class T:
    def __init__(self):
        self.fabric = Fabric(accelerator="cuda")
        self.model = nn.Conv2d(3, 8, 3)
        self.opt = torch.optim.Adam(self.model.parameters())
        self.model, self.opt = self.fabric.setup(self.model, self.opt)
    def fit(self, loader):
        for x, y in loader:
            loss = F.cross_entropy(self.model(x), y)
            self.opt.zero_grad()
            self.fabric.backward(loss)
            self.opt.step()
T().fit(loader)
""",
}


@pytest.mark.parametrize("name", ENGINES)
def test_engines_have_a_switch_of_their_own(name: str) -> None:
    (outcome,) = run("amp", ENGINES[name]).outcomes
    assert (outcome.status, outcome.code) == ("not_applicable", "amp.engine")
    assert "another engine runs the training: " in outcome.reason


def test_an_attack_trains_nothing() -> None:
    source = """
    model = nn.Conv2d(3, 8, 3).cuda().eval()
    for x, y in loader:
        x = x.cuda().requires_grad_()
        loss = F.cross_entropy(model(x), y.cuda())
        model.zero_grad()
        loss.backward()
        adversarial = x + 0.1 * x.grad.sign()
    """
    (outcome,) = run("amp", HEAD + dedent(source)).outcomes
    assert (outcome.status, outcome.code) == ("not_applicable", "amp.no-step")
