"""Sources are parsed, and what is no Python is told in the user's terms."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from speedpatch.errors import SourceError
from speedpatch.parse import parse_module
from speedpatch.sources import Module, Source


def parse(text: str) -> Module:
    """A parsed text."""
    return parse_module(Source(Path("train.py"), text))


@pytest.mark.parametrize(
    "text, lines",
    [
        pytest.param("", 0, id="empty"),
        pytest.param("\n", 1, id="blank line"),
        pytest.param("a\nb", 2, id="no final newline"),
        pytest.param("a\r\nb\rc\n", 3, id="mixed line endings"),
        pytest.param("a\n\f\nb = '\x0b\u2028'\n", 3, id="what Python takes for no line ending"),
        pytest.param("def f():\n    yield 1\n", 2, id="function"),
    ],
)
def test_lines_are_their_own_origin(text: str, lines: int) -> None:
    module = parse(text)
    assert module.origin == tuple(range(1, lines + 1))
    assert module.source.text == text


@pytest.mark.parametrize(
    "text, line, reason",
    [
        pytest.param("a\nprint 'x'\n", 2, "Python 2 source", id="print statement"),
        pytest.param("print x\n", 1, "Python 2 source", id="print of a name"),
        pytest.param("if a: print >>f, 'x'\nprint 'y'\n", 2, "Python 2 source", id="print to a file"),
        pytest.param("raise A, 'b'\n", 1, "Python 2 source", id="raise with a comma"),
        pytest.param("if a: raise b[0], b[1]\n", 1, "Python 2 source", id="raise with a comma in a suite"),
        pytest.param("exec 'a'\n", 1, "Python 2 source", id="exec statement"),
        pytest.param("a = `b`\n", 1, "Python 2 source", id="backticks"),
        pytest.param("if a <> b: c\n", 1, "Python 2 source", id="other unequal sign"),
        pytest.param("a = 0777\n", 1, "Python 2 source", id="octal number"),
        pytest.param("a = 10L\n", 1, "Python 2 source", id="long number"),
        pytest.param("a = 0xFFL\n", 1, "Python 2 source", id="long hexadecimal number"),
        pytest.param("a = ur'b'\n", 1, "Python 2 source", id="raw unicode"),
        pytest.param("x.cuda(async=True)\n", 1, "written for Python before 3.7 (`async` as a name)", id="argument"),
        pytest.param("def f(async=0): 1\n", 1, "written for Python before 3.7 (`async` as a name)", id="parameter"),
        pytest.param("a.async()\n", 1, "written for Python before 3.7 (`async` as a name)", id="attribute"),
        pytest.param("import await\n", 1, "written for Python before 3.7 (`await` as a name)", id="import"),
        pytest.param("a\n!pip install b\n", 2, "notebook magic (`!pip`) is no Python: remove the line", id="shell"),
        pytest.param(
            "%matplotlib inline\n",
            1,
            "notebook magic (`%matplotlib`) is no Python: remove the line",
            id="line",
        ),
        pytest.param("%%time\na\n", 1, "notebook magic (`%%time`) is no Python: remove the line", id="cell"),
        pytest.param("a.b?\n", 1, "notebook magic (`a.b?`) is no Python: remove the line", id="help"),
        pytest.param("a = (\n", 1, "'(' was never closed", id="bracket"),
        pytest.param("```\na `b` c\n```\n", 1, "invalid syntax", id="markdown"),
        pytest.param("a = 1 +\n", 1, "invalid syntax", id="anything else"),
    ],
)
def test_names_what_is_no_python(text: str, line: int, reason: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse(text)
    assert (caught.value.path, caught.value.line, caught.value.reason) == ("train.py", line, reason)


def test_counts_columns_from_one() -> None:
    with pytest.raises(SourceError) as caught:
        parse("é = 1 1\n")
    assert str(caught.value).startswith("train.py:1:")
    assert caught.value.column == 7


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a = 1\0\n", id="null byte"),
        pytest.param("a = '\ud800'\n", id="half of a surrogate pair"),
        pytest.param("a = " + "(" * 1000 + ")" * 1000, id="parentheses"),
        pytest.param("a = " + "-" * 100_000 + "1", id="signs"),
        pytest.param("a = 0" + ".b" * 100_000, id="attributes"),
    ],
)
def test_refuses_what_python_cannot_read(text: str) -> None:
    with pytest.raises(SourceError, match=r"train\.py"):
        parse(text)


def test_is_silent_about_literals() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse("a = '\\d'\nb = 1 is 1\n")
