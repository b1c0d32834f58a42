"""Whole scripts in every odd shape, through the real codemods: nothing lost, one clear line, and in time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from speedpatch.errors import SourceError
from speedpatch.read import source_from_bytes
from speedpatch.run import Job, Report, run_job

PATH = Path("train.py")

SCRIPT = """\
# a comment
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    x, y = torch.randn(8, 4).to(device), torch.randn(8, 1).to(device)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
print("done")
"""


def run(raw: bytes) -> Report:
    """Ask for mixed precision."""
    try:
        return run_job(Job((source_from_bytes(PATH, raw),), ("amp",)))
    except SourceError as error:
        return Report(PATH, error=str(error))


def patched(raw: bytes) -> bytes:
    """The bytes that would be written."""
    report = run(raw)
    assert report.error is None
    assert [outcome.status for outcome in report.outcomes] == ["applied"]
    (file,) = report.files
    assert not run(file.after.encode()).files, "applying twice is applying once"
    return file.after.encode()


@pytest.fixture(scope="module")
def plain() -> bytes:
    """The ordinary script, patched."""
    return patched(SCRIPT.encode())


def test_crlf(plain: bytes) -> None:
    assert patched(SCRIPT.replace("\n", "\r\n").encode()) == plain.replace(b"\n", b"\r\n")


def test_byte_order_mark(plain: bytes) -> None:
    assert patched(b"\xef\xbb\xbf" + SCRIPT.encode()) == b"\xef\xbb\xbf" + plain


def test_tabs(plain: bytes) -> None:
    assert patched(SCRIPT.replace("    ", "\t").encode()) == plain.replace(b"    ", b"\t")


def test_no_final_newline(plain: bytes) -> None:
    assert patched(SCRIPT.rstrip("\n").encode()) == plain.rstrip(b"\n")


def test_declared_encoding(plain: bytes) -> None:
    raw = SCRIPT.replace("# a comment", "# coding: latin-1, caf\xe9").encode("latin-1")
    assert patched(raw) == plain.replace(b"# a comment", b"# coding: latin-1, caf\xe9")


def test_form_feeds(plain: bytes) -> None:
    raw = SCRIPT.replace("\nfor step", "\n\x0c\nfor step").replace("    optimizer.step", "\x0c    optimizer.step")
    result = patched(raw.encode())
    assert result.count(b"\x0c") == 2
    assert result.replace(b"\x0c\nfor", b"for").replace(b"\x0c", b"") == plain


def test_mixed_newlines() -> None:
    lines = SCRIPT.splitlines()
    raw = "".join(line + ("\n", "\r\n", "\r")[index % 3] for index, line in enumerate(lines)).encode()
    result = patched(raw)
    kept = [line for line in raw.splitlines(keepends=True) if b"loss" not in line and b"optimizer.step" not in line]
    assert all(line in result.splitlines(keepends=True) for line in kept)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param(b"import torch\nx = [1,\n", "train.py:2:5: ", id="unparsable, with line and column"),
        pytest.param(b"import torch\nprint 'a'\n", "train.py:2:1: ", id="Python 2"),
        pytest.param(b"import torch\nif 1:\n\tx\n        y\n", "train.py:", id="tabs and blanks"),
        pytest.param(b"import torch\nx = '\xe9'\n", "train.py:2: not UTF-8", id="not UTF-8"),
        pytest.param(b"import torch\n\0", "train.py:2: holds a NUL byte", id="binary"),
        pytest.param(b"import torch\nx = " + b"(" * 500 + b")" * 500, "train.py", id="too many parentheses"),
        pytest.param(b"import torch\nx = " + b"-" * 100_000 + b"1", "train.py", id="too many operators"),
    ],
)
def test_one_clear_line(raw: bytes, reason: str) -> None:
    report = run(raw)
    assert report.error is not None
    assert report.error.startswith(reason)
    assert "\n" not in report.error
    assert "internal" not in report.error
    assert (report.outcomes, report.files) == ((), ())


def test_an_empty_file_has_nothing_to_patch() -> None:
    report = run(b"")
    assert report.error is None
    assert {outcome.status for outcome in report.outcomes} == {"not_applicable"}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "".join(f"{'  ' * depth}if step:\n" for depth in range(1, 90)) + "  " * 90 + "pass\n", id="blocks"
        ),
        pytest.param("  x = " + "[" * 150 + "]" * 150 + "\n", id="brackets"),
        pytest.param("  x = " + " + ".join(["step"] * 900) + "\n", id="a long sum"),
        pytest.param("  x = step" + ".real" * 900 + "\n", id="a long chain"),
    ],
)
def test_deep_nesting_is_patched_or_told(body: str) -> None:
    report = run((SCRIPT + "for step in range(3):\n" + body).encode())
    assert report.files or report.error == "train.py: nested too deeply to be analysed"


@pytest.mark.slow
def test_ten_thousand_lines() -> None:
    functions = "".join(f"\n\ndef helper_{number}(x):\n    y = x + {number}\n    return y\n" for number in range(2000))
    raw = (SCRIPT + functions).encode()
    assert raw.count(b"\n") > 10_000
    start = time.process_time()
    assert patched(raw).endswith(functions.encode())
    assert time.process_time() - start < 60
