"""Gradients are unscaled before anything reads them, once a step, or the program is left alone."""

from __future__ import annotations

import pytest

from tests.codemods.amp_setup import SCALED, SETUP
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
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
            """,
            id="clip_grad_norm_",
        ),
        pytest.param(
            """
            from torch.nn.utils import clip_grad_norm
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                if args.clip > 0:
                    clip_grad_norm(model.parameters(), args.clip)
                optimizer.step()
            """,
            """
            from torch.nn.utils import clip_grad_norm
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                if args.clip > 0:
                    scaler.unscale_(optimizer)
                    clip_grad_norm(model.parameters(), args.clip)
                scaler.step(optimizer)
                scaler.update()
            """,
            id="clip under a condition stays under it",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                norm = sum(p.grad.norm() ** 2 for p in model.parameters() if p.grad is not None) ** 0.5
                print(norm)
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                norm = sum(p.grad.norm() ** 2 for p in model.parameters() if p.grad is not None) ** 0.5
                print(norm)
                scaler.step(optimizer)
                scaler.update()
            """,
            id="norm logged from a generator expression",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_value_(model.parameters(), 0.5)
                total = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_value_(model.parameters(), 0.5)
                total = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
            """,
            id="unscaled once for two readings",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                for p in model.parameters():
                    p.grad.data.clamp_(-1, 1)
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                for p in model.parameters():
                    p.grad.data.clamp_(-1, 1)
                scaler.step(optimizer)
                scaler.update()
            """,
            id="gradients clamped in a loop over parameters",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                if clip:
                    for p in model.parameters():
                        if p.grad is not None:
                            total += p.grad.norm()
                            p.grad.data.clamp_(-1, 1)
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                if clip:
                    scaler.unscale_(optimizer)
                    for p in model.parameters():
                        if p.grad is not None:
                            total += p.grad.norm()
                            p.grad.data.clamp_(-1, 1)
                scaler.step(optimizer)
                scaler.update()
            """,
            id="loop over parameters under a condition",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                for p in model.parameters():
                    p.grad += 0.01 * torch.randn_like(p)
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                for p in model.parameters():
                    p.grad += 0.01 * torch.randn_like(p)
                scaler.step(optimizer)
                scaler.update()
            """,
            id="noise added to gradients",
        ),
        pytest.param(
            """
            def clip(m):
                for p in m.parameters():
                    p.grad.clamp_(-1, 1)
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                clip(model)
                optimizer.step()
            """,
            """
            def clip(m):
                for p in m.parameters():
                    p.grad.clamp_(-1, 1)
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                clip(model)
                scaler.step(optimizer)
                scaler.update()
            """,
            id="helper of the program clips",
        ),
        pytest.param(
            """
            for i, (x, y) in enumerate(loader):
                loss = criterion(model(x), y) / 4
                loss.backward()
                if (i + 1) % 4 == 0:
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            """
            for i, (x, y) in enumerate(loader):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y) / 4
                scaler.scale(loss).backward()
                if (i + 1) % 4 == 0:
                    scaler.unscale_(optimizer)
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()
            """,
            id="clip inside the accumulation's condition",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                grads = torch.autograd.grad(loss, model.parameters(), retain_graph=True)
                optimizer.zero_grad()
                loss.backward()
                for p, g in zip(model.parameters(), grads):
                    p.grad = 0.5 * (p.grad + g)
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                grads = torch.autograd.grad(loss, model.parameters(), retain_graph=True)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                for p, g in zip(model.parameters(), grads):
                    p.grad = 0.5 * (p.grad + g)
                scaler.step(optimizer)
                scaler.update()
            """,
            id="gradients mixed by hand from unscaled ones",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                if not torch.isfinite(norm):
                    print("skipped")
                    continue
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                if not torch.isfinite(norm):
                    print("skipped")
                    scaler.update()
                    continue
                scaler.step(optimizer)
                scaler.update()
            """,
            id="pass that ends early by the norm updates the scaler",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                if torch.isfinite(norm):
                    optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                if torch.isfinite(norm):
                    scaler.step(optimizer)
                scaler.update()
            """,
            id="step guarded by the norm updates the scaler in every pass",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                valid = True
                for name, p in model.named_parameters():
                    if p.grad is not None:
                        valid = not torch.isnan(p.grad).any()
                        if not valid:
                            break
                if not valid:
                    optimizer.zero_grad()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                valid = True
                scaler.unscale_(optimizer)
                for name, p in model.named_parameters():
                    if p.grad is not None:
                        valid = not torch.isnan(p.grad).any()
                        if not valid:
                            break
                if not valid:
                    optimizer.zero_grad()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="gradients searched for NaN in a loop",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                assert not torch.isnan(loss)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                assert not torch.isnan(loss)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="assert on the loss stays",
        ),
        pytest.param(
            """
            torch.autograd.set_detect_anomaly(False)
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            torch.autograd.set_detect_anomaly(False)
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="anomaly detection turned off",
        ),
        pytest.param(
            """
            for x, y in loader:
                x.requires_grad_(True)
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                delta = x.grad.sign()
                loss = criterion(model(x + delta), y)
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                x.requires_grad_(True)
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                delta = x.grad.sign()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x + delta), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="sign of gradients between two backwards",
        ),
        pytest.param(
            """
            def fgsm(x, y):
                x = x.clone().requires_grad_(True)
                loss = criterion(model(x), y)
                loss.backward()
                return x + 0.1 * x.grad.sign()
            for x, y in loader:
                adv = fgsm(x, y)
                optimizer.zero_grad()
                loss = criterion(model(adv), y)
                loss.backward()
                optimizer.step()
            """,
            """
            def fgsm(x, y):
                x = x.clone().requires_grad_(True)
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                scaler.scale(loss).backward()
                return x + 0.1 * x.grad.sign()
            for x, y in loader:
                adv = fgsm(x, y)
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(adv), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="attack in a function of its own takes only the sign",
        ),
        pytest.param(
            """
            for x, y in loader:
                for p in model.parameters():
                    p.grad = None
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                for p in model.parameters():
                    p.grad = None
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="gradients reset to None by hand",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                for p in model.parameters():
                    if p.grad is not None:
                        p.grad.data.zero_()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                for p in model.parameters():
                    if p.grad is not None:
                        p.grad.data.zero_()
            """,
            id="gradients reset to zero by hand",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1)
                if stop:
                    break
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1)
                if stop:
                    scaler.update()
                    break
                scaler.step(optimizer)
                scaler.update()
            """,
            id="pass that ends between clip and step",
        ),
        pytest.param(
            """
            def step(x, y):
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1)
                if norm > 100: return None
                optimizer.step()
            for x, y in loader:
                step(x, y)
            """,
            """
            def step(x, y):
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1)
                if norm > 100:
                    scaler.update()
                    return None
                scaler.step(optimizer)
                scaler.update()
            for x, y in loader:
                step(x, y)
            """,
            id="function that returns between clip and step, on one line",
        ),
    ],
)
def test_rewrites_a_step(before: str, after: str) -> None:
    check_rewrites("amp", SETUP + dedent(before), SCALED + dedent(after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """
            import torch
            import torch.nn.functional as F
            from torch import nn

            model = nn.Linear(8, 2).cuda()
            criterion = nn.CrossEntropyLoss()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            second = torch.optim.SGD(head.parameters(), lr=1)
            for x, y in loader:
                loss = criterion(head(model(x)), y)
                optimizer.zero_grad()
                second.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                nn.utils.clip_grad_norm_(head.parameters(), 1.0)
                optimizer.step()
                second.step()
            """,
            """
            import torch
            import torch.nn.functional as F
            from torch import nn

            model = nn.Linear(8, 2).cuda()
            criterion = nn.CrossEntropyLoss()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            second = torch.optim.SGD(head.parameters(), lr=1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(head(model(x)), y)
                optimizer.zero_grad()
                second.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.unscale_(second)
                nn.utils.clip_grad_norm_(head.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.step(second)
                scaler.update()
            """,
            id="two optimizers with a clip each",
        ),
        pytest.param(
            """
            import torch
            import torch.nn.functional as F
            from torch import nn

            model = nn.Linear(8, 2).cuda()
            criterion = nn.CrossEntropyLoss()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            second = torch.optim.SGD(head.parameters(), lr=1)
            for x, y in loader:
                loss = criterion(head(model(x)), y)
                optimizer.zero_grad()
                second.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(list(model.parameters()) + list(head.parameters()), 1.0)
                optimizer.step()
                second.step()
            """,
            """
            import torch
            import torch.nn.functional as F
            from torch import nn

            model = nn.Linear(8, 2).cuda()
            criterion = nn.CrossEntropyLoss()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            second = torch.optim.SGD(head.parameters(), lr=1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(head(model(x)), y)
                optimizer.zero_grad()
                second.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                scaler.unscale_(second)
                nn.utils.clip_grad_norm_(list(model.parameters()) + list(head.parameters()), 1.0)
                scaler.step(optimizer)
                scaler.step(second)
                scaler.update()
            """,
            id="one clip for the parameters of two optimizers",
        ),
        pytest.param(
            """
            import torch
            import torch.nn.functional as F
            from torch import nn

            model = nn.Linear(8, 2).cuda()
            criterion = nn.CrossEntropyLoss()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            opt = torch.optim.AdamW(model.parameters(), fused=True)
            for x, y in loader:
                loss = criterion(model(x), y)
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
            """,
            """
            import torch
            import torch.nn.functional as F
            from torch import nn

            model = nn.Linear(8, 2).cuda()
            criterion = nn.CrossEntropyLoss()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            opt = torch.optim.AdamW(model.parameters(), fused=True)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                opt.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(opt)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(opt)
                scaler.update()
            """,
            id="fused optimizer with a clip",
        ),
    ],
)
def test_rewrites(before: str, after: str) -> None:
    check_rewrites("amp", before, after)


@pytest.mark.parametrize(
    ("source", "code"),
    [
        pytest.param(
            """
            for i, (x, y) in enumerate(loader):
                loss = criterion(model(x), y) / 4
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "amp.clip-each-micro-batch",
            id="clip in every micro-batch",
        ),
        pytest.param(
            """
            n = 0
            for x, y in loader:
                loss = criterion(model(x), y) / 4
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                n += 1
                if n == 4:
                    optimizer.step()
                    optimizer.zero_grad()
                    n = 0
            """,
            "amp.clip-each-micro-batch",
            id="clip in every micro-batch, counted without a modulo",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                assert torch.isfinite(norm)
                optimizer.step()
            """,
            "amp.gradient-check",
            id="assert on the norm",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                if not torch.isfinite(norm):
                    raise RuntimeError("bad gradients")
                optimizer.step()
            """,
            "amp.gradient-check",
            id="raise on the norm",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
                optimizer.step()
            """,
            "amp.error-if-nonfinite",
            id="error_if_nonfinite",
        ),
        pytest.param(
            """
            torch.autograd.set_detect_anomaly(True)
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            "amp.detect-anomaly",
            id="anomaly detection",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                with torch.autograd.detect_anomaly():
                    loss.backward()
                optimizer.step()
            """,
            "amp.detect-anomaly",
            id="anomaly detection around the backward",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                delta = 0.1 * x.grad
                loss = criterion(model(x + delta), y)
                loss.backward()
                optimizer.step()
            """,
            "amp.read-between-backwards",
            id="gradients used between two backwards",
        ),
        pytest.param(
            """
            def attack(x, y):
                x = x.clone().requires_grad_(True)
                loss = criterion(model(x), y)
                loss.backward()
                return x + 0.1 * x.grad
            for x, y in loader:
                adv = attack(x, y)
                optimizer.zero_grad()
                loss = criterion(model(adv), y)
                loss.backward()
                optimizer.step()
            """,
            "amp.reading-elsewhere",
            id="attack in a function of its own takes the gradient",
        ),
        pytest.param(
            """
            class FGM:
                def __init__(self, model):
                    self.model = model
                    self.backup = {}
                def attack(self, eps=1.0):
                    for n, p in self.model.named_parameters():
                        self.backup[n] = p.data.clone()
                        norm = torch.norm(p.grad)
                        if norm != 0:
                            p.data.add_(eps * p.grad / norm)
                def restore(self):
                    for n, p in self.model.named_parameters():
                        p.data = self.backup[n]
            fgm = FGM(model)
            for x, y in loader:
                loss = criterion(model(x), y)
                loss.backward()
                fgm.attack()
                adv = criterion(model(x), y)
                adv.backward()
                fgm.restore()
                optimizer.step()
                optimizer.zero_grad()
            """,
            "amp.manual-update",
            id="weights perturbed by their gradients",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                loss.backward()
                for p, g in zip(model.parameters(), my_grads):
                    p.grad = g
                optimizer.step()
            """,
            "amp.gradient-write",
            id="gradients put in place by hand",
        ),
    ],
)
def test_declines_a_step(source: str, code: str) -> None:
    check_declines("amp", SETUP + dedent(source), code)
