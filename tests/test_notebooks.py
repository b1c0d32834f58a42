"""Notebooks: one program out of the cells, and back into the file without touching another byte."""

from __future__ import annotations

import ast
import json
import random
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from speedpatch import registry
from speedpatch.codemod import Options
from speedpatch.errors import PatchError, SourceError
from speedpatch.magics import body_of, ending_of, split_lines
from speedpatch.notebook_json import find_code
from speedpatch.notebooks import Notebook, place, read_notebook
from speedpatch.patch import patch

PATH = Path("train.ipynb")
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def cell(source: str, kind: str = "code", as_list: bool = True) -> dict[str, Any]:
    """A cell as nbformat has it."""
    more: dict[str, Any] = {"execution_count": 7, "outputs": []} if kind == "code" else {}
    return {
        "cell_type": kind,
        "metadata": {"tags": ["source"]},
        **more,
        "source": source.splitlines(True) if as_list else source,
    }


def document(cells: Sequence[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """A notebook's content."""
    return {"cells": list(cells), "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 2, **changes}


def raw_of(*sources: str, indent: int | None = 1, ascii_only: bool = False, as_list: bool = True) -> bytes:
    """The bytes of a notebook with these code cells."""
    cells = [cell(source, as_list=as_list) for source in sources]
    return (json.dumps(document(cells), indent=indent, ensure_ascii=ascii_only) + "\n").encode()


def read(*sources: str) -> Notebook:
    """A notebook with these code cells, which has to come back the same."""
    raw = raw_of(*sources)
    notebook = read_notebook(PATH, raw)
    assert notebook.encode() == raw
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(notebook.text, "<test>", "exec", dont_inherit=True)
    return notebook


def sources_of(notebook: Notebook) -> list[str]:
    """The code cells' sources in the file that would be written."""
    return [source.text for source in find_code(notebook.encode().decode("utf-8-sig"))]


def edit(notebook: Notebook, old: str, new: str) -> Notebook:
    """The notebook with one place of its program changed."""
    assert notebook.text.count(old) == 1
    return notebook.with_text(notebook.text.replace(old, new))


def changed_lines(before: bytes, after: bytes) -> tuple[list[bytes], list[bytes]]:
    """The lines that only one of the two files has."""
    old, new = before.split(b"\n"), after.split(b"\n")
    return [line for line in old if line not in new], [line for line in new if line not in old]


def test_joins_the_cells_with_comments_between_them() -> None:
    cells = [cell("# Title", "markdown"), cell("import torch\nx = 1"), cell("raw", "raw"), cell("x\n"), cell("y = x")]
    notebook = read_notebook(PATH, json.dumps(document(cells)).encode())
    assert notebook.text == "import torch\nx = 1\n# %% speedpatch cell 4\nx\n\n# %% speedpatch cell 5\ny = x\n"
    assert [cell.number for cell in notebook.cells] == [2, 4, 5]


def test_comments_are_unlike_those_of_the_cells() -> None:
    notebook = read("a = '# %% speedpatch cell 2'", "# %% speedpatch-2 line 1.1", "b")
    assert "# %% speedpatch-3 cell 3\nb\n" in notebook.text
    assert sources_of(edit(notebook, "b\n", "c\n"))[1:] == ["# %% speedpatch-2 line 1.1", "c"]


@pytest.mark.parametrize(
    ("source", "program"),
    [
        pytest.param("%matplotlib inline\nx = 1", "# T1\nx = 1\n", id="line magic"),
        pytest.param("% matplotlib inline\nx = 1", "# T1\nx = 1\n", id="blank behind the sign"),
        pytest.param("%time f()\nx = 1", "# T1\nx = 1\n", id="magic with code"),
        pytest.param("x = 1\n!pip install a", "x = 1\n# T1\n", id="shell at the end"),
        pytest.param("if a:\n    !pip install a\nx", "if a:\n    pass  # T1\nx\n", id="shell in a block"),
        pytest.param("for a in b:\n\t%cd a\n\tc", "for a in b:\n\tpass  # T1\n\tc\n", id="magic in a loop, tabs"),
        pytest.param("x\n!!ls", "x\n# T1\n", id="two exclamation marks"),
        pytest.param("x\n?print\n??print", "x\n# T1\n# T2\n", id="help ahead"),
        pytest.param("x\nx.y?\nx.y??\nx?  # c", "x\n# T1\n# T2\n# T3\n", id="help behind"),
        pytest.param("x\n%time?", "x\n# T1\n", id="help on a magic"),
        pytest.param("files = !ls", "files = get_ipython()  # T1\n", id="shell assigned"),
        pytest.param("a, b.c = !ls", "a, b.c = get_ipython()  # T1\n", id="shell assigned to two"),
        pytest.param("if a:\n  o = %timeit -o f()", "if a:\n  o = get_ipython()  # T1\n", id="magic assigned"),
        pytest.param("x\n!pip install \\\n  a \\\n  b\ny", "x\n# T1\ny\n", id="continued"),
        pytest.param("f = !ls \\\n  a\ny", "f = get_ipython()  # T1\ny\n", id="continued assignment"),
        pytest.param("!echo don't\nx = 'it'", "# T1\nx = 'it'\n", id="quote in a shell line"),
        pytest.param("!ls\na = '''\n%b\n!c\n?\n'''", "# T1\na = '''\n%b\n!c\n?\n'''\n", id="in a string"),
        pytest.param('!ls\n"""Why?\n%b"""', '# T1\n"""Why?\n%b"""\n', id="in a docstring"),
        pytest.param("!ls\na = (b\n% c)\nd", "# T1\na = (b\n% c)\nd\n", id="in brackets"),
        pytest.param("!ls\na = b \\\n% c", "# T1\na = b \\\n% c\n", id="behind a backslash"),
        pytest.param("!ls\nf('a = !b', \"c = %d\" % 1)", "# T1\nf('a = !b', \"c = %d\" % 1)\n", id="look-alikes"),
        pytest.param("!ls\nx = 1  # why?", "# T1\nx = 1  # why?\n", id="question in a comment"),
        pytest.param("!ls\nx = 'a\\\n!b'", "# T1\nx = 'a\\\n!b'\n", id="in a continued string"),
        pytest.param("%%time\nx = 1", "# T1\nx = 1\n", id="timed cell"),
        pytest.param("\n%%timeit -n 1\n%%capture out\nx\n!ls", "\n# T1\n# T2\nx\n# T3\n", id="two cell magics"),
        pytest.param("%%prun -l 5\r\nx = 1\r\n", "# T1\r\nx = 1\r\n\r\n", id="CRLF"),
        pytest.param("!ls\rx = 1", "# T1\rx = 1\r", id="CR"),
        pytest.param("  !ls\n\n  x = 1", "# T1\n\nx = 1\n", id="indented as a whole"),
    ],
)
def test_masks_what_is_no_python(source: str, program: str) -> None:
    notebook = read(source)
    assert notebook.text == program.replace("# T", "# %% speedpatch line 1.")
    assert not notebook.opaque_cells
    end = ending_of(notebook.text)
    assert sources_of(notebook.with_text(notebook.text + "more" + end)) == [
        source + end + added_indent(source) + "more"
    ]


def added_indent(source: str) -> str:
    """What new lines begin with in a cell that is indented as a whole."""
    return "  " if source.startswith("  ") else ""


@pytest.mark.parametrize(
    "source",
    [
        "a = '''\n%%time\n!ls\n'''",
        "a = (b\n% c)",
        "a = b \\\n% c",
        "'invalid \\escape'",
        "x is 1;",
        "# %matplotlib inline",
        "\x0cx = 1",
        "x = 1  # a\u2028b",
        "async def f():\n    await g()",
    ],
)
def test_leaves_python_alone(source: str) -> None:
    assert read(source).text == source + "\n"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        pytest.param("%%bash\nls", "cell magic %%bash", id="bash"),
        pytest.param("\n%%writefile a.py\nx = 1", "cell magic %%writefile", id="writefile"),
        pytest.param("%%unknown 1\nx = 1", "cell magic %%unknown", id="unknown"),
        pytest.param("%%time\n%%html\n<b>", "cell magic %%html", id="below a known one"),
        pytest.param("# c\n%%time\nx = 1", "cell magic %%time behind the first line", id="not at the head"),
        pytest.param("x = 1\n/f x", "automatic call", id="slash"),
        pytest.param(",f x", "automatic call", id="comma"),
        pytest.param(";f x", "automatic call", id="semicolon"),
        pytest.param("await f()", "no valid Python: 'await' outside function (line 1)", id="await"),
        pytest.param("!ls\nreturn 1", "no valid Python: 'return' outside function (line 2)", id="return"),
        pytest.param("x =\ny = 1", "no valid Python: invalid syntax (line 1)", id="a blank to fill in"),
        pytest.param("print 'a'", "no valid Python: Missing parentheses", id="Python 2"),
        pytest.param("x = '\0'", "no valid Python: ", id="NUL"),
    ],
)
def test_is_opaque(source: str, reason: str) -> None:
    notebook = read("a = 1", source, "b = 2")
    assert notebook.text == "a = 1\n# %% speedpatch cell 3\nb = 2\n"
    assert [cell.number for cell in notebook.opaque_cells] == [2]
    assert notebook.opaque_cells[0].opaque.startswith(reason)


def test_half_characters_are_kept() -> None:
    raw = raw_of("!ls '\ud800'\nx = 1", "x = '\udc00'", ascii_only=True)
    notebook = read_notebook(PATH, raw)
    assert (notebook.text, len(notebook.opaque_cells)) == ("# %% speedpatch line 1.1\nx = 1\n", 1)
    assert edit(notebook, "x = 1", "x = 2").encode() == raw.replace(b"x = 1", b"x = 2")


@pytest.mark.parametrize("source", ["!pip install a", "", "  \n", "%load_ext a\n\n!ls"])
def test_leaves_cells_without_python_out(source: str) -> None:
    notebook = read(source, "import torch")
    assert (notebook.text, notebook.opaque_cells) == ("import torch\n", ())


def test_imports_from_the_future_stand_only_at_the_top() -> None:
    future = "from __future__ import print_function"
    notebook = read(
        f"%matplotlib inline\n'doc'\n{future}\n", f"x = 1\n{future}  # c\n", f"{future}; y = 1", f"{future}\nz"
    )
    assert notebook.text.count("__future__") == 1
    assert [mask.text for _, mask in notebook.masks][1:] == [f"{future}  # c", future]
    assert [cell.number for cell in notebook.opaque_cells] == [3]
    assert sources_of(edit(notebook, "z\n", "q\n"))[3] == f"{future}\nq"


def test_what_python_refuses_behind_other_cells_is_opaque() -> None:
    notebook = read("x = 1", "global x", "y = 1")
    assert [cell.number for cell in notebook.opaque_cells] == [2]
    assert "above it: name 'x' is assigned to before global" in notebook.opaque_cells[0].opaque


def test_masks_take_on_a_new_indentation() -> None:
    notebook = read("for a in b:\n  !ls \\\n    x\n  f(a)\n%cd c\ng()\n")
    lines = split_lines(notebook.text.rstrip("\n"))
    text = "with h:\n" + "".join(f"    {line}" for line in lines) + "\n\n"
    changed = "with h:\n    for a in b:\n      !ls \\\n        x\n      f(a)\n    %cd c\n    g()\n"
    assert sources_of(notebook.with_text(text)) == [changed]


def test_cell_magics_stay_at_the_head() -> None:
    notebook = read("%%time\nx = 1")
    assert sources_of(notebook.with_text("import a\n" + notebook.text)) == ["%%time\nimport a\nx = 1"]


def test_an_indented_cell_stays_indented() -> None:
    notebook = read("  !ls\n\n  x = 1")
    assert sources_of(edit(notebook, "x = 1", "if a:\n  x = 1")) == ["  !ls\n\n  if a:\n    x = 1"]


@pytest.mark.parametrize(
    ("old", "new", "gone", "added"),
    [
        pytest.param("a = 1", "a = 2", ['    "a = 1\\n",'], ['    "a = 2\\n",'], id="a line"),
        pytest.param("a = 1", "a = 1\nc = 'ü'", [], ["    \"c = 'ü'\\n\","], id="a new line"),
        pytest.param("import os", "import re\nimport os", [], ['    "import re\\n",'], id="at the head"),
        pytest.param("b = 'é'", "b = 'é'\nc", ["    \"b = 'é'\""], ["    \"b = 'é'\\n\",", '    "c"'], id="at the end"),
        pytest.param("a = 1\n", "", ['    "a = 1\\n",'], [], id="a line less"),
    ],
)
def test_only_changed_lines_change(old: str, new: str, gone: list[str], added: list[str]) -> None:
    raw = raw_of("import os\na = 1\nb = 'é'", "x\ny")
    changed = changed_lines(raw, edit(read_notebook(PATH, raw), old, new).encode())
    assert [[line.decode() for line in lines] for lines in changed] == [gone, added]


@pytest.mark.parametrize(
    ("value", "new", "after"),
    [
        pytest.param('"a\\nb"', "c\\n", '"a\\nc\\nb"', id="one string"),
        pytest.param('"a\\nb  # \\u00e9\\/"', "c\\n", '"a\\nc\\nb  # \\u00e9\\/"', id="escapes"),
        pytest.param('["a\\n","b"]', "c\\n", '["a\\n","c\\n","b"]', id="no blanks"),
        pytest.param('["a\\n" , "b"]', "c\\n", '["a\\n" , "c\\n" , "b"]', id="odd blanks"),
        pytest.param('["a\\nb"]', "c\\n", '["a\\nc\\nb"]', id="lines in one item"),
        pytest.param('["", "a\\n", "", "b", ""]', "c\\n", '["", "a\\n", "", "c\\n", "b", ""]', id="empty items"),
        pytest.param('["a", "a\\u000ab"]', "c\\n", '["a", "a\\u000ac\\nb"]', id="items that are no lines"),
        pytest.param('["a\\r\\n", "b"]', "c\\r\\n", '["a\\r\\n", "c\\r\\n", "b"]', id="CRLF"),
        pytest.param('["a\\r", "\\n", "b"]', "c\\r\\n", '["a\\r", "\\n", "c\\r\\n", "b"]', id="CRLF torn apart"),
        pytest.param(
            '[ "a  # \\ud83d\\ude00\\n", "b" ]', "c\\n", '[ "a  # \\ud83d\\ude00\\n", "c\\n", "b" ]', id="pair"
        ),
    ],
)
def test_new_lines_follow_the_style(value: str, new: str, after: str) -> None:
    raw = json.dumps(document([cell("SOURCE", as_list=False)])).replace('"SOURCE"', value)
    notebook = read_notebook(PATH, raw.encode())
    line = json.loads(f'"{new}"')
    changed = notebook.with_text(notebook.text.replace("b", line + "b"))
    assert changed.encode().decode() == raw.replace(value, after)


def test_a_single_line_gains_a_follower_in_the_style_of_the_file() -> None:
    raw = raw_of("a", indent=2, ascii_only=True)
    changed = read_notebook(PATH, raw).with_text("a\nb = '\xe9'\n").encode()
    assert changed == raw_of("a\nb = '\xe9'", indent=2, ascii_only=True)


@pytest.mark.parametrize("as_list", [True, False])
def test_a_cell_can_become_empty_and_an_encoding_stays(as_list: bool) -> None:
    raw = raw_of("a", "é", as_list=as_list)
    changed = edit(read_notebook(PATH, raw), "a\n#", "#").encode()
    assert changed == raw_of("", "é", as_list=as_list)


VARIANTS = [
    pytest.param(lambda raw: raw, id="as it is"),
    pytest.param(lambda raw: raw.rstrip(b"\n"), id="no final newline"),
    pytest.param(lambda raw: raw.replace(b"\n", b"\r\n"), id="CRLF in the JSON"),
    pytest.param(lambda raw: b"\xef\xbb\xbf" + raw, id="a byte order mark"),
    pytest.param(lambda raw: raw.replace(b'": ', b'" :\t'), id="odd white space"),
    pytest.param(lambda raw: b" \n" + raw + b"\n\n", id="white space around"),
    pytest.param(lambda raw: raw.replace(b'"outputs"', b'"source": "no",\n"outputs"'), id="a doubled key"),
]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("indent", [None, 1, 4])
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("as_list", [True, False])
def test_random_edits_come_back(variant: Any, indent: int | None, ascii_only: bool, as_list: bool) -> None:
    sources = [
        "%matplotlib inline\nimport torch",
        "",
        "%%bash\nls é",
        "for a in b:\n    !ls é\n    f('é😀')\n",
        "x = '''\n%a\n'''\r\nfiles = !ls\r\nprint(files)",
        "!pip install a",
        "def f():\n\tg(\n\t\t1)\n\n\n?f\nf()",
    ]
    raw = variant(raw_of(*sources, indent=indent, ascii_only=ascii_only, as_list=as_list))
    notebook = read_notebook(PATH, raw)
    assert notebook.encode() == raw
    generator = random.Random(f"{indent}{ascii_only}{as_list}")
    for _ in range(12):
        check_random_edit(notebook, generator)


def check_random_edit(notebook: Notebook, generator: random.Random) -> None:
    """Add, change and indent top-level statements, write, read again; other cells keep their bytes."""
    changed = notebook.with_text(random_edit(notebook.text, generator))
    again = read_notebook(PATH, changed.encode())
    assert again.text == changed.text
    before, after = (item.raw.removeprefix(b"\xef\xbb\xbf").decode() for item in (notebook, again))
    for old, new in zip(notebook.cells, again.cells, strict=True):
        if old.program == new.program:
            spans = before[old.source.start : old.source.end], after[new.source.start : new.source.end]
            assert spans[0] == spans[1]
    first, second = find_code(before)[0], find_code(after)[0]
    assert before[: first.start] == after[: second.start]
    assert before[find_code(before)[-1].end :] == after[find_code(after)[-1].end :]


def random_edit(text: str, generator: random.Random) -> str:
    """A program with random statements added, changed, or put into a `with`."""
    lines = split_lines(text)
    result: list[str] = []
    starts = {node.lineno: node.end_lineno or node.lineno for node in ast.parse(text).body}
    number = 1
    while number <= len(lines):
        end = starts.get(number, number)
        part, ending = lines[number - 1 : end], ending_of(lines[number - 1])
        kind = generator.randrange(8) if number in starts else 0
        if kind == 1:
            part = [f"new = 'é'{ending}", *part]
        elif kind == 2:
            part = [*part, f"new = '\u2028\\\\'{ending}"]
        elif kind == 3 and "'''" not in "".join(part):
            part = [f"with a:{ending}", *(f"    {line}" for line in part)]
        elif kind == 4 and "# %%" not in "".join(part):
            part = [f"changed(){ending}"]
        result += part
        number = end + 1
    return "".join(result)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(("# %% speedpatch cell 2\n", ""), "tell the cells apart", id="boundary gone"),
        pytest.param(("# %% speedpatch cell 2\n", "# %% speedpatch cell 2\n" * 2), "tell the cells", id="doubled"),
        pytest.param(("# %% speedpatch cell 2\n", "# %% speedpatch cell 3\n"), "tell the cells", id="another number"),
        pytest.param(("# %% speedpatch cell 2\n", "  # %% speedpatch cell 2\n"), "tell the cells", id="indented"),
        pytest.param(("  pass  # %% speedpatch line 2.1\n", "  c\n"), "cell 2: .* is gone", id="mask gone"),
        pytest.param(
            ("b:\n", "b:\n  pass  # %% speedpatch line 2.1\n"), "cell 2: `pass .* does not", id="mask doubled"
        ),
        pytest.param(("x = 1\n", "# %% speedpatch line 2.1\n"), "cell 1: .* does not stand", id="mask elsewhere"),
        pytest.param(("pass  #", "f()  #"), "cell 2: .* no longer itself", id="mask changed"),
        pytest.param(("x = 1\n", "if x:\n"), "cell 1: the cell is no valid Python", id="a block over two cells"),
    ],
)
def test_catches_mistakes_of_ours(change: tuple[str, str], reason: str) -> None:
    notebook = edit(read("x = 1", "if b:\n  !ls", "c"), *change)
    with pytest.raises(PatchError, match=reason):
        notebook.encode()


def test_catches_lines_around_which_a_block_was_not_indented() -> None:
    notebook = read("a\n!ls\nb")
    with pytest.raises(PatchError, match="no valid Python"):
        notebook.with_text("with c:\n    a\n# %% speedpatch line 1.1\n    b\n").encode()


def test_catches_code_for_a_notebook_without_python() -> None:
    with pytest.raises(PatchError, match="no cell to put Python into"):
        read("%%bash\nls").with_text("x\n").encode()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param(b'{\n"a": 1,}', "train.ipynb:2:", id="no JSON"),
        pytest.param(b"", "train.ipynb:1:1: is no notebook: no JSON", id="empty"),
        pytest.param(b'{\n"a": "\xe9"}', "train.ipynb:2: is no notebook: byte 0xe9 is no UTF-8", id="no UTF-8"),
        pytest.param(b"[" * 100_000, "train.ipynb: is no notebook: its JSON is nested too deeply", id="nested"),
        pytest.param(b"[1]", "it names no `nbformat`", id="a list"),
        pytest.param(b'{"a": 1}', "it names no `nbformat`", id="an object"),
        pytest.param(
            b'{"nbformat": 3, "worksheets": []}', "old format 3: convert it with `jupyter nbconvert --to", id="3"
        ),
        pytest.param(b'{"nbformat": 9, "nbformat_minor": 0}', "is no valid notebook: ", id="of the future"),
        pytest.param(b'{"nbformat": 4, "nbformat_minor": 2}', "is no valid notebook: ", id="no cells"),
        pytest.param(json.dumps(document([{"cell_type": "code"}])).encode(), "is no valid notebook: ", id="no source"),
        pytest.param(
            json.dumps(document([cell("x"), {**cell("x"), "source": 1}])).encode(),
            "is no valid notebook: ",
            id="a number",
        ),
        pytest.param(
            json.dumps(document([], metadata={"language_info": {"name": "R"}})).encode(), "a notebook in R:", id="R"
        ),
        pytest.param(
            json.dumps(document([], metadata={"kernelspec": {**KERNEL["kernelspec"], "language": "julia"}})).encode(),
            "is a notebook in julia: only Python can be patched",
            id="Julia",
        ),
    ],
)
def test_refuses(raw: bytes, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        read_notebook(PATH, raw)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_fields_that_no_format_knows_do_no_harm() -> None:
    raw = json.dumps(document([{**cell("x = 1"), "id": "a", "colab": {}}], metadata={}, more=1)).encode()
    assert read_notebook(PATH, raw).encode() == raw


def test_a_notebook_without_code_is_an_empty_program() -> None:
    notebook = read_notebook(PATH, json.dumps(document([cell("# a", "markdown")])).encode())
    assert (notebook.text, notebook.cells, notebook.encode()) == ("", (), notebook.raw)


def test_places_are_those_that_people_see() -> None:
    notebook = read("%%bash\nls", "a\n!b \\\n  c\n\nd", "!e", "f\ng")
    lines = [body_of(line) for line in split_lines(notebook.text)]
    places = {line: place(notebook, number) for number, line in enumerate(lines, 1)}
    assert (places["a"], places["d"], places["f"], places["g"]) == ((2, 1), (2, 5), (4, 1), (4, 2))
    assert (places["# %% speedpatch line 2.1"], places["# %% speedpatch cell 4"]) == ((2, 2), (4, 1))


def test_scripts_do_not_pay_for_notebooks() -> None:
    code = "import sys, speedpatch.notebooks; sys.exit('nbformat' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_block_is_put_around_two_cells() -> None:
    notebook = read(
        "import torch\nmodel = torch.nn.Linear(8, 2).cuda()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
        "out = model(x)",
        "loss = torch.nn.functional.cross_entropy(out, y)\noptimizer.zero_grad()",
        "loss.backward()\noptimizer.step()",
    )
    after = patch([notebook], [registry.codemods()["amp"]], Options()).files[0].after
    assert isinstance(after, Notebook)
    sources = sources_of(after)
    autocast = 'with torch.autocast("cuda", dtype=torch.float16):\n    '
    assert sources[1] == f"{autocast}out = model(x)"
    assert sources[2] == f"{autocast}loss = torch.nn.functional.cross_entropy(out, y)\noptimizer.zero_grad()"


@pytest.mark.parametrize(
    ("cell", "status"),
    [
        pytest.param("%time train(model, optimizer)", "declined", id="timed call"),
        pytest.param("r = %timeit -o train(model, optimizer)", "declined", id="timed and kept"),
        pytest.param("await x\ntrain(model, optimizer)", "declined", id="await"),
        pytest.param("%time optimizer.step()", "declined", id="timed step"),
        pytest.param("%time evaluate(model)", "applied", id="timed call of something else"),
        pytest.param("!python train.py", "applied", id="shell"),
        pytest.param("%%writefile other.py\ntrain(model, optimizer)", "applied", id="file"),
    ],
)
def test_training_in_code_that_is_not_read(cell: str, status: str) -> None:
    notebook = read(
        "import torch\nmodel = torch.nn.Conv2d(3, 8, 3).cuda()",
        "def main():\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n    train(model, optimizer)",
        "def train(model, optimizer):\n    for x, y in loader:\n"
        "        loss = torch.nn.functional.cross_entropy(model(x), y)\n"
        "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()",
        "main()",
        cell,
    )
    outcomes = patch([notebook], [registry.codemods()["amp"]], Options()).outcomes
    assert [outcome.status for outcome in outcomes] == [status]
