"""speedpatch runs however it got there, and a user's own `codemods` folder is never in the way."""

from __future__ import annotations

import os
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checkouts import ROOT, copy_checkout, install, make_environment

Command = Callable[..., subprocess.CompletedProcess[str]]
SPAWN = """
import multiprocessing, sys
from speedpatch.__main__ import main
if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    sys.argv = ["speedpatch", "apply", ".", "--amp", "--check"]
    main()
"""


def modules_below(folder: Path) -> set[str]:
    """The Python files of a package, by their names relative to it."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.py")}


@pytest.fixture(scope="module", params=["checkout", "wheel", "editable"])
def python(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[str], dict[str, str]]:
    """A command that runs Python with speedpatch in it, and the environment for it."""
    folder = tmp_path_factory.mktemp(request.param)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    checkout = copy_checkout(folder / "checkout")
    if request.param == "checkout":
        return [str(make_environment(folder / "env"))], {**clean, "PYTHONPATH": str(checkout)}
    environment = make_environment(folder / "env")
    install(environment, *(["-e"] if request.param == "editable" else []), str(checkout))
    return [str(environment)], clean


@pytest.fixture
def run(python: tuple[list[str], dict[str, str]], tmp_path: Path) -> Command:
    """Run that Python in a folder that has a package of the user's called codemods."""
    (tmp_path / "codemods").mkdir()
    (tmp_path / "codemods" / "__init__.py").write_text("raise RuntimeError('the user has a folder of this name')\n")

    def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
        command, environment = python
        return subprocess.run([*command, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True)

    return run_python


@pytest.mark.slow
def test_lists_every_codemod(run: Command) -> None:
    done = run("-m", "speedpatch", "list")
    assert done.returncode == 0, done.stderr
    names = {path.stem for path in (ROOT / "codemods").iterdir() if not path.name.startswith("_")}
    assert {line.split()[0] for line in done.stdout.splitlines() if line.startswith("--")} == {
        f"--{name.replace('_', '-')}" for name in names
    }


@pytest.mark.slow
def test_explains_codes_without_docs_or_torch(run: Command) -> None:
    done = run("-m", "speedpatch", "explain", "compile.rnn")
    assert done.returncode == 0, done.stderr
    assert "what to do: leave it uncompiled" in done.stdout


@pytest.mark.slow
def test_patches_in_spawned_workers(run: Command, tmp_path: Path) -> None:
    for number in range(15):
        (tmp_path / f"script{number}.py").write_text("import torch\n\nprint(torch.ones(1))\n")
    (tmp_path / "main.py").write_text(SPAWN)
    done = run("main.py")
    assert done.returncode == 0, done.stderr
    assert "0 files would change" in done.stdout


@pytest.mark.slow
def test_the_wheel_holds_every_module_and_nothing_else(tmp_path: Path) -> None:
    checkout = copy_checkout(tmp_path / "checkout")
    environment = make_environment(tmp_path / "env")
    install(environment, "setuptools")
    build = "from setuptools.build_meta import build_wheel; build_wheel('dist')"
    subprocess.run([environment, "-c", build], cwd=checkout, check=True, capture_output=True)
    (wheel,) = (checkout / "dist").iterdir()
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == {
        *(f"speedpatch/{name}" for name in modules_below(ROOT / "speedpatch")),
        *(f"speedpatch/codemods/{name}" for name in modules_below(ROOT / "codemods")),
        "speedpatch/py.typed",
    }
