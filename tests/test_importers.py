"""Scripts of a project that use what another script's patch changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from speedpatch.importers import find_importers, project_root

ENGINE = "def train(model, optimizer):\n    pass\n\n\ndef evaluate(model):\n    pass\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a package, and scripts beside and below it."""
    files = {
        ".git/HEAD": "",
        "lib/__init__.py": "",
        "lib/engine.py": ENGINE,
        "main.py": "from lib.engine import train\ntrain(1, 2)\n",
        "tools/finetune.py": "import lib.engine as engine\nengine.train(1, 2)\n",
        "tools/test.py": "from lib.engine import evaluate\nevaluate(1)\n",
        "tools/other.py": "from elsewhere.engine import train\ntrain(1, 2)\n",
        "notes.py": "# train with lib.engine\n",
        ".venv/pyvenv.cfg": "",
        ".venv/copy.py": "from lib.engine import train\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def names(project: Path, function: str, *known: str) -> list[str]:
    """Who uses a function of lib/engine.py, besides the known files."""
    signatures = [(project / "lib/engine.py", function)]
    found = find_importers([project / name for name in known], signatures, project / "main.py")
    return sorted(source.path.relative_to(project).as_posix() for source in found)


def test_finds_other_scripts_by_their_imports(project: Path) -> None:
    assert names(project, "train", "main.py", "lib/engine.py") == ["tools/finetune.py"]


def test_a_function_that_nobody_else_names(project: Path) -> None:
    assert names(project, "evaluate", "main.py", "lib/engine.py") == ["tools/test.py"]
    assert names(project, "absent", "main.py") == []


def test_the_script_itself_is_known(project: Path) -> None:
    assert "main.py" in names(project, "train")
    assert "main.py" not in names(project, "train", "main.py")


@pytest.mark.parametrize(
    ("mark", "root"),
    [
        pytest.param("a/.git/HEAD", "a", id="repository"),
        pytest.param("a/b/pyproject.toml", "a/b", id="project file"),
        pytest.param("a/b/c/__init__.py", "a/b", id="package"),
        pytest.param("a/b/c/other.py", "a/b/c", id="folder"),
    ],
)
def test_root_of_a_project(tmp_path: Path, mark: str, root: str) -> None:
    script = tmp_path / "a/b/c/train.py"
    for path in (script, tmp_path / mark):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert project_root([script]) == tmp_path / root
