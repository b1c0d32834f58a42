"""Statements are inserted where a careful person would type them, and lines keep their origin."""

from __future__ import annotations

import pytest

from speedpatch.errors import PatchError
from tests.splice.builders import Build, apply, delete, imports, insert, wrap


@pytest.mark.parametrize(
    "before, edits, after",
    [
        pytest.param("a\nb\n", [insert("after", "a")], "a\nnew()\nb\n", id="after"),
        pytest.param("a\n# c\nb\n", [insert("after", "a")], "a\nnew()\n# c\nb\n", id="after, comment below"),
        pytest.param("a\n# c\nb\n", [insert("before", "b")], "a\n# c\nnew()\nb\n", id="before, below its comment"),
        pytest.param("@d\ndef f(): a\n", [insert("before", "def")], "new()\n@d\ndef f(): a\n", id="before decorators"),
        pytest.param(
            "def f():\n    a\n\n\nb\n", [insert("after", "def")], "def f():\n    a\nnew()\n\n\nb\n", id="after a block"
        ),
        pytest.param(
            "for x in y:\n    a\n    # c\n\n    # d\n# e\n",
            [insert("after", "for")],
            "for x in y:\n    a\n    # c\n\n    # d\nnew()\n# e\n",
            id="after a block that ends in comments",
        ),
        pytest.param(
            "for x in y:\n    a\n    # c\nb\n",
            [insert("last", "for")],
            "for x in y:\n    a\n    new()\n    # c\nb\n",
            id="last",
        ),
        pytest.param(
            "for x in y:  # c\n    # d\n\n    a\n",
            [insert("first", "for")],
            "for x in y:  # c\n    new()\n    # d\n\n    a\n",
            id="first, above the comments of what follows",
        ),
        pytest.param(
            'def f():\n    """D.\n    """\n\n    a\n',
            [insert("first", "def")],
            'def f():\n    """D.\n    """\n    new()\n\n    a\n',
            id="first, behind a docstring",
        ),
        pytest.param(
            'def f(): "D."\n', [insert("first", "def")], 'def f():\n    "D."\n    new()\n', id="first, docstring alone"
        ),
        pytest.param(
            "for x in y: a\n", [insert("first", "for")], "for x in y:\n    new()\n    a\n", id="first in a suite"
        ),
        pytest.param(
            "for x in y: a # c", [insert("last", "for")], "for x in y:\n    a # c\n    new()", id="last in a suite"
        ),
        pytest.param(
            "if a: b\nelse: c\n",
            [insert("after", "c")],
            "if a: b\nelse:\n    c\n    new()\n",
            id="behind the suite of an else",
        ),
        pytest.param(
            "if a: b\nelse: c\n",
            [insert("last", "if")],
            "if a:\n    b\n    new()\nelse: c\n",
            id="last, in front of an else",
        ),
        pytest.param("a; b\n", [insert("after", "a")], "a\nnew()\nb\n", id="inside a row"),
        pytest.param("a; b  # c\n", [insert("after", "b")], "a; b  # c\nnew()\n", id="behind a row"),
        pytest.param("a; b\n", [insert("before", "a")], "new()\na; b\n", id="in front of a row"),
        pytest.param("a", [insert("after", "a")], "a\nnew()", id="no final newline"),
        pytest.param("if x:\r\n\ta", [insert("after", "a")], "if x:\r\n\ta\r\n\tnew()", id="no final newline, CRLF"),
        pytest.param(
            "a  # c", [insert("after", "a"), insert("after", "a", "b")], "a  # c\nnew()\nb", id="two at the end"
        ),
        pytest.param(
            "a\r\nb\n", [insert("after", "a", "x\ny")], "a\r\nx\r\ny\r\nb\n", id="line ending of the neighbour"
        ),
        pytest.param("a\n", [insert("before", "a", "x\n")], "x\na\n", id="text with a line ending"),
        pytest.param("a\n", [insert("before", "a", "\nx\n\n")], "\nx\n\na\n", id="text with blank lines"),
        pytest.param(
            "if x:\n\ta\n",
            [insert("after", "a", "if y:\n    z\n\n    w")],
            "if x:\n\ta\n\tif y:\n\t\tz\n\n\t\tw\n",
            id="nested text",
        ),
        pytest.param(
            "if x:\n  a\n",
            [insert("after", "a", 'b = """\n    c\n"""')],
            'if x:\n  a\n  b = """\n    c\n"""\n',
            id="text with a string of several lines",
        ),
        pytest.param(
            "if x:\n    a\nb\n",
            [insert("before", "b", "outer()"), insert("after", "a", "inner()"), insert("after", "if", "middle()")],
            "if x:\n    a\n    inner()\nouter()\nmiddle()\nb\n",
            id="deeper ones first",
        ),
        pytest.param(
            "a\nb\n",
            [insert("before", "b", "x", 2), insert("after", "a", "y", 1), insert("after", "a", "z", 2)],
            "a\ny\nx\nz\nb\n",
            id="by slot, then in the order given",
        ),
        pytest.param(
            "a\nb\nc\n",
            [wrap("b", "c"), insert("before", "b"), insert("after", "c", "end()"), insert("after", "b", "mid()")],
            "a\nnew()\nwith amp:\n    b\n    mid()\n    c\nend()\n",
            id="around and in a wrap",
        ),
        pytest.param(
            "if a: b\n",
            [wrap("b"), insert("before", "b"), insert("after", "b", "end()"), wrap("if", header="with all:")],
            "with all:\n    if a:\n        new()\n        with amp:\n            b\n        end()\n",
            id="around a wrap in a suite",
        ),
        pytest.param(
            "if a:\n    b\n    # c\nelif d:\n    e\n",
            [insert("before", "elif d")],
            "if a:\n    b\n    # c\nelse:\n    new()\n    if d:\n        e\n",
            id="before an elif",
        ),
        pytest.param(
            "if a:\n    b\nelif d: e\nf\n",
            [insert("after", "elif d"), insert("after", "b", "x")],
            "if a:\n    b\n    x\nelse:\n    if d: e\n    new()\nf\n",
            id="after an elif",
        ),
        pytest.param(
            "if a:\n    b\nelif d:\n    e\n",
            [insert("last", "elif d")],
            "if a:\n    b\nelif d:\n    e\n    new()\n",
            id="in an elif",
        ),
    ],
)
def test_inserts(before: str, edits: list[Build], after: str) -> None:
    assert apply(before, *edits).source.text == after


@pytest.mark.parametrize(
    "text, edits, reason",
    [
        pytest.param("a\n", [insert("first", "a")], "no body", id="body of a simple statement"),
        pytest.param("a\n", [insert("before", "a", "x = (")], "no valid Python", id="text that is no statement"),
    ],
)
def test_refuses(text: str, edits: list[Build], reason: str) -> None:
    with pytest.raises(PatchError, match=reason):
        apply(text, *edits)


@pytest.mark.parametrize(
    "before, edits, origin",
    [
        pytest.param("a\nb\n", [insert("after", "a")], (1, 0, 2), id="insertion"),
        pytest.param("a; b\nc\n", [wrap("b")], (1, 0, 1, 2), id="row"),
        pytest.param("if a: b", [insert("last", "if")], (1, 1, 0), id="suite"),
        pytest.param("a\n\n\nb\nc\n", [delete("b")], (1, 2, 3, 5), id="deletion"),
        pytest.param("if a:\n    b\nelif c:\n    d\n", [insert("before", "elif c")], (1, 2, 0, 0, 3, 4), id="elif"),
        pytest.param("a\n", [imports("import b")], (0, 0, 1), id="import"),
    ],
)
def test_carries_origins(before: str, edits: list[Build], origin: tuple[int, ...]) -> None:
    assert apply(before, *edits).origin == origin
