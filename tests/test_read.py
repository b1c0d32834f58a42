"""Reading: what is text comes in without losing a byte, everything else is one clear line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from speedpatch.errors import SourceError
from speedpatch.read import mentions_torch, read_source, source_from_bytes


@pytest.mark.parametrize(
    ("raw", "text", "encoding", "bom"),
    [
        pytest.param(b"", "", "utf-8", False, id="an empty file"),
        pytest.param(b"x = '\xc3\xa9'\n", "x = 'é'\n", "utf-8", False, id="UTF-8 without a declaration"),
        pytest.param(b"\xef\xbb\xbfx = 1\n", "x = 1\n", "utf-8", True, id="a byte order mark"),
        pytest.param(
            b"# coding: latin-1\nx = '\xe9'\n", "# coding: latin-1\nx = 'é'\n", "iso-8859-1", False, id="latin-1"
        ),
        pytest.param(
            b"# Jos\xe9\n# coding: latin-1, caf\xe9\n",
            "# José\n# coding: latin-1, café\n",
            "iso-8859-1",
            False,
            id="beside the declaration",
        ),
        pytest.param(
            b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n'\x80'\n",
            "#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n'€'\n",
            "cp1252",
            False,
            id="declared in the second line, as vim writes it",
        ),
        pytest.param(
            b"# -*- coding: shift_jis -*-\n'\x83\x5c'\n",
            "# -*- coding: shift_jis -*-\n'ソ'\n",
            "shift_jis",
            False,
            id="an encoding whose second byte is a backslash",
        ),
        pytest.param(b"# coding: utf-8-sig\nx\n", "# coding: utf-8-sig\nx\n", "utf-8", False, id="utf-8-sig, no mark"),
        pytest.param(b"a\r\nb\r\n", "a\r\nb\r\n", "utf-8", False, id="CRLF"),
        pytest.param(b"a\r\nb\nc\rd", "a\r\nb\nc\rd", "utf-8", False, id="mixed newlines, none at the end"),
        pytest.param(b"\x0cif a:\n\tb\n", "\x0cif a:\n\tb\n", "utf-8", False, id="form feed and tabs"),
    ],
)
def test_reads_and_encodes_the_same_bytes(raw: bytes, text: str, encoding: str, bom: bool) -> None:
    source = source_from_bytes(Path("train.py"), raw)
    assert (source.text, source.encoding, source.bom, source.raw) == (text, encoding, bom, raw)
    assert source.encode() == raw


@pytest.mark.parametrize(
    ("raw", "line", "reason"),
    [
        pytest.param(b"x = 1\ny = '\xe9'\n", 2, "not UTF-8 (byte 0xe9)", id="latin-1 without a declaration"),
        pytest.param(b"a\rb\r\nc\n'\xff'", 4, "not UTF-8 (byte 0xff)", id="the line is counted over every newline"),
        pytest.param(b"# coding: utf-8\n\n'\xe9'\n", 3, "not UTF-8 (byte 0xe9)", id="declared as UTF-8, and is not"),
        pytest.param(b"# coding: ascii\n'\xe9'\n", 2, "not ascii (byte 0xe9)", id="declared as ASCII, and is not"),
        pytest.param(b"# coding: klingon\n", 1, "unknown encoding: klingon", id="an unknown encoding"),
        pytest.param(b"#!/bin/x\n# coding: klingon\n", 2, "unknown encoding: klingon", id="unknown in line two"),
        pytest.param(b"# coding: rot13\n", 1, "'rot13' is not a text encoding", id="a codec that is no encoding"),
        pytest.param(b"\xef\xbb\xbf# coding: latin-1\n", 1, "encoding problem", id="a mark and another declaration"),
        pytest.param("import torch\n".encode("utf-16"), 1, "not UTF-8 (byte 0xff)", id="UTF-16"),
        pytest.param(b"# coding: unicode_escape\n'\\x41'\n", 1, "not written back the same", id="a lossy encoding"),
        pytest.param(b"import torch\n\n\0", 3, "NUL byte", id="a binary file"),
    ],
)
def test_names_the_line_of_what_is_no_text(raw: bytes, line: int, reason: str) -> None:
    with pytest.raises(SourceError) as caught:
        source_from_bytes(Path("train.py"), raw)
    assert caught.value.line == line
    assert reason in caught.value.reason
    assert str(caught.value).startswith(f"train.py:{line}: ")
    assert "\n" not in str(caught.value)


def test_reads_a_script_by_its_shebang(tmp_path: Path) -> None:
    script = tmp_path / "train"
    script.write_bytes(b"#!/usr/bin/env python3\nimport torch\n")
    assert read_source(script).text.endswith("import torch\n")


def test_refuses_a_missing_path(tmp_path: Path) -> None:
    check_refuses(tmp_path / "none.py", "cannot be read: no such file or directory")


def test_refuses_a_folder(tmp_path: Path) -> None:
    check_refuses(tmp_path, "is a folder where a file is needed")


def test_reads_a_notebook_as_one(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text("{}")
    check_refuses(path, "is no notebook: it names no `nbformat`")
    path.write_text('{"nbformat": 4, "nbformat_minor": 0, "metadata": {}, "cells": []}')
    assert read_source(path).text == ""


def test_refuses_other_files(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("import torch\n")
    check_refuses(path, "is not a Python script")


def test_refuses_a_pipe_instead_of_waiting_for_it(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    os.mkfifo(path)
    check_refuses(path, "is not a regular file")


def test_refuses_a_broken_and_a_circular_symlink(tmp_path: Path) -> None:
    (tmp_path / "broken.py").symlink_to("gone.py")
    check_refuses(tmp_path / "broken.py", "no such file")
    (tmp_path / "circle.py").symlink_to("circle.py")
    check_refuses(tmp_path / "circle.py", "cannot be read: too many levels of symbolic links")


def test_refuses_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.py"
    path.write_text("import torch\n")
    path.chmod(0)
    if os.access(path, os.R_OK):  # root reads everything: let the system refuse all the same

        def refuse(self: Path) -> bytes:
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr(Path, "read_bytes", refuse)
    check_refuses(path, "cannot be read: permission denied")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(b"import torch as th\n", True, id="import"),
        pytest.param(b"from pytorch_lightning import Trainer\n", True, id="another engine on torch"),
        pytest.param(b"import numpy\n", False, id="no torch"),
        pytest.param(b"", False, id="empty"),
    ],
)
def test_tells_cheaply_whether_a_file_is_worth_a_look(raw: bytes, expected: bool) -> None:
    assert mentions_torch(raw) is expected


def test_the_error_passes_through_a_context_manager() -> None:
    @contextmanager
    def quietly() -> Iterator[None]:
        yield

    with pytest.raises(SourceError), quietly():
        raise SourceError("train.py", "is what it is")


def check_refuses(path: Path, reason: str) -> None:
    with pytest.raises(SourceError) as caught:
        read_source(path)
    assert caught.value.path == str(path)
    assert reason in caught.value.reason
