"""On a real terminal: colours, the question, and what the answers do."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sys
import time
from pathlib import Path

import pytest

from tests import fakes

SCRIPT = b"import torch\n"
ANSI = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in the current folder, which is a repository of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ".state"))
    monkeypatch.setenv("PYTHONPATH", str(Path(fakes.__file__).parent.parent))
    monkeypatch.setenv("TERM", "xterm-256color")
    (tmp_path / ".git").mkdir()
    path = tmp_path / "train.py"
    path.write_bytes(SCRIPT)
    return path


def converse(arguments: list[str], answers: list[tuple[str, bytes]]) -> tuple[int, str]:
    """Run speedpatch on a terminal; type each answer when its question appears. Gives exit code and screen.

    An interrupt is typed again when nothing comes of it: Python's own input() can miss one that comes as it begins.
    """
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execv(sys.executable, [sys.executable, fakes.__file__, *arguments])
    screen, waiting, typed, idle = "", list(answers), b"", 0
    deadline = time.monotonic() + 120
    while True:
        assert time.monotonic() < deadline, f"nothing more came after: {screen}"
        if not select.select([terminal], [], [], 1)[0]:
            idle += 1
            if typed == b"\x03" and idle % 5 == 0:
                os.write(terminal, typed)
            continue
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        screen += chunk.decode()
        if waiting and waiting[0][0] in ANSI.sub("", screen):
            typed, idle = waiting.pop(0)[1], 0
            os.write(terminal, typed)
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), screen.replace("\r\n", "\n")


def test_shows_a_coloured_diff_and_writes_on_yes(script: Path) -> None:
    code, screen = converse(["apply", "train.py", "--amp"], [("write 1 file? [y/N]", b"y\n")])
    assert (code, script.read_bytes()) == (0, SCRIPT + b"# amp float16\n")
    assert "\x1b[32m+# amp float16\x1b[0m" in screen
    assert "train.py:1: amp would be applied" in screen
    assert "1 file changed\nto undo: speedpatch revert train.py" in ANSI.sub("", screen)


@pytest.mark.parametrize("answer", [b"n\n", b"\n", b"perhaps\n", b"\x04"], ids=["no", "silence", "nonsense", "end"])
def test_writes_nothing_on_any_other_answer(script: Path, answer: bytes) -> None:
    code, screen = converse(["apply", "train.py", "--amp"], [("write 1 file? [y/N]", answer)])
    assert (code, script.read_bytes()) == (0, SCRIPT)
    assert "nothing written" in screen


def test_an_interrupt_writes_nothing_and_leaves_no_traceback(script: Path) -> None:
    code, screen = converse(["apply", "train.py", "--amp"], [("write 1 file? [y/N]", b"\x03")])
    assert (code, script.read_bytes()) == (130, SCRIPT)
    assert "Traceback" not in screen


def test_an_interrupt_ends_a_folder_soon_and_without_a_traceback(script: Path) -> None:
    for number in range(200):
        (script.parent / f"slow{number}.py").write_bytes(SCRIPT + b"# SLEEP\n")
    code, screen = converse(["apply", ".", "--amp", "--yes"], [("speedpatch", b"\x03")])
    assert code == 130
    assert "Traceback" not in screen
    assert script.read_bytes() == SCRIPT


def test_does_not_ask_when_nothing_would_change(script: Path) -> None:
    script.write_bytes(b"import torch\n# NO amp\n")
    code, screen = converse(["apply", "train.py", "--amp"], [])
    assert code == 0
    assert "amp declined" in screen
    assert "[y/N]" not in screen


def test_interactive_asks_for_each_optimization_in_the_order_of_the_stages(script: Path) -> None:
    questions = [
        ("train.py: apply amp? [y/N/q]", b"n\n"),
        ("train.py: apply non-blocking? [y/N/q]", b"y\n"),
        ("train.py: apply compile? [y/N/q]", b"y\n"),
    ]
    code, screen = converse(["apply", "train.py", "--all", "--interactive"], questions)
    assert (code, script.read_bytes()) == (0, SCRIPT + b"# non-blocking on\n# compile on\n")
    assert "1 file changed" in screen


def test_interactive_shows_all_files_of_a_program(script: Path) -> None:
    engine = script.parent / "engine.py"
    engine.write_bytes(b"# SHARED\n")
    script.write_bytes(b"import torch, engine\n")
    questions = [("train.py: apply amp? [y/N/q]", b"y\n"), ("train.py: apply compile? [y/N/q]", b"n\n")]
    code, screen = converse(["apply", "train.py", "--amp", "--compile", "--interactive"], questions)
    assert (code, engine.read_bytes()) == (0, b"# SHARED\n# amp float16\n")
    assert "--- a/engine.py" in screen
    assert "2 files changed" in screen


def test_interactive_stops_at_quit(script: Path) -> None:
    questions = [("apply amp? [y/N/q]", b"y\n"), ("apply non-blocking? [y/N/q]", b"q\n")]
    code, _ = converse(["apply", "train.py", "--all", "--interactive"], questions)
    assert (code, script.read_bytes()) == (0, SCRIPT + b"# amp float16\n")


def test_what_a_file_holds_never_reaches_the_terminal_raw(script: Path) -> None:
    script.write_bytes(b"import torch  # \x1b]0;title\x07\n")
    _, screen = converse(["apply", "train.py", "--amp", "--diff"], [])
    assert "\x1b]0;" not in screen
    assert "import torch  # \N{REPLACEMENT CHARACTER}]0;title" in screen


def test_a_folder_shows_progress(script: Path) -> None:
    for number in range(30):
        (script.parent / f"more{number}.py").write_bytes(SCRIPT)
    code, screen = converse(["apply", ".", "--amp", "--check"], [])
    assert code == 1
    assert "100%" in screen
    assert "31 files would change" in screen
