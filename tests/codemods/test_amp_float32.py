"""What half precision would break or falsify is computed in float32."""

from __future__ import annotations

import pytest

from tests.codemods.amp_setup import SCALED, SETUP
from tests.codemods.check import check_declines, check_rewrites, dedent


@pytest.mark.parametrize(
    ("before", "after"),
    [
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
                with torch.autocast("cuda", dtype=torch.float16):
                    out = torch.sigmoid(model(x))
                loss = bce(out.float(), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="BCELoss outside the region on a cast prediction",
        ),
        pytest.param(
            """
            bce = nn.BCELoss()
            for x, y in loader:
                out = torch.sigmoid(model(x))
                aux = out.abs().mean()
                loss = bce(out, y) + 0.1 * aux
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            bce = nn.BCELoss()
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = torch.sigmoid(model(x))
                    aux = out.abs().mean()
                loss = bce(out.float(), y) + 0.1 * aux
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="BCELoss in a sum",
        ),
        pytest.param(
            """
            def loss_of(p, t):
                return F.binary_cross_entropy(p, t) + (p ** 2).mean()
            for x, y in loader:
                out = torch.sigmoid(model(x))
                loss = loss_of(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            def loss_of(p, t):
                return F.binary_cross_entropy(p, t) + (p ** 2).mean()
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = torch.sigmoid(model(x))
                loss = loss_of(out.float(), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="binary_cross_entropy in a loss helper",
        ),
        pytest.param(
            """
            class Both(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.bce = nn.BCELoss()
                def forward(self, p, t):
                    return self.bce(p, t) + (p - t).abs().mean()
            both = Both()
            for x, y in loader:
                out = torch.sigmoid(model(x))
                loss = both(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            class Both(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.bce = nn.BCELoss()
                def forward(self, p, t):
                    return self.bce(p, t) + (p - t).abs().mean()
            both = Both()
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = torch.sigmoid(model(x))
                loss = both(out.float(), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="BCELoss in a loss module",
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
            with torch.no_grad():
                for x, y in val:
                    out = torch.sigmoid(model(x))
                    total += bce(out, y).item()
            """,
            """
            bce = nn.BCELoss()
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = torch.sigmoid(model(x))
                loss = bce(out.float(), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            with torch.no_grad():
                for x, y in val:
                    with torch.autocast("cuda", dtype=torch.float16):
                        out = torch.sigmoid(model(x))
                    total += bce(out.float(), y).item()
            """,
            id="BCELoss in evaluation",
        ),
        pytest.param(
            """
            bce = nn.BCELoss()
            for x, y in loader:
                a, b = model(x)
                loss = bce(a, y) + bce(b, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            bce = nn.BCELoss()
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    a, b = model(x)
                loss = bce(a.float(), y) + bce(b.float(), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="BCELoss of two outputs",
        ),
        pytest.param(
            """
            for x, y in loader:
                out, mu, logvar = model(x)
                rec = F.binary_cross_entropy(out, x, reduction="sum")
                kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
                loss = rec + kld
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out, mu, logvar = model(x)
                rec = F.binary_cross_entropy(out.float(), x, reduction="sum")
                with torch.autocast("cuda", dtype=torch.float16):
                    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
                loss = rec + kld
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="other loss terms stay under autocast",
        ),
        pytest.param(
            """
            for x, y in loader:
                p = torch.sigmoid(model(x))
                loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    p = torch.sigmoid(model(x).float())
                loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="sigmoid behind log(1 - p) is taken in float32",
        ),
        pytest.param(
            """
            for x, y in loader:
                p = torch.softmax(model(x), 1)
                loss = -(y * torch.log(p + 1e-10)).sum(1).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    p = torch.softmax(model(x).float(), 1)
                loss = -(y * torch.log(p + 1e-10)).sum(1).mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="constant that float16 rounds to zero",
        ),
        pytest.param(
            """
            eps = 1e-8
            for x, y in loader:
                p = torch.softmax(model(x), 1)
                loss = -(y * torch.log(p + eps)).sum(1).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            eps = 1e-8
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    p = torch.softmax(model(x).float(), 1)
                loss = -(y * torch.log(p + eps)).sum(1).mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="constant that float16 rounds to zero, by name",
        ),
        pytest.param(
            """
            for x, y in loader:
                real, fake = model(x), model(y)
                loss = -torch.mean(torch.log(real + 1e-8) + torch.log(1 - fake + 1e-8))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    real, fake = model(x), model(y)
                loss = -torch.mean(torch.log(real.float() + 1e-8) + torch.log(1 - fake.float() + 1e-8))
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="two outputs with guarded logarithms",
        ),
        pytest.param(
            """
            for x, y in loader:
                p = torch.sigmoid(model(x))
                loss = 1 - (2 * (p * y).sum() + 1.0) / (p.sum() + y.sum() + 1.0)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    p = torch.sigmoid(model(x))
                    loss = 1 - (2 * (p * y).sum() + 1.0) / (p.sum() + y.sum() + 1.0)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="smoothing by one stays under autocast",
        ),
        pytest.param(
            """
            for x, y in loader:
                d = model(x) - y
                loss = torch.sqrt((d ** 2).sum(1) + 1e-12).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    d = model(x) - y
                    loss = torch.sqrt((d ** 2).sum(1) + 1e-12).mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="squares summed stay under autocast",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                count = (out > 0).sum().item()
                loss = criterion(out, y) / (count + 1e-8)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    count = (out > 0).sum().item()
                    loss = criterion(out, y) / (count + 1e-8)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="number of Python plus a tiny constant",
        ),
        pytest.param(
            """
            ctc = nn.CTCLoss()
            for x, y, a, b in loader:
                out = model(x).log_softmax(2)
                loss = ctc(out, y, a, b)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            ctc = nn.CTCLoss()
            for x, y, a, b in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x).log_softmax(2)
                loss = ctc(out.float(), y, a, b)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="CTC loss",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                loss = torch.quantile(out, 0.5)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                loss = torch.quantile(out.float(), 0.5)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="quantile",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                loss = (torch.fft.rfft(out).abs() - y).abs().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                loss = (torch.fft.rfft(out.float()).abs() - y).abs().mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="real Fourier transform",
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
            def train(net, crit, opt):
                for x, y in loader:
                    out = net(x)
                    loss = crit(out, y)
                    opt.zero_grad()
                    loss.backward()
                    opt.step()
            net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).cuda()
            train(net, nn.BCELoss(), torch.optim.SGD(net.parameters(), lr=0.1))
            """,
            """
            import torch
            from torch import nn
            def train(net, crit, opt, scaler):
                for x, y in loader:
                    with torch.autocast("cuda", dtype=torch.float16):
                        out = net(x)
                    loss = crit(out.float(), y)
                    opt.zero_grad()
                    scaler.scale(loss).backward()
                    scaler.step(opt)
                    scaler.update()
            net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).cuda()
            scaler = torch.amp.GradScaler("cuda")
            train(net, nn.BCELoss(), torch.optim.SGD(net.parameters(), lr=0.1), scaler)
            """,
            id="BCELoss handed over as a parameter",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            G, D = nn.Linear(4, 8).cuda(), nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).cuda()
            opt_g = torch.optim.Adam(G.parameters())
            opt_d = torch.optim.Adam(D.parameters())
            bce = nn.BCELoss()
            for real in loader:
                D.zero_grad()
                output = D(real).view(-1)
                err_real = bce(output, ones)
                err_real.backward()
                fake = G(torch.randn(len(real), 4).cuda())
                output = D(fake.detach()).view(-1)
                err_fake = bce(output, zeros)
                err_fake.backward()
                opt_d.step()
                G.zero_grad()
                output = D(fake).view(-1)
                err_g = bce(output, ones)
                err_g.backward()
                opt_g.step()
            """,
            """
            import torch
            from torch import nn
            G, D = nn.Linear(4, 8).cuda(), nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).cuda()
            opt_g = torch.optim.Adam(G.parameters())
            opt_d = torch.optim.Adam(D.parameters())
            scaler = torch.amp.GradScaler("cuda")
            bce = nn.BCELoss()
            for real in loader:
                D.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    output = D(real).view(-1)
                err_real = bce(output.float(), ones)
                scaler.scale(err_real).backward()
                with torch.autocast("cuda", dtype=torch.float16):
                    fake = G(torch.randn(len(real), 4).cuda())
                    output = D(fake.detach()).view(-1)
                err_fake = bce(output.float(), zeros)
                scaler.scale(err_fake).backward()
                scaler.step(opt_d)
                G.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    output = D(fake).view(-1)
                err_g = bce(output.float(), ones)
                scaler.scale(err_g).backward()
                scaler.step(opt_g)
                scaler.update()
            """,
            id="BCELoss in a GAN with three backwards",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 1)
                    self.bce = nn.BCELoss()
                def forward(self, x, y):
                    p = torch.sigmoid(self.fc(x))
                    loss = self.bce(p, y)  # mean
                    return loss
            net = Net().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, y in loader:
                opt.zero_grad()
                loss = net(x, y)
                loss.backward()
                opt.step()
            """,
            """
            import torch
            from torch import nn
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 1)
                    self.bce = nn.BCELoss()
                def forward(self, x, y):
                    p = torch.sigmoid(self.fc(x))
                    with torch.autocast("cuda", enabled=False):
                        loss = self.bce(p.float(), y)  # mean
                    return loss
            net = Net().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                opt.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = net(x, y)
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            """,
            id="BCELoss inside a model, with autocast off around it",
        ),
        pytest.param(
            """
            import torch
            import torch.nn.functional as F
            from torch import nn
            class VAE(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.e = nn.Linear(8, 4)
                    self.d = nn.Linear(2, 8)
                def forward(self, x):
                    mu, logvar = self.e(x).chunk(2, 1)
                    z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
                    return torch.sigmoid(self.d(z)), mu, logvar
            def loss_function(recon_x, x, mu, logvar):
                BCE = F.binary_cross_entropy(recon_x, x, reduction='sum')
                KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
                return BCE + KLD
            model = VAE().cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for data in loader:
                optimizer.zero_grad()
                recon, mu, logvar = model(data)
                loss = loss_function(recon, data, mu, logvar)
                loss.backward()
                optimizer.step()
            """,
            """
            import torch
            import torch.nn.functional as F
            from torch import nn
            class VAE(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.e = nn.Linear(8, 4)
                    self.d = nn.Linear(2, 8)
                def forward(self, x):
                    mu, logvar = self.e(x).chunk(2, 1)
                    z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
                    return torch.sigmoid(self.d(z)), mu, logvar
            def loss_function(recon_x, x, mu, logvar):
                BCE = F.binary_cross_entropy(recon_x, x, reduction='sum')
                KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
                return BCE + KLD
            model = VAE().cuda()
            optimizer = torch.optim.Adam(model.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for data in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    recon, mu, logvar = model(data)
                loss = loss_function(recon.float(), data, mu.float(), logvar.float())
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="loss function of a VAE",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)
                def forward(self, x):
                    h = self.fc(x)
                    a = torch.sigmoid(h)
                    h = h / (h.norm(dim=1, keepdim=True) + 1e-8)
                    return h * torch.log(a + 1e-8)
            net = Net().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, y in loader:
                opt.zero_grad()
                loss = nn.functional.mse_loss(net(x), y)
                loss.backward()
                opt.step()
            """,
            """
            import torch
            from torch import nn
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)
                def forward(self, x):
                    h = self.fc(x)
                    a = torch.sigmoid(h)
                    h = h / (h.norm(dim=1, keepdim=True) + 1e-8)
                    return h * torch.log(a.float() + 1e-8)
            net = Net().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                opt.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.mse_loss(net(x), y)
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            """,
            id="tiny constant inside a model",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)
                def forward(self, x):
                    h = self.fc(x)
                    return torch.linalg.cholesky(h @ h.T)
            net = Net().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, y in loader:
                opt.zero_grad()
                loss = net(x).sum()
                loss.backward()
                opt.step()
            """,
            """
            import torch
            from torch import nn
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)
                def forward(self, x):
                    h = self.fc(x)
                    return torch.linalg.cholesky((h @ h.T).float())
            net = Net().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                opt.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = net(x).sum()
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            """,
            id="log determinant of a product",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)
                def forward(self, x):
                    h = self.fc(x)
                    return torch.linalg.cholesky(h @ h.T)
            net = Net().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, y in loader:
                opt.zero_grad()
                loss = net(x).sum()
                loss.backward()
                opt.step()
            """,
            """
            import torch
            from torch import nn
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)
                def forward(self, x):
                    h = self.fc(x)
                    return torch.linalg.cholesky((h @ h.T).float())
            net = Net().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                opt.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = net(x).sum()
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            """,
            id="decomposition inside a model",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class GraphConv(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.weight = nn.Parameter(torch.randn(8, 2))
                    self.bias = nn.Parameter(torch.zeros(2))
                def forward(self, x, adj):
                    support = torch.mm(x, self.weight)
                    output = torch.spmm(adj, support)
                    return output + self.bias
            net = GraphConv().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for epoch in range(100):
                opt.zero_grad()
                loss = nn.functional.cross_entropy(net(x, adj), y)
                loss.backward()
                opt.step()
            """,
            """
            import torch
            from torch import nn
            class GraphConv(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.weight = nn.Parameter(torch.randn(8, 2))
                    self.bias = nn.Parameter(torch.zeros(2))
                def forward(self, x, adj):
                    support = torch.mm(x, self.weight)
                    with torch.autocast("cuda", enabled=False):
                        output = torch.spmm(adj, support.float())
                    return output + self.bias
            net = GraphConv().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for epoch in range(100):
                opt.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.cross_entropy(net(x, adj), y)
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            """,
            id="sparse product inside a model",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)
                def forward(self, x):
                    x = self.fc(x)
                    f = torch.fft.rfft(x)
                    return torch.fft.irfft(f * 2, n=8)
            net = Net().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, y in loader:
                opt.zero_grad()
                loss = nn.functional.mse_loss(net(x), y)
                loss.backward()
                opt.step()
            """,
            """
            import torch
            from torch import nn
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)
                def forward(self, x):
                    x = self.fc(x)
                    f = torch.fft.rfft(x.float())
                    return torch.fft.irfft(f * 2, n=8)
            net = Net().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                opt.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.mse_loss(net(x), y)
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            """,
            id="real Fourier transform inside a model",
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
            for x, y in loader:
                loss = F.binary_cross_entropy(torch.sigmoid(model(x)), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            "amp.loss-with-forward",
            id="BCE in one expression with the model",
        ),
        pytest.param(
            """
            bce = nn.BCELoss()
            for x, y in loader:
                out = torch.sigmoid(model(x))
                optimizer.zero_grad()
                bce(out, y).backward()
                optimizer.step()
            """,
            "amp.inline-loss",
            id="BCE in one expression with backward",
        ),
        pytest.param(
            """
            for x, y in loader:
                p = model(x)
                loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            "amp.loss-structure",
            id="log(1 - p) where the model makes p",
        ),
        pytest.param(
            """
            adj = torch.sparse_csr_tensor(crow, col, val).cuda()
            for x, y in loader:
                out = torch.sparse.mm(adj, model(x))
                loss = criterion(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            "amp.loss-with-forward",
            id="sparse product in one statement with the model",
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
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 1)
                def forward(self, x, y):
                    return nn.functional.binary_cross_entropy(self.fc(x).sigmoid(), y)
            net = Net().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, y in loader:
                opt.zero_grad()
                loss = net(x, y)
                loss.backward()
                opt.step()
            """,
            "amp.float32-in-model",
            id="BCE in one statement with a layer",
        ),
    ],
)
def test_declines(source: str, code: str) -> None:
    check_declines("amp", source, code)


def test_squashes_in_float32_ahead_of_a_logarithm_in_the_model() -> None:
    before = """
    import torch
    from torch import nn

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean = nn.Linear(8, 4)
            self.std = nn.Linear(8, 4)

        def forward(self, x):
            normal = torch.distributions.Normal(self.mean(x), self.std(x).exp())
            z = normal.rsample()
            action = torch.tanh(z)
            log_prob = normal.log_prob(z) - torch.log(1 - action.pow(2) + 1e-6)
            return action, log_prob.sum(1)

    policy = Policy().cuda()
    opt = torch.optim.Adam(policy.parameters())
    for x, q in loader:
        action, log_prob = policy(x)
        loss = (log_prob - q).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    """
    after = """
    import torch
    from torch import nn

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean = nn.Linear(8, 4)
            self.std = nn.Linear(8, 4)

        def forward(self, x):
            normal = torch.distributions.Normal(self.mean(x), self.std(x).exp())
            z = normal.rsample()
            action = torch.tanh(z.float())
            log_prob = normal.log_prob(z) - torch.log(1 - action.pow(2) + 1e-6)
            return action, log_prob.sum(1)

    policy = Policy().cuda()
    opt = torch.optim.Adam(policy.parameters())
    for x, q in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            action, log_prob = policy(x)
            loss = (log_prob - q).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    """
    check_rewrites("amp", before, after, amp_dtype="bfloat16")
