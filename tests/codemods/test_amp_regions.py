"""Where autocast goes around a step, in the shapes that training loops have."""

from __future__ import annotations

import pytest

from tests.codemods.amp_setup import SCALED, SETUP
from tests.codemods.check import check_declines, check_rewrites, dedent


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
        pytest.param(
            """
            for batch in loader:
                optimizer.zero_grad()
                loss = model(**batch).loss
                loss.backward()
                optimizer.step()
            """,
            """
            for batch in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(**batch).loss
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="model called with unpacked arguments",
        ),
        pytest.param(
            """\
for x, y in loader:
	optimizer.zero_grad()
	loss = criterion(
		model(x),  # logits
		y,
	)
	loss.backward()
	optimizer.step()
""",
            """\
for x, y in loader:
	optimizer.zero_grad()
	with torch.autocast("cuda", dtype=torch.float16):
		loss = criterion(
			model(x),  # logits
			y,
		)
	scaler.scale(loss).backward()
	scaler.step(optimizer)
	scaler.update()
""",
            id="tabs, and a comment inside the expression",
        ),
        pytest.param(
            '''
            for x, y in loader:
                optimizer.zero_grad()
                out = model(x)
                note = """two
            lines"""
                loss = criterion(out, y)
                loss.backward()
                optimizer.step()
            ''',
            '''
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    note = """two
            lines"""
                    loss = criterion(out, y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            ''',
            id="triple-quoted string inside the region",
        ),
        pytest.param(
            """
            for x, y in loader: optimizer.zero_grad(); criterion(model(x), y).backward(); optimizer.step()
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
            id="body on the line of the loop",
        ),
        pytest.param(
            """
            net = model
            step = net.forward
            for x, y in loader:
                loss = criterion(step(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            net = model
            step = net.forward
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(step(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="model and its forward under other names",
        ),
        pytest.param(
            """\
with open("log.txt", "w") as log:
    for x, y in loader:
        loss = criterion(model(x), y)
        log.write(f"{loss.item()}\\n")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
            """\
with open("log.txt", "w") as log:
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        log.write(f"{loss.item()}\\n")
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
""",
            id="loop inside a with",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                loss = criterion(out, y)
                losses.append(loss.item())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(loss)
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    loss = criterion(out, y)
                losses.append(loss.item())
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                print(loss)
            """,
            id="loss logged before the backward and printed behind the step",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                loss = criterion(out, y)
                reg = 0
                for p in model.parameters():
                    reg += p.pow(2).sum()
                loss = loss + 1e-4 * reg
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    loss = criterion(out, y)
                reg = 0
                for p in model.parameters():
                    reg += p.pow(2).sum()
                loss = loss + 1e-4 * reg
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="penalty added outside of the region",
        ),
        pytest.param(
            """
            def train_batch(x, y):
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                return loss.item() / len(x)
            for x, y in loader:
                loss = train_batch(x, y)
                total += loss
            """,
            """
            def train_batch(x, y):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                return loss.item() / len(x)
            for x, y in loader:
                loss = train_batch(x, y)
                total += loss
            """,
            id="helper that returns a number",
        ),
        pytest.param(
            """
            for x, y in loader:
                try:
                    loss = criterion(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                except RuntimeError as e:
                    print(e)
                    continue
            """,
            """
            for x, y in loader:
                try:
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = criterion(model(x), y)
                    optimizer.zero_grad()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                except RuntimeError as e:
                    print(e)
                    continue
            """,
            id="step inside a try",
        ),
        pytest.param(
            """
            model = nn.parallel.DistributedDataParallel(model)
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            model = nn.parallel.DistributedDataParallel(model)
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="model wrapped in DistributedDataParallel",
        ),
        pytest.param(
            """
            for episode in range(100):
                log_probs = []
                for t in range(10):
                    dist = torch.distributions.Categorical(logits=model(state))
                    action = dist.sample()
                    log_probs.append(dist.log_prob(action))
                    state, reward = env.step(action.item())
                loss = -(torch.stack(log_probs) * returns).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for episode in range(100):
                log_probs = []
                with torch.autocast("cuda", dtype=torch.float16):
                    for t in range(10):
                        dist = torch.distributions.Categorical(logits=model(state))
                        action = dist.sample()
                        log_probs.append(dist.log_prob(action))
                        state, reward = env.step(action.item())
                    loss = -(torch.stack(log_probs) * returns).sum()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="loss of a whole episode",
        ),
        pytest.param(
            """
            for x, y in loader:
                losses = {}
                out = model(x)
                losses["ce"] = criterion(out, y)
                losses["reg"] = out.abs().mean()
                loss = sum(losses.values())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                losses = {}
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    losses["ce"] = criterion(out, y)
                    losses["reg"] = out.abs().mean()
                    loss = sum(losses.values())
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="losses collected in a dict",
        ),
        pytest.param(
            """
            for images, targets in loader:
                loss_dict = model(images, targets)
                losses = sum(loss for loss in loss_dict.values())
                optimizer.zero_grad()
                losses.backward()
                optimizer.step()
            """,
            """
            for images, targets in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss_dict = model(images, targets)
                    losses = sum(loss for loss in loss_dict.values())
                optimizer.zero_grad()
                scaler.scale(losses).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="losses that the model returns in a dict",
        ),
        pytest.param(
            """
            def evaluate():
                model.eval()
                correct = 0
                for x, y in val_loader:
                    out = model(x.cuda())
                    correct += (out.argmax(1) == y.cuda()).sum().item()
                return correct
            for x, y in loader:
                loss = criterion(model(x.cuda()), y.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(evaluate())
            """,
            """
            def evaluate():
                model.eval()
                correct = 0
                for x, y in val_loader:
                    with torch.autocast("cuda", dtype=torch.float16):
                        out = model(x.cuda())
                    correct += (out.argmax(1) == y.cuda()).sum().item()
                return correct
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x.cuda()), y.cuda())
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            print(evaluate())
            """,
            id="evaluation function under a decorator",
        ),
        pytest.param(
            """
            for x, y in loader:
                optimizer.zero_grad(); out = model(x)  # forward
                loss = criterion(out, y); loss.backward()  # backward
                optimizer.step()
            """,
            """
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)  # forward
                    loss = criterion(out, y)
                scaler.scale(loss).backward()  # backward
                scaler.step(optimizer)
                scaler.update()
            """,
            id="semicolons and comments on the lines of a region",
        ),
        pytest.param(
            """
            for x, y in loader:
                out = model(x)
                if verbose:
                    print(out.shape)
                loss = criterion(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                if verbose:
                    print(out.shape)
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(out, y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="statement between forward and loss that stays outside",
        ),
        pytest.param(
            """
            loss = nn.MSELoss()
            for x, y in loader:
                optimizer.zero_grad()
                loss(model(x), y).backward()
                optimizer.step()
            """,
            """
            loss = nn.MSELoss()
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    grad_loss = loss(model(x), y)
                scaler.scale(grad_loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="name of the loss function kept when a loss gets a line",
        ),
        pytest.param(
            """
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                criterion(model(x + 1), y).backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                scaler.scale(loss).backward()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x + 1), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="two losses with a backward each",
        ),
        pytest.param(
            """
            for x, y in loader:
                optimizer.zero_grad()
                (criterion(model(x), y) + criterion(model(x + 1), y)).backward()
                optimizer.step()
            """,
            """
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y) + criterion(model(x + 1), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            id="sum of two losses with backward in one expression",
        ),
        pytest.param(
            """
            for x, y in loader:
                loss = F.huber_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            with torch.no_grad():
                for x, y in val:
                    out = model(x)
                    print(out.shape)
                    mae = (out - y).abs().mean()
                    loss = F.huber_loss(out, y)
                    best = min(best, loss.item())
            """,
            """
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = F.huber_loss(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            with torch.no_grad():
                for x, y in val:
                    with torch.autocast("cuda", dtype=torch.float16):
                        out = model(x)
                    print(out.shape)
                    mae = (out - y).abs().mean()
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = F.huber_loss(out, y)
                    best = min(best, loss.item())
            """,
            id="validation with code between forward and loss",
        ),
        pytest.param(
            """
            def predict(x):
                model.eval()
                with torch.no_grad():
                    return model(x).softmax(1)
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(predict(z).cpu().numpy())
            """,
            """
            def predict(x):
                model.eval()
                with torch.no_grad():
                    return model(x).softmax(1)
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            print(predict(z).cpu().numpy())
            """,
            id="helper that evaluates without a loop stays as it is",
        ),
        pytest.param(
            """
            step = 0
            for epoch in range(3):
                for x, y in loader:
                    step += 1
                    out = model(x)
                    acc = (out.argmax(1) == y).float().mean()
                    loss = criterion(out, y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    if step % 10 == 0:
                        print(step, loss.item(), acc.item())
            """,
            """
            step = 0
            for epoch in range(3):
                for x, y in loader:
                    step += 1
                    with torch.autocast("cuda", dtype=torch.float16):
                        out = model(x)
                        acc = (out.argmax(1) == y).float().mean()
                        loss = criterion(out, y)
                    optimizer.zero_grad()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                    if step % 10 == 0:
                        print(step, loss.item(), acc.item())
            """,
            id="accuracy between forward and loss",
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
            import torch as th
            from torch import nn, optim
            from torch.nn import functional as fn
            from torch.optim import Adam as Opt
            net = nn.Linear(8, 2).cuda()
            o = Opt(net.parameters())
            for a, b in stuff:
                o.zero_grad()
                fn.cross_entropy(net(a), b).backward()
                o.step()
            """,
            """
            import torch as th
            from torch import nn, optim
            from torch.nn import functional as fn
            from torch.optim import Adam as Opt
            net = nn.Linear(8, 2).cuda()
            o = Opt(net.parameters())
            scaler = th.amp.GradScaler("cuda")
            for a, b in stuff:
                o.zero_grad()
                with th.autocast("cuda", dtype=th.float16):
                    loss = fn.cross_entropy(net(a), b)
                scaler.scale(loss).backward()
                scaler.step(o)
                scaler.update()
            """,
            id="torch and its parts under other names",
        ),
        pytest.param(
            """
            from torch.nn import Linear
            from torch.nn.functional import cross_entropy
            from torch.optim import Adam
            net = Linear(8, 2).cuda()
            o = Adam(net.parameters())
            for a, b in stuff:
                o.zero_grad()
                e = cross_entropy(net(a), b)
                e.backward()
                o.step()
            """,
            """
            from torch.nn import Linear
            from torch.nn.functional import cross_entropy
            from torch.optim import Adam
            import torch
            net = Linear(8, 2).cuda()
            o = Adam(net.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for a, b in stuff:
                o.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    e = cross_entropy(net(a), b)
                scaler.scale(e).backward()
                scaler.step(o)
                scaler.update()
            """,
            id="torch imported only in parts",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            def train_model(model, dataloaders, criterion, optimizer, device):
                for epoch in range(3):
                    for phase in ["train", "val"]:
                        model.train() if phase == "train" else model.eval()
                        running = 0.0
                        for inputs, labels in dataloaders[phase]:
                            inputs = inputs.to(device)
                            labels = labels.to(device)
                            optimizer.zero_grad()
                            with torch.set_grad_enabled(phase == "train"):
                                outputs = model(inputs)
                                loss = criterion(outputs, labels)
                                if phase == "train":
                                    loss.backward()
                                    optimizer.step()
                            running += loss.item() * inputs.size(0)
                return model
            device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
            model = nn.Linear(8, 2).to(device)
            train_model(model, loaders, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters()), device)
            """,
            """
            import torch
            from torch import nn
            def train_model(model, dataloaders, criterion, optimizer, scaler, device):
                for epoch in range(3):
                    for phase in ["train", "val"]:
                        model.train() if phase == "train" else model.eval()
                        running = 0.0
                        for inputs, labels in dataloaders[phase]:
                            inputs = inputs.to(device)
                            labels = labels.to(device)
                            optimizer.zero_grad()
                            with torch.set_grad_enabled(phase == "train"):
                                with torch.autocast("cuda", dtype=torch.float16, enabled=device.type == "cuda"):
                                    outputs = model(inputs)
                                    loss = criterion(outputs, labels)
                                if phase == "train":
                                    scaler.scale(loss).backward()
                                    scaler.step(optimizer)
                                    scaler.update()
                            running += loss.item() * inputs.size(0)
                return model
            device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
            model = nn.Linear(8, 2).to(device)
            scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")
            train_model(model, loaders, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters()), scaler, device)
            """,
            id="phases in a function with constructors elsewhere",
        ),
        pytest.param(
            """
            import torch
            from torch import nn
            teacher, student = nn.Linear(8, 2).cuda(), nn.Linear(8, 2).cuda()
            opt = torch.optim.Adam(student.parameters())
            kd = nn.KLDivLoss(reduction="batchmean")
            for x, y in loader:
                with torch.no_grad():
                    t = teacher(x)
                s = student(x)
                loss = kd(torch.log_softmax(s / 4, 1), torch.softmax(t / 4, 1))
                opt.zero_grad()
                loss.backward()
                opt.step()
            """,
            """
            import torch
            from torch import nn
            teacher, student = nn.Linear(8, 2).cuda(), nn.Linear(8, 2).cuda()
            opt = torch.optim.Adam(student.parameters())
            scaler = torch.amp.GradScaler("cuda")
            kd = nn.KLDivLoss(reduction="batchmean")
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    with torch.no_grad():
                        t = teacher(x)
                    s = student(x)
                    loss = kd(torch.log_softmax(s / 4, 1), torch.softmax(t / 4, 1))
                opt.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            """,
            id="teacher without gradients in the same region",
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
            for x, y in loader:  # speedpatch: off
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            "amp.off",
            id="loop that the user turned off",
        ),
    ],
)
def test_declines_a_step(source: str, code: str) -> None:
    check_declines("amp", SETUP + dedent(source), code)
