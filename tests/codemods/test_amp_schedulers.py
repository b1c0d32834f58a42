"""Schedulers that step with the optimizer stand still when the scaler skips a step; others are left alone."""

from __future__ import annotations

import pytest

from tests.codemods.amp_setup import SCALED, SETUP
from tests.codemods.check import check_rewrites, dedent


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()
            """,
            """
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scale = scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
                if scaler.get_scale() >= scale:
                    scheduler.step()
            """,
            id="scheduler stepped in each iteration",
        ),
        pytest.param(
            """
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
            for epoch in range(10):
                for x, y in loader:
                    loss = criterion(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                scheduler.step()
            """,
            """
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
            for epoch in range(10):
                for x, y in loader:
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = criterion(model(x), y)
                    optimizer.zero_grad()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                scheduler.step()
            """,
            id="scheduler stepped in each epoch",
        ),
        pytest.param(
            """
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if warm:
                    scheduler.step()
            """,
            """
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scale = scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
                if warm:
                    if scaler.get_scale() >= scale:
                        scheduler.step()
            """,
            id="scheduler stepped under a condition",
        ),
        pytest.param(
            """
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
            for epoch in range(10):
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()
            """,
            """
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
            for epoch in range(10):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scale = scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
                if scaler.get_scale() >= scale:
                    scheduler.step()
            """,
            id="full batch, where an epoch is a step",
        ),
        pytest.param(
            """
            scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step(loss)
            """,
            """
            scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scale = scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
                if scaler.get_scale() >= scale:
                    scheduler.step(loss)
            """,
            id="scheduler that is given the loss",
        ),
        pytest.param(
            """
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)
            for i, (x, y) in enumerate(loader):
                loss = criterion(model(x), y) / 4
                loss.backward()
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
            """,
            """
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)
            for i, (x, y) in enumerate(loader):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y) / 4
                scaler.scale(loss).backward()
                if (i + 1) % 4 == 0:
                    scale = scaler.get_scale()
                    scaler.step(optimizer)
                    scaler.update()
                    if scaler.get_scale() >= scale:
                        scheduler.step()
                    optimizer.zero_grad()
            """,
            id="scheduler in the accumulation's condition",
        ),
        pytest.param(
            """
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)
            for x, y in loader:
                scheduler.step()
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)
            for x, y in loader:
                scheduler.step()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="scheduler ahead of the step",
        ),
        pytest.param(
            """
            class Warmup:
                def __init__(self, opt):
                    self.opt = opt
                    self.n = 0
                def step(self):
                    self.n += 1
                    for g in self.opt.param_groups:
                        g["lr"] = 0.1 * min(1, self.n / 100)
            sched = Warmup(optimizer)
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                sched.step()
            """,
            """
            class Warmup:
                def __init__(self, opt):
                    self.opt = opt
                    self.n = 0
                def step(self):
                    self.n += 1
                    for g in self.opt.param_groups:
                        g["lr"] = 0.1 * min(1, self.n / 100)
            sched = Warmup(optimizer)
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                sched.step()
            """,
            id="schedule of the program's own",
        ),
        pytest.param(
            """
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)
            scale = 2
            for x, y in loader:
                loss = criterion(model(x), y) * scale
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()
            """,
            """
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)
            scale = 2
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y) * scale
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                grad_scale = scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
                if scaler.get_scale() >= grad_scale:
                    scheduler.step()
            """,
            id="the name scale is taken",
        ),
    ],
)
def test_rewrites_a_step(before: str, after: str) -> None:
    check_rewrites("amp", SETUP + dedent(before), SCALED + dedent(after))
