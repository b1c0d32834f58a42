"""What is said of programs that are left alone has to be true, and to name the place."""

from __future__ import annotations

import pytest

from tests.codemods.amp_setup import SETUP
from tests.codemods.check import dedent, run

FIT = """
import functools, threading
import torch
from torch import nn

def fit(net, opt, loader):
    for x, y in loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()

net = nn.Conv2d(3, 8, 3).cuda()
opt = torch.optim.SGD(net.parameters(), lr=.1)
"""
PASSED_ON = "fit() is passed on as a value, so what it is given cannot be followed: call it directly"
TRAINER = """
import torch
from torch import nn

class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = None

    def run(self, loader):
        self.optimizer = self.model.configure_optimizers()
        for x, y in loader:
            logits, self.loss = self.model(x.cuda(), y.cuda())
            self.model.zero_grad(set_to_none=True)
            self.loss.backward()
            self.optimizer.step()
"""
GLOBAL = """
import torch
from torch import nn

def setup():
    global model, optimizer
    model = nn.Conv2d(3, 8, 3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=.1)

def train(loader):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()

setup()
train(loader)
"""
BY_GRADIENTS = """
import torch
from torch import nn
net = nn.Conv2d(3, 8, 3).cuda()
opt = torch.optim.SGD(net.parameters(), lr=.1)
for x, y in loader:
    loss = nn.functional.cross_entropy(net(x), y)
    for p, g in zip(net.parameters(), torch.autograd.grad(loss, list(net.parameters()))):
        p.grad = g
    opt.step()
"""
ELSEWHERE = "amp.optimizer-elsewhere"


@pytest.mark.parametrize(
    ("name", "source", "code", "line", "reason"),
    [
        pytest.param(
            "amp",
            FIT + "threading.Thread(target=fit, args=(net, opt, loader)).start()\n",
            ELSEWHERE,
            14,
            PASSED_ON,
            id="thread",
        ),
        pytest.param(
            "amp",
            FIT + "functools.partial(fit, net, opt)(loader)\n",
            ELSEWHERE,
            14,
            PASSED_ON,
            id="partial",
        ),
        pytest.param(
            "compile",
            FIT + "functools.partial(fit, net, opt)(loader)\n",
            "compile.model-elsewhere",
            14,
            PASSED_ON,
            id="partial, compile",
        ),
        pytest.param(
            "amp", FIT, ELSEWHERE, 5, "nothing in this file calls fit(): name the script that does", id="uncalled"
        ),
        pytest.param("amp", TRAINER, ELSEWHERE, 15, "could not be followed to an optimizer", id="configured"),
        pytest.param(
            "compile",
            TRAINER,
            "compile.model-elsewhere",
            5,
            "nothing in this file makes a Trainer: name the script that does",
            id="trainer that nothing makes",
        ),
        pytest.param(
            "amp",
            GLOBAL,
            "amp.scope",
            7,
            "setup() binds the optimizer by `global`: bind it at module level",
            id="global",
        ),
        pytest.param(
            "compile", BY_GRADIENTS, "compile.autograd-grad", 7, "gradients come from torch.autograd.grad", id="grad"
        ),
    ],
)
def test_reason_names_the_cause(name: str, source: str, code: str, line: int, reason: str) -> None:
    outcome = run(name, dedent(source)).outcomes[0]
    assert (outcome.code, outcome.line) == (code, line)
    assert reason in outcome.reason


def test_notes_what_may_restore_the_optimizer() -> None:
    loop = """
    import utils
    utils.restart_from_checkpoint("c.pth", model=model, optimizer=optimizer)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "c.pth")
    """
    (outcome,) = run("amp", SETUP + dedent(loop)).outcomes
    assert outcome.status == "applied"
    assert outcome.reason.endswith("; if line 9 restores the optimizer, give it the scaler as well")


def test_fields_of_a_dataclass_are_followed() -> None:
    source = """
    import dataclasses
    import torch
    from torch import nn

    @dataclasses.dataclass
    class State:
        net: nn.Module
        opt: torch.optim.Optimizer

    def fit(state, loader):
        for x, y in loader:
            state.opt.zero_grad()
            loss = nn.functional.cross_entropy(state.net(x.cuda()), y.cuda())
            loss.backward()
            state.opt.step()

    net = nn.Conv2d(3, 8, 3).cuda()
    state = State(net, opt=torch.optim.SGD(net.parameters(), lr=.1))
    fit(state, loader)
    """
    assert [outcome.status for name in ("amp", "compile") for outcome in run(name, dedent(source)).outcomes] == [
        "applied",
        "applied",
    ]


def test_notes_a_saver_that_knows_no_entries() -> None:
    source = """
    import torch
    from torch import nn

    class Saver:
        def __init__(self, **objects):
            self.objects = objects

        def save(self, path):
            torch.save({name: item.state_dict() for name, item in self.objects.items()}, path)

    model = nn.Conv2d(3, 8, 3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=.1)
    saver = Saver(model=model, optimizer=optimizer)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    saver.save("c.pth")
    """
    (outcome,) = run("amp", dedent(source)).outcomes
    assert outcome.reason.endswith("; line 9 saves the optimizer's state: save and load the scaler's with it")
