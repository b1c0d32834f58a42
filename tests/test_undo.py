"""The way back: kept outside the project, taken only when the file is what we wrote."""

from __future__ import annotations

import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from speedpatch.errors import SourceError
from speedpatch.read import read_source
from speedpatch.undo import keep_patch, original_of, recorded_under, state_folder
from speedpatch.write import write_source

OLD = b"import torch\r\n\r\nx = '\xc3\xa9'"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "speedpatch"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "src" / "train.py"
    path.parent.mkdir()
    path.write_bytes(OLD)
    return path


def change(path: Path, text: str) -> Path:
    """Write new text as a run does, and give the patch that was kept."""
    source = read_source(path).with_text(text)
    patch = keep_patch([source])
    write_source(source)
    assert patch is not None
    return patch


def test_reverts_byte_for_byte(script: Path) -> None:
    change(script, "new\n")
    check_reverts(script, OLD)
    assert original_of(script) is None


def test_reverts_one_run_after_the_other(script: Path) -> None:
    change(script, "one\n")
    change(script, "two\n")
    check_reverts(script, b"one\n")
    check_reverts(script, OLD)


def test_keeps_out_of_the_project_and_private(script: Path, state: Path) -> None:
    patch = change(script, "new\n")
    assert patch.parent == state
    assert patch.name.endswith("-train.py.patch")
    assert stat.S_IMODE(patch.stat().st_mode) == 0o600
    assert list(script.parent.iterdir()) == [script]


def test_git_takes_the_patch_of_several_files(script: Path) -> None:
    other = script.parent / "lib" / "engine.py"
    other.parent.mkdir()
    other.write_bytes(b"a\n")
    sources = [read_source(path).with_text("new\n") for path in (script, other)]
    patch = keep_patch(sources)
    for source in sources:
        write_source(source)
    subprocess.run(["git", "apply", str(patch)], cwd=script.parent, check=True)
    assert (script.read_bytes(), other.read_bytes()) == (OLD, b"a\n")


def test_reverts_each_of_several_files_from_one_patch(script: Path) -> None:
    other = script.parent / "engine.py"
    other.write_bytes(b"a\n")
    sources = [read_source(path).with_text("new\n") for path in (script, other)]
    keep_patch(sources)
    for source in sources:
        write_source(source)
    assert recorded_under(script.parent) == [other, script]
    check_reverts(other, b"a\n")
    check_reverts(script, OLD)


def test_refuses_what_was_changed_since(script: Path) -> None:
    patch = change(script, "new\n")
    script.write_bytes(b"newer\n")
    with pytest.raises(SourceError, match="was changed since speedpatch wrote it") as caught:
        original_of(script)
    assert str(patch) in str(caught.value)


def test_refuses_what_it_never_wrote(script: Path) -> None:
    with pytest.raises(SourceError, match="speedpatch keeps no patch of this file"):
        original_of(script)


def test_refuses_a_damaged_patch(script: Path) -> None:
    patch = change(script, "new\n")
    patch.write_bytes(patch.read_bytes().replace(b"+import torch", b"+import touch"))
    with pytest.raises(SourceError, match="is damaged"):
        original_of(script)


def test_keeps_two_patches_of_one_second(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.strftime", lambda _: "20260101-000000")
    assert change(script, "one\n") != change(script, "two\n")
    check_reverts(script, b"one\n")


def test_what_was_not_written_leaves_the_patch(script: Path) -> None:
    source = read_source(script).with_text("new\n")
    other = replace(source, path=script.parent / "engine.py")
    patch = keep_patch([source, other])
    assert patch is not None
    assert keep_patch([source], over=patch) == patch
    assert b"engine.py" not in patch.read_bytes()
    assert keep_patch([], over=patch) is None
    assert not patch.exists()


def test_falls_back_to_the_temporary_folder(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "tmp"))
    patch = change(script, "new\n")
    assert patch.is_relative_to(tmp_path / "tmp")
    check_reverts(script, OLD)


def test_writes_nothing_when_no_patch_can_be_kept(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "file"))
    with pytest.raises(SourceError, match="the way back cannot be kept"):
        keep_patch([read_source(script).with_text("new\n")])


def test_state_folder_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    assert state_folder() == Path.home() / ".local/state/speedpatch"


def check_reverts(script: Path, raw: bytes) -> None:
    """Writing the original back gives these bytes."""
    original = original_of(script)
    assert original is not None
    write_source(original)
    assert script.read_bytes() == raw
