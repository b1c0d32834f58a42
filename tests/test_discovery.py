"""From paths to files: what git ignores and what is not the user's own stays out."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from speedpatch.discovery import find_files


def lay(root: Path, *names: str) -> None:
    """Make empty files."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def walked(root: Path, *paths: Path) -> list[str]:
    """The files found under a folder, by their names relative to it."""
    return [path.relative_to(root).as_posix() for path in find_files(paths or [root]).walked]


def test_finds_every_script_under_a_folder_in_a_stable_order(tmp_path: Path) -> None:
    lay(tmp_path, "train.py", "b/two.py", "b/one.py", "a/deep/er.py", "notes.txt", "train.ipynb", "stub.pyi")
    assert walked(tmp_path) == ["train.ipynb", "train.py", "a/deep/er.py", "b/one.py", "b/two.py"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(".hidden/x.py", id="a hidden folder"),
        pytest.param("a/.ipynb_checkpoints/x.ipynb", id="copies of notebooks"),
        pytest.param("env/x.py", id="a virtual environment"),
        pytest.param("a/__pycache__/x.py", id="bytecode"),
        pytest.param("lib/site-packages/x.py", id="installed packages"),
    ],
)
def test_skips(tmp_path: Path, name: str) -> None:
    lay(tmp_path, "train.py", name, "env/pyvenv.cfg")
    assert walked(tmp_path) == ["train.py"]


def test_honours_every_gitignore_the_nearest_first(tmp_path: Path) -> None:
    lay(tmp_path, "train.py", "out/x.py", "a/gen.py", "a/keep.py", "a/b/gen.py", "a/b/keep.py", "c/out.py")
    (tmp_path / ".gitignore").write_text("out/\ngen.py\n# a comment\n")
    (tmp_path / "a/b/.gitignore").write_text("!gen.py\nkeep.py\n")
    assert walked(tmp_path) == ["train.py", "a/keep.py", "a/b/gen.py", "c/out.py"]


def test_honours_the_gitignore_of_parents_in_the_repository(tmp_path: Path) -> None:
    lay(tmp_path, "repo/.git/HEAD", "repo/src/train.py", "repo/src/gen.py", "repo/src/mine.py")
    (tmp_path / ".gitignore").write_text("train.py\n")
    (tmp_path / "repo/.gitignore").write_text("/src/gen.py\n")
    (tmp_path / "repo/.git/info").mkdir()
    (tmp_path / "repo/.git/info/exclude").write_text("mine.py\n")
    assert walked(tmp_path, tmp_path / "repo/src") == ["repo/src/train.py"]


def test_honours_gitignore_for_a_relative_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(tmp_path, ".git/HEAD", "src/train.py", "src/gen.py")
    (tmp_path / ".gitignore").write_text("/src/gen.py\n")
    monkeypatch.chdir(tmp_path / "src")
    assert find_files([Path(".")]).walked == (Path("train.py"),)


def test_a_file_given_by_name_is_taken_even_when_ignored(tmp_path: Path) -> None:
    lay(tmp_path, "gen.py")
    (tmp_path / ".gitignore").write_text("*.py\n")
    found = find_files([tmp_path / "gen.py", tmp_path])
    assert (found.given, found.walked) == ((tmp_path / "gen.py",), ())


def test_finds_each_file_once(tmp_path: Path) -> None:
    lay(tmp_path, "a/train.py")
    (tmp_path / "link.py").symlink_to("a/train.py")
    (tmp_path / "loop").symlink_to(".")
    assert walked(tmp_path, tmp_path, tmp_path / "a") == ["a/train.py"]
    assert find_files([tmp_path / "link.py"]).given == (tmp_path / "link.py",)


def test_leaves_a_missing_path_to_the_reader(tmp_path: Path) -> None:
    assert find_files([tmp_path / "none.py"]).given == (tmp_path / "none.py",)


def test_reports_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(tmp_path, "train.py", "closed/x.py")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = find_files([tmp_path])
    assert found.walked == (tmp_path / "train.py",)
    assert [str(error) for error in found.errors] == [f"{tmp_path / 'closed'}: cannot be listed: permission denied"]


def test_needs_no_pathspec_without_a_gitignore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(tmp_path, "train.py")
    monkeypatch.setitem(sys.modules, "pathspec", None)
    assert walked(tmp_path) == ["train.py"]
