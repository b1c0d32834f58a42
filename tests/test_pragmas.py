"""`# speedpatch: off`: what it covers."""

from __future__ import annotations

import pytest

from speedpatch.pragmas import lines_off


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a\nb  # speedpatch: off\nc\n", {2}, id="a line"),
        pytest.param("a\r\nb  # speedpatch: off\r\nc\r\n", {2}, id="CRLF"),
        pytest.param("a\rb  # speedpatch: off\rc\n", {2}, id="lone carriage returns"),
        pytest.param("a\n\x0cb  # speedpatch: off\nc", {2}, id="a form feed is no new line"),
        pytest.param("a\nf(\n  b,  # speedpatch: off\n)\nc\n", {2, 3, 4}, id="the whole statement"),
        pytest.param("f(\n  # speedpatch: off\n  b,\n)\nc\n", {1, 2, 3, 4}, id="alone inside a statement"),
        pytest.param("a\n# speedpatch: off\nb\nc\n", {3}, id="alone above a statement"),
        pytest.param("for x in y:  # speedpatch: off\n  a\n  if b:\n    c\nd\n", {1, 2, 3, 4}, id="a block"),
        pytest.param("a\nfor x in y:\n  # speedpatch: off\n  a\n  b\nd\n", {2, 3, 4, 5}, id="first thing in a block"),
        pytest.param("if a:\n  b\nelse:  # speedpatch: off\n  c\nd\n", {3, 4}, id="one branch"),
        pytest.param("def f():  # speedpatch: off\n\ta\n\n\tb\nc", {1, 2, 3, 4}, id="a function, tabs"),
        pytest.param("#!/bin/python\n# speedpatch: off\nimport torch\na\n", {1, 2, 3, 4, 5}, id="the top of the file"),
        pytest.param('"""Doc."""\n# speedpatch: off\nimport torch\n', {1, 2, 3, 4}, id="behind the docstring"),
        pytest.param("# speedpatch: off\n", {1, 2}, id="nothing but the comment"),
        pytest.param("a  #speedpatch:off because it is timed\n", {1}, id="a reason behind it"),
        pytest.param("a = '# speedpatch: off'\n", set(), id="a string is no comment"),
        pytest.param("a  # speedpatch: offline\n", set(), id="another word"),
        pytest.param("a\nb\n", set(), id="none"),
        pytest.param("a(\n# speedpatch: off\n", set(), id="unparsable"),
    ],
)
def test_lines_off(text: str, expected: set[int]) -> None:
    assert lines_off(text) == expected
