"""Which files of a command line are programs, and what happens when they share files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from speedpatch import patch, registry
from speedpatch.apply import Output, apply
from speedpatch.selection import Request
from speedpatch.together import line_before
from tests import fakes
from tests.test_terminal import converse

GUARD = b"if __name__ == '__main__':\n    pass\n"
Files = Mapping[str, bytes]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that we are in."""
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(Path(fakes.__file__).parent.parent))
    return folder


def lay(files: Files) -> None:
    """Write files."""
    for name, raw in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run speedpatch with the fakes."""
    return subprocess.run([sys.executable, fakes.__file__, *arguments], capture_output=True, text=True, check=False)


def result_of(*paths: str) -> dict[str, Any]:
    """What `apply` says in JSON."""
    result: dict[str, Any] = json.loads(run("apply", *paths, "--amp", "--json").stdout)
    return result


def told(*paths: str) -> list[str]:
    """The programs and what else changes, as they come."""
    return [item["path"] for item in result_of(*paths)["files"]]


def outcomes(*paths: str) -> dict[str, tuple[str, str]]:
    """Status and reason for each program."""
    return {item["path"]: (item["status"], item["reason"]) for item in result_of(*paths)["outcomes"]}


@pytest.mark.parametrize(
    ("files", "programs"),
    [
        pytest.param({"train.py": b"import torch, model\n", "model.py": b"import torch\n"}, ["train.py"], id="imports"),
        pytest.param(
            {"train.py": b"import torch, model\n", "model.py": b"import torch\n" + GUARD},
            ["model.py", "train.py"],
            id="a main guard",
        ),
        pytest.param({"a.py": b"import torch\n", "b.py": b"import torch\n"}, ["a.py", "b.py"], id="strangers"),
        pytest.param({"a.py": b"import torch, b\n", "b.py": b"import torch, a\n"}, ["a.py"], id="a circle"),
        pytest.param(
            {
                "train.py": b"import torch\nfrom pkg.model import x\n",
                "pkg/__init__.py": b"import torch\nfrom .model import x\n",
                "pkg/model.py": b"import torch\n",
            },
            ["train.py"],
            id="a package",
        ),
        pytest.param(
            {"pkg/__init__.py": b"import torch\nfrom .model import x\n", "pkg/model.py": b"import torch\n"},
            ["pkg/model.py"],
            id="a package alone",
        ),
        pytest.param({"pkg/__init__.py": b"import torch\n"}, ["pkg/__init__.py"], id="nothing but a package"),
        pytest.param({"main.py": b"import model\n", "model.py": b"import torch\n"}, ["model.py"], id="no torch above"),
    ],
)
def test_a_folder_has_these_programs(files: Files, programs: list[str]) -> None:
    lay(files)
    assert told(".") == programs


def test_a_module_that_is_named_has_a_report_of_its_own() -> None:
    lay({"train.py": b"import torch, model\n", "model.py": b"import torch\n"})
    assert told("model.py", "train.py") == ["model.py", "train.py"]


SHARED: Files = {
    "a.py": b"import torch, engine\n# SHELL\n",
    "b.py": b"import torch, engine\n# SHELL\n",
    "engine.py": b"# SHARED\n",
}


def test_a_shared_file_is_patched_once() -> None:
    lay(SHARED)
    assert outcomes(".") == {
        "a.py": ("applied", "because of applied"),
        "b.py": ("applied", "patched together with a.py"),
    }
    done = run("apply", ".", "--amp")
    assert done.stdout.count("--- a/engine.py") == 1
    assert "1 file would change" in done.stderr
    assert run("apply", ".", "--amp", "--yes").returncode == 0
    assert Path("engine.py").read_bytes() == b"# SHARED\n# amp float16\n"
    assert outcomes(".") == dict.fromkeys(("a.py", "b.py"), ("already", "because of already"))


def test_each_program_sees_what_the_others_left() -> None:
    lay({**SHARED, "b.py": b"import torch, engine\n"})
    diff = run("apply", ".", "--amp", "--compile", "--diff").stdout
    assert diff.count("+# amp float16") == diff.count("+# compile on") == 2
    run("apply", ".", "--amp", "--compile", "--yes")
    assert Path("engine.py").read_bytes() == b"# SHARED\n# amp float16\n# compile on\n"


def test_the_module_comes_last_when_it_is_named_too() -> None:
    lay({"engine.py": b"import torch\n# SHARED\n", "train.py": b"import torch, engine\n"})
    assert outcomes("engine.py", "train.py") == {
        "engine.py": ("applied", "patched together with train.py"),
        "train.py": ("applied", "because of applied"),
    }
    done = run("apply", "engine.py", "train.py", "--amp", "--yes")
    assert "2 files changed" in done.stdout
    assert Path("engine.py").read_bytes() == b"import torch\n# SHARED\n# amp float16\n"


def test_what_one_program_declines_no_other_does_to_it() -> None:
    lay({**SHARED, "b.py": b"import torch, engine\n# NO amp\n"})
    assert outcomes(".") == {
        "a.py": ("declined", "because of declined (engine.py is shared with b.py, where amp is declined at b.py:1)"),
        "b.py": ("declined", "because of declined"),
    }
    assert run("apply", ".", "--amp", "--check").returncode == 0


def test_no_call_is_left_that_does_not_fit() -> None:
    engine = b"# SHARED\n# ADDS\ndef train(model):\n    pass\n"
    lay({"a.py": b"import torch, engine\n# SHELL\n", "engine.py": engine})
    assert outcomes(".")["a.py"][0] == "applied"
    lay({"b.py": b"import torch, engine\n# NOTHING\nengine.train(1)\n"})
    assert outcomes(".")["a.py"] == (
        "declined",
        "because of declined (engine.py is shared with b.py, which calls engine.train as it was)",
    )
    lay({"b.py": b"import torch, engine\n# NOTHING\nengine.train(1, *rest)\n"})
    assert outcomes(".")["a.py"][0] == "applied"


def test_a_program_that_fails_leaves_the_others_alone() -> None:
    lay({**SHARED, "a.py": b"import torch, engine\n# CRASH\n"})
    done = run("apply", ".", "--amp", "--yes")
    assert done.returncode == 123
    assert "1 file changed, 1 file failed" in done.stdout
    assert Path("engine.py").read_bytes() == b"# SHARED\n# amp float16\n"


def test_programs_that_build_on_each_other_are_written_together(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    lay({**SHARED, "a.py": b"import torch, engine\n", "c.py": b"import torch\n"})
    monkeypatch.setattr(registry, "codemods", lambda: fakes.CODEMODS)
    monkeypatch.setattr(patch, "patch", fakes.fake_patch)
    monkeypatch.setattr(os, "access", lambda path, _: not str(path).endswith("a.py"))
    assert apply([Path()], Request(("amp",)), Output("write")) == 123
    assert capfd.readouterr().err.splitlines() == [
        "speedpatch: a.py: cannot be written: permission denied, the file is as it was",
        "speedpatch: b.py: not written, it is patched together with a.py",
    ]
    assert Path("engine.py").read_bytes() == b"# SHARED\n"
    assert Path("c.py").read_bytes() == b"import torch\n# amp float16\n"


@pytest.mark.parametrize(
    ("name", "line", "more"),
    [
        pytest.param("engine.py", b"import engine", {".gitignore": b"engine.py\n"}, id="ignored"),
        pytest.param("gen/engine.py", b"from gen import engine", {".gitignore": b"gen/\n"}, id="in an ignored folder"),
        pytest.param("gen/engine.py", b"from gen import engine", {"gen/.gitignore": b"*\n"}, id="ignored from inside"),
        pytest.param("env/engine.py", b"from env import engine", {"env/pyvenv.cfg": b""}, id="a virtual environment"),
        pytest.param(
            "node_modules/engine.py", b"from node_modules import engine", {"x": b""}, id="installed, as a folder is"
        ),
        pytest.param(
            "engine.py",
            b"import engine",
            {"pyproject.toml": b"[tool.speedpatch]\nexclude = ['/engine.py']\n"},
            id="excluded",
        ),
    ],
)
def test_what_is_not_the_users_own_is_only_read(name: str, line: bytes, more: Files) -> None:
    lay({"train.py": b"import torch\n" + line + b"\n", name: b"# SHARED\nimport torch\n", **more})
    for path in ("train.py", "."):
        assert told(path) == ["train.py"]
    run("apply", "train.py", "--amp", "--yes")
    assert Path(name).read_bytes() == b"# SHARED\nimport torch\n"


def test_an_ignored_module_that_is_named_is_patched() -> None:
    lay({"train.py": b"import torch, engine\n", "engine.py": b"# SHARED\nimport torch\n", ".gitignore": b"engine.py\n"})
    run("apply", "train.py", "engine.py", "--amp", "--yes")
    assert b"amp" in Path("engine.py").read_bytes()


def test_an_excluded_file_is_not_edited_however_it_is_named() -> None:
    lay({"old/train.py": b"import torch\n", "pyproject.toml": b"[tool.speedpatch]\nexclude = ['old/']\n"})
    assert outcomes("old/train.py") == {"old/train.py": ("not_applicable", "pyproject.toml excludes the file")}
    assert told(".") == []


def test_interactive_asks_on_what_was_answered_before() -> None:
    lay({**SHARED, "b.py": b"import torch, engine\n"})
    questions = [("a.py: apply amp?", b"n\n"), ("b.py: apply amp?", b"y\n")]
    code, screen = converse(["apply", ".", "--amp", "--interactive"], questions)
    assert code == 0
    assert "2 files changed" in screen
    assert Path("engine.py").read_bytes() == b"# SHARED\n# amp float16\n"


def test_interactive_asks_of_the_second_program_only_what_is_left() -> None:
    lay({**SHARED, "b.py": b"import torch, engine\n"})
    questions = [("a.py: apply amp?", b"y\n"), ("b.py: apply amp?", b"n\n")]
    code, screen = converse(["apply", ".", "--amp", "--interactive"], questions)
    assert (code, screen.count("--- a/engine.py"), screen.count("--- a/b.py")) == (0, 1, 1)
    assert "1 file changed" in screen
    assert Path("b.py").read_bytes() == b"import torch, engine\n"


@pytest.mark.parametrize(("line", "expected"), [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3)])
def test_lines_are_those_of_the_file_on_the_disk(line: int, expected: int) -> None:
    assert line_before("a\nb\nc\n", "a\nnew\nb\nc\nmore\n", line) == expected
