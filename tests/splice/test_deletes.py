"""Statements are deleted with their lines, and no body stays empty."""

from __future__ import annotations

import pytest

from tests.splice.builders import Build, apply, delete, insert, wrap


@pytest.mark.parametrize(
    "before, edits, after",
    [
        pytest.param("a\nb  # c\nd\n", [delete("b")], "a\nd\n", id="line"),
        pytest.param("# c\na\n\nb\n", [delete("a")], "# c\n\nb\n", id="comment above stays"),
        pytest.param("a\nf(\n  1)\nb\n", [delete("f")], "a\nb\n", id="several lines"),
        pytest.param("@d\ndef f():\n    a\n    # c\nb\n", [delete("def")], "b\n", id="definition"),
        pytest.param("if x:\n    a  # c\nb\n", [delete("a")], "if x:\n    pass  # c\nb\n", id="last of a body"),
        pytest.param("if x:\n    a\n    b\n", [delete("a"), delete("b")], "if x:\n    pass\n", id="whole body"),
        pytest.param(
            "if x:\n    a\n", [delete("a"), insert("after", "a")], "if x:\n    new()\n", id="body with something new"
        ),
        pytest.param("if x: a\n", [delete("a")], "if x: pass\n", id="suite"),
        pytest.param("if x: a; b\n", [delete("a")], "if x: b\n", id="first of a suite"),
        pytest.param("a; b; c  # d\n", [delete("a")], "b; c  # d\n", id="first of a row"),
        pytest.param("a; b; c  # d\n", [delete("b")], "a; c  # d\n", id="middle of a row"),
        pytest.param("a; b; c  # d\n", [delete("b"), delete("c")], "a  # d\n", id="end of a row"),
        pytest.param("a; b\nc\n", [delete("a"), delete("b")], "c\n", id="whole row"),
        pytest.param(
            "a; b; c\n", [delete("b"), insert("after", "b")], "a\nnew()\nc\n", id="with an insertion in the row"
        ),
        pytest.param(
            "  \na; b; c\n", [delete("a"), insert("after", "a")], "  \nnew()\nb\nc\n", id="first, insertion in the row"
        ),
        pytest.param(
            "a; b # d\nc\n", [delete("b"), insert("after", "a")], "a\nnew()\n# d\nc\n", id="last, insertion in the row"
        ),
        pytest.param("a\nb", [delete("b")], "a", id="no final newline"),
        pytest.param("a\nb", [delete("b"), insert("after", "b")], "a\nnew()", id="no final newline, insertion"),
        pytest.param("a\nb", [delete("b"), insert("before", "b")], "a\nnew()", id="no final newline, insertion before"),
        pytest.param("a\n", [delete("a")], "", id="only statement"),
        pytest.param("a\nb\nc\n", [wrap("a", "b"), delete("a")], "with amp:\n    b\nc\n", id="in a wrap"),
        pytest.param("a\nb\n", [wrap("a"), delete("a")], "with amp:\n    pass\nb\n", id="all of a wrap"),
        pytest.param(
            "if x:\n    a; b\n", [wrap("a", "b"), delete("a")], "if x:\n    with amp:\n        b\n", id="row in a wrap"
        ),
        pytest.param(
            "if a:\n    b\nelif c:\n    d\nelse:\n    e\nf\n",
            [delete("elif c")],
            "if a:\n    b\nf\n",
            id="elif and what follows",
        ),
        pytest.param(
            "if x:\n    a\nb\n", [delete("if"), wrap("a"), insert("after", "a")], "b\n", id="edits inside are lost"
        ),
    ],
)
def test_deletes(before: str, edits: list[Build], after: str) -> None:
    assert apply(before, *edits).source.text == after
