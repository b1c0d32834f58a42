"""bfloat16 needs no scaler and leaves none."""

from __future__ import annotations

import pytest

from tests.codemods.amp_setup import SETUP
from tests.codemods.check import check_declines, check_rewrites, dedent


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            """,
            id="clip without a scaler",
        ),
        pytest.param(
            """
            opt = torch.optim.LBFGS(model.parameters())
            for x, y in loader:
                def closure():
                    opt.zero_grad()
                    loss = criterion(model(x), y)
                    loss.backward()
                    return loss
                opt.step(closure)
            """,
            """
            opt = torch.optim.LBFGS(model.parameters())
            for x, y in loader:
                def closure():
                    opt.zero_grad()
                    with torch.autocast("cuda", dtype=torch.bfloat16):
                        loss = criterion(model(x), y)
                    loss.backward()
                    return loss
                opt.step(closure)
            """,
            id="LBFGS",
        ),
        pytest.param(
            """
            for x, y in loader:
                x.requires_grad_(True)
                out = model(x)
                g = torch.autograd.grad(out.sum(), x, create_graph=True)[0]
                loss = criterion(out, y) + g.pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                x.requires_grad_(True)
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    out = model(x)
                g = torch.autograd.grad(out.sum(), x, create_graph=True)[0]
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = criterion(out, y) + g.pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            id="gradient penalty, the gradients taken outside",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                model.zero_grad()
                loss.backward()
                with torch.no_grad():
                    for p in model.parameters():
                        p -= 0.1 * p.grad
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = criterion(model(x), y)
                model.zero_grad()
                loss.backward()
                with torch.no_grad():
                    for p in model.parameters():
                        p -= 0.1 * p.grad
            """,
            id="update by hand",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x).masked_fill(mask, -1e9)
                loss = criterion(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    out = model(x).masked_fill(mask, -1e9)
                    loss = criterion(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            id="constant that bfloat16 holds",
        ),
        pytest.param(
            """
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
            """,
            id="loss and backward in one expression",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                loss = criterion(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                rows.append(out.detach().cpu().numpy())
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    out = model(x)
                    loss = criterion(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                rows.append(out.detach().float().cpu().numpy())
            """,
            id="output turned into an array",
        ),
        pytest.param(
            """
            bce = nn.BCELoss()
            for x, y in loader:
                out = torch.sigmoid(model(x))
                loss = bce(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            bce = nn.BCELoss()
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    out = torch.sigmoid(model(x))
                loss = bce(out.float(), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            id="BCELoss",
        ),
        pytest.param(
            """
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)
            for p in model.parameters():
                p.register_hook(lambda g: g.clamp(-1, 1))
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
                optimizer.step()
                scheduler.step()
            """,
            """
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)
            for p in model.parameters():
                p.register_hook(lambda g: g.clamp(-1, 1))
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
                optimizer.step()
                scheduler.step()
            """,
            id="hook, scheduler and check that a scaler would not allow",
        ),
    ],
)
def test_rewrites_a_step_in_bfloat16(before: str, after: str) -> None:
    check_rewrites("amp", SETUP + dedent(before), SETUP + dedent(after), amp_dtype="bfloat16")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """
            import torch
            from torch import nn
            model = nn.Linear(8, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
            """,
            """
            import torch
            from torch import nn
            model = nn.Linear(8, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
            """,
            id="program that never leaves the CPU",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            model = nn.Linear(8, 2).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
                loss.backward()
                optimizer.step()
            """,
            """
            import torch
            from torch import nn
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            model = nn.Linear(8, 2).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.bfloat16, enabled=device.type == "cuda"):
                    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
                loss.backward()
                optimizer.step()
            """,
            id="device known at run time",
        ),
    ],
)
def test_rewrites_in_bfloat16(before: str, after: str) -> None:
    check_rewrites("amp", before, after, amp_dtype="bfloat16")


@pytest.mark.parametrize(
    ("source", "code"),
    [
        pytest.param(
            """
            model.half()
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            "amp.manual-precision",
            id="model cast to half",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                for p, g in zip(model.parameters(), torch.autograd.grad(loss, model.parameters())):
                    p.grad = g
                optimizer.step()
            """,
            "amp.autograd-grad",
            id="gradients from torch.autograd.grad",
        ),
    ],
)
def test_declines_a_step_in_bfloat16(source: str, code: str) -> None:
    check_declines("amp", SETUP + dedent(source), code, amp_dtype="bfloat16")


@pytest.mark.parametrize(
    ("source", "code"),
    [
        pytest.param(
            """
            import torch
            from torch import nn
            model = nn.DataParallel(nn.Linear(8, 2)).cuda()
            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                loss = nn.functional.cross_entropy(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
            """,
            "amp.data-parallel",
            id="DataParallel",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            def train(model, loader, optimizer, device):
                for x, y in loader:
                    x, y = x.to(device), y.to(device)
                    loss = nn.functional.mse_loss(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            "amp.forward-not-found",
            id="model that nothing is known of",
        ),
    ],
)
def test_declines_in_bfloat16(source: str, code: str) -> None:
    check_declines("amp", source, code, amp_dtype="bfloat16")
