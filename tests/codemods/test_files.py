"""Programs of several files: one diff over all of them, or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from speedpatch import registry
from speedpatch.codemod import Options
from speedpatch.patch import Result, patch
from speedpatch.sources import Source
from tests.codemods.check import dedent


def run(files: dict[str, str], *names: str, frozen: tuple[str, ...] = (), scripts: int = 1, **options: Any) -> Result:
    """Codemods on a program; the first file is its script."""
    sources = [Source(Path("/p", name), dedent(text)) for name, text in files.items()]
    protected = frozenset(Path("/p", name) for name in frozen)
    return patch(sources, [registry.codemods()[name] for name in names], Options(**options), protected, scripts)


def check(before: dict[str, str], after: dict[str, str], *names: str, **options: Any) -> None:
    """What becomes of the files; those not named in `after` stay as they are."""
    result = run(before, *names, **options)
    texts = {file.before.path.name: file.after.text for file in result.files if file.changed}
    assert texts == {name: dedent(text) for name, text in after.items()}, result.outcomes


ENGINE = """
import torch.nn.functional as F

def train_one_epoch(model, loader, optimizer, device):
    model.train()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
"""
ENGINE_AFTER = """
import torch.nn.functional as F
import torch

def train_one_epoch(model, loader, optimizer, scaler, device):
    model.train()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=device.type == "cuda"):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
MODELS = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 64, 3)

    def forward(self, x):
        return self.conv(x).mean((2, 3))

KINDS = {"net": Net}

def get_model(name):
    return KINDS[name]()
"""
FACTORIES = """
import torch

def get_optimizer(model, name, lr):
    return getattr(torch.optim, name)(model.parameters(), lr=lr)
"""
SCRIPT = """
import torch
{imports}

def main(args):
    device = torch.device(args.device)
    model = get_model(args.model).to(device)
    optimizer = get_optimizer(model, args.optimizer, args.lr)
    for epoch in range(10):
        train_one_epoch(model, loader, optimizer, device)

if __name__ == "__main__":
    main(parse())
"""
SCRIPT_AFTER = """
import torch
{imports}

def main(args):
    device = torch.device(args.device)
    model = get_model(args.model).to(device)
    optimizer = get_optimizer(model, args.optimizer, args.lr)
    scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")
    for epoch in range(10):
        train_one_epoch(model, loader, optimizer, scaler, device)

if __name__ == "__main__":
    main(parse())
"""
IMPORTS = "from engine import train_one_epoch\nfrom factories import get_optimizer\nfrom models import get_model"
STARRED = "from engine import *\nfrom factories import *\nfrom models import *"


@pytest.mark.parametrize("imports", [IMPORTS, STARRED], ids=["names", "everything"])
def test_engine_and_factories_in_other_files(imports: str) -> None:
    files = {
        "train.py": SCRIPT.format(imports=imports),
        "engine.py": ENGINE,
        "models.py": MODELS,
        "factories.py": FACTORIES,
    }
    after = {"train.py": SCRIPT_AFTER.format(imports=imports), "engine.py": ENGINE_AFTER}
    check(files, after, "amp")


def test_compile_stands_where_the_factory_is_called() -> None:
    files = {
        "train.py": SCRIPT.format(imports=IMPORTS),
        "engine.py": ENGINE,
        "models.py": MODELS,
        "factories.py": FACTORIES,
    }
    line = "    model = get_model(args.model).to(device)\n"
    after = files["train.py"].replace(line, line + "    model.compile()\n")
    check(files, {"train.py": after}, "compile")


def test_protected_files_are_only_read() -> None:
    files = {
        "train.py": SCRIPT.format(imports=IMPORTS),
        "engine.py": ENGINE,
        "models.py": MODELS,
        "factories.py": FACTORIES,
    }
    result = run(files, "amp", frozen=("engine.py",))
    assert [outcome.code for outcome in result.outcomes] == ["amp.other-file"]
    assert not any(file.changed for file in result.files)


def test_code_that_the_script_never_reaches_is_left_alone() -> None:
    old = """
    import torch

    def train_the_old_way(net, opt, batches):
        for x, y in batches:
            loss = torch.nn.functional.mse_loss(net(x), y)
            loss.backward(create_graph=True)
            opt.step()

    if __name__ == "__main__":
        net = torch.nn.Linear(8, 2).half()
        net(torch.zeros(8)).sum().backward()
    """
    script = SCRIPT.format(imports=IMPORTS + "\nimport old")
    files = {
        "train.py": script,
        "engine.py": ENGINE,
        "models.py": MODELS,
        "factories.py": FACTORIES,
        "old.py": old,
    }
    after = {"train.py": SCRIPT_AFTER.format(imports=IMPORTS + "\nimport old"), "engine.py": ENGINE_AFTER}
    check(files, after, "amp")


def test_trainer_base_class_elsewhere() -> None:
    base = """
    class Trainer:
        def __init__(self, model, optimizer, device):
            self.model, self.optimizer, self.device = model, optimizer, device

        def fit(self, loader):
            for batch in loader:
                self.optimizer.zero_grad()
                loss = self.loss(batch)
                loss.backward()
                self.optimizer.step()
    """
    script = """
    import torch
    from torch import nn
    from base import Trainer

    class Classifier(Trainer):
        def loss(self, batch):
            x, y = batch
            return nn.functional.cross_entropy(self.model(x.to(self.device)), y.to(self.device))

    device = torch.device("cuda")
    net = nn.Conv2d(3, 64, 3).to(device)
    trainer = Classifier(net, torch.optim.SGD(net.parameters(), lr=0.1), device)
    trainer.fit(loader)
    """
    after = """
    import torch


    class Trainer:
        def __init__(self, model, optimizer, device):
            self.model, self.optimizer, self.device = model, optimizer, device
            self.scaler = torch.amp.GradScaler("cuda")

        def fit(self, loader):
            for batch in loader:
                self.optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = self.loss(batch)
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
    """
    check({"train.py": script, "base.py": base}, {"base.py": after}, "amp")


def test_two_scripts_that_share_a_loop() -> None:
    other = SCRIPT.replace("def main(args)", "def finetune(args)").replace("main(parse())", "finetune(parse())")
    other_after = SCRIPT_AFTER.replace("def main(args)", "def finetune(args)").replace(
        "main(parse())", "finetune(parse())"
    )
    files = {
        "train.py": SCRIPT.format(imports=IMPORTS),
        "finetune.py": other.format(imports=IMPORTS),
        "engine.py": ENGINE,
        "models.py": MODELS,
        "factories.py": FACTORIES,
    }
    after = {
        "train.py": SCRIPT_AFTER.format(imports=IMPORTS),
        "finetune.py": other_after.format(imports=IMPORTS),
        "engine.py": ENGINE_AFTER,
    }
    check(files, after, "amp", scripts=2)


def test_two_functions_with_an_optimizer_each() -> None:
    loop = """
    def {name}(model, loader):
        optimizer = torch.optim.{kind}(model.parameters(), lr=.1)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    """
    loop_after = """
    def {name}(model, loader):
        optimizer = torch.optim.{kind}(model.parameters(), lr=.1)
        scaler = torch.amp.GradScaler("cuda")
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    """
    head = "import torch\nfrom torch import nn\n\n"
    tail = "model = nn.Conv2d(3, 8, 3).cuda()\npretrain(model, loader)\nfit(model, loader)\n"
    before, after = (
        head
        + "\n".join(dedent(text).format(name=name, kind=kind) for name, kind in (("fit", "SGD"), ("pretrain", "Adam")))
        + tail
        for text in (loop, loop_after)
    )
    check({"train.py": before}, {"train.py": after}, "amp")


def test_a_second_experiment_at_module_level() -> None:
    function = """
    import torch
    from torch import nn

    def train(net, optimizer, epoch):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
            loss.backward()
            optimizer.step()

    """
    experiment = """
    net = nn.Conv2d(3, 8, {size}).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=.1)
    for epoch in range(3):
        train(net, optimizer, epoch)
    """
    before = dedent(function) + "".join(dedent(experiment).format(size=size) for size in (1, 3))
    text = run({"train.py": before}, "amp").files[0].after.text
    made = 'lr=.1)\nscaler = torch.amp.GradScaler("cuda")\nfor epoch'
    assert text.count(made) == 2
    assert text.count("    train(net, optimizer, scaler, epoch)") == 2
