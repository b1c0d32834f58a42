"""Programs to leave alone: other engines, mixed precision already there, look-alikes, no training."""

from __future__ import annotations

import pytest

from tests.codemods.amp_setup import SETUP
from tests.codemods.check import check_declines, check_rewrites, dedent


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """
            import torch
            from torchvision import models
            vgg = models.vgg19().features.cuda().eval()
            image = content.clone().requires_grad_(True)
            optimizer = torch.optim.Adam([image], lr=0.01)
            for step in range(300):
                loss = torch.nn.functional.mse_loss(vgg(image), vgg(content))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            import torch
            from torchvision import models
            vgg = models.vgg19().features.cuda().eval()
            image = content.clone().requires_grad_(True)
            optimizer = torch.optim.Adam([image], lr=0.01)
            scaler = torch.amp.GradScaler("cuda")
            for step in range(300):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = torch.nn.functional.mse_loss(vgg(image), vgg(content))
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="input optimised through a frozen network",
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
            opt = torch.optim.LBFGS(model.parameters())
            for x, y in loader:
                def closure():
                    opt.zero_grad()
                    loss = criterion(model(x), y)
                    loss.backward()
                    return loss
                opt.step(closure)
            """,
            "amp.lbfgs",
            id="LBFGS",
        ),
        pytest.param(
            """
            for x, y in loader:
                def closure():
                    optimizer.zero_grad()
                    loss = criterion(model(x), y)
                    loss.backward()
                    return loss
                optimizer.step(closure)
            """,
            "amp.closure",
            id="closure",
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
            "amp.manual-update",
            id="update by hand under no_grad",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                model.zero_grad()
                loss.backward()
                for p in model.parameters():
                    p.data = p.data - 0.1 * p.grad.data
            """,
            "amp.manual-update",
            id="update by hand through .data",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                model.zero_grad()
                loss.backward()
                for p in model.parameters():
                    p.data.add_(p.grad, alpha=-0.1)
            """,
            "amp.manual-update",
            id="update by hand with add_",
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
            "amp.gradient-penalty",
            id="gradient penalty",
        ),
        pytest.param(
            """
            from torch.autograd import grad
            def penalty(out, x):
                return grad(out, x, torch.ones_like(out), create_graph=True)[0].norm(2)
            for x, y in loader:
                out = model(x)
                loss = criterion(out, y) + penalty(out, x)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            "amp.gradient-penalty",
            id="gradient penalty in a helper, grad imported by name",
        ),
        pytest.param(
            """
            for p in model.parameters():
                p.register_hook(lambda g: g.clamp(-1, 1))
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            "amp.gradient-hook",
            id="hook on gradients",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = criterion(model(x), y)
                grads = torch.autograd.grad(loss, model.parameters())
                for p, g in zip(model.parameters(), grads):
                    p.grad = g
                optimizer.step()
            """,
            "amp.autograd-grad",
            id="gradients from torch.autograd.grad",
        ),
        pytest.param(
            """
            for x, y in loader:
                with torch.autocast("cuda"):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            "amp.already",
            id="autocast already there",
        ),
        pytest.param(
            """
            from torch.cuda.amp import GradScaler, autocast
            scaler = GradScaler()
            for x, y in loader:
                with autocast():
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            "amp.already",
            id="scaler already there, by its old name",
        ),
        pytest.param(
            """
            from apex import amp
            model, optimizer = amp.initialize(model, optimizer)
            for x, y in loader:
                loss = criterion(model(x), y)
                with amp.scale_loss(loss, optimizer) as scaled:
                    scaled.backward()
                optimizer.step()
            """,
            "amp.already",
            id="Apex",
        ),
        pytest.param(
            """
            from timm.utils import NativeScaler
            loss_scaler = NativeScaler()
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss_scaler(loss, optimizer)
            """,
            "amp.already",
            id="scaler of timm",
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
            from accelerate import Accelerator
            accelerator = Accelerator()
            model = torch.nn.Linear(8, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model, optimizer = accelerator.prepare(model, optimizer)
            for x, y in loader:
                loss = torch.nn.functional.mse_loss(model(x), y)
                optimizer.zero_grad()
                accelerator.backward(loss)
                optimizer.step()
            """,
            "amp.engine",
            id="Accelerate",
        ),
        pytest.param(
            """
            import deepspeed
            import torch
            engine, optimizer, _, _ = deepspeed.initialize(model=torch.nn.Linear(8, 2))
            for x, y in loader:
                loss = torch.nn.functional.mse_loss(engine(x), y)
                engine.backward(loss)
                engine.step()
            """,
            "amp.engine",
            id="DeepSpeed",
        ),
        pytest.param(
            """
            from transformers import Trainer
            Trainer(model=model, train_dataset=data).train()
            """,
            "amp.engine",
            id="Trainer of transformers",
        ),
        pytest.param(
            """
            import pytorch_lightning as pl
            import torch
            class Net(pl.LightningModule):
                def training_step(self, batch, i):
                    return self(batch).mean()
            pl.Trainer().fit(Net())
            """,
            "amp.engine",
            id="Lightning",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            def train(model, optimizer, accelerator):
                for x, y in loader:
                    loss = nn.functional.mse_loss(model(x.cuda()), y)
                    optimizer.zero_grad()
                    accelerator.backward(loss)
                    optimizer.step()
            """,
            "amp.optimizer-elsewhere",
            id="engine handed over as a parameter",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            class T:
                def __init__(self, fabric):
                    self.fabric = fabric
                    self.net = nn.Linear(8, 2).cuda()
                    self.opt = torch.optim.Adam(self.net.parameters())
                def fit(self):
                    for x, y in loader:
                        loss = nn.functional.mse_loss(self.net(x), y)
                        self.fabric.backward(loss)
                        self.opt.step()
                        self.opt.zero_grad()
            T(None).fit()
            """,
            "amp.forward-not-found",
            id="engine kept in an attribute",
        ),
        pytest.param(
            """
            import mylib
            import torch
            engine, opt = mylib.initialize(model=torch.nn.Linear(8, 2).cuda())
            for x, y in loader:
                loss = torch.nn.functional.mse_loss(engine(x), y)
                engine.backward(loss)
                engine.step()
            """,
            "amp.no-step",
            id="engine that steps by itself",
        ),
        pytest.param(
            """
            class Robot:
                def step(self):
                    pass
                def backward(self):
                    pass
                def zero_grad(self):
                    pass
            robot = Robot()
            for i in range(10):
                robot.zero_grad()
                robot.backward()
                robot.step()
            """,
            "amp.no-training",
            id="class of the user's with step and backward",
        ),
        pytest.param(
            """
            import torch
            import gym
            env = gym.make("CartPole-v1")
            for i in range(10):
                obs, reward, done, _ = env.step(0)
            """,
            "amp.no-training",
            id="environment with step",
        ),
        pytest.param(
            """
            print("hi")
            """,
            "amp.no-training",
            id="program without torch",
        ),
        pytest.param(
            """
            import torch
            model = torch.nn.Linear(8, 2).cuda()
            with torch.no_grad():
                print(model(x))
            """,
            "amp.no-training",
            id="inference only",
        ),
        pytest.param(
            """
            import torch
            from torchvision import models
            model = models.resnet18().cuda().eval()
            x.requires_grad_()
            score = model(x).max()
            score.backward()
            saliency = x.grad.abs()
            """,
            "amp.no-step",
            id="saliency map",
        ),
    ],
)
def test_declines(source: str, code: str) -> None:
    check_declines("amp", source, code)


def test_tensors_without_a_model() -> None:
    source = """
    import torch
    x = torch.zeros(2, device="cuda", requires_grad=True)
    optimizer = torch.optim.Adam([x], lr=1e-3)
    for step in range(100):
        loss = (x ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
    check_declines("amp", source, "amp.no-model", amp_dtype="bfloat16")
