"""What goes with a script when a function that it shares gets another parameter."""

from __future__ import annotations

from pathlib import Path

import pytest

from speedpatch import registry
from speedpatch.codemod import Options
from speedpatch.patch import Result
from speedpatch.program import read_program
from speedpatch.read import read_source
from speedpatch.whole import patch_whole

ENGINE = """import torch

def train_one_epoch(model, loader, optimizer, device):
    model.train()
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
SCRIPT = """import torch
{imports}

def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Conv2d(3, 8, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        {call}(model, loader, optimizer, device)

if __name__ == "__main__":
    main()
"""
TEST = """import torch
from engine import train_one_epoch

def test_trains():
    model = torch.nn.Conv2d(3, 8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train_one_epoch(model, [batch], optimizer, "cpu")
"""
LOOP = """import torch

def run_epoch(model, loader, device, optimizer=None):
    model.train(optimizer is not None)
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
EVALUATE = """import torch
from engine import run_epoch

def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Conv2d(3, 8, 3).to(device)
    run_epoch(model, loader, device)

if __name__ == "__main__":
    main()
"""


def script(imports: str, call: str = "train_one_epoch") -> str:
    """A script that gets at the loop in some way."""
    return SCRIPT.format(imports=imports, call=call)


def run(folder: Path, files: dict[str, str], name: str) -> Result:
    """Mixed precision on one script of a project."""
    for path, text in {"pyproject.toml": "", **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    program = read_program(read_source(folder / name))
    return patch_whole(program, [registry.codemods()["amp"]], Options(), lambda _: frozenset())


@pytest.mark.parametrize(
    ("files", "name", "changed"),
    [
        pytest.param(
            {
                "pkg/__init__.py": "from .engine import train_one_epoch\n",
                "pkg/engine.py": ENGINE,
                "pkg/cli.py": script("from . import train_one_epoch"),
                "scripts/other.py": script("import pkg as P", "P.train_one_epoch"),
            },
            "pkg/cli.py",
            {"pkg/engine.py", "pkg/cli.py", "scripts/other.py"},
            id="re-exported by a package",
        ),
        pytest.param(
            {
                "src/pkg/__init__.py": "",
                "src/pkg/engine.py": ENGINE,
                "src/pkg/train.py": script("from pkg.engine import train_one_epoch"),
                "scripts/run.py": script("from pkg.engine import train_one_epoch"),
            },
            "src/pkg/train.py",
            {"src/pkg/engine.py", "src/pkg/train.py", "scripts/run.py"},
            id="sources below src",
        ),
        pytest.param(
            {
                "engine.py": ENGINE,
                "train.py": script("from engine import train_one_epoch"),
                "other.py": script("import train", "train.train_one_epoch"),
            },
            "other.py",
            {"engine.py", "train.py", "other.py"},
            id="a script that is imported as well",
        ),
        pytest.param(
            {
                "engine.py": ENGINE,
                "train.py": script("from engine import train_one_epoch"),
                "tests/__init__.py": "",
                "tests/test_engine.py": TEST,
            },
            "train.py",
            {"engine.py", "train.py", "tests/test_engine.py"},
            id="a test on the CPU",
        ),
        pytest.param(
            {
                "engine.py": LOOP,
                "train.py": script("from engine import run_epoch", "run_epoch").replace(
                    "loader, optimizer, device)", "loader, device, optimizer)"
                ),
                "evaluate.py": EVALUATE,
            },
            "train.py",
            {"engine.py", "train.py"},
            id="a script that only evaluates",
        ),
        pytest.param(
            {"engine.py": ENGINE, "train.py": script("from engine import train_one_epoch")},
            "engine.py",
            {"engine.py", "train.py"},
            id="the file of the loop alone",
        ),
    ],
)
def test_everybody_who_calls_follows(tmp_path: Path, files: dict[str, str], name: str, changed: set[str]) -> None:
    result = run(tmp_path, files, name)
    assert [outcome.status for outcome in result.outcomes] == ["applied"], result.outcomes
    assert {file.before.path.relative_to(tmp_path).as_posix() for file in result.files if file.changed} == changed
    after = {file.before.path.name: file.after.text for file in result.files}
    for file in result.files:
        compile(file.after.text, str(file.before.path), "exec")
    if "test_engine.py" in after:
        assert 'GradScaler("cuda", enabled=False)' in after["test_engine.py"]
