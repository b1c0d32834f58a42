"""The scaler as a new parameter: every call still fits its function, or nothing is changed."""

from __future__ import annotations

import pytest

from tests.codemods.check import check_declines, check_rewrites, dedent, run, text_of

HEAD = """
import torch
from torch import nn
import torch.nn.functional as F
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def script(text: str) -> str:
    """A script with the usual beginning."""
    return dedent(HEAD) + dedent(text)


DECORATED = """
def timed(fn):
    def inner(model, loader, optimizer):
        return fn(model, loader, optimizer)
    return inner
@timed
def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
train(model, loader, optimizer)
"""
OVERRIDDEN = """
class A:
    def step(self, batch, optimizer):
        optimizer.zero_grad()
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
class B(A):
    def step(self, batch, optimizer):
        return 0.0
for batch in loader:
    for task in (A(), B()):
        task.step(batch, optimizer)
"""
SLOTS = """
class T:
    __slots__ = ("net", "opt")
    def __init__(self, net):
        self.net = net.to(device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def fit(self):
        for x, y in loader:
            self.opt.zero_grad()
            loss = F.cross_entropy(self.net(x), y)
            loss.backward()
            self.opt.step()
T(nn.Linear(8, 2)).fit()
"""
CLASS_LEVEL = """
class T:
    net = nn.Linear(8, 2).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    @classmethod
    def fit(cls):
        for x, y in loader:
            cls.opt.zero_grad()
            loss = F.cross_entropy(cls.net(x), y)
            loss.backward()
            cls.opt.step()
T.fit()
"""


@pytest.mark.parametrize(
    ("source", "code"),
    [
        pytest.param(DECORATED, "amp.decorated", id="wrapper that hands on three arguments"),
        pytest.param(OVERRIDDEN, "amp.overridden", id="method that a subclass overrides"),
        pytest.param(SLOTS, "amp.slots", id="class with slots"),
        pytest.param(CLASS_LEVEL, "amp.class-attribute", id="optimizer that belongs to a class"),
    ],
)
def test_declines(source: str, code: str) -> None:
    check_declines("amp", script(source), code)


def test_wrapper_for_any_arguments_is_no_obstacle() -> None:
    source = DECORATED.replace("inner(model, loader, optimizer)", "inner(*args, **kwargs)")
    source = source.replace("fn(model, loader, optimizer)", "fn(*args, **kwargs)")
    assert "train(model, loader, optimizer, scaler)" in text_of(run("amp", script(source)))


def test_optimizer_that_comes_as_a_default_still_brings_the_scaler() -> None:
    before = """
    def train(epochs=2, net=model, opt=optimizer):
        for x, y in loader:
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
    train()
    """
    assert "train(scaler=scaler)" in text_of(run("amp", script(before)))


def test_name_that_extra_keywords_carry_is_taken() -> None:
    before = """
    def train(model, *, optimizer, **extra):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    train(model, optimizer=optimizer, scaler="mine")
    """
    after = text_of(run("amp", script(before)))
    assert "grad_scaler.scale(loss)" in after
    assert 'scaler="mine"' in after


def test_assigned_in_passing_is_an_inline_loss() -> None:
    check_declines(
        "amp",
        script(
            """
            for x, y in loader:
                optimizer.zero_grad()
                (loss := F.cross_entropy(model(x), y)).backward()
                optimizer.step()
            """
        ),
        "amp.inline-loss",
    )


def test_keyword_arguments_of_a_loss_in_forward_are_cast() -> None:
    before = """
    import torch
    from torch import nn
    import torch.nn.functional as F
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 1)
        def forward(self, x, y):
            p = torch.sigmoid(self.fc(x))
            loss = F.binary_cross_entropy(input=p, target=y)
            return loss
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = model(x, y)
        loss.backward()
        optimizer.step()
    """
    assert "F.binary_cross_entropy(input=p.float(), target=y)" in text_of(run("amp", dedent(before)))


def test_compile_line_stays_ahead_of_the_scaler_behind_one_statement() -> None:
    before = """
    def build():
        model = nn.Conv2d(3, 8, 3).to(device)
        return model, torch.optim.SGD(model.parameters(), lr=0.1)
    net, opt = build()
    net.compile()
    for x, y in loader:
        opt.zero_grad()
        loss = net(x).mean()
        loss.backward()
        opt.step()
    """
    start = dedent(HEAD).split("model =")[0]
    after = text_of(run("amp", start + dedent(before)))
    assert after.index("net.compile()") < after.index("GradScaler")
    check_rewrites("amp", start + dedent(before), after)


def test_no_scaler_where_a_step_only_unpacks_what_it_is_given() -> None:
    source = """
    import torch
    from torch import nn

    def run_step(args):
        model, opt, x, y = args
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()

    def main():
        model = nn.Conv2d(3, 8, 3).cuda()
        opt = torch.optim.Adam(model.parameters())
        for x, y in loader:
            run_step((model, opt, x, y))

    main()
    """
    text = text_of(run("amp", dedent(source)))
    assert 'model.parameters())\n    scaler = torch.amp.GradScaler("cuda")\n' in text
    assert "run_step((model, opt, x, y), scaler)" in text


def test_positional_rest_takes_no_scaler() -> None:
    source = """
    import torch
    from torch import nn

    def run_step(model, *rest):
        opt, x, y = rest
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()

    model = nn.Conv2d(3, 8, 3).cuda()

    def main():
        opt = torch.optim.Adam(model.parameters())
        for x, y in loader:
            run_step(model, opt, x, y)

    main()
    """
    check_declines("amp", source, "amp.unpacked-arguments")
