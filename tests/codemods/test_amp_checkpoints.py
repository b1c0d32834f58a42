"""The scaler's state goes into checkpoints that carry the optimizer's, and is loaded only where it is there."""

from __future__ import annotations

import pytest

from tests.codemods.amp_setup import SCALED, SETUP
from tests.codemods.check import check_rewrites, dedent


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """
            start = 0
            if resume:
                checkpoint = torch.load("last.pt")
                model.load_state_dict(checkpoint["model"])
                optimizer.load_state_dict(checkpoint["optimizer"])
                start = checkpoint["epoch"]
            for epoch in range(start, 10):
                for x, y in loader:
                    loss = criterion(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                torch.save({"optimizer": optimizer.state_dict(), "epoch": epoch}, path)
            """,
            """
            start = 0
            if resume:
                checkpoint = torch.load("last.pt")
                model.load_state_dict(checkpoint["model"])
                optimizer.load_state_dict(checkpoint["optimizer"])
                if checkpoint.get("scaler"):
                    scaler.load_state_dict(checkpoint["scaler"])
                start = checkpoint["epoch"]
            for epoch in range(start, 10):
                for x, y in loader:
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = criterion(model(x), y)
                    optimizer.zero_grad()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                torch.save({"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict(), "epoch": epoch}, path)
            """,
            id="dict in one line, resumed under a condition",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            torch.save({
                'model': model.state_dict(),
                'optim': optimizer.state_dict(),  # momentum
            }, 'last.pt')
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            torch.save({
                'model': model.state_dict(),
                'optim': optimizer.state_dict(),  # momentum
                'scaler': scaler.state_dict(),
            }, 'last.pt')
            """,
            id="single quotes, an entry a line, a comment behind",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            state = dict(model=model.state_dict(), optimizer=optimizer.state_dict())
            torch.save(state, "last.pt")
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            state = dict(model=model.state_dict(), optimizer=optimizer.state_dict(), scaler=scaler.state_dict())
            torch.save(state, "last.pt")
            """,
            id="dict made by keywords",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            state = {}
            state["model"] = model.state_dict()
            state["optimizer"] = optimizer.state_dict()
            torch.save(state, "last.pt")
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            state = {}
            state["model"] = model.state_dict()
            state["optimizer"] = optimizer.state_dict()
            state["scaler"] = scaler.state_dict()
            torch.save(state, "last.pt")
            """,
            id="entries assigned one by one",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            torch.save(model.state_dict(), "last.pt")
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            torch.save(model.state_dict(), "last.pt")
            """,
            id="only the model is saved",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            optimizer.load_state_dict(torch.load("optim.pt"))
            torch.save(optimizer.state_dict(), "optim.pt")
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            optimizer.load_state_dict(torch.load("optim.pt"))
            torch.save(optimizer.state_dict(), "optim.pt")
            """,
            id="optimizer saved alone",
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
            from torch import nn
            def save_checkpoint(model, optimizer, epoch):
                torch.save({"optimizer": optimizer.state_dict(), "epoch": epoch}, path)
            model = nn.Linear(8, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            save_checkpoint(model, optimizer, 1)
            """,
            """
            import torch
            from torch import nn
            def save_checkpoint(model, optimizer, scaler, epoch):
                torch.save({"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict(), "epoch": epoch}, path)
            model = nn.Linear(8, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.mse_loss(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            save_checkpoint(model, optimizer, scaler, 1)
            """,
            id="helper that is given the optimizer",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class Trainer:
                def __init__(self, path):
                    self.net = nn.Linear(8, 2).cuda()
                    self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
                    if path:
                        self.load(path)
                def load(self, path):
                    state = torch.load(path)
                    self.net.load_state_dict(state["net"])
                    self.opt.load_state_dict(state["opt"])
                def save(self, path):
                    torch.save({"opt": self.opt.state_dict()}, path)
                def fit(self):
                    for x, y in loader:
                        loss = nn.functional.mse_loss(self.net(x), y)
                        self.opt.zero_grad()
                        loss.backward()
                        self.opt.step()
                    self.save("last.pt")
            Trainer(None).fit()
            """,
            """
            import torch
            from torch import nn
            class Trainer:
                def __init__(self, path):
                    self.net = nn.Linear(8, 2).cuda()
                    self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
                    self.scaler = torch.amp.GradScaler("cuda")
                    if path:
                        self.load(path)
                def load(self, path):
                    state = torch.load(path)
                    self.net.load_state_dict(state["net"])
                    self.opt.load_state_dict(state["opt"])
                    if state.get("scaler"):
                        self.scaler.load_state_dict(state["scaler"])
                def save(self, path):
                    torch.save({"opt": self.opt.state_dict(), "scaler": self.scaler.state_dict()}, path)
                def fit(self):
                    for x, y in loader:
                        with torch.autocast("cuda", dtype=torch.float16):
                            loss = nn.functional.mse_loss(self.net(x), y)
                        self.opt.zero_grad()
                        self.scaler.scale(loss).backward()
                        self.scaler.step(self.opt)
                        self.scaler.update()
                    self.save("last.pt")
            Trainer(None).fit()
            """,
            id="methods of a trainer class",
        ),
    ],
)
def test_rewrites(before: str, after: str) -> None:
    check_rewrites("amp", before, after)
