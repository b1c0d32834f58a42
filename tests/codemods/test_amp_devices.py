"""Whether mixed precision is on follows the device that the program chooses."""

from __future__ import annotations

import pytest

from tests.codemods.check import check_declines, check_rewrites, dedent, run, text_of


@pytest.mark.parametrize(
    ("before", "after"),
    [
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
            use_amp = device.type == "cuda"
            model = nn.Linear(8, 2).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
                    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="torch.device",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            device = "cuda" if torch.cuda.is_available() else "cpu"
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
            device = "cuda" if torch.cuda.is_available() else "cpu"
            use_amp = device == "cuda"
            model = nn.Linear(8, 2).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
                    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="string without an index",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            device = "cuda:0" if torch.cuda.is_available() else "cpu"
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
            device = "cuda:0" if torch.cuda.is_available() else "cpu"
            use_amp = torch.device(device).type == "cuda"
            model = nn.Linear(8, 2).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
                    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="string with an index",
        ),
        pytest.param(
            """
            import argparse
            import torch
            from torch import nn
            parser = argparse.ArgumentParser()
            parser.add_argument("--device", default="cuda:0")
            args = parser.parse_args()
            model = nn.Linear(8, 2).to(args.device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x.to(args.device)), y.to(args.device))
                loss.backward()
                optimizer.step()
            """,
            """
            import argparse
            import torch
            from torch import nn
            parser = argparse.ArgumentParser()
            parser.add_argument("--device", default="cuda:0")
            args = parser.parse_args()
            use_amp = torch.device(args.device).type == "cuda"
            model = nn.Linear(8, 2).to(args.device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
                    loss = nn.functional.cross_entropy(model(x.to(args.device)), y.to(args.device))
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="string from the command line",
        ),
        pytest.param(
            """
            import argparse
            import torch
            from torch import nn
            parser = argparse.ArgumentParser()
            args = parser.parse_args()
            args.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            model = nn.Linear(8, 2).to(args.device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x.to(args.device)), y.to(args.device))
                loss.backward()
                optimizer.step()
            """,
            """
            import argparse
            import torch
            from torch import nn
            parser = argparse.ArgumentParser()
            args = parser.parse_args()
            args.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            use_amp = args.device.type == "cuda"
            model = nn.Linear(8, 2).to(args.device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
                    loss = nn.functional.cross_entropy(model(x.to(args.device)), y.to(args.device))
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="device kept in the arguments",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            use_cuda = torch.cuda.is_available()
            model = nn.Linear(8, 2)
            if use_cuda:
                model = model.cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                if use_cuda:
                    x, y = x.cuda(), y.cuda()
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
            """,
            """
            import torch
            from torch import nn
            use_cuda = torch.cuda.is_available()
            model = nn.Linear(8, 2)
            if use_cuda:
                model = model.cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda", enabled=use_cuda)
            for x, y in loader:
                if use_cuda:
                    x, y = x.cuda(), y.cuda()
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16, enabled=use_cuda):
                    loss = nn.functional.cross_entropy(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="flag",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            model = nn.Linear(8, 2)
            if torch.cuda.is_available():
                model = model.cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                if torch.cuda.is_available():
                    x, y = x.cuda(), y.cuda()
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
            """,
            """
            import torch
            from torch import nn
            model = nn.Linear(8, 2)
            if torch.cuda.is_available():
                model = model.cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            use_amp = torch.cuda.is_available()
            scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
            for x, y in loader:
                if torch.cuda.is_available():
                    x, y = x.cuda(), y.cuda()
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
                    loss = nn.functional.cross_entropy(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="question asked in place",
        ),
        pytest.param(
            """
            import argparse
            import torch
            from torch import nn
            parser = argparse.ArgumentParser()
            parser.add_argument("--cuda", action="store_true")
            args = parser.parse_args()
            model = nn.Linear(8, 2)
            if args.cuda:
                model.cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
            """,
            """
            import argparse
            import torch
            from torch import nn
            parser = argparse.ArgumentParser()
            parser.add_argument("--cuda", action="store_true")
            args = parser.parse_args()
            model = nn.Linear(8, 2)
            if args.cuda:
                model.cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda", enabled=args.cuda)
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16, enabled=args.cuda):
                    loss = nn.functional.cross_entropy(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="switch of the command line",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            device = torch.device("cuda:0")
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
            device = torch.device("cuda:0")
            model = nn.Linear(8, 2).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="device that is always CUDA",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            if torch.cuda.is_available():
                device = torch.device("cuda")
            elif torch.backends.mps.is_available():
                device = torch.device("mps")
            else:
                device = torch.device("cpu")
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
            if torch.cuda.is_available():
                device = torch.device("cuda")
            elif torch.backends.mps.is_available():
                device = torch.device("mps")
            else:
                device = torch.device("cpu")
            use_amp = device.type == "cuda"
            model = nn.Linear(8, 2).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
                    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="device chosen from three",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            device = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"
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
            device = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"
            use_amp = torch.device(device).type == "cuda"
            model = nn.Linear(8, 2).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
                    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="torch.accelerator",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            torch.set_default_device("cuda")
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
            torch.set_default_device("cuda")
            model = nn.Linear(8, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.cross_entropy(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="default device set for all",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            def train(model, loader, optimizer, device="cuda"):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
                    loss.backward()
                    optimizer.step()
            model = nn.Linear(8, 2).to("cuda")
            train(model, data, torch.optim.SGD(model.parameters(), lr=0.1))
            """,
            """
            import torch
            from torch import nn
            def train(model, loader, optimizer, scaler, device="cuda"):
                for x, y in loader:
                    optimizer.zero_grad()
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
            model = nn.Linear(8, 2).to("cuda")
            scaler = torch.amp.GradScaler("cuda")
            train(model, data, torch.optim.SGD(model.parameters(), lr=0.1), scaler)
            """,
            id="device as a default value",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            def main(use_amp=False):
                device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
                model = nn.Linear(8, 2).to(device)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
                    loss.backward()
                    optimizer.step()
                with torch.no_grad():
                    for x, y in val:
                        out = model(x.to(device))
            main()
            """,
            """
            import torch
            from torch import nn
            def main(use_amp=False):
                device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
                amp_enabled = device.type == "cuda"
                model = nn.Linear(8, 2).to(device)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
                for x, y in loader:
                    optimizer.zero_grad()
                    with torch.autocast("cuda", dtype=torch.float16, enabled=amp_enabled):
                        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                with torch.no_grad():
                    for x, y in val:
                        with torch.autocast("cuda", dtype=torch.float16, enabled=amp_enabled):
                            out = model(x.to(device))
            main()
            """,
            id="the name use_amp is taken by a parameter",
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
            "amp.cpu-only",
            id="nothing is moved",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            device = torch.device("cpu")
            model = nn.Linear(8, 2).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
            """,
            "amp.cpu-only",
            id="moved to the CPU",
        ),
    ],
)
def test_declines(source: str, code: str) -> None:
    check_declines("amp", source, code)


def test_scaler_waits_for_the_device() -> None:
    before = """
    import torch
    from torch import nn

    model = nn.Linear(8, 2)
    optimizer = torch.optim.Adam(model.parameters())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = model.to(device)

    def train(model, loader, optimizer, device):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    train(model, loader, optimizer, device)
    """
    text = text_of(run("amp", dedent(before)))
    line = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
    assert line + 'scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")\n' in text


def test_trainer_that_nothing_here_makes() -> None:
    before = """
    import torch

    class Trainer:
        def __init__(self, model, optimizer):
            self.optimizer = optimizer
            self.device = "cuda" if torch.cuda.is_available() else "cpu"
            self.model = model.to(self.device)

        def fit(self, loader):
            self.model.train()
            for x, y in loader:
                self.optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(self.model(x.to(self.device)), y.to(self.device))
                loss.backward()
                self.optimizer.step()
    """
    after = """
    import torch

    class Trainer:
        def __init__(self, model, optimizer):
            self.optimizer = optimizer
            self.device = "cuda" if torch.cuda.is_available() else "cpu"
            self.use_amp = self.device == "cuda"
            self.scaler = torch.amp.GradScaler("cuda", enabled=self.use_amp)
            self.model = model.to(self.device)

        def fit(self, loader):
            self.model.train()
            for x, y in loader:
                self.optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16, enabled=self.use_amp):
                    loss = torch.nn.functional.cross_entropy(self.model(x.to(self.device)), y.to(self.device))
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
    """
    check_rewrites("amp", before, after)
