"""Notebooks on the command line: read, patched, shown by cells, written and put back as scripts are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.checkouts import ROOT
from tests.test_notebooks import cell, document
from tests.test_terminal import ANSI, converse

CELLS = (
    "# %%bash is no cell magic here\nimport torch\nfrom model import Net",
    "%%bash\nls",
    "device = 'cuda'\nmodel = Net().to(device)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
    "!nvidia-smi\n%run other.py --token secret",
    "x, y = torch.randn(8, 4).to(device), torch.randn(8, 1).to(device)\nfor step in range(100):\n"
    "    loss = torch.nn.functional.mse_loss(model(x), y)\n    optimizer.zero_grad()\n    loss.backward()\n"
    "    optimizer.step()",
)
MODEL = "import torch\n\nclass Net(torch.nn.Linear):\n    def __init__(self):\n        super().__init__(4, 1)\n"
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A notebook in a folder of a repository that we are in, beside the module that it imports."""
    (tmp_path / "work" / "src").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    subprocess.run(["git", "init", "-q"], check=True)
    Path("src/model.py").write_text(MODEL)
    content = json.dumps(document([cell("# Title", "markdown"), *map(cell, CELLS)]), indent=1) + "\n"
    Path("src/nb.ipynb").write_text(content)
    return content.encode()


@pytest.fixture
def run(raw: bytes) -> Command:
    """Run speedpatch."""

    def run_speedpatch(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "speedpatch", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run_speedpatch


def sources() -> list[str]:
    """The cells in the file."""
    return ["".join(item["source"]) for item in json.loads(Path("src/nb.ipynb").read_text())["cells"]]


def test_writes_cells_and_puts_back_bytes(run: Command, raw: bytes) -> None:
    done = run("apply", "src/nb.ipynb", "--amp", "--yes")
    assert done.returncode == 0, done.stderr
    assert "src/nb.ipynb:cell 6:5: amp applied" in done.stdout
    assert "scaler.scale(loss).backward()" in sources()[5]
    assert sources()[:3] == ["# Title", *CELLS[:2]]
    assert 'scaler = torch.amp.GradScaler("cuda")' in sources()[3]
    assert json.loads(run("apply", "src", "--amp", "--json").stdout)["outcomes"][-1]["status"] == "already"
    assert run("revert", "src/nb.ipynb").stdout == "src/nb.ipynb: reverted\n"
    assert Path("src/nb.ipynb").read_bytes() == raw


def test_git_applies_what_is_printed(run: Command) -> None:
    diff = run("apply", "src/nb.ipynb", "--amp", "--diff").stdout
    assert diff.startswith("--- a/src/nb.ipynb\n+++ b/src/nb.ipynb\n")
    subprocess.run(["git", "apply"], input=diff.encode(), check=True)
    applied = sources()
    run("revert", "src/nb.ipynb")
    subprocess.run(["git", "apply", "-R"], input=diff.encode(), check=True)
    run("apply", "src/nb.ipynb", "--amp", "--yes")
    assert sources() == applied


def test_people_see_cells(run: Command) -> None:
    code, screen = converse(["apply", "src/nb.ipynb", "--amp", "--diff"], [])
    lines = ANSI.sub("", screen).splitlines()
    assert code == 0
    assert lines[:4] == [
        "--- a/src/nb.ipynb cell 6",
        "+++ b/src/nb.ipynb cell 6",
        "@@ -4,3 +4,4 @@",
        "     optimizer.zero_grad()",
    ]
    assert "+# amp float16" in lines


def test_programs_get_cell_and_line(run: Command) -> None:
    outcomes: list[dict[str, Any]] = json.loads(run("apply", "src/nb.ipynb", "--amp", "--json").stdout)["outcomes"]
    assert [(item["path"], item["cell"], item["line"]) for item in outcomes] == [("src/nb.ipynb", 6, 5)]
    (result,) = json.loads(run("apply", "src/nb.ipynb", "--amp", "--sarif").stdout)["runs"][0]["results"]
    assert (result["properties"]["cell"], result["properties"]["line"]) == (6, 5)


def test_scan_says_what_it_cannot_see(run: Command) -> None:
    lines = run("scan", "src/nb.ipynb").stdout.splitlines()
    assert "    model           Net src/nb.ipynb:cell 4:2" in lines
    assert "    backward        loss src/nb.ipynb:cell 6:5" in lines
    assert "    not read        cell 3 (cell magic %%bash); `%run other.py` in cell 5" in lines


def test_a_folder_has_notebooks_but_not_their_copies(run: Command, raw: bytes) -> None:
    Path(".ipynb_checkpoints").mkdir()
    Path(".ipynb_checkpoints/nb.ipynb").write_bytes(raw)
    files = json.loads(run("apply", ".", "--amp", "--json").stdout)["files"]
    assert {"path": "src/nb.ipynb", "changed": True, "error": None} in files
    assert not any("checkpoints" in item["path"] for item in files)


def test_a_bad_notebook_is_one_line_and_the_others_go_on(run: Command) -> None:
    Path("bad.ipynb").write_text('{"cells": "torch"}')
    done = run("apply", "bad.ipynb", "src/nb.ipynb", "--amp", "--check")
    assert done.returncode == 123
    assert done.stderr == "speedpatch: bad.ipynb: is no notebook: it names no `nbformat`\n"
    assert "1 file would change, 1 file failed" in done.stdout


def test_standard_input_is_python(run: Command, raw: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "speedpatch", "apply", "-", "--amp"], input=raw, capture_output=True, check=False
    )
    assert done.stdout == raw
    assert os.fsdecode(done.stderr).startswith("-:1: amp not applicable")
