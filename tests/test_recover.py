"""A run that is killed between two files: the next one completes or undoes it, and touches nobody else's work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from speedpatch.apply import Output, apply
from speedpatch.errors import SourceError
from speedpatch.journal import Move, journal
from speedpatch.read import read_source
from speedpatch.recover import recover
from speedpatch.revert import revert
from speedpatch.selection import Request
from speedpatch.undo import checksum, state_folder
from speedpatch.write import write_sources

OLD, NEW = b"import torch\n", b"new\n"
KILLED = """
import os, sys
from pathlib import Path
from typing import Literal
from speedpatch.read import read_source
from speedpatch.undo import keep_patch
from speedpatch.write import write_sources

left = int(sys.argv[1])
replace = os.replace

def replace_some(old, new):
    global left
    if not left:
        os._exit(9)
    left -= 1
    replace(old, new)
    if not left:
        os._exit(9)

os.replace = replace_some
sources = [read_source(Path(name)).with_text("new\\n") for name in ("a.py", "b.py", "c.py")]
keep_patch(sources)
write_sources(sources)
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with three files that belong together, in which we are."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("a.py", "b.py", "c.py"):
        Path(name).write_bytes(OLD)
    return folder


def kill_after(replaced: int) -> None:
    """Write all three files in a process that dies when so many are in place."""
    assert subprocess.run([sys.executable, "-c", KILLED, str(replaced)], check=False).returncode == 9
    assert contents() == [NEW] * replaced + [OLD] * (3 - replaced)
    assert journals()


def contents() -> list[bytes]:
    """What the three files hold."""
    return [Path(name).read_bytes() for name in ("a.py", "b.py", "c.py")]


def journals() -> list[Path]:
    """What is kept of runs that have not ended."""
    return list(state_folder().glob("*.journal*"))


def temporaries() -> list[Path]:
    """What lies beside the files."""
    return list(Path().glob(".*.tmp"))


def check_recovers(capfd: pytest.CaptureFixture[str], message: str, expected: list[bytes]) -> None:
    """Recovering says this and leads there, and there is nothing to recover any more."""
    recover()
    assert capfd.readouterr().err == message
    assert contents() == expected
    assert not journals()
    recover()
    assert (capfd.readouterr().err, contents()) == ("", expected)


@pytest.mark.parametrize("replaced", [1, 2])
def test_completes_what_was_begun(capfd: pytest.CaptureFixture[str], replaced: int) -> None:
    kill_after(replaced)
    check_recovers(capfd, "completed a run that was killed: a.py, b.py, c.py\n", [NEW] * 3)
    assert not temporaries()


def test_undoes_what_was_not_begun(capfd: pytest.CaptureFixture[str]) -> None:
    kill_after(0)
    check_recovers(capfd, "undid a run that was killed, these are as before: a.py, b.py, c.py\n", [OLD] * 3)
    assert not temporaries()


def test_has_nothing_to_say_of_what_was_done(capfd: pytest.CaptureFixture[str]) -> None:
    kill_after(3)
    Path("b.py").write_bytes(b"mine\n")
    check_recovers(capfd, "", [NEW, b"mine\n", NEW])


def test_undoes_when_a_file_was_changed_since(capfd: pytest.CaptureFixture[str]) -> None:
    kill_after(1)
    Path("c.py").write_bytes(b"mine\n")
    (left,) = Path().glob(".c.py.*.tmp")
    check_recovers(
        capfd,
        "undid a run that was killed, these are as before: a.py, b.py; "
        f"{Path('c.py').resolve()} was changed since a run was killed and is left as it is, "
        f"what was to be written is in {left.resolve()}\n",
        [OLD, OLD, b"mine\n"],
    )
    assert temporaries() == [left]


def test_a_file_that_was_written_and_then_changed_keeps_its_change(capfd: pytest.CaptureFixture[str]) -> None:
    kill_after(1)
    Path("a.py").write_bytes(b"mine\n")
    check_recovers(capfd, "completed a run that was killed: a.py, b.py, c.py\n", [b"mine\n", NEW, NEW])


def test_undoes_when_what_was_to_be_written_is_gone(capfd: pytest.CaptureFixture[str]) -> None:
    kill_after(1)
    temporaries()[0].unlink()
    check_recovers(capfd, "undid a run that was killed, these are as before: a.py, b.py, c.py\n", [OLD] * 3)
    assert not temporaries()


def test_does_not_take_what_somebody_put_in_its_place(capfd: pytest.CaptureFixture[str]) -> None:
    kill_after(2)
    temporaries()[0].write_bytes(b"something else\n")
    check_recovers(capfd, "undid a run that was killed, these are as before: a.py, b.py, c.py\n", [OLD] * 3)


def test_says_when_it_cannot(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    kill_after(1)
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fail)
        recover()
    (path,) = journals()
    assert capfd.readouterr().err == (
        f"speedpatch: a run that was killed cannot be undone (no space left on device): its journal is {path}\n"
    )
    check_recovers(capfd, "completed a run that was killed: a.py, b.py, c.py\n", [NEW] * 3)


def test_a_damaged_journal_is_dropped(capfd: pytest.CaptureFixture[str]) -> None:
    kill_after(0)
    journals()[0].write_bytes(b"{")
    check_recovers(capfd, "", [OLD] * 3)


def test_leaves_a_run_alone_that_is_still_at_work(capfd: pytest.CaptureFixture[str]) -> None:
    moves = [Move(Path(name).resolve(), Path("none"), OLD, checksum(NEW)) for name in ("a.py", "b.py")]
    with journal(moves):
        Path("a.py").write_bytes(NEW)
        recover()
        assert contents() == [NEW, OLD, OLD]
        Path("b.py").write_bytes(NEW)
    assert (capfd.readouterr().err, journals()) == ("", [])


def test_reverting_comes_after_recovering(capfd: pytest.CaptureFixture[str]) -> None:
    kill_after(2)
    assert revert([Path()]) == 0
    assert "completed a run that was killed" in capfd.readouterr().err
    assert contents() == [OLD] * 3


def test_no_journal_is_left_when_all_is_well_or_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [read_source(Path(name)).with_text("new\n") for name in ("a.py", "b.py", "c.py")]
    replace = os.replace

    def interrupt(old: Path, new: Path) -> None:
        if new.name == "c.py":
            raise KeyboardInterrupt
        replace(old, new)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_sources(sources)
    assert (contents(), journals(), temporaries()) == ([OLD] * 3, [], [])
    write_sources(sources)
    assert (contents(), journals(), temporaries()) == ([NEW] * 3, [], [])


def test_a_roll_back_that_fails_is_left_to_the_next_run(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [read_source(Path(name)).with_text("new\n") for name in ("a.py", "b.py", "c.py")]
    replace = os.replace

    def fail(old: Path, new: Path) -> None:
        if new.name == "b.py" or Path("a.py").read_bytes() == NEW:
            raise OSError(5, "Input/output error")
        replace(old, new)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fail)
        with pytest.raises(SourceError, match=r"b\.py: cannot be written, .* the next run of speedpatch undoes it"):
            write_sources(sources)
    assert contents() == [NEW, OLD, OLD]
    check_recovers(capfd, "undid a run that was killed, these are as before: a.py, b.py, c.py\n", [OLD] * 3)


def test_a_single_file_needs_no_journal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "file"))
    write_sources([read_source(Path("a.py")).with_text("new\n")])
    assert contents() == [NEW, OLD, OLD]


@pytest.mark.parametrize(("action", "is_completed"), [("write", True), ("check", False), ("diff", False)])
def test_whatever_writes_recovers_first(
    capfd: pytest.CaptureFixture[str], action: Literal["write", "check", "diff"], is_completed: bool
) -> None:
    kill_after(1)
    assert apply([Path("a.py")], Request(("amp",)), Output(action)) == 0
    assert contents() == ([NEW] * 3 if is_completed else [NEW, OLD, OLD])
    assert ("completed a run" in capfd.readouterr().err) is is_completed
