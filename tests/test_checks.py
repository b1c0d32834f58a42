"""Each check lets good results pass and catches the fault that it is there for."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from speedpatch.checks import check
from speedpatch.errors import PatchError
from speedpatch.parse import parse_module
from speedpatch.sources import Module, Source
from tests.splice.builders import Build, apply, argument, around, delete, imports, insert, module_of, replace, wrap

FUNCTION = 'def f(x):\n    """D.\n    d\n    """\n    # c\n    y = x  # e\n    if y: x(); y()\n    return y\n'


def result(text: str, origin: list[int]) -> Module:
    """A result as it would be after a fault; what is no Python gets an empty tree."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        tree = ast.Module([], [])
    return Module(Source(Path("train.py"), text), tree, tuple(origin))


@pytest.mark.parametrize(
    "before, edits",
    [
        pytest.param(FUNCTION, [], id="nothing"),
        pytest.param(FUNCTION, [wrap("y = x", "return")], id="wrap"),
        pytest.param(FUNCTION, [wrap("def")], id="wrap around a string"),
        pytest.param(FUNCTION, [wrap("y()"), insert("before", "x()")], id="row in a suite"),
        pytest.param(FUNCTION, [delete("x()"), insert("after", "x()")], id="deletion in a row"),
        pytest.param(FUNCTION, [delete("if y"), delete("y = x"), replace("y@4", "x")], id="deletions"),
        pytest.param(FUNCTION, [argument("x()", "f"), around("x", "f(", ")"), imports("import new")], id="inside"),
        pytest.param("f(1,\n  2)\n", [argument("f(1,\n  2)", "3")], id="one argument a line"),
        pytest.param("f(1,\n\n  # c\n  2)\n", [replace("f(1,\n\n  # c\n  2)", "3")], id="replacement of lines"),
        pytest.param("if 1:\n    2\n# c\nelif 3: 4; 5\n", [insert("before", "elif", "0")], id="elif"),
        pytest.param("@f\ndef f():\n    # c\n    1\n    # d\n\n2\n", [delete("def")], id="definition deleted"),
        pytest.param("1\r\n2\n3", [insert("after", "1", "4\n5"), insert("after", "3", "6")], id="mixed line endings"),
        pytest.param("1; 2; 3", [delete("2"), insert("after", "3", "4")], id="no final newline"),
        pytest.param("1", [delete("1")], id="empty"),
        pytest.param("", [imports("import new")], id="empty at first"),
        pytest.param("x = '#'; y = 1  # c\n", [replace("'#'", "2")], id="comment sign in a string"),
    ],
)
def test_passes_good_results(before: str, edits: list[Build]) -> None:
    old = module_of(before.replace("new()", "f()"))
    new = apply(before, *edits)
    check([old], [result(new.source.text.replace("amp", "1").replace("new()", "f()"), list(new.origin))])


@pytest.mark.parametrize(
    "before, after, origin, reason",
    [
        pytest.param("1\n", "1 2\n", [1], "train.py:1: .* no valid Python", id="syntax"),
        pytest.param("1\n2\n", "1\nreturn\n", [1, 2], "train.py:2: .*outside function", id="what only compile sees"),
        pytest.param("return\n", "return 1\n", [1], "train.py:1: is no valid Python", id="original does not compile"),
        pytest.param("x = 1\n", "x = 1\ny(x)\n", [1, 0], "train.py:1: .*uses y, which", id="undefined name"),
        pytest.param(
            "def f(): 0\n",
            "def f():\n    print(a)\n    a = 1\n",
            [1, 0, 0],
            "uses a, which",
            id="undefined local",
        ),
        pytest.param("from a import *\nb\n", "from a import *\nc\nb\n", [1, 0, 2], "uses c", id="star import"),
        pytest.param("x = '''a\n b'''\n", "x = '''a\n  b'''\n", [1, 2], "several lines", id="string indented"),
        pytest.param("x = b'a\\\nb'\n", "x = b'a\\\n b'\n", [1, 2], "several lines", id="continued string indented"),
        pytest.param("x = f'''{1}\n'''\n", "x = f'''{1}\n '''\n", [1, 2], "several lines", id="f-string indented"),
        pytest.param("1\n2\n", "2\n1\n", [2, 1], "train.py:1: this line has moved", id="order"),
        pytest.param("1\n2\n", "1\n1\n2\n", [1, 1, 2], "train.py:1: this line is there twice", id="line twice"),
        pytest.param("1\n\n2\n", "1\n\n\n2\n", [1, 2, 2, 3], "train.py:2: .*twice", id="blank line twice"),
        pytest.param("1\n# c\n2\n", "1\n2\n", [1, 3], "train.py:2: this line is gone", id="comment gone"),
        pytest.param("1\n\n2\n", "1\n2\n", [1, 3], "train.py:2: this line is gone", id="blank line gone"),
        pytest.param("1\n2\n\n3\n", "1\n3\n", [1, 4], "train.py:3: .*gone", id="blank line gone behind a deletion"),
        pytest.param(
            "if 1:\n    2\n    # c\n    3\n",
            "if 1:\n    4\n    3\n",
            [1, 2, 4],
            "train.py:3: .*gone",
            id="comment gone in a block",
        ),
        pytest.param(
            "if 1:\n    # c\n    3\n",
            "if 2:\n    3\n",
            [1, 3],
            "train.py:2: .*gone",
            id="comment gone below a changed header",
        ),
        pytest.param("x = (1,\n2)\n", "x = (1,\n)\n", [1, 0], "train.py:2: .*gone", id="part of a statement gone"),
        pytest.param("x = 1 # c\n", "x = 2\n", [1], "train.py:1: the comment", id="comment of a changed line"),
        pytest.param("x = 1 # c\n", "x = 1\n", [1], "train.py:1: ", id="comment of a line"),
        pytest.param("x = [1,2]\n", "x = [1, 2]\n", [1], "train.py:1: only white space", id="white space inside"),
        pytest.param("x = 1 \n", "x = 1\n", [1], "train.py:1: only white space", id="white space at the end"),
        pytest.param("1\n", "1\n2\n", [1], "origin", id="origins too short"),
        pytest.param("1\n", "1\n2\n", [1, 2], "origin", id="origins past the end"),
        pytest.param("1\r\n2\r\n", "1\r\n2\n", [1, 2], "train.py:2: the line ending", id="line ending changed"),
        pytest.param("1\r\n2\r\n", "1\r\n3\n2\r\n", [1, 0, 2], "line ending", id="line ending of a new line"),
        pytest.param("1\n2", "1\n2\n", [1, 2], "newline at the end", id="final newline added"),
        pytest.param("1\n2\n", "1\n2", [1, 2], "newline at the end", id="final newline lost"),
    ],
)
def test_catches(before: str, after: str, origin: list[int], reason: str) -> None:
    with pytest.raises(PatchError, match=reason):
        check([module_of(before)], [result(after, origin)])


def test_catches_another_file() -> None:
    other = parse_module(Source(Path("other.py"), "1\n"))
    with pytest.raises(PatchError, match="not the same"):
        check([module_of("1\n")], [other])


def test_names_the_users_line_not_that_of_the_result() -> None:
    before, after = module_of("a = 1\na\n"), result("a = 1\n1\n2\na\nb\n", [1, 0, 0, 2, 0])
    with pytest.raises(PatchError, match=r"train.py:2: .*uses b"):
        check([before], [after])


def test_undefined_names_of_the_original_are_its_own_affair() -> None:
    check([module_of("a\nb\n")], [result("a\nb\nb\n", [1, 2, 0])])
