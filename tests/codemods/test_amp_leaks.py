"""Half-precision tensors that leave a region or meet float32 ones inside it."""

from __future__ import annotations

import pytest

from tests.codemods.amp_setup import LOOP, SCALED, SCALED_LOOP, SETUP
from tests.codemods.check import check_declines, check_rewrites, dedent, run, text_of


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                loss = criterion(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                preds.append(out.detach().cpu().numpy())
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    loss = criterion(out, y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                preds.append(out.detach().float().cpu().numpy())
            """,
            id="output turned into an array",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                loss = criterion(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                preds.append(out.argmax(1).cpu().numpy())
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    loss = criterion(out, y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                preds.append(out.argmax(1).cpu().numpy())
            """,
            id="class indices turned into an array",
        ),
        pytest.param(
            """
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
            with torch.no_grad():
                for x, y in val:
                    scores = torch.sigmoid(model(x))
                    rows.extend(scores.cpu().numpy())
                    items.extend(scores.tolist())
            """,
            """
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            with torch.no_grad():
                for x, y in val:
                    with torch.autocast("cuda", dtype=torch.float16):
                        scores = torch.sigmoid(model(x))
                    rows.extend(scores.float().cpu().numpy())
                    items.extend(scores.tolist())
            """,
            id="probabilities turned into an array in evaluation",
        ),
        pytest.param(
            """
            import numpy as np
            for x, y in loader:
                out = model(x)
                loss = criterion(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.data.cpu().numpy())
                a = np.asarray(out.detach().cpu())
                b = np.array(out.tolist())
            """,
            """
            import numpy as np
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    loss = criterion(out, y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                losses.append(loss.data.cpu().numpy())
                a = np.asarray(out.detach().float().cpu())
                b = np.array(out.tolist())
            """,
            id="asarray of an output; a list needs nothing",
        ),
        pytest.param(
            """
            for x, y in loader:
                buf = torch.zeros(len(x), 2).cuda()
                mask = y > 0
                buf[mask] = model(x[mask])
                loss = criterion(buf, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                buf = torch.zeros(len(x), 2).cuda()
                mask = y > 0
                with torch.autocast("cuda", dtype=torch.float16):
                    buf[mask] = model(x[mask]).to(buf.dtype)
                    loss = criterion(buf, y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="float32 buffer written by mask",
        ),
        pytest.param(
            """
            for x, y in loader:
                buf = torch.zeros(len(x), 2).cuda()
                for t in range(3):
                    buf[t] = model(x[t])
                buf[0:2] = model(x[0:2])
                loss = criterion(buf, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                buf = torch.zeros(len(x), 2).cuda()
                with torch.autocast("cuda", dtype=torch.float16):
                    for t in range(3):
                        buf[t] = model(x[t])
                    buf[0:2] = model(x[0:2])
                    loss = criterion(buf, y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="float32 buffer written by number and slice",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                loss = criterion(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                sim = torch.mm(out, protos)
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    loss = criterion(out, y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                sim = torch.mm(out.float(), protos)
            """,
            id="output multiplied outside of the region",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                total = torch.zeros_like(out)
                for part in out.chunk(4):
                    total += part.sum()
                loss = criterion(total, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    total = torch.zeros_like(out)
                    for part in out.chunk(4):
                        total += part.sum()
                    loss = criterion(total, y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="accumulator made like an output",
        ),
        pytest.param(
            """
            def steps():
                for x, y in loader:
                    out = model(x)
                    yield out
                    loss = criterion(out, y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            for out in steps():
                pass
            """,
            """
            def steps():
                for x, y in loader:
                    with torch.autocast("cuda", dtype=torch.float16):
                        out = model(x)
                    yield out
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = criterion(out, y)
                    optimizer.zero_grad()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
            for out in steps():
                pass
            """,
            id="region closes before a yield",
        ),
        pytest.param(
            """
            async def train():
                async for x, y in stream:
                    out = model(x)
                    await log(out)
                    loss = criterion(out, y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            """
            async def train():
                async for x, y in stream:
                    with torch.autocast("cuda", dtype=torch.float16):
                        out = model(x)
                    await log(out)
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = criterion(out, y)
                    optimizer.zero_grad()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
            """,
            id="region closes before an await",
        ),
        pytest.param(
            """
            def batches():
                for x, y in loader:
                    yield x.cuda(), y.cuda()
            for x, y in batches():
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            def batches():
                for x, y in loader:
                    yield x.cuda(), y.cuda()
            for x, y in batches():
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="batches from a generator",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                with torch.no_grad():
                    for p, q in zip(ema.parameters(), model.parameters()):
                        p.mul_(0.9).add_(q, alpha=0.1)
                    target = ema(x)
                loss = criterion(out, target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    with torch.no_grad():
                        for p, q in zip(ema.parameters(), model.parameters()):
                            p.mul_(0.9).add_(q, alpha=0.1)
                        target = ema(x)
                    loss = criterion(out, target)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="moving average of weights inside the step",
        ),
        pytest.param(
            """
            for x, y in loader:
                with torch.no_grad():
                    target = model(x)
                out = model(x + noise)
                loss = criterion(out, target.argmax(1))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.no_grad():
                    with torch.autocast("cuda", dtype=torch.float16):
                        target = model(x)
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x + noise)
                    loss = criterion(out, target.argmax(1))
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="forward without gradients ahead of the training forward",
        ),
        pytest.param(
            """
            target_net = nn.Linear(8, 2).cuda()
            for x, y in loader:
                with torch.no_grad():
                    target = target_net(x).max(1)[0]
                q = model(x).gather(1, y)
                loss = F.smooth_l1_loss(q, target.unsqueeze(1))
                optimizer.zero_grad()
                loss.backward()
                for param in model.parameters():
                    param.grad.data.clamp_(-1, 1)
                optimizer.step()
                if step % 100 == 0:
                    target_net.load_state_dict(model.state_dict())
            """,
            """
            target_net = nn.Linear(8, 2).cuda()
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    with torch.no_grad():
                        target = target_net(x).max(1)[0]
                    q = model(x).gather(1, y)
                    loss = F.smooth_l1_loss(q, target.unsqueeze(1))
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                for param in model.parameters():
                    param.grad.data.clamp_(-1, 1)
                scaler.step(optimizer)
                scaler.update()
                if step % 100 == 0:
                    target_net.load_state_dict(model.state_dict())
            """,
            id="target network of Q-learning",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            for x, y in val:
                with torch.no_grad():
                    preds = model(x).detach().cpu().numpy()
                scores.append(roc_auc_score(y, preds))
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            for x, y in val:
                with torch.no_grad():
                    with torch.autocast("cuda", dtype=torch.float16):
                        preds = model(x).detach().float().cpu().numpy()
                scores.append(roc_auc_score(y, preds))
            """,
            id="array made in evaluation under no_grad",
        ),
        pytest.param(
            """
            target = nn.Linear(8, 2).cuda()
            def soft_update():
                for t, p in zip(target.parameters(), model.parameters()):
                    t.data.copy_(0.9 * t.data + 0.1 * p.data)
            for x, y in loader:
                q = model(x)
                with torch.no_grad():
                    goal = y + 0.9 * target(x).max(1)[0]
                loss = F.mse_loss(q.max(1)[0], goal)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                soft_update()
            """,
            """
            target = nn.Linear(8, 2).cuda()
            def soft_update():
                for t, p in zip(target.parameters(), model.parameters()):
                    t.data.copy_(0.9 * t.data + 0.1 * p.data)
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    q = model(x)
                    with torch.no_grad():
                        goal = y + 0.9 * target(x).max(1)[0]
                    loss = F.mse_loss(q.max(1)[0], goal)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                soft_update()
            """,
            id="soft update behind the step",
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
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 2)
                def forward(self, x, index):
                    h = self.fc(x)
                    out = torch.zeros(10, 2, device=x.device)
                    out.index_add_(0, index, h)
                    return out.scatter_add(0, index, h)
            net = Net().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, i, y in loader:
                opt.zero_grad()
                loss = nn.functional.mse_loss(net(x, i), y)
                loss.backward()
                opt.step()
            """,
            """
            import torch
            from torch import nn
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 2)
                def forward(self, x, index):
                    h = self.fc(x)
                    out = torch.zeros(10, 2, device=x.device)
                    out.index_add_(0, index, h.to(out.dtype))
                    return out.scatter_add(0, index, h.to(out.dtype))
            net = Net().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, i, y in loader:
                opt.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.mse_loss(net(x, i), y)
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            """,
            id="index_add_ and scatter_add into a float32 buffer",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 2)
                def forward(self, x, index):
                    h = self.fc(x)
                    out = torch.zeros(10, 2, device=x.device, dtype=h.dtype)
                    out.index_add_(0, index, h)
                    return out
            net = Net().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, i, y in loader:
                opt.zero_grad()
                loss = nn.functional.mse_loss(net(x, i), y)
                loss.backward()
                opt.step()
            """,
            """
            import torch
            from torch import nn
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 2)
                def forward(self, x, index):
                    h = self.fc(x)
                    out = torch.zeros(10, 2, device=x.device, dtype=h.dtype)
                    out.index_add_(0, index, h)
                    return out
            net = Net().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, i, y in loader:
                opt.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.mse_loss(net(x, i), y)
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            """,
            id="buffer that has the dtype already",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class Attn(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)
                def forward(self, x, mask):
                    h = self.fc(x)
                    scores = h @ h.transpose(1, 2)
                    scores = scores.masked_fill(mask == 0, -1e9)
                    return scores.softmax(-1) @ h
            net = Attn().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, m, y in loader:
                opt.zero_grad()
                loss = nn.functional.mse_loss(net(x, m), y)
                loss.backward()
                opt.step()
            """,
            """
            import torch
            from torch import nn
            class Attn(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)
                def forward(self, x, mask):
                    h = self.fc(x)
                    scores = h @ h.transpose(1, 2)
                    scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)
                    return scores.softmax(-1) @ h
            net = Attn().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, m, y in loader:
                opt.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.mse_loss(net(x, m), y)
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            """,
            id="masked_fill with a constant beyond float16",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class Attn(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)
                def forward(self, x, mask):
                    h = self.fc(x)
                    h = h.masked_fill(mask == 0, -1e4)
                    return h.masked_fill(mask == 1, float("-inf"))
            net = Attn().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, m, y in loader:
                opt.zero_grad()
                loss = nn.functional.mse_loss(net(x, m), y)
                loss.backward()
                opt.step()
            """,
            """
            import torch
            from torch import nn
            class Attn(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)
                def forward(self, x, mask):
                    h = self.fc(x)
                    h = h.masked_fill(mask == 0, -1e4)
                    return h.masked_fill(mask == 1, float("-inf"))
            net = Attn().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, m, y in loader:
                opt.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.mse_loss(net(x, m), y)
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            """,
            id="masked_fill with constants that float16 holds",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            NEG = -1e10
            class Attn(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)
                def forward(self, x, mask):
                    h = self.fc(x)
                    a = h.masked_fill(mask, torch.finfo(torch.float32).min)
                    b = h.masked_fill(mask, NEG)
                    c = torch.where(mask, h, torch.tensor(-1e9))
                    d = h + (1 - mask) * -1e9
                    h[mask] = -1e9
                    return a + b + c + d
            net = Attn().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, m, y in loader:
                opt.zero_grad()
                loss = nn.functional.mse_loss(net(x, m), y)
                loss.backward()
                opt.step()
            """,
            """
            import torch
            from torch import nn
            NEG = -1e10
            class Attn(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)
                def forward(self, x, mask):
                    h = self.fc(x)
                    a = h.masked_fill(mask, torch.finfo(h.dtype).min)
                    b = h.masked_fill(mask, torch.finfo(h.dtype).min)
                    c = torch.where(mask, h, torch.tensor(-1e9))
                    d = h + (1 - mask) * -1e9
                    h[mask] = torch.finfo(h.dtype).min
                    return a + b + c + d
            net = Attn().cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, m, y in loader:
                opt.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.mse_loss(net(x, m), y)
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            """,
            id="constants by name, by finfo, by index",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class Square(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.save_for_backward(x)
                    return x @ x
                @staticmethod
                def backward(ctx, g):
                    x, = ctx.saved_tensors
                    return 2 * x @ g
            model = nn.Linear(8, 8).cuda()
            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                loss = nn.functional.mse_loss(Square.apply(model(x)), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
            """,
            """
            import torch
            from torch import nn
            class Square(torch.autograd.Function):
                @staticmethod
                @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
                def forward(ctx, x):
                    ctx.save_for_backward(x)
                    return x @ x
                @staticmethod
                @torch.amp.custom_bwd(device_type="cuda")
                def backward(ctx, g):
                    x, = ctx.saved_tensors
                    return 2 * x @ g
            model = nn.Linear(8, 8).cuda()
            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.mse_loss(Square.apply(model(x)), y)
                opt.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            """,
            id="autograd function of the program",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            rnn = nn.LSTM(8, 8).cuda()
            head = nn.Linear(8, 2).cuda()
            opt = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
            state = None
            for x, y in loader:
                out, state = rnn(x, state)
                state = tuple(s.detach() for s in state)
                loss = nn.functional.cross_entropy(head(out), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
            """,
            """
            import torch
            from torch import nn
            rnn = nn.LSTM(8, 8).cuda()
            head = nn.Linear(8, 2).cuda()
            opt = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            state = None
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out, state = rnn(x, state)
                    state = tuple(s.detach() for s in state)
                    loss = nn.functional.cross_entropy(head(out), y)
                opt.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            """,
            id="recurrent state kept over iterations",
        ),
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
            """
            import torch
            from torch import nn
            model = nn.DataParallel(nn.Linear(8, 2)).cuda()
            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = nn.functional.cross_entropy(model(x), y)
                opt.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            """,
            id="DataParallel in float16",
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
            model.double()
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            "amp.manual-precision",
            id="model cast to double",
        ),
        pytest.param(
            """
            torch.set_default_dtype(torch.float64)
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            "amp.manual-precision",
            id="default dtype double",
        ),
        pytest.param(
            """
            model.half()
            for x, y in loader:
                loss = criterion(model(x.half()), y)
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
                out = model(x)
                if out.dtype == torch.float32:
                    out = out.clamp(-10, 10)
                loss = criterion(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            "amp.dtype-test",
            id="output asked whether it is float32",
        ),
        pytest.param(
            """
            traced = torch.jit.trace(model, torch.randn(1, 8).cuda())
            for x, y in loader:
                loss = criterion(traced(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            "amp.jit",
            id="traced model",
        ),
        pytest.param(
            """
            model = torch.jit.script(model)
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            "amp.jit",
            id="scripted model",
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
            import torch as th
            from torch import nn
            model = nn.Linear(8, 2).to(dtype=th.float64)
            opt = th.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x.cuda()), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
            """,
            "amp.manual-precision",
            id="model moved to float64 under an alias of torch",
        ),
    ],
)
def test_declines(source: str, code: str) -> None:
    check_declines("amp", source, code)


@pytest.mark.parametrize(
    ("ahead", "reads", "casts"),
    [
        pytest.param(
            "outs, truth = [], []",
            "    outs.append(out.detach())\n    truth.append(y)\n"
            "scores, labels = torch.cat(outs).numpy(), torch.cat(truth).numpy()\n",
            "    outs.append(out.detach())\n    truth.append(y)\n"
            "scores, labels = torch.cat(outs).float().numpy(), torch.cat(truth).numpy()\n",
            id="list joined afterwards",
        ),
        pytest.param(
            "outs = []",
            "    outs += [out.detach().cpu()]\nprint([o.numpy().mean() for o in outs])\n",
            "    outs += [out.detach().cpu()]\nprint([o.float().numpy().mean() for o in outs])\n",
            id="list read in a comprehension",
        ),
        pytest.param(
            "def array(t):\n    return t.detach().cpu().numpy()",
            "    rows.append(array(out))\n",
            "    rows.append(array(out))\n",
            id="helper that only gets outputs",
        ),
        pytest.param(
            "def array(t):\n    return t.detach().cpu().numpy()",
            "    rows.append((array(out), array(y)))\n",
            "    rows.append((array(out.float()), array(y)))\n",
            id="helper that also gets labels",
        ),
        pytest.param(
            "best = None",
            "    best = out.max(1)[0].cpu().numpy()\n    index = out.max(1)[1].cpu().numpy()\n",
            "    best = out.max(1)[0].float().cpu().numpy()\n    index = out.max(1)[1].cpu().numpy()\n",
            id="values but not indices",
        ),
        pytest.param(
            "import numpy as np",
            "    print(np.mean(out.detach().cpu()), np.mean(rows))\n",
            "    print(np.mean(out.detach().float().cpu()), np.mean(rows))\n",
            id="given to numpy",
        ),
        pytest.param(
            "kept = {}\n\ndef keep(name):\n    def hook(module, inputs, output):\n"
            "        kept[name] = output.cpu().numpy()\n    return hook\n\n"
            "model.register_forward_hook(keep('out'))",
            "    print(kept)\n",
            "    print(kept)\n",
            id="forward hook",
        ),
    ],
)
def test_outputs_that_reach_numpy_by_detours(ahead: str, reads: str, casts: str) -> None:
    after = ahead.replace("t.detach().cpu()", "t.detach().float().cpu()") if "array(out)" in casts else ahead
    after = after.replace("output.cpu()", "output.float().cpu()")
    check_rewrites("amp", SETUP + ahead + LOOP + reads, SCALED + after + SCALED_LOOP + casts)


def test_output_kept_as_an_attribute() -> None:
    before = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 2)

        def forward(self, x):
            logits = self.fc(x)
            return {"logits": logits, "label": logits.argmax(1)}

    class Trainer:
        def __init__(self):
            self.model = Net().cuda()
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

        def step(self, x, y):
            self.out = self.model(x)
            loss = nn.functional.cross_entropy(self.out["logits"], y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

        def report(self):
            return self.out["logits"].detach().cpu().numpy(), self.out["label"].cpu().numpy()

    trainer = Trainer()
    for x, y in loader:
        trainer.step(x, y)
        trainer.report()
    """
    text = text_of(run("amp", dedent(before)))
    assert 'self.out["logits"].detach().float().cpu().numpy(), self.out["label"].cpu().numpy()' in text


def test_checkpoint_function_keeps_the_precision_around_it() -> None:
    source = """
    import torch
    from torch import nn

    class Checkpoint(torch.autograd.Function):
        @staticmethod
        def forward(ctx, run, *args):
            ctx.run, ctx.args = run, args
            with torch.no_grad():
                return run(*args)

        @staticmethod
        def backward(ctx, grad):
            with torch.enable_grad():
                out = ctx.run(*ctx.args)
            return None, *torch.autograd.grad(out, ctx.args, grad)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)

        def forward(self, x):
            return Checkpoint.apply(self.conv, x)

    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    """
    text = text_of(run("amp", dedent(source)))
    assert '@torch.amp.custom_fwd(device_type="cuda")\n    def forward' in text
