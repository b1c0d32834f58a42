"""Arguments, parameters and entries go where a person would add them, in the layout that is there."""

from __future__ import annotations

import sys

import pytest

from speedpatch.errors import PatchError
from tests.splice.builders import Build, apply, argument, around, entry, parameter, replace, wrap

ARGUMENTS = [
    pytest.param("f()\n", [argument("f()", "a")], "f(a)\n", id="no arguments"),
    pytest.param("f( )\n", [argument("f( )", "a"), argument("f( )", "b=1")], "f(a, b=1 )\n", id="two to no arguments"),
    pytest.param("f(x)\n", [argument("f(x)", "a")], "f(x, a)\n", id="at the end"),
    pytest.param("f(x,)\n", [argument("f(x,)", "a")], "f(x, a,)\n", id="trailing comma"),
    pytest.param("f(x, k=1)\n", [argument("f(x, k=1)", "a")], "f(x, a, k=1)\n", id="positional before keywords"),
    pytest.param("f(k=1)\n", [argument("f(k=1)", "a")], "f(a, k=1)\n", id="positional before all"),
    pytest.param("f(*x)\n", [argument("f(*x)", "a")], "f(*x, a)\n", id="positional behind a star"),
    pytest.param("f(x, **y)\n", [argument("f(x, **y)", "a=1")], "f(x, a=1, **y)\n", id="keyword before two stars"),
    pytest.param("f(**y)\n", [argument("f(**y)", "a=1")], "f(a=1, **y)\n", id="keyword before two stars alone"),
    pytest.param("f(**y)\n", [argument("f(**y)", "a")], "f(a, **y)\n", id="positional before two stars alone"),
    pytest.param(
        "f(**y, k=1)\n", [argument("f(**y, k=1)", "a=1")], "f(**y, k=1, a=1)\n", id="keyword behind two stars"
    ),
    pytest.param("f(x, **y)\n", [argument("f(x, **y)", "**a")], "f(x, **y, **a)\n", id="two stars at the end"),
    pytest.param("f(x, y)\n", [argument("f(x, y)", "a", after="x")], "f(x, a, y)\n", id="behind an argument"),
    pytest.param("f((x), (y))\n", [argument("f((x), (y))", "a", after="x")], "f((x), a, (y))\n", id="in parentheses"),
    pytest.param("f((x))\n", [argument("f((x))", "a")], "f((x), a)\n", id="last in parentheses"),
    pytest.param("f((x, y),)\n", [argument("f((x, y),)", "a")], "f((x, y), a,)\n", id="tuple"),
    pytest.param("f(lambda: x)\n", [argument("f(lambda: x)", "a")], "f(lambda: x, a)\n", id="lambda"),
    pytest.param("f(k=(1))\n", [argument("f(k=(1))", "a=2")], "f(k=(1), a=2)\n", id="keyword in parentheses"),
    pytest.param("(f)(x)\n", [argument("(f)(x)", "a")], "(f)(x, a)\n", id="function in parentheses"),
    pytest.param("f(1)(x)\n", [argument("f(1)(x)", "a")], "f(1)(x, a)\n", id="call of a call"),
    pytest.param("f\\\n(x)\n", [argument("f\\\n(x)", "a")], "f\\\n(x, a)\n", id="backslash before the bracket"),
    pytest.param("@f(1)\ndef g(): pass\n", [argument("f(1)", "a")], "@f(1, a)\ndef g(): pass\n", id="decorator"),
    pytest.param(
        "f(x for x in y)\n", [argument("f(x for x in y)", "a")], "f((x for x in y), a)\n", id="bare generator"
    ),
    pytest.param(
        "f(x for x in y)\n",
        [argument("f(x for x in y)", "a"), around("(x for x in y)", "list(", ")")],
        "f((list(x for x in y)), a)\n",
        id="bare generator with a call around",
    ),
    pytest.param("f((x for x in y))\n", [argument("f((x for x in y))", "a")], "f((x for x in y), a)\n", id="generator"),
    pytest.param(
        "f(g(x))\n", [argument("g(x)", "a"), argument("f(g(x))", "b")], "f(g(x, a), b)\n", id="call in an argument"
    ),
    pytest.param(
        "f(x)\n",
        [around("x", "s(", ")"), argument("f(x)", "a"), around("f(x)", "t(", ")")],
        "t(f(s(x), a))\n",
        id="inside and around others",
    ),
    pytest.param("f(x)\n", [argument("f(x)", "a"), argument("f(x)", "b")], "f(x, a, b)\n", id="two"),
    pytest.param(
        "f(x)\n",
        [argument("f(x)", "**a"), argument("f(x)", "b=1"), argument("f(x)", "c")],
        "f(x, c, b=1, **a)\n",
        id="of all sorts",
    ),
    pytest.param("f(x)\n", [argument("f(x)", "a=1"), argument("f(x)", "a=1")], "f(x, a=1)\n", id="the same twice"),
    pytest.param("f(x)\n", [argument("f(x)", "a"), replace("x", "y")], "f(y, a)\n", id="behind a replaced argument"),
    pytest.param(
        "f(\n    x,\n    y,\n)\n",
        [argument("f(\n    x,\n    y,\n)", "a"), argument("f(\n    x,\n    y,\n)", "b")],
        "f(\n    x,\n    y,\n    a,\n    b,\n)\n",
        id="one a line",
    ),
    pytest.param("f(\n  x,\n)\n", [argument("f(\n  x,\n)", "a")], "f(\n  x,\n  a,\n)\n", id="one on one line"),
    pytest.param(
        "f(\n  x\n)\n", [argument("f(\n  x\n)", "a")], "f(\n  x,\n  a\n)\n", id="one a line, no trailing comma"
    ),
    pytest.param(
        "f(x,  # c\n  y)  # d\n",
        [argument("f(x,  # c\n  y)", "a", after="x"), argument("f(x,  # c\n  y)", "b")],
        "f(x,  # c\n  a,\n  y,\n  b)  # d\n",
        id="aligned, with a comment",
    ),
    pytest.param(
        "f(\n  x,  # c\n  # d\n  y  # e, f)\n)\n",
        [argument("f(\n  x,  # c\n  # d\n  y  # e, f)\n)", "a")],
        "f(\n  x,  # c\n  # d\n  y,  # e, f)\n  a\n)\n",
        id="comments",
    ),
    pytest.param(
        "f(\n  x\n  , y\n  , k=1\n)\n",
        [argument("f(\n  x\n  , y\n  , k=1\n)", "a")],
        "f(\n  x\n  , y, a\n  , k=1\n)\n",
        id="commas in front",
    ),
    pytest.param("f(x,\r\n  y)\r\n", [argument("f(x,\r\n  y)", "a")], "f(x,\r\n  y,\r\n  a)\r\n", id="CRLF"),
    pytest.param("f(x, y,\n  z)\n", [argument("f(x, y,\n  z)", "a")], "f(x, y,\n  z, a)\n", id="several a line"),
    pytest.param("f(\n  x, y)\n", [argument("f(\n  x, y)", "a")], "f(\n  x, y, a)\n", id="all on one line"),
    pytest.param(
        "f(\n  k=1,\n)\n", [argument("f(\n  k=1,\n)", "a")], "f(\n  a,\n  k=1,\n)\n", id="first of one a line"
    ),
    pytest.param(
        "f(x, g(\n  y,\n))\n", [argument("f(x, g(\n  y,\n))", "a")], "f(x, g(\n  y,\n), a)\n", id="argument over lines"
    ),
    pytest.param("f('''\n''', x)\n", [argument("f('''\n''', x)", "a")], "f('''\n''', x, a)\n", id="string over lines"),
    pytest.param(
        "if x:\n  f(\n    x,\n  )\n",
        [argument("f(\n    x,\n  )", "a"), wrap("f"), wrap("if")],
        "with amp:\n  if x:\n    with amp:\n      f(\n        x,\n        a,\n      )\n",
        id="one a line in a wrap",
    ),
    pytest.param("f'{g(x)}'\n", [argument("g(x)", "a")], "f'{g(x, a)}'\n", id="call in a formatted string"),
    pytest.param("f('é', x)\n", [argument("f('é', x)", "a", after="'é'")], "f('é', a, x)\n", id="several bytes"),
]

PARAMETERS = [
    pytest.param("def f(): 0\n", [parameter("f", "a")], "def f(a): 0\n", id="no parameters"),
    pytest.param("def f(x): 0\n", [parameter("f", "a")], "def f(x, a): 0\n", id="at the end of the parameters"),
    pytest.param("async def f(self): 0\n", [parameter("f", "a=1")], "async def f(self, a=1): 0\n", id="method"),
    pytest.param(
        "def f(x: int = (1)) -> g(2): 0\n",
        [parameter("f", "a=1")],
        "def f(x: int = (1), a=1) -> g(2): 0\n",
        id="annotations",
    ),
    pytest.param("def f(x, *, y): 0\n", [parameter("f", "a")], "def f(x, a, *, y): 0\n", id="before a star"),
    pytest.param("def f(*y, **z): 0\n", [parameter("f", "a")], "def f(a, *y, **z): 0\n", id="before star arguments"),
    pytest.param("def f(x, **z): 0\n", [parameter("f", "a")], "def f(x, a, **z): 0\n", id="before keyword arguments"),
    pytest.param("def f(x, /): 0\n", [parameter("f", "a")], "def f(x, /, a): 0\n", id="behind a slash"),
    pytest.param(
        "def f(x, y=1): 0\n", [parameter("f", "a", after="x")], "def f(x, a, y=1): 0\n", id="behind a parameter"
    ),
    pytest.param(
        "def f(*x, y=1): 0\n", [parameter("f", "a", after="x")], "def f(*x, a, y=1): 0\n", id="behind star arguments"
    ),
    pytest.param(
        "def f(*, y=1): 0\n", [parameter("f", "a", after="y")], "def f(*, y=1, a): 0\n", id="behind a keyword"
    ),
    pytest.param(
        "def f(x): 0\n", [parameter("f", "a"), parameter("f", "b=1")], "def f(x, a, b=1): 0\n", id="two parameters"
    ),
    pytest.param(
        "def f(x): 0\n", [parameter("f", "a"), parameter("f", "a")], "def f(x, a): 0\n", id="the same parameter"
    ),
    pytest.param(
        "def f(x=lambda y, z=1: 2): 0\n",
        [parameter("f", "a=1")],
        "def f(x=lambda y, z=1: 2, a=1): 0\n",
        id="lambda as default",
    ),
    pytest.param(
        "def f(\n    x,  # c\n    y=1,\n): 0\n",
        [parameter("f", "a=1")],
        "def f(\n    x,  # c\n    y=1,\n    a=1,\n): 0\n",
        id="one parameter a line",
    ),
    pytest.param(
        "def f(x,\n      y): 0\n", [parameter("f", "a")], "def f(x,\n      y,\n      a): 0\n", id="aligned parameters"
    ),
    pytest.param(
        "@d(1)\ndef f(  # c (\n    x\n): 0\n",
        [parameter("f", "a")],
        "@d(1)\ndef f(  # c (\n    x,\n    a\n): 0\n",
        id="comment behind the bracket",
    ),
]

ENTRIES = [
    pytest.param("x = {'a': a}\n", [entry("{'a': a}", "'b': b", "a")], "x = {'a': a, 'b': b}\n", id="entry"),
    pytest.param(
        "x = {'a': a, **c}\n",
        [entry("{'a': a, **c}", "'b': b", "a")],
        "x = {'a': a, 'b': b, **c}\n",
        id="entry in the middle",
    ),
    pytest.param(
        "x = {**c,}\n", [entry("{**c,}", "'b': b", "c")], "x = {**c, 'b': b,}\n", id="behind an unpacked dict"
    ),
    pytest.param(
        "x = {'a': (a)}\n", [entry("{'a': (a)}", "'b': b", "a")], "x = {'a': (a), 'b': b}\n", id="entry in parentheses"
    ),
    pytest.param(
        "x = {\n    'a': a,  # c\n    'd': d,\n}\n",
        [entry("{\n    'a': a,  # c\n    'd': d,\n}", "'b': b", "a")],
        "x = {\n    'a': a,  # c\n    'b': b,\n    'd': d,\n}\n",
        id="one entry a line",
    ),
    pytest.param(
        "x = {'a': a,\n     'd': {1: 2}}\n",
        [entry("{'a': a,\n     'd': {1: 2}}", "'b': b", "{1: 2}")],
        "x = {'a': a,\n     'd': {1: 2},\n     'b': b}\n",
        id="aligned entries",
    ),
]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters came with Python 3.12")
def test_adds_a_parameter_behind_type_parameters() -> None:
    before = "def f[T: (int, str), *U](x: T) -> T: 0\n"
    assert apply(before, parameter("f", "a")).source.text == before.replace("x: T", "x: T, a")


@pytest.mark.parametrize("before, edits, after", [*ARGUMENTS, *PARAMETERS, *ENTRIES])
def test_adds_items(before: str, edits: list[Build], after: str) -> None:
    assert apply(before, *edits).source.text == after


@pytest.mark.parametrize(
    "text, edits, reason",
    [
        pytest.param("def f(x=1): 0\n", [parameter("f", "a")], "default", id="no default behind a default"),
        pytest.param("def f(x, y): 0\n", [parameter("f", "a=1", after="x")], "default", id="default before none"),
        pytest.param("def f(x): 0\n", [parameter("f", "x")], "of this name", id="parameter is there"),
        pytest.param("def f(**x): 0\n", [parameter("f", "a", after="x")], "cannot add", id="behind keyword arguments"),
        pytest.param("def f(x): 0\n", [parameter("f", "a", after="y")], "no parameter y", id="behind an unknown one"),
        pytest.param("f'{g(x)}'\n", [argument("g(x)", "'a'")], "formatted string", id="quotes in a formatted string"),
        pytest.param(
            "f'{g(x)}'\n",
            [argument("g(x)", "a"), argument("g(x)", "b='c'")],
            "formatted string",
            id="one of two with quotes in a formatted string",
        ),
    ],
)
def test_refuses(text: str, edits: list[Build], reason: str) -> None:
    with pytest.raises(PatchError, match=reason):
        apply(text, *edits)
