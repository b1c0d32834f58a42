"""Statements go under a new header as a careful person would indent them."""

from __future__ import annotations

import pytest

from speedpatch.errors import PatchError
from tests.splice.builders import Build, apply, wrap


@pytest.mark.parametrize(
    "before, edits, after",
    [
        pytest.param("a\nb\nc\n", [wrap("a", "b")], "with amp:\n    a\n    b\nc\n", id="neighbours"),
        pytest.param("def f():\n  a\n", [wrap("a")], "def f():\n  with amp:\n    a\n", id="unit of the block around"),
        pytest.param("if x:\n\ta\nb\n", [wrap("b")], "if x:\n\ta\nwith amp:\n\tb\n", id="unit of the file"),
        pytest.param("if x:\n\ta\n\tb\n", [wrap("a")], "if x:\n\twith amp:\n\t\ta\n\tb\n", id="tabs"),
        pytest.param(
            "if x:\n\tif y:\n\t    a\n",
            [wrap("a")],
            "if x:\n\tif y:\n\t    with amp:\n\t        a\n",
            id="tabs and spaces mixed",
        ),
        pytest.param(
            "if x:\n  y\nfor a in b:\n\tc\n",
            [wrap("for")],
            "if x:\n  y\nwith amp:\n\tfor a in b:\n\t\tc\n",
            id="own unit first",
        ),
        pytest.param("a\n\n\nb\n", [wrap("a", "b")], "with amp:\n    a\n\n\n    b\n", id="blank lines stay empty"),
        pytest.param(
            "a\n  \nb\n", [wrap("a", "b")], "with amp:\n    a\n  \n    b\n", id="white space of blank lines stays"
        ),
        pytest.param(
            "# above\na  # behind\n# between\n#far\nb\n# below\n",
            [wrap("a", "b")],
            "# above\nwith amp:\n    a  # behind\n    # between\n    #far\n    b\n# below\n",
            id="comments",
        ),
        pytest.param(
            "for x in y:\n    a\n    # in the loop\n# outside\nb\n",
            [wrap("for")],
            "with amp:\n    for x in y:\n        a\n        # in the loop\n# outside\nb\n",
            id="comment at the end of a block",
        ),
        pytest.param(
            'a = """x\n  y\n"""\n', [wrap("a")], 'with amp:\n    a = """x\n  y\n"""\n', id="triple-quoted string"
        ),
        pytest.param(
            "f('''x\n''',\n  b)\n",
            [wrap("f")],
            "with amp:\n    f('''x\n''',\n      b)\n",
            id="line behind a triple-quoted string",
        ),
        pytest.param(
            'a = f"""{\nx} {y}\n"""\n',
            [wrap("a")],
            'with amp:\n    a = f"""{\nx} {y}\n"""\n',
            id="triple-quoted f-string",
        ),
        pytest.param(
            'a = ("x"  # one\n     f"{y}"\n     """z\nz""")\n',
            [wrap("a")],
            'with amp:\n    a = ("x"  # one\n         f"{y}"\n         """z\nz""")\n',
            id="adjacent strings",
        ),
        pytest.param("a = 'x\\\n  y'\n", [wrap("a")], "with amp:\n    a = 'x\\\n  y'\n", id="continued string"),
        pytest.param("a = b'''x\n'''\n", [wrap("a")], "with amp:\n    a = b'''x\n'''\n", id="bytes"),
        pytest.param("a = x + \\\n  y\n", [wrap("a")], "with amp:\n    a = x + \\\n      y\n", id="backslash"),
        pytest.param(
            "def f():\n    x(\n  y)\n",
            [wrap("x")],
            "def f():\n    with amp:\n        x(\n      y)\n",
            id="continuation left of the block",
        ),
        pytest.param("a; b\nc\n", [wrap("a", "b")], "with amp:\n    a; b\nc\n", id="whole row"),
        pytest.param("a; b; c  # d\n", [wrap("b")], "a\nwith amp:\n    b\nc  # d\n", id="inside a row"),
        pytest.param(
            "a; b(1,\n  2)\nc\n", [wrap("b", "c")], "a\nwith amp:\n    b(1,\n      2)\n    c\n", id="from inside a row"
        ),
        pytest.param("a\nb; c;\n", [wrap("a", "b")], "with amp:\n    a\n    b\nc;\n", id="into a row"),
        pytest.param("a; \\\n  b\n", [wrap("b")], "a\nwith amp:\n    b\n", id="row over two lines"),
        pytest.param("for x in y: a\n", [wrap("a")], "for x in y:\n    with amp:\n        a\n", id="one-line suite"),
        pytest.param("for x in y: a\n", [wrap("for")], "with amp:\n    for x in y: a\n", id="around a one-line suite"),
        pytest.param(
            "if a: b; c  # d\nelse:e\n",
            [wrap("c"), wrap("e")],
            "if a:\n    b\n    with amp:\n        c  # d\nelse:\n    with amp:\n        e\n",
            id="rows in suites",
        ),
        pytest.param("class A: b\n", [wrap("b")], "class A:\n    with amp:\n        b\n", id="one-line class"),
        pytest.param(
            "try: a\nexcept B: c\nfinally: d\n",
            [wrap("c"), wrap("d")],
            "try: a\nexcept B:\n    with amp:\n        c\nfinally:\n    with amp:\n        d\n",
            id="one-line handlers",
        ),
        pytest.param(
            "match a:\n    case b: c\n",
            [wrap("c")],
            "match a:\n    case b:\n        with amp:\n            c\n",
            id="one-line case",
        ),
        pytest.param(
            "if a: \\\n  b\n", [wrap("b")], "if a:\n    with amp:\n        b\n", id="suite behind a backslash"
        ),
        pytest.param("# C:\\\na\n", [wrap("a")], "# C:\\\nwith amp:\n    a\n", id="comment that ends in a backslash"),
        pytest.param(
            "if a:  # C:\\\n    b\n",
            [wrap("b")],
            "if a:  # C:\\\n    with amp:\n        b\n",
            id="such a comment on a header",
        ),
        pytest.param(
            "@d\n# c\n@e(1)\ndef f(): pass\n",
            [wrap("def")],
            "with amp:\n    @d\n    # c\n    @e(1)\n    def f(): pass\n",
            id="decorators",
        ),
        pytest.param(
            "if a:\n    b\nelif c:\n    d\nelse:\n    e\n",
            [wrap("elif c")],
            "if a:\n    b\nelse:\n    with amp:\n        if c:\n            d\n        else:\n            e\n",
            id="elif",
        ),
        pytest.param("a\r\nb\r\n", [wrap("a")], "with amp:\r\n    a\r\nb\r\n", id="CRLF"),
        pytest.param("a\rb\r", [wrap("b")], "a\rwith amp:\r    b\r", id="CR"),
        pytest.param("a\nb\r\nc\r\n", [wrap("c")], "a\nb\r\nwith amp:\r\n    c\r\n", id="mixed line endings"),
        pytest.param("a", [wrap("a")], "with amp:\n    a", id="no final newline"),
        pytest.param("x\n\f\na\n", [wrap("a")], "x\n\f\nwith amp:\n    a\n", id="form feed line"),
        pytest.param(
            "x\n\fa\nb\n", [wrap("a", "b")], "x\nwith amp:\n\f    a\n    b\n", id="form feed in front of a statement"
        ),
        pytest.param("é = 'ü'; b\n", [wrap("b")], "é = 'ü'\nwith amp:\n    b\n", id="characters of several bytes"),
        pytest.param(
            "a\nb\nc\n",
            [wrap("b", header="with inner:"), wrap("a", "c", "with outer:")],
            "with outer:\n    a\n    with inner:\n        b\n    c\n",
            id="nested",
        ),
        pytest.param(
            "a\nb\n",
            [wrap("a", header="if inner:"), wrap("a", "b", "if outer:")],
            "if outer:\n    if inner:\n        a\n    b\n",
            id="nested with one beginning",
        ),
        pytest.param(
            "a\n",
            [wrap("a", header="with first:"), wrap("a", header="with second:")],
            "with second:\n    with first:\n        a\n",
            id="the later of two equal ones is outside",
        ),
        pytest.param(
            "for x in y:\n  a\n  b\n",
            [wrap("a", header="with inner:"), wrap("for", header="with outer:")],
            "with outer:\n  for x in y:\n    with inner:\n      a\n    b\n",
            id="nested through a block",
        ),
        pytest.param(
            "a\n", [wrap("a", header="with (\n    b,\n):")], "with (\n    b,\n):\n    a\n", id="header of several lines"
        ),
    ],
)
def test_wraps(before: str, edits: list[Build], after: str) -> None:
    assert apply(before, *edits).source.text == after


@pytest.mark.parametrize(
    "text, edits, reason",
    [
        pytest.param("a\nb\nc\n", [wrap("a", "b"), wrap("b", "c")], "cross", id="crossing wraps"),
        pytest.param("a\nb\n", [wrap("b", "a")], "no neighbours", id="last above first"),
        pytest.param("if x:\n    a\nb\n", [wrap("a", "b")], "no neighbours", id="wrap over two blocks"),
        pytest.param("a\n", [wrap("a", header="with x")], "no valid Python", id="header without colon"),
    ],
)
def test_refuses(text: str, edits: list[Build], reason: str) -> None:
    with pytest.raises(PatchError, match=reason):
        apply(text, *edits)
