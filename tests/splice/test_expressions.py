"""Expressions are replaced and surrounded, and what stands beside them stays."""

from __future__ import annotations

import sys

import pytest

from speedpatch.errors import PatchError
from tests.splice.builders import Build, apply, argument, around, delete, insert, replace, wrap

CASES = [
    pytest.param("a + b  # c\n", [replace("a", "x")], "x + b  # c\n", id="replace"),
    pytest.param("(a + b).c()\n", [replace("a + b", "x")], "(x).c()\n", id="parentheses stay"),
    pytest.param("(a + b).c()\n", [around("a + b", "f(", ")")], "(f(a + b)).c()\n", id="around in parentheses"),
    pytest.param(
        "(a + b).c()\n", [around("a + b", "", ".f()", enclosed=True)], "(a + b).f().c()\n", id="outside of parentheses"
    ),
    pytest.param(
        "f( (a +\n  b) [0])\n",
        [around("a +\n  b", "", ".f()", enclosed=True)],
        "f( (a +\n  b).f() [0])\n",
        id="outside of parentheses over lines",
    ),
    pytest.param(
        "(a + b  # c\n ).d\n",
        [around("a + b", "", ".f()", enclosed=True)],
        "((a + b).f()  # c\n ).d\n",
        id="a comment inside the parentheses",
    ),
    pytest.param("return_(a,\n  b)\n", [replace("a", "(x,\ny)")], "return_((x,\ny),\n  b)\n", id="text of two lines"),
    pytest.param("f(a)\r\n", [replace("a", "(x,\ny)")], "f((x,\r\ny))\r\n", id="text of two lines, CRLF"),
    pytest.param(
        "def f():\n    return(a, b)\n", [replace("(a, b)", "x")], "def f():\n    return x\n", id="words stay apart"
    ),
    pytest.param(
        "x = (a)if(b)else(c)\n", [around("b", "f(", ")")], "x = (a)if(f(b))else(c)\n", id="words beside brackets"
    ),
    pytest.param("x = [a]if[b]else[c]\n", [replace("[b]", "y")], "x = [a]if y else[c]\n", id="words on both sides"),
    pytest.param("a.b.c\n", [around("a", "(", ")"), around("a.b", "f(", ")")], "f((a).b).c\n", id="wider is outside"),
    pytest.param("a\n", [around("a", "f(", ")"), around("a", "g(", ")")], "g(f(a))\n", id="later is outside"),
    pytest.param("a\n", [around("a", "f(", ")"), replace("a", "x")], "f(x)\n", id="around a replaced one"),
    pytest.param("f(a, b)\n", [replace("f(a, b)", "x"), around("a", "g(", ")")], "x\n", id="edits inside are lost"),
    pytest.param("f(a)\n", [replace("f(a)", "x"), replace("a", "y")], "x\n", id="replacement inside is lost"),
    pytest.param("a\n", [replace("a", "x"), replace("a", "x")], "x\n", id="twice the same"),
    pytest.param("a; b\n", [replace("a", "x"), replace("b", "y")], "x; y\n", id="neighbours"),
    pytest.param("a\n", [replace("a", "x"), wrap("a")], "with amp:\n    x\n", id="in a wrap"),
    pytest.param(
        "a = f(\n  x,\n  y)\n",
        [replace("f(\n  x,\n  y)", "z"), wrap("a")],
        "with amp:\n    a = z\n",
        id="lines in a wrap",
    ),
    pytest.param(
        "if x: a; b\n",
        [around("a", "f(", ")"), insert("after", "a")],
        "if x:\n    f(a)\n    new()\n    b\n",
        id="in a row",
    ),
    pytest.param(
        "if x: a", [around("a", "f(", ")"), insert("after", "a")], "if x:\n    f(a)\n    new()", id="in a last row"
    ),
    pytest.param(
        "a.b(c)\nd\n",
        [delete("a"), around("c", "f(", ")"), argument("a.b(c)", "x")],
        "d\n",
        id="in a deleted statement",
    ),
    pytest.param("é(ü)\n", [around("ü", "f(", ")")], "é(f(ü))\n", id="characters of several bytes"),
    pytest.param("x\n\fé(ü)\n", [around("ü", "f(", ")")], "x\n\fé(f(ü))\n", id="behind a form feed"),
    pytest.param(
        "'\x0b\u2028'; a\n", [replace("a", "x")], "'\x0b\u2028'; x\n", id="behind what other tools take for a line"
    ),
    pytest.param("f(a for a in b)\n", [replace("(a for a in b)", "x")], "f(x)\n", id="bare generator"),
    pytest.param(
        "f(a for a in b)\n", [around("(a for a in b)", "[", "]")], "f([a for a in b])\n", id="around a bare generator"
    ),
    pytest.param("f'{a}'\n", [replace("f'{a}'", "x")], "x\n", id="formatted string as a whole"),
    pytest.param(
        "print(f'{a}', a)\n", [around("a@2", "f(", ")")], "print(f'{a}', f(a))\n", id="beside a formatted string"
    ),
]


@pytest.mark.parametrize("before, edits, after", CASES)
def test_edits_expressions(before: str, edits: list[Build], after: str) -> None:
    assert apply(before, *edits).source.text == after


@pytest.mark.parametrize(
    "text, edits, reason",
    [
        pytest.param("a\n", [replace("a", "x"), replace("a", "y")], "two replacements", id="two replacements"),
        pytest.param("f'{a.b}'\n", [replace("a.b", "x")], "formatted string", id="replace in a formatted string"),
        pytest.param(
            "x = f'''\n{a}'''\n", [around("a", "f(", ")")], "formatted string", id="around in a formatted string"
        ),
        pytest.param(
            "f(a)\n", [replace("f(a)", "x"), argument("f(a)", "y")], "replaced", id="argument of a replaced call"
        ),
        pytest.param("a\n", [replace("a", "x y")], "no valid Python", id="text that is no expression"),
    ],
)
def test_refuses(text: str, edits: list[Build], reason: str) -> None:
    with pytest.raises(PatchError, match=reason):
        apply(text, *edits)


@pytest.mark.skipif(sys.version_info < (3, 14), reason="template strings came with Python 3.14")
def test_refuses_in_a_template_string() -> None:
    with pytest.raises(PatchError, match="formatted string"):
        apply("t'{a.b}'\n", replace("a.b", "x"))
