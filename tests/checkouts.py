"""Copies of this checkout for tests that install it, so that no build leaves a trace here."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parent.parent
PARTS = ("speedpatch", "codemods", "pyproject.toml", "setup.py", "README.md", "LICENSE", ".pre-commit-hooks.yaml")


def copy_checkout(target: Path) -> Path:
    """A copy of what an installation needs."""
    target.mkdir(parents=True)
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, target / part, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, target / part)
    return target


def make_environment(target: Path) -> Path:
    """The python of a new environment that sees our dependencies, but not our speedpatch."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(target)], check=True)
    python = target / "bin" / "python"
    question = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", question], capture_output=True, text=True, check=True).stdout.strip()
    Path(packages, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def install(python: Path, *arguments: str) -> None:
    """Install into an environment, by pip where there is one, else by uv."""
    if importlib.util.find_spec("pip"):
        command = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", *arguments]
    else:
        command = ["uv", "pip", "install", "-q", "--python", str(python), "--no-deps", *arguments]
    subprocess.run(command, check=True)
