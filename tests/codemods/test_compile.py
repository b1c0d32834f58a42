"""Where a model is compiled, and when it is left as it is."""

from __future__ import annotations

import pytest

from tests.codemods.check import check_declines, check_rewrites, dedent

HEAD = """
import torch
from torch import nn, optim
import torch.nn.functional as F
from torch.utils.data import DataLoader

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.fc = nn.Linear(8, 2)
    def forward(self, x):
        return self.fc(F.relu(self.conv(x)).mean((2, 3)))

loader = DataLoader(dataset, batch_size=8)
"""
LOOP = """
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""


def script(*parts: str) -> str:
    """A script out of parts that are indented alike."""
    return "\n".join(dedent(part).strip("\n") for part in parts) + "\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "model = Net().cuda()\noptimizer = optim.SGD(model.parameters(), lr=0.1)",
            "model = Net().cuda()\nmodel.compile()\noptimizer = optim.SGD(model.parameters(), lr=0.1)",
            id="behind construction and move in one line",
        ),
        pytest.param(
            "model = Net()\nmodel.to(device)\noptimizer = optim.SGD(model.parameters(), lr=0.1)",
            "model = Net()\nmodel.to(device)\nmodel.compile()\noptimizer = optim.SGD(model.parameters(), lr=0.1)",
            id="behind a move on a line of its own",
        ),
        pytest.param(
            "model = Net()\nmodel.load_state_dict(torch.load('w.pt'))\n"
            "optimizer = optim.SGD(model.parameters(), lr=0.1)",
            "model = Net()\nmodel.load_state_dict(torch.load('w.pt'))\nmodel.compile()\n"
            "optimizer = optim.SGD(model.parameters(), lr=0.1)",
            id="behind the weights",
        ),
        pytest.param(
            "model = Net()  # small\noptimizer = optim.SGD(model.parameters(), lr=0.1)\nmodel = model.to('cuda')",
            "model = Net()  # small\noptimizer = optim.SGD(model.parameters(), lr=0.1)\nmodel = model.to('cuda')\n"
            "model.compile()",
            id="model moved behind the optimizer",
        ),
    ],
)
def test_compiles_at_module_level(before: str, after: str) -> None:
    check_rewrites("compile", script(HEAD, before, LOOP), script(HEAD, after, LOOP))


def test_compiles_on_the_cpu_too() -> None:
    before = "model = Net()\noptimizer = optim.SGD(model.parameters(), lr=0.1)"
    after = "model = Net()\nmodel.compile()\noptimizer = optim.SGD(model.parameters(), lr=0.1)"
    check_rewrites("compile", script(HEAD, before, LOOP), script(HEAD, after, LOOP))


def test_mode_is_passed_on() -> None:
    before = "model = Net()\noptimizer = optim.SGD(model.parameters(), lr=0.1)"
    after = 'model = Net()\nmodel.compile(mode="max-autotune")\noptimizer = optim.SGD(model.parameters(), lr=0.1)'
    check_rewrites("compile", script(HEAD, before, LOOP), script(HEAD, after, LOOP), compile_mode="max-autotune")


def test_compiles_an_attribute_of_a_trainer() -> None:
    before = """
    class Trainer:
        def __init__(self):
            self.model = Net().cuda()
            self.optimizer = optim.Adam(self.model.parameters())
        def train(self):
            for x, y in loader:
                self.optimizer.zero_grad()
                F.cross_entropy(self.model(x), y).backward()
                self.optimizer.step()
    Trainer().train()
    """
    line = "self.model = Net().cuda()\n"
    after = dedent(before).replace(line, line + " " * 8 + "self.model.compile()\n")
    check_rewrites("compile", script(HEAD, before), script(HEAD, after))


def test_compiles_both_models_of_two_optimizers() -> None:
    before = """
    first = Net().cuda()
    second = Net().cuda()
    a, b = optim.SGD(first.parameters(), lr=0.1), optim.SGD(second.parameters(), lr=0.1)
    for x, y in loader:
        a.zero_grad(); b.zero_grad()
        loss = F.cross_entropy(first(x) + second(x), y)
        loss.backward()
        a.step(); b.step()
    """
    after = dedent(before).replace("first = Net().cuda()\n", "first = Net().cuda()\nfirst.compile()\n")
    after = after.replace("second = Net().cuda()\n", "second = Net().cuda()\nsecond.compile()\n")
    check_rewrites("compile", script(HEAD, before), script(HEAD, after))


def test_compiles_where_the_model_is_made_not_where_it_is_used() -> None:
    before = """
    def train(net, optimizer):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
    def main():
        net = Net()
        net.cuda()
        train(net, optim.SGD(net.parameters(), lr=0.1))
    main()
    """
    after = dedent(before).replace("    net.cuda()\n", "    net.cuda()\n    net.compile()\n")
    check_rewrites("compile", script(HEAD, before), script(HEAD, after))


def test_compiles_ahead_of_the_wrapper() -> None:
    before = """
    model = Net().cuda()
    model = nn.parallel.DistributedDataParallel(model)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    """
    after = dedent(before).replace("model = Net().cuda()\n", "model = Net().cuda()\nmodel.compile()\n")
    check_rewrites("compile", script(HEAD, before, LOOP), script(HEAD, after, LOOP))


def test_frozen_models_are_left_alone() -> None:
    before = """
    teacher = Net().cuda().eval()
    model = Net().cuda()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.no_grad():
            target = teacher(x)
        F.mse_loss(model(x), target).backward()
        optimizer.step()
    """
    after = dedent(before).replace("model = Net().cuda()\nopt", "model = Net().cuda()\nmodel.compile()\nopt")
    check_rewrites("compile", script(HEAD, before), script(HEAD, after))


def test_names_and_aliases_do_not_matter() -> None:
    before = """
    import torch as th
    optimizer = Net().to(th.device("cuda"))
    model = th.optim.SGD(optimizer.parameters(), lr=0.1)
    for x, y in loader:
        model.zero_grad()
        th.nn.functional.cross_entropy(optimizer(x), y).backward()
        model.step()
    """
    line = 'optimizer = Net().to(th.device("cuda"))\n'
    after = dedent(before).replace(line, line + "optimizer.compile()\n")
    check_rewrites("compile", script(HEAD, before), script(HEAD, after))


SETUP = "model = Net().cuda()\noptimizer = optim.SGD(model.parameters(), lr=0.1)"


@pytest.mark.parametrize(
    ("source", "code"),
    [
        pytest.param(
            script(HEAD, "model = torch.compile(Net())", SETUP.split("\n")[1], LOOP),
            "compile.already",
            id="torch.compile",
        ),
        pytest.param(
            script(HEAD, "model = Net()\nmodel.compile()", SETUP.split("\n")[1], LOOP), "compile.already", id="in place"
        ),
        pytest.param(
            script(HEAD, SETUP, LOOP.replace("model(x)", "model.encode(x)")),
            "compile.other-methods",
            id="another method",
        ),
        pytest.param(
            script(HEAD, SETUP, LOOP.replace("model(x)", "model.forward(x)")),
            "compile.other-methods",
            id="forward by name",
        ),
        pytest.param(
            script(HEAD, SETUP, LOOP.replace("backward()", "backward(retain_graph=True)")),
            "compile.retain-graph",
            id="retained graph",
        ),
        pytest.param(
            script(HEAD, SETUP, LOOP.replace("backward()", "backward(create_graph=True)")),
            "compile.double-backward",
            id="gradients of gradients",
        ),
        pytest.param(script(HEAD, SETUP, "model.conv.register_forward_hook(print)", LOOP), "compile.hooks", id="hook"),
        pytest.param(
            script(HEAD, "model = nn.DataParallel(Net().cuda())", SETUP.split("\n")[1], LOOP),
            "compile.data-parallel",
            id="DataParallel",
        ),
        pytest.param(
            script(HEAD.replace("nn.Conv2d(3, 8, 3)", "nn.LSTM(3, 8)"), SETUP, LOOP),
            "compile.rnn",
            id="recurrent layer",
        ),
        pytest.param(
            script(
                HEAD.replace("return self.fc", "self.calls += 1\n        return self.fc").replace(
                    "self.fc = nn", "self.calls = 0\n        self.fc = nn"
                ),
                SETUP,
                LOOP,
            ),
            "compile.changing-attribute",
            id="counter in forward",
        ),
        pytest.param(
            script(
                HEAD.replace("return self.fc", "if x.sum().item() > 0: x = -x\n        return self.fc"), SETUP, LOOP
            ),
            "compile.data-dependent",
            id="item in forward",
        ),
        pytest.param(
            script(
                "import torch",
                SETUP.replace("Net()", "build()").replace("optim.", "torch.optim."),
                LOOP.replace("F.", "torch.nn.functional."),
            ),
            "compile.model-elsewhere",
            id="model from nowhere",
        ),
        pytest.param(script("import torch\nx = torch.zeros(3)"), "compile.no-training", id="no training"),
    ],
)
def test_declines(source: str, code: str) -> None:
    check_declines("compile", source, code)


def test_full_batch_of_linear_layers_is_declined() -> None:
    source = """
    import torch
    x, y = torch.randn(100, 2), torch.randn(100, 1)
    model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(100):
        optimizer.zero_grad()
        (model(x) - y).pow(2).mean().backward()
        optimizer.step()
    """
    check_declines("compile", source, "compile.tiny-full-batch")


def test_look_alikes_are_no_models() -> None:
    source = """
    import torch
    class Model:
        def parameters(self): return []
        def compile(self): return re.compile("x")
    model = Model()
    model.compile()
    """
    check_declines("compile", source, "compile.no-training")
