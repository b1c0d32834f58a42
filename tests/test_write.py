"""Writing: whole or not at all, never over somebody else's change."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from speedpatch.errors import SourceError
from speedpatch.read import read_source
from speedpatch.sources import Source
from speedpatch.write import write_source, write_sources

OLD = b"import torch\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_bytes(OLD)
    return path


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"\xef\xbb\xbfimport torch\n", id="a byte order mark"),
        pytest.param(b"# coding: latin-1\r\nx = '\xe9'\r\n", id="latin-1 and CRLF"),
        pytest.param(b"a\r\nb\nc\rd", id="mixed newlines, none at the end"),
        pytest.param(b"\x0cif a:\n\tb\n", id="form feed and tabs"),
        pytest.param(b"", id="empty"),
    ],
)
def test_keeps_every_byte_it_did_not_edit(script: Path, raw: bytes) -> None:
    script.write_bytes(raw)
    source = read_source(script)
    write_source(source.with_text(source.text + "# é" if b"latin" in raw else source.text + "#"))
    assert script.read_bytes() == raw + (b"# \xe9" if b"latin" in raw else b"#")


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o664])
def test_keeps_the_mode(script: Path, mode: int) -> None:
    script.chmod(mode)
    write_source(read_source(script).with_text("new\n"))
    assert stat.S_IMODE(script.stat().st_mode) == mode


def test_follows_a_symlink_and_keeps_it(script: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "train.py"
    link.symlink_to("../train.py")
    write_source(read_source(link).with_text("new\n"))
    assert link.is_symlink()
    assert script.read_bytes() == b"new\n"
    check_alone(tmp_path / "links", link)


def test_refuses_a_file_that_changed_since_it_was_read(script: Path) -> None:
    source = read_source(script)
    script.write_bytes(b"somebody's work\n")
    check_refuses(script, source.with_text("new\n"), "was changed since it was read")
    assert script.read_bytes() == b"somebody's work\n"


def test_refuses_a_file_that_is_gone(script: Path) -> None:
    source = read_source(script)
    script.unlink()
    check_refuses(script, source.with_text("new\n"), "cannot be written: no such file or directory")
    assert not script.exists()


def test_refuses_a_file_without_permission(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script.chmod(0o444)
    if os.access(script, os.W_OK):  # root writes everything: let the system refuse all the same
        monkeypatch.setattr(os, "access", lambda *_: False)
    check_refuses(script, read_source(script).with_text("new\n"), "permission denied")
    assert script.read_bytes() == OLD


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_leaves_the_old_file_when_the_disk_is_full(script: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    source = read_source(script).with_text("new\n")
    monkeypatch.setattr(os, call, fail)
    check_refuses(script, source, "cannot be written: no space left on device, the file is as it was")
    assert script.read_bytes() == OLD


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_leaves_the_old_file_when_the_write_itself_fails(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.fdopen
    source = read_source(script).with_text("new\n")

    def onto_a_full_disk(handle: int, mode: str) -> object:
        os.close(handle)
        return opened(os.open("/dev/full", os.O_WRONLY), mode)

    monkeypatch.setattr(os, "fdopen", onto_a_full_disk)
    check_refuses(script, source, "no space left on device")
    assert script.read_bytes() == OLD


def test_leaves_the_old_file_when_killed_in_mid_write(script: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(script)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"in mid-write\n"
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    assert script.read_bytes() == OLD


def test_writes_all_files_of_a_program_or_none(script: Path, tmp_path: Path) -> None:
    other = tmp_path / "engine.py"
    other.write_bytes(OLD)
    sources = [read_source(path).with_text("new\n") for path in (script, other)]
    other.write_bytes(b"somebody's work\n")
    with pytest.raises(SourceError):
        write_sources(sources)
    assert script.read_bytes() == OLD
    other.write_bytes(OLD)
    write_sources(sources)
    assert script.read_bytes() == other.read_bytes() == b"new\n"


def test_puts_the_first_file_back_when_the_second_cannot_be_moved(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "engine.py"
    other.write_bytes(OLD)
    replace = os.replace

    def fail_for_engine(temporary: Path, target: Path) -> None:
        if target.name == "engine.py":
            raise OSError(errno.EIO, "Input/output error")
        replace(temporary, target)

    monkeypatch.setattr(os, "replace", fail_for_engine)
    with pytest.raises(SourceError, match=r"engine\.py: cannot be written"):
        write_sources([read_source(path).with_text("new\n") for path in (script, other)])
    assert script.read_bytes() == other.read_bytes() == OLD
    assert sorted(tmp_path.iterdir()) == [other, script]


KILLED = """
import os, sys, time
from pathlib import Path
from speedpatch.read import read_source
from speedpatch.write import write_source

def hang(handle):
    print("in mid-write", flush=True)
    time.sleep(60)

os.fsync = hang
write_source(read_source(Path(sys.argv[1])).with_text("new" * 100_000))
"""


def check_refuses(script: Path, source: Source, reason: str) -> None:
    with pytest.raises(SourceError) as caught:
        write_source(source)
    assert reason in caught.value.reason
    check_alone(script.parent, script)


def check_alone(folder: Path, script: Path) -> None:
    """No temporary file is left beside the script."""
    assert [path for path in folder.iterdir() if path != script] == []
