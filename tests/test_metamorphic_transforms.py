"""The metamorphic rewrites keep what a program does, and refuse what they cannot keep."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from textwrap import dedent

import pytest

from tests.metamorphic import NotApplicable, add_decoys, extract_step, into_main, rename_locals
from tests.parity.helpers import FIXTURES, load_case, require_torch, run, run_before

REWRITES: dict[str, Callable[[str], str]] = {
    "rename": lambda text: rename_locals(text).text,
    "decoys": add_decoys,
    "main": into_main,
    "step": extract_step,
    "whole step": partial(extract_step, whole=True),
}
CASES = sorted(path.parent.name for path in FIXTURES.glob("*/before.py"))
# One program of each kind; the others run with `-m slow`.
MARKS: dict[str, tuple[()]] = dict.fromkeys(("trainer_class", "vae", "phases"), ())
# How many of the programs each rewrite has to manage: a change that loses some is looked at.
APPLICABLE = {"rename": 32, "decoys": 32, "main": 18, "step": 30, "whole step": 24}

CLASS = "class A:\n    def run(self):\n        pass\n"


def read(name: str) -> str:
    """A fixture program with the line endings that it has."""
    return (FIXTURES / name / "before.py").read_bytes().decode()


@cache
def rewrites_of(name: str) -> dict[str, str]:
    """A program in every form that it can be given."""
    found = {}
    for rewrite, function in REWRITES.items():
        try:
            found[rewrite] = function(read(name))
        except NotApplicable:
            continue
    return found


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, pytest.mark.slow)) for name in CASES])
def test_rewritten_programs_do_the_same(name: str, tmp_path: Path) -> None:
    require_torch()
    case = load_case(name)
    stand_in = case.settings["device"] == "cuda"
    expected = run_before(case.before, case.args, stand_in, None)
    for rewrite, text in rewrites_of(name).items():
        folder = tmp_path / rewrite
        folder.mkdir()
        script = folder / "script.py"
        script.write_bytes(text.encode())
        found = run(script, folder, stand_in=stand_in, args=case.args)
        assert found.stdout == expected.stdout, rewrite
        assert found.backwards == expected.backwards, rewrite
        assert found.parameters == expected.parameters, rewrite


@pytest.mark.parametrize("rewrite", REWRITES)
def test_most_programs_can_be_rewritten(rewrite: str) -> None:
    assert sum(rewrite in rewrites_of(name) for name in CASES) >= APPLICABLE[rewrite]


@pytest.mark.parametrize("name", CASES)
def test_line_endings_survive(name: str) -> None:
    for rewrite, text in rewrites_of(name).items():
        assert ("\r\n" in text) == ("\r\n" in read(name)), rewrite
        assert "\r\n" not in text or text.count("\n") == text.count("\r\n"), rewrite


@pytest.mark.parametrize("name", CASES)
def test_renaming_depends_on_scope_and_name_alone(name: str) -> None:
    renamed = rename_locals(read(name))
    assert rename_locals(read(name), renamed.names) == renamed
    # A line more in another place changes no name.
    assert rename_locals(read(name) + "\nlast_of_all = 1\n").names.items() > renamed.names.items()


@pytest.mark.parametrize(
    "text, kept",
    [
        pytest.param("import numpy as np\nx = np.zeros(3)\n", "np.zeros", id="names of modules"),
        pytest.param("def f(a):\n    return a\n\nprint(dict(a=f(1)))\n", "dict(a=", id="keywords of foreign calls"),
        pytest.param("d = {'k': 1}\nk = d['k']\n", "'k'", id="keys"),
        pytest.param("class A:\n    def __init__(self):\n        pass\n", "__init__", id="dunder methods"),
        pytest.param("class A(B):\n    def run(self):\n        self.run()\n", ".run()", id="methods of unknown bases"),
        pytest.param(f"{CLASS}\ndef f(a):\n    a.run()\n", ".run()", id="attributes of unknown objects"),
        pytest.param("def f(a):\n    return a\n\ng = f\ng(a=1)\n", "(a=1)", id="parameters named through an alias"),
        pytest.param("def f(a):\n    return a\n\nf(**d)\n", "(a)", id="parameters behind **"),
        pytest.param(f"{CLASS}\ngetattr(A(), 'run')()\n", "def run", id="attributes in strings"),
        pytest.param("args = parser.parse_args()\nprint(args.lr)\n", ".lr", id="options"),
    ],
)
def test_keeps_foreign_names(text: str, kept: str) -> None:
    assert kept in rename_locals(text).text


@pytest.mark.parametrize(
    "text, gone",
    [
        pytest.param("def f(a):\n    return a\n\nf(a=1)\n", "a=1", id="keywords of own calls"),
        pytest.param(f"{CLASS}\na = A()\na.run()\n", "run", id="own methods"),
        pytest.param("class A:\n    def __init__(self, n):\n        pass\n\nA(n=3)\n", "n=3", id="own constructors"),
        pytest.param("name = 1\nprint(f'{name:>{name}} {name!r}')\n", "name", id="formatted strings"),
        pytest.param("def f():\n    global count\n    count = 1\n", "count", id="global statements"),
        pytest.param("try:\n    pass\nexcept (OSError, TypeError) as e:\n    print(e)\n", "(e)", id="exceptions"),
        pytest.param("total = sum(item for item in [1])\n", "item", id="comprehensions"),
        pytest.param("add = lambda left, right: left + right\n", "left", id="lambdas"),
        pytest.param("é = 'ü'; value = é + é\n", "value", id="columns behind letters of two bytes"),
    ],
)
def test_renames_own_names(text: str, gone: str) -> None:
    assert gone not in rename_locals(text).text


def test_names_of_one_scope_do_not_reach_another() -> None:
    text = "def f(x):\n    return x\n\ndef g(x):\n    return x\n"
    names = rename_locals(text).names
    assert names["f", "x"] != names["g", "x"]


@pytest.mark.parametrize(
    "text, reason",
    [
        pytest.param("import torch\n", "nothing stands", id="no statements"),
        pytest.param("x = f()\nimport torch\n", "an import follows", id="late import"),
        pytest.param("n = size()\ndef f(k=n):\n    return k\n", "a definition needs", id="default"),
        pytest.param("x = f()\nprint(globals())\n", "looks at its own", id="globals()"),
    ],
)
def test_leaves_at_module_level(text: str, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        into_main(text)


def test_moves_statements_below_definitions() -> None:
    text = '''\
        """Docs."""
        import torch
        RATE = 0.1
        # the data
        data = make("""
        raw""")
        def use():
            return data
        total = 0  # so far
        total += RATE
        print(total, use())
        '''
    expected = '''\
        """Docs."""
        import torch
        RATE = 0.1
        def use():
            return data


        def main():
            global data
            # the data
            data = make("""
        raw""")
            total = 0  # so far
            total += RATE
            print(total, use())


        if __name__ == "__main__":
            main()
        '''
    assert into_main(dedent(text)) == dedent(expected)


def test_extracts_a_method() -> None:
    text = """\
        class T:
            def run(self):
                for x in self.loader:
                    x = x.to(self.device)
                    y = self.net(x)
                    loss = y.mean()
                    loss.backward()
                    self.opt.step()
                    print(loss)
        """
    expected = """\
        class T:
            def _forward_step(self, x):
                y = self.net(x)
                loss = y.mean()
                return loss

            def run(self):
                for x in self.loader:
                    x = x.to(self.device)
                    loss = self._forward_step(x)
                    loss.backward()
                    self.opt.step()
                    print(loss)
        """
    assert extract_step(dedent(text)) == dedent(expected)


@pytest.mark.parametrize(
    "text, reason",
    [
        pytest.param("loss.backward()\n", "no backward", id="loss from elsewhere"),
        pytest.param("for x in d:\n    l = yield f(x)\n    l.backward()\n", "more than compute", id="generator"),
        pytest.param("def f():\n    global l\n    l = g()\n    l.backward()\n", "seen by other", id="global"),
    ],
)
def test_leaves_steps(text: str, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        extract_step(text)
