"""How the one scaler of a run reaches every loop, and where it is updated."""

from __future__ import annotations

import pytest

from tests.codemods.amp_setup import SCALED, SETUP
from tests.codemods.check import check_declines, check_rewrites, dedent, run


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """
            class NoamOpt:
                def __init__(self, inner):
                    self.optimizer = inner
                    self._step = 0
                def step(self):
                    self._step += 1
                    for p in self.optimizer.param_groups:
                        p['lr'] = 0.1 * self._step ** -0.5
                    self.optimizer.step()
            opt = NoamOpt(optimizer)
            for x, y in loader:
                opt.optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                opt.step()
            """,
            """
            class NoamOpt:
                def __init__(self, inner):
                    self.optimizer = inner
                    self._step = 0
                def step(self):
                    self._step += 1
                    for p in self.optimizer.param_groups:
                        p['lr'] = 0.1 * self._step ** -0.5
                    scaler.step(self.optimizer)
                    scaler.update()
            opt = NoamOpt(optimizer)
            for x, y in loader:
                opt.optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                scaler.scale(loss).backward()
                opt.step()
            """,
            id="wrapper that is no optimizer has its inner one stepped",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                loss1 = criterion(out, y)
                loss2 = out.abs().mean()
                optimizer.zero_grad()
                loss1.backward(retain_graph=True)
                loss2.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    loss1 = criterion(out, y)
                    loss2 = out.abs().mean()
                optimizer.zero_grad()
                scaler.scale(loss1).backward(retain_graph=True)
                scaler.scale(loss2).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="two backwards with retain_graph are both scaled",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                loss1 = criterion(out, y)
                loss2 = out.abs().mean()
                optimizer.zero_grad()
                torch.autograd.backward([loss1, loss2])
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    loss1 = criterion(out, y)
                    loss2 = out.abs().mean()
                optimizer.zero_grad()
                torch.autograd.backward([scaler.scale(loss1), scaler.scale(loss2)])
                scaler.step(optimizer)
                scaler.update()
            """,
            id="every root of autograd.backward is scaled",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                loss = F.cross_entropy(out, y, reduction="none")
                optimizer.zero_grad()
                loss.backward(torch.ones_like(loss))
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    loss = F.cross_entropy(out, y, reduction="none")
                optimizer.zero_grad()
                scaler.scale(loss).backward(torch.ones_like(loss))
                scaler.step(optimizer)
                scaler.update()
            """,
            id="backward with a gradient",
        ),
        pytest.param(
            """
            for i, (x, y) in enumerate(loader):
                loss = criterion(model(x), y)
                loss = loss / 4
                loss.backward()
                if (i + 1) % 4 == 0 or i + 1 == len(loader):
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            """
            for i, (x, y) in enumerate(loader):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                    loss = loss / 4
                scaler.scale(loss).backward()
                if (i + 1) % 4 == 0 or i + 1 == len(loader):
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()
            """,
            id="accumulation updates only where it steps",
        ),
        pytest.param(
            """
            for x, y in loader:
                optimizer.zero_grad()
                for a, b in zip(x.chunk(4), y.chunk(4)):
                    loss = criterion(model(a), b) / 4
                    loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                optimizer.zero_grad()
                for a, b in zip(x.chunk(4), y.chunk(4)):
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = criterion(model(a), b) / 4
                    scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="accumulation by an inner loop over chunks",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                loss = loss.item()
                total += loss
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                loss = loss.item()
                total += loss
            """,
            id="loss rebound to a number behind the step",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                loss = 0
                if use_a:
                    loss = loss + criterion(out, y)
                if use_b:
                    loss = loss + out.abs().mean()
                optimizer.zero_grad()
                if isinstance(loss, torch.Tensor):
                    loss.backward()
                    optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    loss = 0
                    if use_a:
                        loss = loss + criterion(out, y)
                    if use_b:
                        loss = loss + out.abs().mean()
                optimizer.zero_grad()
                if isinstance(loss, torch.Tensor):
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
            """,
            id="loss that may be a number behind a guard",
        ),
        pytest.param(
            """
            def go(model, opt=None, sched=None):
                for x, y in loader:
                    loss = criterion(model(x), y)
                    if opt:
                        opt.zero_grad()
                        loss.backward()
                        opt.step()
                        sched.step()
            go(model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1))
            go(model)
            """,
            """
            def go(model, opt=None, scaler=None, sched=None):
                for x, y in loader:
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = criterion(model(x), y)
                    if opt:
                        opt.zero_grad()
                        scaler.scale(loss).backward()
                        scale = scaler.get_scale()
                        scaler.step(opt)
                        scaler.update()
                        if scaler.get_scale() >= scale:
                            sched.step()
            go(model, optimizer, scaler, torch.optim.lr_scheduler.StepLR(optimizer, 1))
            go(model)
            """,
            id="optional optimizer before an optional scheduler",
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
            net = nn.Linear(8, 2).cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            def train_step(x, y):
                opt.zero_grad()
                loss = nn.functional.cross_entropy(net(x), y)
                loss.backward()
                opt.step()
                return loss.item()
            for x, y in loader:
                total += train_step(x, y)
            """,
            """
            import torch
            from torch import nn
            net = nn.Linear(8, 2).cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            def train_step(x, y):
                opt.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.cross_entropy(net(x), y)
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
                return loss.item()
            for x, y in loader:
                total += train_step(x, y)
            """,
            id="step function that reads globals",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            net = nn.Linear(8, 2).cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            def compute_loss(batch):
                x, y = batch
                return nn.functional.cross_entropy(net(x), y)
            for batch in loader:
                opt.zero_grad()
                loss = compute_loss(batch)
                loss.backward()
                opt.step()
            """,
            """
            import torch
            from torch import nn
            net = nn.Linear(8, 2).cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            def compute_loss(batch):
                x, y = batch
                return nn.functional.cross_entropy(net(x), y)
            for batch in loader:
                opt.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = compute_loss(batch)
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            """,
            id="loss computed by a helper",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class Trainer:
                def __init__(self, net, device):
                    self.net = net.to(device)
                    self.device = device
                    self.opt = torch.optim.Adam(self.net.parameters())
                def step(self, x, y):
                    loss = nn.functional.cross_entropy(self.net(x), y)
                    self.opt.zero_grad()
                    loss.backward()
                    self.opt.step()
                def fit(self, loader):
                    for x, y in loader:
                        self.step(x.to(self.device), y.to(self.device))
            Trainer(nn.Linear(8, 2), torch.device("cuda" if torch.cuda.is_available() else "cpu")).fit(data)
            """,
            """
            import torch
            from torch import nn
            class Trainer:
                def __init__(self, net, device):
                    self.net = net.to(device)
                    self.device = device
                    self.opt = torch.optim.Adam(self.net.parameters())
                    self.use_amp = device.type == "cuda"
                    self.scaler = torch.amp.GradScaler("cuda", enabled=self.use_amp)
                def step(self, x, y):
                    with torch.autocast("cuda", dtype=torch.float16, enabled=self.use_amp):
                        loss = nn.functional.cross_entropy(self.net(x), y)
                    self.opt.zero_grad()
                    self.scaler.scale(loss).backward()
                    self.scaler.step(self.opt)
                    self.scaler.update()
                def fit(self, loader):
                    for x, y in loader:
                        self.step(x.to(self.device), y.to(self.device))
            Trainer(nn.Linear(8, 2), torch.device("cuda" if torch.cuda.is_available() else "cpu")).fit(data)
            """,
            id="trainer class that builds its optimizer",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class Trainer:
                def __init__(self, net, opt):
                    self.net = net
                    self.opt = opt
                def fit(self, loader):
                    for x, y in loader:
                        loss = nn.functional.cross_entropy(self.net(x), y)
                        self.opt.zero_grad()
                        loss.backward()
                        self.opt.step()
            net = nn.Linear(8, 2).cuda()
            Trainer(net, torch.optim.Adam(net.parameters())).fit(data)
            """,
            """
            import torch
            from torch import nn
            class Trainer:
                def __init__(self, net, opt):
                    self.net = net
                    self.opt = opt
                    self.scaler = torch.amp.GradScaler("cuda")
                def fit(self, loader):
                    for x, y in loader:
                        with torch.autocast("cuda", dtype=torch.float16):
                            loss = nn.functional.cross_entropy(self.net(x), y)
                        self.opt.zero_grad()
                        self.scaler.scale(loss).backward()
                        self.scaler.step(self.opt)
                        self.scaler.update()
            net = nn.Linear(8, 2).cuda()
            Trainer(net, torch.optim.Adam(net.parameters())).fit(data)
            """,
            id="trainer class that is given its optimizer",
        ),
        pytest.param(
            """
            import torch
            from torch import nn, optim
            def train(model, loader, optimizer, device):
                for x, y in loader:
                    x, y = x.to(device), y.to(device)
                    optimizer.zero_grad()
                    loss = nn.functional.cross_entropy(model(x), y)
                    loss.backward()
                    optimizer.step()
            def main():
                device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
                model = nn.Linear(8, 2).to(device)
                optimizer = optim.SGD(model.parameters(), lr=0.1)
                for epoch in range(3):
                    train(model, data, optimizer, device)
            if __name__ == "__main__":
                main()
            """,
            """
            import torch
            from torch import nn, optim
            def train(model, loader, optimizer, scaler, device):
                for x, y in loader:
                    x, y = x.to(device), y.to(device)
                    optimizer.zero_grad()
                    with torch.autocast("cuda", dtype=torch.float16, enabled=device.type == "cuda"):
                        loss = nn.functional.cross_entropy(model(x), y)
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
            def main():
                device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
                model = nn.Linear(8, 2).to(device)
                optimizer = optim.SGD(model.parameters(), lr=0.1)
                scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")
                for epoch in range(3):
                    train(model, data, optimizer, scaler, device)
            if __name__ == "__main__":
                main()
            """,
            id="function with the model as parameter and constructors in main",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            def main():
                net = nn.Linear(8, 2).cuda()
                opt = torch.optim.SGD(net.parameters(), lr=0.1)
                def step(x, y):
                    loss = nn.functional.cross_entropy(net(x), y)
                    opt.zero_grad()
                    loss.backward()
                    opt.step()
                for x, y in loader:
                    step(x, y)
            main()
            """,
            """
            import torch
            from torch import nn
            def main():
                net = nn.Linear(8, 2).cuda()
                opt = torch.optim.SGD(net.parameters(), lr=0.1)
                scaler = torch.amp.GradScaler("cuda")
                def step(x, y):
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = nn.functional.cross_entropy(net(x), y)
                    opt.zero_grad()
                    scaler.scale(loss).backward()
                    scaler.step(opt)
                    scaler.update()
                for x, y in loader:
                    step(x, y)
            main()
            """,
            id="function inside main that reads its locals",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            def train(model, optimizer):
                for x, y in loader:
                    loss = nn.functional.cross_entropy(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            a, b = nn.Linear(8, 2).cuda(), nn.Linear(8, 2).cuda()
            train(a, torch.optim.SGD(a.parameters(), lr=0.1))
            train(b, torch.optim.SGD(b.parameters(), lr=0.1))
            """,
            """
            import torch
            from torch import nn
            def train(model, optimizer, scaler):
                for x, y in loader:
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = nn.functional.cross_entropy(model(x), y)
                    optimizer.zero_grad()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
            a, b = nn.Linear(8, 2).cuda(), nn.Linear(8, 2).cuda()
            scaler = torch.amp.GradScaler("cuda")
            train(a, torch.optim.SGD(a.parameters(), lr=0.1), scaler)
            train(b, torch.optim.SGD(b.parameters(), lr=0.1), scaler)
            """,
            id="one function trains two models, and the optimizers have no name",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            def run(model, loader, optimizer=None):
                for x, y in loader:
                    loss = nn.functional.cross_entropy(model(x), y)
                    if optimizer is not None:
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
            model = nn.Linear(8, 2).cuda()
            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(3):
                run(model, train_loader, opt)
                run(model, val_loader)
            """,
            """
            import torch
            from torch import nn
            def run(model, loader, optimizer=None, scaler=None):
                for x, y in loader:
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = nn.functional.cross_entropy(model(x), y)
                    if optimizer is not None:
                        optimizer.zero_grad()
                        scaler.scale(loss).backward()
                        scaler.step(optimizer)
                        scaler.update()
            model = nn.Linear(8, 2).cuda()
            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for epoch in range(3):
                run(model, train_loader, opt, scaler)
                run(model, val_loader)
            """,
            id="one function trains or evaluates by whether it gets an optimizer",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class Agent(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(8, 2)
                    self.optimizer = torch.optim.Adam(self.parameters())
                def forward(self, x):
                    return self.body(x)
                def learn(self, x, y):
                    loss = ((self(x) - y) ** 2).mean()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
            agent = Agent().cuda()
            for x, y in loader:
                agent.learn(x, y)
            """,
            """
            import torch
            from torch import nn
            class Agent(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(8, 2)
                    self.optimizer = torch.optim.Adam(self.parameters())
                    self.scaler = torch.amp.GradScaler("cuda")
                def forward(self, x):
                    return self.body(x)
                def learn(self, x, y):
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = ((self(x) - y) ** 2).mean()
                    self.optimizer.zero_grad()
                    self.scaler.scale(loss).backward()
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
            agent = Agent().cuda()
            for x, y in loader:
                agent.learn(x, y)
            """,
            id="module that holds its own optimizer",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            G, D = nn.Linear(4, 8).cuda(), nn.Linear(8, 1).cuda()
            opt_g = torch.optim.Adam(G.parameters())
            opt_d = torch.optim.Adam(D.parameters())
            bce = nn.BCEWithLogitsLoss()
            for real in loader:
                fake = G(torch.randn(len(real), 4).cuda())
                opt_d.zero_grad()
                loss_d = bce(D(real), ones) + bce(D(fake.detach()), zeros)
                loss_d.backward()
                opt_d.step()
                opt_g.zero_grad()
                loss_g = bce(D(fake), ones)
                loss_g.backward()
                opt_g.step()
            """,
            """
            import torch
            from torch import nn
            G, D = nn.Linear(4, 8).cuda(), nn.Linear(8, 1).cuda()
            opt_g = torch.optim.Adam(G.parameters())
            opt_d = torch.optim.Adam(D.parameters())
            scaler = torch.amp.GradScaler("cuda")
            bce = nn.BCEWithLogitsLoss()
            for real in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    fake = G(torch.randn(len(real), 4).cuda())
                    opt_d.zero_grad()
                    loss_d = bce(D(real), ones) + bce(D(fake.detach()), zeros)
                scaler.scale(loss_d).backward()
                scaler.step(opt_d)
                opt_g.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss_g = bce(D(fake), ones)
                scaler.scale(loss_g).backward()
                scaler.step(opt_g)
                scaler.update()
            """,
            id="two optimizers update the scaler once, behind the last step",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            G, D = nn.Linear(4, 8).cuda(), nn.Linear(8, 1).cuda()
            opt_g = torch.optim.Adam(G.parameters())
            opt_d = torch.optim.Adam(D.parameters())
            for i, real in enumerate(loader):
                opt_d.zero_grad()
                loss_d = D(G(z).detach()).mean() - D(real).mean()
                loss_d.backward()
                opt_d.step()
                if i % 5 == 0:
                    opt_g.zero_grad()
                    loss_g = -D(G(z)).mean()
                    loss_g.backward()
                    opt_g.step()
            """,
            """
            import torch
            from torch import nn
            G, D = nn.Linear(4, 8).cuda(), nn.Linear(8, 1).cuda()
            opt_g = torch.optim.Adam(G.parameters())
            opt_d = torch.optim.Adam(D.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for i, real in enumerate(loader):
                opt_d.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss_d = D(G(z).detach()).mean() - D(real).mean()
                scaler.scale(loss_d).backward()
                scaler.step(opt_d)
                if i % 5 == 0:
                    opt_g.zero_grad()
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss_g = -D(G(z)).mean()
                    scaler.scale(loss_g).backward()
                    scaler.step(opt_g)
                scaler.update()
            """,
            id="second optimizer steps in some passes only",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            nets = [nn.Linear(4, 8).cuda() for _ in range(3)]
            opts = [torch.optim.Adam(net.parameters()) for net in nets]
            for x, y in loader:
                loss = sum(nn.functional.mse_loss(net(x), y) for net in nets)
                for opt in opts:
                    opt.zero_grad()
                loss.backward()
                for opt in opts:
                    opt.step()
            """,
            """
            import torch
            from torch import nn
            nets = [nn.Linear(4, 8).cuda() for _ in range(3)]
            scaler = torch.amp.GradScaler("cuda")
            opts = [torch.optim.Adam(net.parameters()) for net in nets]
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = sum(nn.functional.mse_loss(net(x), y) for net in nets)
                for opt in opts:
                    opt.zero_grad()
                scaler.scale(loss).backward()
                for opt in opts:
                    scaler.step(opt)
                scaler.update()
            """,
            id="optimizers in a list",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            enc, dec = nn.Linear(4, 8).cuda(), nn.Linear(8, 4).cuda()
            o1, o2 = torch.optim.Adam(enc.parameters()), torch.optim.Adam(dec.parameters())
            for x in loader:
                z = enc(x)
                loss = nn.functional.mse_loss(dec(z), x)
                o1.zero_grad(); o2.zero_grad()
                loss.backward()
                o1.step(); o2.step()
            """,
            """
            import torch
            from torch import nn
            enc, dec = nn.Linear(4, 8).cuda(), nn.Linear(8, 4).cuda()
            o1, o2 = torch.optim.Adam(enc.parameters()), torch.optim.Adam(dec.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for x in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    z = enc(x)
                    loss = nn.functional.mse_loss(dec(z), x)
                o1.zero_grad(); o2.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(o1); scaler.step(o2)
                scaler.update()
            """,
            id="two optimizers for one loss, steps joined by a semicolon",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            G, D = nn.Linear(4, 8).cuda(), nn.Linear(8, 1).cuda()
            opt_d = torch.optim.RMSprop(D.parameters())
            for i, real in enumerate(loader):
                opt_d.zero_grad()
                loss_d = D(G(z).detach()).mean() - D(real).mean()
                loss_d.backward()
                opt_d.step()
                for p in D.parameters():
                    p.data.clamp_(-0.01, 0.01)
            """,
            """
            import torch
            from torch import nn
            G, D = nn.Linear(4, 8).cuda(), nn.Linear(8, 1).cuda()
            opt_d = torch.optim.RMSprop(D.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for i, real in enumerate(loader):
                opt_d.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss_d = D(G(z).detach()).mean() - D(real).mean()
                scaler.scale(loss_d).backward()
                scaler.step(opt_d)
                scaler.update()
                for p in D.parameters():
                    p.data.clamp_(-0.01, 0.01)
            """,
            id="weights clamped after the step stay outside",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            model = nn.Linear(8, 2).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for epoch in range(10):
                if epoch == 5:
                    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for x, y in loader:
                    loss = nn.functional.mse_loss(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            """
            import torch
            from torch import nn
            model = nn.Linear(8, 2).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for epoch in range(10):
                if epoch == 5:
                    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for x, y in loader:
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = nn.functional.mse_loss(model(x), y)
                    optimizer.zero_grad()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
            """,
            id="optimizer swapped inside the loop",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            def train(model, optimizer, epochs):
                for x, y in loader:
                    loss = nn.functional.mse_loss(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            model = nn.Linear(8, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            things = {"model": model, "optimizer": optimizer}
            train(epochs=3, **things)
            """,
            """
            import torch
            from torch import nn
            def train(model, optimizer, scaler, epochs):
                for x, y in loader:
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = nn.functional.mse_loss(model(x), y)
                    optimizer.zero_grad()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
            model = nn.Linear(8, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            things = {"model": model, "optimizer": optimizer}
            train(epochs=3, scaler=scaler, **things)
            """,
            id="arguments unpacked from a dict",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            def train(model, optimizer, epochs):
                for x, y in loader:
                    loss = nn.functional.mse_loss(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            model = nn.Linear(8, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            train(
                epochs=3,
                optimizer=optimizer,  # plain SGD
                model=model,
            )
            """,
            """
            import torch
            from torch import nn
            def train(model, optimizer, scaler, epochs):
                for x, y in loader:
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = nn.functional.mse_loss(model(x), y)
                    optimizer.zero_grad()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
            model = nn.Linear(8, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            train(
                epochs=3,
                optimizer=optimizer,  # plain SGD
                scaler=scaler,
                model=model,
            )
            """,
            id="arguments by keyword with comments",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            model = nn.Linear(8, 2).cuda()
            optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1)
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            import torch
            from torch import nn
            model = nn.Linear(8, 2).cuda()
            optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.mse_loss(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="optimizer class chosen by getattr",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            model = nn.Linear(8, 2).cuda()
            optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[name](model.parameters(), lr=0.1)
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            import torch
            from torch import nn
            model = nn.Linear(8, 2).cuda()
            optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[name](model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.mse_loss(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="optimizer class chosen from a dict",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            model = nn.Linear(8, 2).cuda()
            if name == "sgd":
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            else:
                optimizer = torch.optim.Adam(model.parameters())
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            import torch
            from torch import nn
            model = nn.Linear(8, 2).cuda()
            if name == "sgd":
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            else:
                optimizer = torch.optim.Adam(model.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.mse_loss(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="optimizer made in either branch",
        ),
        pytest.param(
            """
            import torch
            import torch.nn.functional as F
            from torch import nn

            model = nn.Linear(8, 2).cuda()
            criterion = nn.CrossEntropyLoss()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for fold in range(5):
                net = nn.Linear(8, 2).cuda()
                opt = torch.optim.Adam(net.parameters())
                for x, y in loader:
                    loss = criterion(net(x), y)
                    opt.zero_grad()
                    loss.backward()
                    opt.step()
            """,
            """
            import torch
            import torch.nn.functional as F
            from torch import nn

            model = nn.Linear(8, 2).cuda()
            criterion = nn.CrossEntropyLoss()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for fold in range(5):
                net = nn.Linear(8, 2).cuda()
                opt = torch.optim.Adam(net.parameters())
                scaler = torch.amp.GradScaler("cuda")
                for x, y in loader:
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = criterion(net(x), y)
                    opt.zero_grad()
                    scaler.scale(loss).backward()
                    scaler.step(opt)
                    scaler.update()
            """,
            id="optimizer made anew for each fold",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            def train(epoch):
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1 ** epoch)
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
                    loss.backward()
                    optimizer.step()
            model = nn.Linear(8, 2).cuda()
            for epoch in range(3):
                train(epoch)
            """,
            """
            import torch
            from torch import nn
            def train(epoch):
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1 ** epoch)
                scaler = torch.amp.GradScaler("cuda")
                for x, y in loader:
                    optimizer.zero_grad()
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
            model = nn.Linear(8, 2).cuda()
            for epoch in range(3):
                train(epoch)
            """,
            id="optimizer made anew in each call",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class Lion(torch.optim.Optimizer):
                def __init__(self, params, lr):
                    super().__init__(params, {"lr": lr})
                def step(self):
                    for group in self.param_groups:
                        for p in group["params"]:
                            p.data.add_(p.grad.sign(), alpha=-group["lr"])
            model = nn.Linear(8, 2).cuda()
            opt = Lion(model.parameters(), 0.1)
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
            """,
            """
            import torch
            from torch import nn
            class Lion(torch.optim.Optimizer):
                def __init__(self, params, lr):
                    super().__init__(params, {"lr": lr})
                def step(self):
                    for group in self.param_groups:
                        for p in group["params"]:
                            p.data.add_(p.grad.sign(), alpha=-group["lr"])
            model = nn.Linear(8, 2).cuda()
            opt = Lion(model.parameters(), 0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.mse_loss(model(x), y)
                opt.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            """,
            id="optimizer class of the program is stepped by the scaler",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            from torch.optim import Optimizer
            class Lookahead(Optimizer):
                def __init__(self, inner):
                    self.inner = inner
                    self.param_groups = inner.param_groups
                def step(self, closure=None):
                    self.inner.step(closure)
                    for group in self.param_groups:
                        self.sync(group)
            model = nn.Linear(8, 2).cuda()
            opt = Lookahead(torch.optim.Adam(model.parameters()))
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
            """,
            """
            import torch
            from torch import nn
            from torch.optim import Optimizer
            class Lookahead(Optimizer):
                def __init__(self, inner):
                    self.inner = inner
                    self.param_groups = inner.param_groups
                def step(self, closure=None):
                    self.inner.step(closure)
                    for group in self.param_groups:
                        self.sync(group)
            model = nn.Linear(8, 2).cuda()
            opt = Lookahead(torch.optim.Adam(model.parameters()))
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.mse_loss(model(x), y)
                opt.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            """,
            id="optimizer around another one is stepped by the scaler",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            from sklearn.preprocessing import StandardScaler
            scaler = StandardScaler()
            data = scaler.fit_transform(data)
            model = nn.Linear(8, 2).cuda()
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
            from sklearn.preprocessing import StandardScaler
            scaler = StandardScaler()
            data = scaler.fit_transform(data)
            model = nn.Linear(8, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            grad_scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.cross_entropy(model(x), y)
                grad_scaler.scale(loss).backward()
                grad_scaler.step(optimizer)
                grad_scaler.update()
            """,
            id="the name scaler is taken by a StandardScaler",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class Trainer:
                def __init__(self, scaler):
                    self.scaler = scaler
                    self.net = nn.Linear(8, 2).cuda()
                    self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
                def fit(self):
                    for x, y in loader:
                        self.opt.zero_grad()
                        loss = nn.functional.mse_loss(self.net(x), self.scaler.transform(y))
                        loss.backward()
                        self.opt.step()
            Trainer(None).fit()
            """,
            """
            import torch
            from torch import nn
            class Trainer:
                def __init__(self, scaler):
                    self.scaler = scaler
                    self.net = nn.Linear(8, 2).cuda()
                    self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
                    self.grad_scaler = torch.amp.GradScaler("cuda")
                def fit(self):
                    for x, y in loader:
                        self.opt.zero_grad()
                        with torch.autocast("cuda", dtype=torch.float16):
                            loss = nn.functional.mse_loss(self.net(x), self.scaler.transform(y))
                        self.grad_scaler.scale(loss).backward()
                        self.grad_scaler.step(self.opt)
                        self.grad_scaler.update()
            Trainer(None).fit()
            """,
            id="the attribute scaler is taken",
        ),
        pytest.param(
            """
            import torch
            scaler = torch.nn.Linear(8, 2).cuda()
            loss = torch.optim.Adam(scaler.parameters())
            for model, optimizer in criterion:
                loss.zero_grad()
                backward = torch.nn.functional.mse_loss(scaler(model), optimizer)
                backward.backward()
                loss.step()
            """,
            """
            import torch
            scaler = torch.nn.Linear(8, 2).cuda()
            loss = torch.optim.Adam(scaler.parameters())
            grad_scaler = torch.amp.GradScaler("cuda")
            for model, optimizer in criterion:
                loss.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    backward = torch.nn.functional.mse_loss(scaler(model), optimizer)
                grad_scaler.scale(backward).backward()
                grad_scaler.step(loss)
                grad_scaler.update()
            """,
            id="names that promise other things",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class T:
                def __init__(self):
                    self.net = nn.Linear(8, 2).cuda()
                    self.opt = torch.optim.Adam(self.net.parameters())
                def forward_backward(self, x, y):
                    self.loss = nn.functional.mse_loss(self.net(x), y)
                    self.loss.backward()
                def update(self):
                    nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
                    self.opt.step()
                    self.opt.zero_grad()
                def fit(self):
                    for x, y in loader:
                        self.forward_backward(x, y)
                        self.update()
            T().fit()
            """,
            """
            import torch
            from torch import nn
            class T:
                def __init__(self):
                    self.net = nn.Linear(8, 2).cuda()
                    self.opt = torch.optim.Adam(self.net.parameters())
                    self.scaler = torch.amp.GradScaler("cuda")
                def forward_backward(self, x, y):
                    with torch.autocast("cuda", dtype=torch.float16):
                        self.loss = nn.functional.mse_loss(self.net(x), y)
                    self.scaler.scale(self.loss).backward()
                def update(self):
                    self.scaler.unscale_(self.opt)
                    nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
                    self.scaler.step(self.opt)
                    self.scaler.update()
                    self.opt.zero_grad()
                def fit(self):
                    for x, y in loader:
                        self.forward_backward(x, y)
                        self.update()
            T().fit()
            """,
            id="backward and step in different methods",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class GAN:
                def __init__(self):
                    self.G = nn.Linear(4, 8).cuda()
                    self.D = nn.Linear(8, 1).cuda()
                    self.opt_G = torch.optim.Adam(self.G.parameters())
                    self.opt_D = torch.optim.Adam(self.D.parameters())
                    self.crit = nn.BCEWithLogitsLoss()
                def forward(self):
                    self.fake = self.G(self.real_A)
                def backward_D(self):
                    fake = self.D(self.fake.detach())
                    self.loss_D = self.crit(fake, zeros) + self.crit(self.D(self.real_B), ones)
                    self.loss_D.backward()
                def backward_G(self):
                    self.loss_G = self.crit(self.D(self.fake), ones)
                    self.loss_G.backward()
                def optimize(self):
                    self.forward()
                    self.opt_D.zero_grad()
                    self.backward_D()
                    self.opt_D.step()
                    self.opt_G.zero_grad()
                    self.backward_G()
                    self.opt_G.step()
            model = GAN()
            for a, b in loader:
                model.optimize()
            """,
            """
            import torch
            from torch import nn
            class GAN:
                def __init__(self):
                    self.G = nn.Linear(4, 8).cuda()
                    self.D = nn.Linear(8, 1).cuda()
                    self.opt_G = torch.optim.Adam(self.G.parameters())
                    self.opt_D = torch.optim.Adam(self.D.parameters())
                    self.scaler = torch.amp.GradScaler("cuda")
                    self.crit = nn.BCEWithLogitsLoss()
                def forward(self):
                    with torch.autocast("cuda", dtype=torch.float16):
                        self.fake = self.G(self.real_A)
                def backward_D(self):
                    with torch.autocast("cuda", dtype=torch.float16):
                        fake = self.D(self.fake.detach())
                        self.loss_D = self.crit(fake, zeros) + self.crit(self.D(self.real_B), ones)
                    self.scaler.scale(self.loss_D).backward()
                def backward_G(self):
                    with torch.autocast("cuda", dtype=torch.float16):
                        self.loss_G = self.crit(self.D(self.fake), ones)
                    self.scaler.scale(self.loss_G).backward()
                def optimize(self):
                    self.forward()
                    self.opt_D.zero_grad()
                    self.backward_D()
                    self.scaler.step(self.opt_D)
                    self.opt_G.zero_grad()
                    self.backward_G()
                    self.scaler.step(self.opt_G)
                    self.scaler.update()
            model = GAN()
            for a, b in loader:
                model.optimize()
            """,
            id="GAN in methods of one class",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            G, D = nn.Linear(4, 8).cuda(), nn.Linear(8, 1).cuda()
            opt_g = torch.optim.Adam(G.parameters())
            opt_d = torch.optim.Adam(D.parameters())
            def train_d(real):
                opt_d.zero_grad()
                loss = D(G(z).detach()).mean() - D(real).mean()
                loss.backward()
                opt_d.step()
            def train_g():
                opt_g.zero_grad()
                loss = -D(G(z)).mean()
                loss.backward()
                opt_g.step()
            for real in loader:
                train_d(real)
                train_g()
            """,
            """
            import torch
            from torch import nn
            G, D = nn.Linear(4, 8).cuda(), nn.Linear(8, 1).cuda()
            opt_g = torch.optim.Adam(G.parameters())
            opt_d = torch.optim.Adam(D.parameters())
            scaler = torch.amp.GradScaler("cuda")
            def train_d(real):
                opt_d.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = D(G(z).detach()).mean() - D(real).mean()
                scaler.scale(loss).backward()
                scaler.step(opt_d)
                scaler.update()
            def train_g():
                opt_g.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = -D(G(z)).mean()
                scaler.scale(loss).backward()
                scaler.step(opt_g)
                scaler.update()
            for real in loader:
                train_d(real)
                train_g()
            """,
            id="each of two functions has its own backward and step",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            G, D = nn.Linear(4, 8).cuda(), nn.Linear(8, 1).cuda()
            opt_g = torch.optim.Adam(G.parameters())
            opt_d = torch.optim.Adam(D.parameters())
            for real in loader:
                for _ in range(5):
                    opt_d.zero_grad()
                    loss_d = D(G(z).detach()).mean() - D(real).mean()
                    loss_d.backward()
                    opt_d.step()
                opt_g.zero_grad()
                loss_g = -D(G(z)).mean()
                loss_g.backward()
                opt_g.step()
            """,
            """
            import torch
            from torch import nn
            G, D = nn.Linear(4, 8).cuda(), nn.Linear(8, 1).cuda()
            opt_g = torch.optim.Adam(G.parameters())
            opt_d = torch.optim.Adam(D.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for real in loader:
                for _ in range(5):
                    opt_d.zero_grad()
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss_d = D(G(z).detach()).mean() - D(real).mean()
                    scaler.scale(loss_d).backward()
                    scaler.step(opt_d)
                    scaler.update()
                opt_g.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss_g = -D(G(z)).mean()
                scaler.scale(loss_g).backward()
                scaler.step(opt_g)
                scaler.update()
            """,
            id="several critic steps to one of the generator",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class T:
                @staticmethod
                def step(net, opt, x, y):
                    loss = nn.functional.mse_loss(net(x), y)
                    opt.zero_grad()
                    loss.backward()
                    opt.step()
            net = nn.Linear(8, 2).cuda()
            opt = torch.optim.Adam(net.parameters())
            for x, y in loader:
                T.step(net, opt, x, y)
            """,
            """
            import torch
            from torch import nn
            class T:
                @staticmethod
                def step(net, opt, scaler, x, y):
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = nn.functional.mse_loss(net(x), y)
                    opt.zero_grad()
                    scaler.scale(loss).backward()
                    scaler.step(opt)
                    scaler.update()
            net = nn.Linear(8, 2).cuda()
            opt = torch.optim.Adam(net.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                T.step(net, opt, scaler, x, y)
            """,
            id="static method",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            parts = {"net": nn.Linear(8, 2).cuda()}
            parts["opt"] = torch.optim.Adam(parts["net"].parameters())
            for x, y in loader:
                loss = nn.functional.mse_loss(parts["net"](x), y)
                parts["opt"].zero_grad()
                loss.backward()
                parts["opt"].step()
            """,
            """
            import torch
            from torch import nn
            parts = {"net": nn.Linear(8, 2).cuda()}
            scaler = torch.amp.GradScaler("cuda")
            parts["opt"] = torch.optim.Adam(parts["net"].parameters())
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.mse_loss(parts["net"](x), y)
                parts["opt"].zero_grad()
                scaler.scale(loss).backward()
                scaler.step(parts["opt"])
                scaler.update()
            """,
            id="model and optimizer in a dict",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            G, D = nn.Linear(4, 8).cuda(), nn.Linear(8, 1).cuda()
            opt_g = torch.optim.Adam(G.parameters())
            opt_d = torch.optim.Adam(D.parameters())
            for i, real in enumerate(loader):
                opt_d.zero_grad()
                loss_d = D(G(z).detach()).mean() - D(real).mean()
                loss_d.backward()
                opt_d.step()
                if i % 5:
                    continue
                opt_g.zero_grad()
                loss_g = -D(G(z)).mean()
                loss_g.backward()
                opt_g.step()
            """,
            """
            import torch
            from torch import nn
            G, D = nn.Linear(4, 8).cuda(), nn.Linear(8, 1).cuda()
            opt_g = torch.optim.Adam(G.parameters())
            opt_d = torch.optim.Adam(D.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for i, real in enumerate(loader):
                opt_d.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss_d = D(G(z).detach()).mean() - D(real).mean()
                scaler.scale(loss_d).backward()
                scaler.step(opt_d)
                if i % 5:
                    scaler.update()
                    continue
                opt_g.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss_g = -D(G(z)).mean()
                scaler.scale(loss_g).backward()
                scaler.step(opt_g)
                scaler.update()
            """,
            id="pass that ends between the steps of two optimizers",
        ),
        pytest.param(
            dedent(
                """
                import torch
                from torch import nn
                def update(loss, opt):
                    opt.zero_grad()
                    loss.backward()
                    opt.step()
                def main():
                    net = nn.Linear(8, 2).cuda()
                    opt = torch.optim.SGD(net.parameters(), lr=0.1)
                    for x, y in loader:
                        loss = nn.functional.cross_entropy(net(x), y)
                        update(loss, opt)
                main()
                """
            ),
            dedent(
                """
                import torch
                from torch import nn
                def update(loss, opt, scaler):
                    opt.zero_grad()
                    scaler.scale(loss).backward()
                    scaler.step(opt)
                    scaler.update()
                def main():
                    net = nn.Linear(8, 2).cuda()
                    opt = torch.optim.SGD(net.parameters(), lr=0.1)
                    scaler = torch.amp.GradScaler("cuda")
                    for x, y in loader:
                        with torch.autocast("cuda", dtype=torch.float16):
                            loss = nn.functional.cross_entropy(net(x), y)
                        update(loss, opt, scaler)
                main()
                """
            ),
            id="loss handed to a function that steps",
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
            head = nn.Linear(2, 2).cuda()
            other = torch.optim.SGD(head.parameters(), lr=1)
            for i, (x, y) in enumerate(loader):
                if i % 2:
                    loss = criterion(model(x), y)
                else:
                    loss = criterion(head(model(x).detach()), y)
                optimizer.zero_grad()
                other.zero_grad()
                loss.backward()
                optimizer.step()
                other.step()
            """,
            "amp.no-gradients",
            id="optimizer that steps when nothing of its own was run",
        ),
        pytest.param(
            """
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                print(loss.item())
                optimizer.step()
            """,
            "amp.step-twice",
            id="two steps behind one backward",
        ),
        pytest.param(
            """
            head = nn.Linear(8, 2).cuda()
            other = torch.optim.SGD(head.parameters(), lr=1)
            for i, (x, y) in enumerate(loader):
                net = model if i % 2 else head
                loss = criterion(net(x), y)
                optimizer.zero_grad()
                other.zero_grad()
                loss.backward()
                optimizer.step()
                other.step()
            """,
            "amp.no-gradients",
            id="one of two models by turns, and both optimizers step",
        ),
    ],
)
def test_declines_a_step(source: str, code: str) -> None:
    check_declines("amp", SETUP + dedent(source), code)


@pytest.mark.parametrize(
    ("source", "code"),
    [
        pytest.param(
            """
            import torch
            from torch import nn
            def train(model, optimizer, epochs):
                for x, y in loader:
                    loss = nn.functional.mse_loss(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            model = nn.Linear(8, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            things = (model, optimizer)
            train(*things, 3)
            """,
            "amp.unpacked-arguments",
            id="unpacked positional arguments",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            def train(model, optimizer):
                for x, y in loader:
                    loss = nn.functional.mse_loss(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            model = nn.Linear(8, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            run(train, model, optimizer)
            train(model, optimizer)
            """,
            "amp.function-as-value",
            id="training function passed as a value",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            from mylib import build_optimizer
            model = nn.Linear(8, 2).cuda()
            optimizer = build_optimizer(model)
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            "amp.optimizer-elsewhere",
            id="optimizer from an unknown factory",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            def train(model, loader, optimizer, device):
                for x, y in loader:
                    loss = nn.functional.mse_loss(model(x.to(device)), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            "amp.optimizer-elsewhere",
            id="training function that nothing calls",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class SAM(torch.optim.Optimizer):
                def __init__(self, params, base):
                    super().__init__(params, {})
                    self.base = base
                def first_step(self):
                    for group in self.param_groups:
                        for p in group["params"]:
                            p.add_(p.grad)
                def second_step(self):
                    self.base.step()
            model = nn.Linear(8, 2).cuda()
            opt = SAM(model.parameters(), torch.optim.SGD)
            for x, y in loader:
                F.mse_loss(model(x), y).backward()
                opt.first_step()
                F.mse_loss(model(x), y).backward()
                opt.second_step()
            """,
            "amp.custom-optimizer",
            id="optimizer that steps twice by other methods",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            G, D = nn.Linear(4, 8).cuda(), nn.Linear(8, 1).cuda()
            opt_g = torch.optim.Adam(G.parameters())
            opt_d = torch.optim.Adam(D.parameters())
            def step_d():
                opt_d.step()
            def step_g():
                opt_g.step()
            for real in loader:
                loss = D(G(real)).mean()
                loss.backward()
                step_d()
                step_g()
            """,
            "amp.update-order",
            id="steps in functions without the backward",
        ),
    ],
)
def test_declines(source: str, code: str) -> None:
    check_declines("amp", source, code)


def test_leftover_gradients_of_an_accumulation_step_once_more() -> None:
    source = SETUP + dedent("""
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / 4
        loss.backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    optimizer.step()
    """)
    assert [outcome.status for outcome in run("amp", source).outcomes] == ["applied"]
