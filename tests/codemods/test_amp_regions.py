"""Where autocast goes around a step, in the shapes that training loops have."""

from __future__ import annotations

import pytest

from tests.codemods.amp_setup import SCALED, SETUP
from tests.codemods.check import check_rewrites, dedent


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """
            for i, (x, y) in enumerate(loader):
                out = model(x.cuda())
                loss = criterion(out, y.cuda())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            """,
            """
            for i, (x, y) in enumerate(loader):
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x.cuda())
                    loss = criterion(out, y.cuda())
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
            """,
            id="zero_grad after the step in a loop over enumerate",
        ),
        pytest.param(
            """
            from tqdm import tqdm
            for x, y in tqdm(loader):
                out = model(x.cuda())
                loss = criterion(out, y.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            from tqdm import tqdm
            for x, y in tqdm(loader):
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x.cuda())
                    loss = criterion(out, y.cuda())
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="zero_grad between loss and backward in a loop over tqdm",
        ),
        pytest.param(
            """
            for x, y in zip(xs, ys):
                out = model(x)
                model.zero_grad()
                loss = criterion(out, y)
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in zip(xs, ys):
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    model.zero_grad()
                    loss = criterion(out, y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="zero_grad of the module between forward and loss",
        ),
        pytest.param(
            """
            for epoch in range(100):
                optimizer.zero_grad()
                loss = F.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
            """,
            """
            for epoch in range(100):
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = F.mse_loss(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="full batch in a loop over range",
        ),
        pytest.param(
            """
            from itertools import islice
            for x, y in islice(loader, 10):
                optimizer.zero_grad()
                loss = F.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
            """,
            """
            from itertools import islice
            for x, y in islice(loader, 10):
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = F.mse_loss(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="loop over islice",
        ),
        pytest.param(
            """
            batches = iter(loader)
            step = 0
            while step < 100:
                x, y = next(batches)
                x, y = x.cuda(), y.cuda()
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
            """,
            """
            batches = iter(loader)
            step = 0
            while step < 100:
                x, y = next(batches)
                x, y = x.cuda(), y.cuda()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                step += 1
            """,
            id="while loop with next",
        ),
        pytest.param(
            """
            batches = iter(loader)
            for step in range(100):
                try:
                    x, y = next(batches)
                except StopIteration:
                    batches = iter(loader)
                    x, y = next(batches)
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            batches = iter(loader)
            for step in range(100):
                try:
                    x, y = next(batches)
                except StopIteration:
                    batches = iter(loader)
                    x, y = next(batches)
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="next with restart of the iterator",
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
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="loss and backward in one expression",
        ),
        pytest.param(
            """
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model(x), y, reduction="none").mean().backward()  # scalar
                optimizer.step()
            """,
            """
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = F.mse_loss(model(x), y, reduction="none").mean()
                scaler.scale(loss).backward()  # scalar
                scaler.step(optimizer)
                scaler.update()
            """,
            id="one-liner with a method behind the loss and a comment",
        ),
        pytest.param(
            """
            for x, y in loader:
                optimizer.zero_grad(); loss = criterion(model(x), y); loss.backward(); optimizer.step()
            """,
            """
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="statements joined by semicolons",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                loss1 = criterion(out, y)
                loss2 = out.pow(2).mean()
                loss = loss1 + 0.1 * loss2
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    loss1 = criterion(out, y)
                    loss2 = out.pow(2).mean()
                    loss = loss1 + 0.1 * loss2
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="summed losses in lines of their own",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                loss1 = criterion(out, y)
                loss2 = out.pow(2).mean()
                optimizer.zero_grad()
                (loss1 + loss2).backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    loss1 = criterion(out, y)
                    loss2 = out.pow(2).mean()
                optimizer.zero_grad()
                scaler.scale(loss1 + loss2).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="losses summed in the backward expression",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = 0
                for part in x:
                    loss += criterion(model(part), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                loss = 0
                with torch.autocast("cuda", dtype=torch.float16):
                    for part in x:
                        loss += criterion(model(part), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="loss summed up by an inner loop",
        ),
        pytest.param(
            """
            for x, y in loader:
                losses = [criterion(model(part), y) for part in x]
                loss = sum(losses)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    losses = [criterion(model(part), y) for part in x]
                    loss = sum(losses)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="sum of a list of losses",
        ),
        pytest.param(
            """
            for phase in ["train", "val"]:
                model.train(phase == "train")
                for x, y in loaders[phase]:
                    optimizer.zero_grad()
                    with torch.set_grad_enabled(phase == "train"):
                        out = model(x)
                        loss = criterion(out, y)
                        if phase == "train":
                            loss.backward()
                            optimizer.step()
                    total += loss.item()
            """,
            """
            for phase in ["train", "val"]:
                model.train(phase == "train")
                for x, y in loaders[phase]:
                    optimizer.zero_grad()
                    with torch.set_grad_enabled(phase == "train"):
                        with torch.autocast("cuda", dtype=torch.float16):
                            out = model(x)
                            loss = criterion(out, y)
                        if phase == "train":
                            scaler.scale(loss).backward()
                            scaler.step(optimizer)
                            scaler.update()
                    total += loss.item()
            """,
            id="training and validation in one loop by phase",
        ),
        pytest.param(
            """
            for step, (x, y) in enumerate(loader):
                out = model(x)
                loss = criterion(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 100 == 0:
                    model.eval()
                    with torch.no_grad():
                        for x, y in val_loader:
                            out = model(x)
                            val += criterion(out, y).item()
                    model.train()
            """,
            """
            for step, (x, y) in enumerate(loader):
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    loss = criterion(out, y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                if step % 100 == 0:
                    model.eval()
                    with torch.no_grad():
                        for x, y in val_loader:
                            with torch.autocast("cuda", dtype=torch.float16):
                                out = model(x)
                                val += criterion(out, y).item()
                    model.train()
            """,
            id="validation nested in the training loop",
        ),
        pytest.param(
            """
            for x, y in loader:
                if len(x) < 2:
                    continue
                out = model(x)
                if out.shape[0] == 0:
                    continue
                loss = criterion(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                if len(x) < 2:
                    continue
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                if out.shape[0] == 0:
                    continue
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(out, y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="early continue inside the forward pass",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                loss = criterion(out, y)
                if torch.isnan(loss):
                    print("nan")
                    continue
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    loss = criterion(out, y)
                if torch.isnan(loss):
                    print("nan")
                    continue
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="continue at a loss that is not a number",
        ),
        pytest.param(
            """
            import sys, math
            for x, y in loader:
                out = model(x)
                loss = criterion(out, y)
                if not math.isfinite(loss.item()):
                    sys.exit(1)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            import sys, math
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    loss = criterion(out, y)
                if not math.isfinite(loss.item()):
                    sys.exit(1)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="exit at a loss that is not finite",
        ),
    ],
)
def test_rewrites_a_step(before: str, after: str) -> None:
    check_rewrites("amp", SETUP + dedent(before), SCALED + dedent(after))
