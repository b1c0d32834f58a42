"""Whole programs: each variant of patching gives the reviewed result beside the program, and the outcome told of it."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path
from types import ModuleType

import pytest

from speedpatch import registry
from speedpatch.codemod import Options
from speedpatch.patch import patch
from speedpatch.read import read_source

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def load_regenerate() -> ModuleType:
    """The script that writes the results."""
    path = Path(__file__).parent.parent / "fixtures" / "regenerate.py"
    spec = importlib.util.spec_from_file_location("regenerate", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


regenerate = load_regenerate()
CASES = regenerate.cases()
IDS = [case.name for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_results_are_those_reviewed(case: Path) -> None:
    for path, content in regenerate.results(case):
        assert (path.read_bytes() if path.exists() else None) == content, (
            f"{path}: run fixtures/regenerate.py and review"
        )


@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("name", ["amp", "compile"])
def test_outcome_is_the_one_told(case: Path, name: str) -> None:
    expected = tomllib.loads((case / "case.toml").read_text())[name]
    result = patch([read_source(case / "before.py")], [registry.codemods()[name]], Options())
    assert result.files[0].error is None
    found = {f"declined:{item.code}" if item.status == "declined" else item.status for item in result.outcomes}
    assert expected in found


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_one_after_the_other_is_the_same_in_every_order(case: Path) -> None:
    source = read_source(case / "before.py")
    known = registry.codemods()
    together = patch([source], [known["amp"], known["compile"]], Options()).files[0].after.text
    for order in itertools.permutations(["amp", "compile"]):
        current = source
        for name in order:
            current = patch([current], [known[name]], Options()).files[0].after
        assert current.text == together, order


def test_results_differ_from_their_programs() -> None:
    for path in regenerate.FIXTURES.glob("*/after_*.py"):
        assert path.read_bytes() != (path.parent / "before.py").read_bytes(), path
