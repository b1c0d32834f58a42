"""Splitting a program into files and cells keeps what it does, and refuses what it cannot keep."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest

from speedpatch.notebook_json import find_code
from speedpatch.notebooks import read_notebook
from speedpatch.read import read_source
from tests.metamorphic import NotApplicable, Split, into_files, into_notebook
from tests.metamorphic.into_files import Style, take_apart
from tests.metamorphic.into_notebook import MAGICS, joined
from tests.metamorphic.movable import Movable, bound_names
from tests.parity.helpers import FIXTURES, load_case, require_torch, run, run_before
from tests.test_metamorphic import CASES, SPLITS

# One program of each kind; the others run with `-m slow`.
MARKS: dict[str, tuple[()]] = dict.fromkeys(("trainer_class", "lstm_classifier", "accumulation"), ())
# How many of the programs each split has to manage: a change that loses some is looked at.
APPLICABLE = {"names": 29, "modules": 32, "everything": 32}


@cache
def splits_of(name: str) -> dict[str, Split]:
    """A program in files of every form that it can be given."""
    found = {}
    for split, arguments in SPLITS.items():
        try:
            found[split] = into_files(read_source(FIXTURES / name / "before.py").text, *arguments)
        except NotApplicable:
            continue
    return found


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, pytest.mark.slow)) for name in CASES])
def test_split_programs_do_the_same(name: str, tmp_path: Path) -> None:
    require_torch()
    case = load_case(name)
    stand_in = case.settings["device"] == "cuda"
    expected = run_before(case.before, case.args, stand_in, None)
    for split, program in splits_of(name).items():
        folder = tmp_path / split
        folder.mkdir()
        for module, text in program.files.items():
            (folder / f"{module}.py").write_bytes(text.encode())
        found = run(folder / "script.py", folder, stand_in=stand_in, args=case.args)
        assert found.stdout == expected.stdout, split
        assert found.backwards == expected.backwards, split
        assert found.parameters == expected.parameters, split


def test_most_programs_can_be_split() -> None:
    splits = [splits_of(name) for name in CASES]
    assert all(sum(split in found for found in splits) >= least for split, least in APPLICABLE.items())
    assert sum(len(found["modules"].files) > 2 for found in splits) >= 25


@pytest.mark.parametrize("name", CASES)
def test_the_parts_are_the_program(name: str) -> None:
    text = read_source(FIXTURES / name / "before.py").text
    for split, program in splits_of(name).items():
        assert program.join(program.files.values()) == dict(take_apart(program.single)), split
        assert "".join(line for line in program.single.splitlines(True) if not line.startswith("# part ")) == text
        assert all(("\r\n" in file) == ("\r\n" in text) for file in program.files.values())


SCRIPT = """\
    import torch
    from torch import nn
    RATE = 0.1
    SIZE, STEPS = 3, 4
    class Net(nn.Linear):
        pass
    def make(size):
        return Net(size, size)
    def train(net):
        net(torch.ones(RATE))
    def report():
        print(SIZE)
    net = Net(SIZE, 3).to("cpu")
    train(net)
    """
FILES = {
    "script": """\
        # part 1
        import torch
        # part 2
        from torch import nn
        # part imports
        import makers
        import loops
        # part 4
        SIZE, STEPS = 3, 4
        # part 11
        def report():
            print(SIZE)
        # part 13
        net = makers.make_net(SIZE)
        # part 14
        loops.train(net)
        """,
    "nets": """\
        from torch import nn
        # part 3
        RATE = 0.1
        # part 5
        class Net(nn.Linear):
            pass
        """,
    "makers": """\
        import nets
        # part 7
        def make(size):
            return nets.Net(size, size)
        # part make_net


        def make_net(SIZE):
            return nets.Net(SIZE, 3).to("cpu")
        """,
    "loops": """\
        import torch
        import nets
        # part 9
        def train(net):
            net(torch.ones(nets.RATE))
        """,
}


def test_moves_each_kind_into_its_file() -> None:
    assert into_files(dedent(SCRIPT), "modules", make=True).files == {
        name: dedent(text) for name, text in FILES.items()
    }


@pytest.mark.parametrize(
    "style, imports",
    [
        pytest.param("names", "from nets import Net, _size\n", id="names"),
        pytest.param("modules", "import nets\n", id="modules"),
        pytest.param("everything", "from nets import *\nfrom nets import _size\n", id="everything that is not hidden"),
    ],
)
def test_imports_what_moved(style: Style, imports: str) -> None:
    text = "class Net:\n    size = 3\ndef _size():\n    return 4\nclass Big(Net):\n    size = _size\nf(Net, _size)\n"
    script = into_files(text, style).files["script"]
    assert f"# part imports\n{imports}#" in "# part 0\n" + script


@pytest.mark.parametrize(
    "text, moved",
    [
        pytest.param("def f():\n    return g()\ndef g():\n    return 1\n", {"f", "g"}, id="functions of each other"),
        pytest.param("x = make()\ndef f():\n    return x\ndef g():\n    return f()\n", set(), id="variables"),
        pytest.param("a = 1\na = 2\ndef f():\n    return a\n", set(), id="what is bound twice"),
        pytest.param("a = 1\ndef f():\n    global a\n    a = 2\ndef g():\n    return a\n", set(), id="global"),
        pytest.param("a = [1]\ndef f():\n    return a\n", {"a", "f"}, id="constants"),
        pytest.param("a = [1]\nb = a[0]\ndef f():\n    return b\n", set(), id="what an object held"),
        pytest.param("def f(a=make()):\n    return a\n", set(), id="what a definition calls"),
        pytest.param("def f():\n    return __name__\n", set(), id="the name of the module"),
        pytest.param(
            "try:\n    import a\nexcept OSError:\n    a = 0\ndef f():\n    a\n", set(), id="imports that fail"
        ),
        pytest.param("def f():\n    pass\nif __name__ == '__main__':\n    f()\n", set(), id="what the guard calls"),
    ],
)
def test_moves_what_needs_nothing_of_the_script(text: str, moved: set[str]) -> None:
    program = Movable(text)
    assert {name for chunk in program.moved for name in bound_names(chunk)} == moved


def test_leaves_programs_that_look_at_their_variables() -> None:
    with pytest.raises(NotApplicable, match="looks at its own"):
        into_files("def f():\n    return globals()\n", "names")


@pytest.mark.parametrize("name", CASES)
def test_the_cells_are_the_program(name: str) -> None:
    text = read_source(FIXTURES / name / "before.py").text
    for seed in ("one", "two", "three"):
        raw = into_notebook(text, seed)
        notebook = read_notebook(Path("train.ipynb"), raw)
        cells = [source.text for source in find_code(raw.decode())]
        assert joined(cells, "\r\n" if "\r\n" in text else "\n") == text
        assert not notebook.opaque_cells
        assert sum("__name__" in cell for cell in cells) == ("__name__" in text)


def test_notebooks_have_cells_and_magics() -> None:
    notebooks = [into_notebook(read_source(FIXTURES / name / "before.py").text, name).decode() for name in CASES]
    assert sum(len(find_code(notebook)) > 3 for notebook in notebooks) > 25
    assert all(any(magic in notebook for notebook in notebooks) for magic in MAGICS)
