"""Statements are inserted, deleted and wrapped as a careful person would type it."""

from __future__ import annotations

import pytest

from speedpatch.errors import PatchError
from tests.splice.builders import Build, apply, delete, imports, insert, wrap

WRAPS = [
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
    pytest.param('a = """x\n  y\n"""\n', [wrap("a")], 'with amp:\n    a = """x\n  y\n"""\n', id="triple-quoted string"),
    pytest.param(
        "f('''x\n''',\n  b)\n",
        [wrap("f")],
        "with amp:\n    f('''x\n''',\n      b)\n",
        id="line behind a triple-quoted string",
    ),
    pytest.param(
        'a = f"""{\nx} {y}\n"""\n', [wrap("a")], 'with amp:\n    a = f"""{\nx} {y}\n"""\n', id="triple-quoted f-string"
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
    pytest.param("if a: \\\n  b\n", [wrap("b")], "if a:\n    with amp:\n        b\n", id="suite behind a backslash"),
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
]

INSERTS = [
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
    pytest.param("for x in y: a\n", [insert("first", "for")], "for x in y:\n    new()\n    a\n", id="first in a suite"),
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
    pytest.param("a  # c", [insert("after", "a"), insert("after", "a", "b")], "a  # c\nnew()\nb", id="two at the end"),
    pytest.param("a\r\nb\n", [insert("after", "a", "x\ny")], "a\r\nx\r\ny\r\nb\n", id="line ending of the neighbour"),
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
]

DELETES = [
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
    pytest.param("a; b; c\n", [delete("b"), insert("after", "b")], "a\nnew()\nc\n", id="with an insertion in the row"),
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
]


@pytest.mark.parametrize("before, edits, after", [*WRAPS, *INSERTS, *DELETES])
def test_changes_lines(before: str, edits: list[Build], after: str) -> None:
    assert apply(before, *edits).source.text == after


@pytest.mark.parametrize(
    "text, edits, reason",
    [
        pytest.param("a\nb\nc\n", [wrap("a", "b"), wrap("b", "c")], "cross", id="crossing wraps"),
        pytest.param("a\nb\n", [wrap("b", "a")], "no neighbours", id="last above first"),
        pytest.param("if x:\n    a\nb\n", [wrap("a", "b")], "no neighbours", id="wrap over two blocks"),
        pytest.param("a\n", [insert("first", "a")], "no body", id="body of a simple statement"),
        pytest.param("a\n", [insert("before", "a", "x = (")], "no valid Python", id="text that is no statement"),
        pytest.param("a\n", [wrap("a", header="with x")], "no valid Python", id="header without colon"),
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
