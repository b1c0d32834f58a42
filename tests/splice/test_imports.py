"""Imports go behind those at the top of a module."""

from __future__ import annotations

import pytest

from tests.splice.builders import Build, apply, delete, imports, insert, wrap

NEW = imports("import new")


@pytest.mark.parametrize(
    "before, edits, after",
    [
        pytest.param("import a\nb\n", [NEW], "import a\nimport new\nb\n", id="behind the last"),
        pytest.param(
            "import a\nb\nimport c\n", [NEW], "import a\nimport new\nb\nimport c\n", id="not behind later ones"
        ),
        pytest.param("import a\n", [NEW, NEW], "import a\nimport new\n", id="once"),
        pytest.param("import new  # c\nb\n", [NEW], "import new  # c\nb\n", id="already there"),
        pytest.param(
            "import a\n", [NEW, imports("from b import c")], "import a\nimport new\nfrom b import c\n", id="two"
        ),
        pytest.param(
            "import a\nb\nimport new\n", [NEW], "import a\nimport new\nb\nimport new\n", id="there, but too late"
        ),
        pytest.param("import new\na\n", [NEW, delete("import")], "import new\na\n", id="there, but deleted"),
        pytest.param("import a\n", [NEW, delete("import")], "import new\n", id="in place of a deleted one"),
        pytest.param("import a; b()\n", [NEW], "import a\nimport new\nb()\n", id="row"),
        pytest.param(
            "from a import (\n    b,\n)  # c\n\n\nclass D: pass\n",
            [NEW],
            "from a import (\n    b,\n)  # c\nimport new\n\n\nclass D: pass\n",
            id="import over lines",
        ),
        pytest.param(
            "import a\ntry:\n    import b\nexcept ImportError:\n    b = 0\nimport c\n",
            [NEW],
            "import a\ntry:\n    import b\nexcept ImportError:\n    b = 0\nimport c\nimport new\n",
            id="guarded import between",
        ),
        pytest.param(
            "import a\ntry:\n    import b\nexcept ImportError:\n    b = 0\nc\n",
            [NEW],
            "import a\nimport new\ntry:\n    import b\nexcept ImportError:\n    b = 0\nc\n",
            id="guarded import last",
        ),
        pytest.param(
            "import os\nos.environ['A'] = 'b'\nsys.path.append('c')\nimport torch\nx = 1\n",
            [NEW],
            "import os\nos.environ['A'] = 'b'\nsys.path.append('c')\nimport torch\nimport new\nx = 1\n",
            id="behind settings that come before an import",
        ),
        pytest.param('"""D."""\n\nx = 1\n', [NEW], '"""D."""\n\nimport new\n\nx = 1\n', id="docstring"),
        pytest.param('"""D."""\nx = 1\n', [NEW], '"""D."""\n\nimport new\n\nx = 1\n', id="docstring, no blank line"),
        pytest.param(
            '"""D."""\ndef f(): 0\n', [NEW], '"""D."""\n\nimport new\n\n\ndef f(): 0\n', id="docstring, function"
        ),
        pytest.param('"""D."""', [NEW], '"""D."""\n\nimport new', id="docstring alone"),
        pytest.param(
            '"""D."""\nfrom __future__ import a\n\nx\n'.replace(" a\n", " annotations\n"),
            [NEW],
            '"""D."""\nfrom __future__ import annotations\n\nimport new\n\nx\n',
            id="future import alone",
        ),
        pytest.param(
            "#!/usr/bin/python\n# coding: utf-8\n# Licence\n\nx\n",
            [NEW],
            "#!/usr/bin/python\n# coding: utf-8\n# Licence\n\nimport new\n\nx\n",
            id="comments set apart",
        ),
        pytest.param(
            "#!/usr/bin/python\n# coding: utf-8\n# about x\nx\n",
            [NEW],
            "#!/usr/bin/python\n# coding: utf-8\nimport new\n\n# about x\nx\n",
            id="comment of the first statement",
        ),
        pytest.param("# c\n", [NEW], "# c\nimport new\n", id="comments alone"),
        pytest.param("", [NEW], "import new\n", id="empty"),
        pytest.param("x\n", [NEW], "import new\n\nx\n", id="no header"),
        pytest.param("\n\ndef f(): 0\n", [NEW], "import new\n\n\ndef f(): 0\n", id="blank lines on top"),
        pytest.param("x\r\n", [NEW], "import new\r\n\r\nx\r\n", id="CRLF"),
        pytest.param(
            "import a\nb\n",
            [insert("after", "import"), NEW, wrap("b")],
            "import a\nimport new\nnew()\nwith amp:\n    b\n",
            id="first at its place",
        ),
    ],
)
def test_adds_imports(before: str, edits: list[Build], after: str) -> None:
    assert apply(before, *edits).source.text == after
