"""Diffs: git and patch take them, and they lead back."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from speedpatch.difference import Change, apply_hunks, diff_of, name_of, parse_diffs

PAIRS = [
    pytest.param(b"a\nb\nc\n", b"a\nB\nc\n", id="a changed line"),
    pytest.param(b"a\nb", b"a\nB", id="no final newline"),
    pytest.param(b"a\nb", b"a\nb\n", id="a final newline added"),
    pytest.param(b"a\nb\n", b"a\nb", id="a final newline removed"),
    pytest.param(b"a\r\nb\r\n", b"a\r\nx\r\nb\r\n", id="CRLF"),
    pytest.param(b"a\r\nb\nc\rd\n", b"a\r\nb\nc\rD\n", id="mixed newlines"),
    pytest.param(b"a\x0cb\nc\n", b"a\x0cb\nC\n", id="a form feed"),
    pytest.param(b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfA\n", id="a byte order mark"),
    pytest.param(b"'\xe9'\na\n", b"'\xe9'\nb\n", id="latin-1"),
    pytest.param(b"", b"a\n", id="from an empty file"),
    pytest.param(b"a\n", b"", id="to an empty file"),
    pytest.param(b"-- a\n++ b\n", b"++ b\n-- a\n", id="lines that look like headers"),
    pytest.param(b"x\n" * 40, b"y\n" + b"x\n" * 40 + b"z\n", id="two hunks"),
    pytest.param(b"x\n" * 10, b"x\n" * 12, id="a repeated line"),
]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_leads_back_and_forth(before: bytes, after: bytes) -> None:
    check_leads(before, after)
    check_leads(after, before)


def test_leads_there_for_random_files() -> None:
    generator = random.Random(0)
    for _ in range(300):
        before = [generator.choice([b"a\n", b"b\r\n", b"\n", b"c\n"]) for _ in range(generator.randrange(30))]
        after = [line for line in before if generator.random() < 0.8]
        after.insert(generator.randrange(len(after) + 1), b"new\n")
        check_leads(b"".join(before)[: generator.choice([None, -1])], b"".join(after))


@pytest.mark.parametrize("program", ["git", "patch"])
@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_the_real_programs_take_it(tmp_path: Path, program: str, before: bytes, after: bytes) -> None:
    check_taken(tmp_path, program, "src/train.py", before, after)


@pytest.mark.parametrize("name", ["my train.py", 'a"b\\c.py', "tör ch.py", "tab\there.py"])
def test_git_takes_odd_names(tmp_path: Path, name: str) -> None:
    check_taken(tmp_path, "git", name, b"a\n", b"b\n")


def test_the_same_file_has_no_diff() -> None:
    assert diff_of(Change("a.py", b"a\n", b"a\n")) == b""


def test_shows_as_little_as_git_does() -> None:
    lines = [b"line %d\n" % number for number in range(20)]
    diff = diff_of(Change("a.py", b"".join(lines), b"".join([*lines[:10], b"new\n", *lines[10:]])))
    assert diff == (
        b"--- a/a.py\n+++ b/a.py\n@@ -8,6 +8,7 @@\n line 7\n line 8\n line 9\n+new\n line 10\n line 11\n line 12\n"
    )


def test_a_long_file_takes_no_time() -> None:
    lines = [b"x = %d\n" % (number % 50) for number in range(50_000)]
    changed = [*lines[:20_000], b"new\n", *lines[20_000:]]
    assert diff_of(Change("a.py", b"".join(lines), b"".join(changed))).count(b"\n+") == 2


def test_names_are_relative_with_forward_slashes(tmp_path: Path) -> None:
    assert name_of(tmp_path / "a" / "b.py", tmp_path) == "a/b.py"
    assert name_of(tmp_path / "b.py", tmp_path / "a") == "../b.py"


def check_leads(before: bytes, after: bytes) -> None:
    """Applying the diff of two files to the first gives the second."""
    hunks = list(parse_diffs(b"# preamble\n" + diff_of(Change("train.py", before, after))))
    assert apply_hunks(hunks[0] if hunks else (), before) == after


def check_taken(folder: Path, program: str, name: str, before: bytes, after: bytes) -> None:
    """A real program makes the second file of the first."""
    command = {"git": ["git", "apply"], "patch": ["patch", "-p1", "--binary", "--posix"]}[program]
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(before)
    done = subprocess.run(command, input=diff_of(Change(name, before, after)), cwd=folder, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (path.read_bytes() if path.exists() else b"") == after
