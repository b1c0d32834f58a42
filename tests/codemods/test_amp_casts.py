"""A statement that is taken out of autocast gets every output that it reads in float32."""

from __future__ import annotations

import pytest

from tests.codemods.amp_setup import SCALED, SETUP
from tests.codemods.check import check_declines, check_rewrites, dedent, run, text_of

HELPERS = """
bce = nn.BCELoss()
def entropy(p):
    return -(p * torch.log(p + 1e-8)).sum(1).mean()
def triplet(e, y):
    return torch.cdist(e, e).mean()
"""


def before(forward: str, loss: str) -> str:
    return f"""{HELPERS}for x, y in loader:
    {forward}
    {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def after(forward: str, loss: str) -> str:
    return f"""{HELPERS}for x, y in loader:
    with torch.autocast("cuda", dtype=torch.float16):
        {forward}
    {loss}
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize(
    ("forward", "loss", "cast"),
    [
        pytest.param(
            "emb = model(x)",
            "loss = triplet(emb, y) + 0.1*entropy(torch.softmax(emb,1))",
            "loss = triplet(emb.float(), y) + 0.1*entropy(torch.softmax(emb.float(),1))",
            id="beside a call that does not need float32 itself",
        ),
        pytest.param(
            "out = model(x)",
            "loss = bce(torch.sigmoid(out), y)",
            "loss = bce(torch.sigmoid(out.float()), y)",
            id="ahead of a sigmoid in an argument",
        ),
        pytest.param(
            "out = model(x)",
            "loss = bce(out.view(-1), y)  # flat",
            "loss = bce(out.view(-1).float(), y)  # flat",
            id="behind a view",
        ),
        pytest.param(
            "out = load(model(x))",
            "loss = bce(out.probs, y) + bce(out['aux'][0].sigmoid(), y)",
            "loss = bce(out.probs.float(), y) + bce(out['aux'][0].float().sigmoid(), y)",
            id="attributes and items of an output",
        ),
        pytest.param(
            "out = model(x); pick = out.argmax(1); best, index = out.max(1)",
            "loss = bce(out[pick], y) + F.nll_loss(out.log_softmax(1), index) + F.nll_loss(best, (out > 0).long())",
            "loss = bce(out[pick].float(), y) + F.nll_loss(out.float().log_softmax(1), index)"
            " + F.nll_loss(best.float(), (out > 0).long())",
            id="indices are left alone",
        ),
        pytest.param(
            "out = model(x); l1 = criterion(out, y)",
            "loss = bce(out, y) + 0.5 * l1",
            "loss = bce(out.float(), y) + 0.5 * l1",
            id="a loss that is only added is left alone",
        ),
        pytest.param(
            "out = model(x); l1 = criterion(out, y)",
            "loss = triplet(out, y) - (out * torch.log(out + 1e-8)).sum() + l1",
            "loss = triplet(out.float(), y) - (out.float() * torch.log(out.float() + 1e-8)).sum() + l1",
            id="a formula beside other losses",
        ),
        pytest.param(
            "out = model(x); total = out.sum()",
            "loss = -bce(out, y) / (total + 1e-8)",
            "loss = -bce(out.float(), y) / (total.float() + 1e-8)",
            id="a denominator is more than added",
        ),
        pytest.param(
            "outs = [model(x), model(x + 1)]",
            "loss = sum(bce(o, t) for o, t in zip(outs, y))",
            "loss = sum(bce(o.float(), t) for o, t in zip(outs, y))",
            id="variables of a comprehension, but not its labels",
        ),
        pytest.param(
            "a, b = model(x), model(y)",
            "loss = entropy([a, b][0]) + bce(input=a, target=y)",
            "loss = entropy([a.float(), b.float()][0]) + bce(input=a.float(), target=y)",
            id="in lists and keywords",
        ),
        pytest.param(
            "out = model(x)",
            "loss = bce(out.float(), y) + triplet(out.double(), out.shape[0])",
            "loss = bce(out.float(), y) + triplet(out.double(), out.shape[0])",
            id="cast already, and asked its shape",
        ),
        pytest.param(
            "d = torch.distributions.Normal(model(x), 1.0)",
            "loss = bce(d.mean, y) + d.entropy().mean()",
            "loss = bce(d.mean.float(), y) + d.entropy().mean()",
            id="a distribution is no tensor",
        ),
    ],
)
def test_casts_what_is_read(forward: str, loss: str, cast: str) -> None:
    if ";" in forward:
        forward = "\n    ".join(forward.split("; "))
    check_rewrites("amp", SETUP + before(forward, loss), SCALED + after(forward.replace("\n    ", "\n        "), cast))


@pytest.mark.parametrize(
    ("forward", "loss", "code"),
    [
        pytest.param("outs = model(x)", "loss = bce(*outs)", "amp.loss-structure", id="outputs spread over arguments"),
        pytest.param("outs = [model(x)]", "loss = entropy(outs)", "amp.loss-structure", id="list of outputs"),
        pytest.param(
            "a = x + 1", "loss = entropy(model(a), model(y))", "amp.loss-with-forward", id="calls as arguments"
        ),
    ],
)
def test_points_at_the_statement_of_the_step(forward: str, loss: str, code: str) -> None:
    source = SETUP + before(forward, loss)
    check_declines("amp", source, code)
    found = run("amp", dedent(source)).outcomes[0]
    assert dedent(source).splitlines()[found.line - 1].strip() == loss
    assert code != "amp.loss-with-forward" or "give the model's outputs names on lines of their own" in found.reason


def test_labels_of_a_loop_over_pairs_are_left_alone() -> None:
    body = """
    bce = nn.BCELoss()
    for x, y in loader:
        outs = [model(x), model(x + 1)]
        loss = 0
        for i, (o, t) in enumerate(zip(outs, y)):
            loss += bce(o, t) + F.nll_loss(o, t)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
    cast = """
    bce = nn.BCELoss()
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            outs = [model(x), model(x + 1)]
        loss = 0
        for i, (o, t) in enumerate(zip(outs, y)):
            loss += bce(o.float(), t) + F.nll_loss(o.float(), t)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    """
    check_rewrites("amp", SETUP + dedent(body), SCALED + dedent(cast))


@pytest.mark.parametrize(
    ("end", "cast"),
    [
        pytest.param("torch.sigmoid(self.fc(x))", "torch.sigmoid(self.fc(x).float())", id="function"),
        pytest.param("self.fc(x).sigmoid()", "self.fc(x).float().sigmoid()", id="method"),
        pytest.param("self.sigmoid(self.fc(x))", "self.sigmoid(self.fc(x).float())", id="layer"),
        pytest.param("self.fc(x)", "self.fc(x)", id="none"),
    ],
)
def test_sigmoid_of_the_model_in_float32(end: str, cast: str) -> None:
    before = f"""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 1)
            self.sigmoid = nn.Sigmoid()

        def forward(self, x):
            return {end}

    model = Net().cuda()
    criterion = nn.BCELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
    """
    text = text_of(run("amp", dedent(before), amp_dtype="bfloat16"))
    assert f"return {cast}\n" in text
    assert "loss = criterion(out.float(), y)" in text
