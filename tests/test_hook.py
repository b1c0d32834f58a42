"""The pre-commit hooks, run by the real pre-commit program in a repository of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checkouts import copy_checkout
from tests.test_notebooks import cell, document

SCRIPT = """\
import torch

model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    x, y = torch.randn(8, 4).cuda(), torch.randn(8, 1).cuda()
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
CONFIG = """\
repos:
  - repo: {repo}
    rev: {rev}
    hooks:
      - id: speedpatch
      - id: speedpatch-check
"""
Hook = Callable[[str], subprocess.CompletedProcess[str]]


def git(folder: Path, *arguments: str) -> str:
    """Run git as somebody, with nobody's configuration."""
    who = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The configuration of a repository that uses our hooks, and where pre-commit installs them, once."""
    folder = tmp_path_factory.mktemp("hooks")
    checkout = copy_checkout(folder / "speedpatch")
    git(checkout, "init", "-q")
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "a release")
    return CONFIG.format(repo=checkout, rev=git(checkout, "rev-parse", "HEAD")), folder / "cache"


@pytest.fixture
def project(hooks: tuple[str, Path], tmp_path: Path) -> Path:
    """A repository with a training script, a file without torch, and the hooks."""
    git(tmp_path, "init", "-q")
    (tmp_path / ".pre-commit-config.yaml").write_text(hooks[0])
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "train.ipynb").write_text(json.dumps(document([cell(SCRIPT)])))
    (tmp_path / "util.py").write_text("x = 1\n")
    (tmp_path / "types.pyi").write_text("import torch\n")
    return tmp_path


@pytest.fixture
def run(hooks: tuple[str, Path], project: Path) -> Hook:
    """Run one hook on all files."""

    def run_hook(name: str) -> subprocess.CompletedProcess[str]:
        git(project, "add", ".")
        environment = {**os.environ, "PRE_COMMIT_HOME": str(hooks[1]), "XDG_STATE_HOME": str(hooks[1] / "state")}
        environment.pop("PYTHONPATH", None)
        command = [sys.executable, "-m", "pre_commit", "run", name, "--all-files", "--verbose", "--color", "never"]
        return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)

    return run_hook


@pytest.mark.slow
def test_does_nothing_that_the_configuration_does_not_name(run: Hook, project: Path) -> None:
    for name in ("speedpatch", "speedpatch-check"):
        done = run(name)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (project / "train.py").read_text() == SCRIPT


@pytest.mark.slow
def test_checks_then_patches_what_the_configuration_names(run: Hook, project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.speedpatch]\noptimizations = ["amp"]\n')
    checked = run("speedpatch-check")
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert "amp would be applied" in checked.stdout
    assert (project / "train.py").read_text() == SCRIPT

    patched = run("speedpatch")
    assert patched.returncode == 1, patched.stdout + patched.stderr
    assert "files were modified by this hook" in patched.stdout
    assert "torch.autocast" in (project / "train.py").read_text()
    assert "torch.autocast" in (project / "train.ipynb").read_text()
    assert (project / "types.pyi").read_text() == "import torch\n"

    for name in ("speedpatch", "speedpatch-check"):
        assert run(name).returncode == 0


@pytest.mark.slow
def test_needs_no_torch(run: Hook, hooks: tuple[str, Path]) -> None:
    assert run("speedpatch").returncode == 0
    installed = {path.name for path in hooks[1].rglob("site-packages/*")}
    assert "speedpatch" in installed
    assert "torch" not in installed
