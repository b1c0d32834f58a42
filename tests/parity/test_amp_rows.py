"""Small programs that a rewrite by the book gets wrong in silence: patched here, run on the stand-in, compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from speedpatch import registry
from speedpatch.codemod import Options
from speedpatch.patch import patch
from speedpatch.recorder import Recording, compare, inactive, tolerance_for
from speedpatch.sources import Source
from tests.codemods.check import dedent
from tests.parity.helpers import require_torch, run

SETUP = """
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
loader = [(torch.randn(16, 8).cuda(), torch.randint(0, 2, (16,)).cuda()) for _ in range(6)]
"""

STEPS = {
    "gradients clamped in a loop": """
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            for p in model.parameters():
                p.grad.clamp_(-0.01, 0.01)
            optimizer.step()
    """,
    "gradients with something added": """
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            for p in model.parameters():
                p.grad += 0.01
            optimizer.step()
    """,
    "step under a condition on the norm": """
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            if torch.isfinite(norm):
                optimizer.step()
    """,
    "pass that ends by the norm": """
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            if norm < 0 or i == 2:
                continue
            optimizer.step()
    """,
    "attack by the sign of gradients": """
        def attack(x, y):
            x = x.clone().requires_grad_(True)
            loss = criterion(model(x), y)
            loss.backward()
            return (x + 0.1 * x.grad.sign()).detach()
        for x, y in loader:
            adversarial = attack(x, y)
            optimizer.zero_grad()
            loss = criterion(model(adversarial), y)
            loss.backward()
            optimizer.step()
    """,
    "log of one minus a probability near one": """
        with torch.no_grad():
            model[2].bias += 11
        for x, y in loader:
            p = torch.sigmoid(model(x)[:, 0])
            loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    "logarithm guarded by a tiny constant": """
        with torch.no_grad():
            model[2].bias -= 17.5
        for x, y in loader:
            p = torch.sigmoid(model(x)[:, 0])
            loss = -torch.log(p + 1e-9).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    "binary cross entropy inside a model": """
        class Scorer(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = model
            def forward(self, x, y):
                p = torch.sigmoid(self.body(x)[:, 0])
                loss = F.binary_cross_entropy(p, y.float())
                return loss
        scorer = Scorer()
        for x, y in loader:
            optimizer.zero_grad()
            loss = scorer(x, y)
            loss.backward()
            optimizer.step()
    """,
    "constant beyond float16": """
        for x, y in loader:
            optimizer.zero_grad()
            out = model(x)
            weights = out.masked_fill(x[:, :2] > 1, -1e9).softmax(1)
            loss = criterion(out * weights, y)
            loss.backward()
            optimizer.step()
    """,
    "float32 buffer written by mask": """
        for x, y in loader:
            optimizer.zero_grad()
            buffer = torch.zeros(16, 2, device=x.device)
            mask = x[:, 0] > 0
            buffer[mask] = model(x[mask])
            loss = criterion(buffer, y)
            loss.backward()
            optimizer.step()
    """,
    "optimizer class of the program": """
        class Signs(torch.optim.Optimizer):
            def __init__(self, params, lr):
                super().__init__(params, {"lr": lr})
            @torch.no_grad()
            def step(self):
                for group in self.param_groups:
                    for p in group["params"]:
                        p.add_(p.grad.clamp(-0.01, 0.01), alpha=-group["lr"])
        optimizer = Signs(model.parameters(), 0.1)
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    """,
    "optimizer swapped in the loop": """
        for i, (x, y) in enumerate(loader):
            if i == 3:
                optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    """,
    "second optimizer in some passes": """
        head = nn.Linear(2, 2).cuda()
        other = torch.optim.SGD(head.parameters(), lr=0.1)
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            if i % 2 == 0:
                other.zero_grad()
                second = criterion(head(model(x).detach()), y)
                second.backward()
                other.step()
    """,
    "distances beside a guarded logarithm": """
        def entropy(p):
            return -(p * torch.log(p + 1e-8)).sum(1).mean()
        for x, y in loader:
            out = model(x)
            loss = torch.cdist(out, out).mean() + 0.1 * entropy(torch.softmax(out, 1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    "probabilities read as arrays": """
        for x, y in loader:
            out = model(x)
            loss = criterion(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            probs = torch.softmax(out.detach(), 1)
            assert abs(probs.cpu().numpy().sum(1) - 1).max() < 1e-6
    """,
    "sum of a list of losses": """
        for x, y in loader:
            losses = [criterion(model(part), label) for part, label in zip(x.chunk(2), y.chunk(2))]
            loss = sum(losses)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
}  # fmt: skip


def patched(source: str) -> str:
    """The program with mixed precision."""
    result = patch([Source(Path("train.py"), source)], [registry.codemods()["amp"]], Options())
    assert result.files[0].error is None
    assert {outcome.status for outcome in result.outcomes} == {"applied"}, result.outcomes
    return result.files[0].after.text


def record_text(text: str, path: Path) -> Recording:
    """Record a program given as text."""
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    return run(path, path.parent, stand_in=True)


@pytest.mark.parametrize("name", list(STEPS))
def test_close(name: str, tmp_path: Path) -> None:
    require_torch()
    source = dedent(SETUP) + dedent(STEPS[name])
    before = record_text(source, tmp_path / "before" / "train.py")
    after = record_text(patched(source), tmp_path / "after" / "train.py")
    comparison = compare(before, after, "close", tolerance_for(frozenset({"amp"}), "float16"))
    assert comparison.holds, f"{comparison}\n{patched(source)}"
    assert not inactive(after, "amp", "float16")
