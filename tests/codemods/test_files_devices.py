"""Programs of several files whose device is known in one of them, and needed in another."""

from __future__ import annotations

import pytest

from tests.codemods.check import dedent
from tests.codemods.test_files import check, run

NETS = """
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

def make_net(args):
    return nn.Conv2d(3, 64, 3).to(args.device)
"""
LOOP = """
from torch.nn.functional import cross_entropy
from nets import device

def train(net, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = cross_entropy(net(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
"""
LOOP_AFTER = """
from torch.nn.functional import cross_entropy
from nets import device
import torch

def train(net, optimizer, scaler):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=device.type == "cuda"):
            loss = cross_entropy(net(x.to(device)), y.to(device))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
SCALER = 'scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")'


def after_of(script: str, scaler: str) -> str:
    """A script with a line behind the optimizer, passed to the loop."""
    return dedent(script).replace("lr=.1)\n", f"lr=.1)\n{scaler}\n").replace("optimizer)", "optimizer, scaler)")


def test_the_device_comes_with_everything_of_a_file() -> None:
    script = """
    import torch
    from nets import *
    from loop import train

    net = torch.nn.Conv2d(3, 64, 3).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=.1)
    train(net, optimizer)
    """
    files = {"train.py": script, "loop.py": LOOP, "nets.py": NETS}
    check(files, {"train.py": after_of(script, SCALER), "loop.py": LOOP_AFTER}, "amp")


def test_the_device_comes_with_everything_and_is_used_in_a_function() -> None:
    script = """
    import torch
    from nets import *
    from loop import train

    def main():
        net = torch.nn.Conv2d(3, 64, 3).to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=.1)
        train(net, optimizer)

    main()
    """
    files = {"train.py": script, "loop.py": LOOP, "nets.py": NETS}
    check(files, {"train.py": after_of(script, f"    {SCALER}"), "loop.py": LOOP_AFTER}, "amp")


def test_no_variable_for_functions_of_another_file() -> None:
    script = """
    import torch
    from nets import device
    from loop import train

    net = torch.nn.Conv2d(3, 64, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=.1)
    net.to(device)
    train(net, optimizer)
    """
    files = {"train.py": script, "loop.py": LOOP, "nets.py": NETS}
    check(files, {"train.py": after_of(script, SCALER), "loop.py": LOOP_AFTER}, "amp")


def test_an_attribute_that_the_script_puts_the_device_into() -> None:
    script = """
    import torch
    from nets import make_net
    from loop import train

    args = parse()
    args.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = make_net(args)
    optimizer = torch.optim.SGD(net.parameters(), lr=.1)
    train(net, optimizer)
    """
    files = {"train.py": script, "loop.py": LOOP, "nets.py": NETS}
    scaler = SCALER.replace("=device", "=args.device")
    check(files, {"train.py": after_of(script, scaler), "loop.py": LOOP_AFTER}, "amp")


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("if args.gpu:\n    args.device = device_of(0)\n", id="on one branch only"),
        pytest.param("args.device = device_of(0)\nargs = parse()\n", id="of another object by then"),
    ],
)
def test_an_attribute_that_may_not_hold_the_device(lines: str) -> None:
    head = "import torch\nfrom nets import make_net\nfrom loop import train\n\nargs = parse()\n"
    tail = "net = make_net(args)\noptimizer = torch.optim.SGD(net.parameters(), lr=.1)\ntrain(net, optimizer)\n"
    loop = LOOP.replace("x.to(device)", "x").replace("y.to(device)", "y").replace("from nets import device\n", "")
    files = {"train.py": head + lines + tail, "loop.py": loop, "nets.py": NETS}
    result = run(files, "amp")
    assert [outcome.code for outcome in result.outcomes] == ["amp.device-unknown"]
    assert not any(file.changed for file in result.files)


def test_device_that_a_base_class_keeps() -> None:
    base = """
    class BaseTrainer:
        def __init__(self, model, optimizer, device):
            self.model = model.to(device)
            self.optimizer = optimizer
            self.device = device

        def train_step(self, batch):
            self.optimizer.zero_grad()
            loss = self.compute_loss(batch)
            loss.backward()
            self.optimizer.step()
    """
    script = """
    import torch
    from base import BaseTrainer

    class Trainer(BaseTrainer):
        def compute_loss(self, batch):
            x, y = batch
            return torch.nn.functional.cross_entropy(self.model(x.to(self.device)), y.to(self.device))

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Conv2d(3, 8, 3)
    trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), device)
    for batch in loader:
        trainer.train_step(batch)
    """
    result = run({"train.py": script, "base.py": base}, "amp", amp_dtype="bfloat16")
    texts = {file.before.path.name: file.after.text for file in result.files}
    assert 'dtype=torch.bfloat16, enabled=self.device.type == "cuda"):\n            loss = self.' in texts["base.py"]
