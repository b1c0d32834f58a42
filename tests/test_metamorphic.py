"""Names, neighbours and places must not matter: a changed program gives the correspondingly changed result."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest

from speedpatch import registry
from speedpatch.codemod import Options
from speedpatch.patch import patch
from speedpatch.read import read_source
from tests.metamorphic import NotApplicable, add_decoys, extract_step, into_main, rename_locals
from tests.parity.helpers import (
    FIXTURES,
    Pair,
    check_active,
    check_parity,
    load_case,
    require_torch,
    run,
    run_before,
)

CASES = sorted(path.parent.name for path in FIXTURES.glob("*/before.py"))
FLAGS = ("amp", "compile")
REWRITES: dict[str, Callable[[str], str]] = {
    "decoys": add_decoys,
    "main": into_main,
    "step": extract_step,
    "whole step": partial(extract_step, whole=True),
}
RUN = [(name, rewrite) for name in ("global_functions", "phases", "vae") for rewrite in REWRITES]
RUN += [("trainer_class", rewrite) for rewrite in ("decoys", "step", "whole step")]

Outcomes = frozenset[tuple[str, str]]


@cache
def patched(name: str, flag: str, text: str | None = None) -> tuple[str, Outcomes]:
    """A program, or another in its place, after patching; and what was said, without lines."""
    source = read_source(FIXTURES / name / "before.py")
    source = source if text is None else source.with_text(text)
    result = patch([source], [registry.codemods()[flag]], Options())
    assert result.files[0].error is None
    return result.files[0].after.text, frozenset((item.status, item.code) for item in result.outcomes)


def rewritten(name: str, rewrite: str) -> str | None:
    """A program rewritten; None where it cannot be (test_metamorphic_transforms.py counts those)."""
    try:
        return REWRITES[rewrite](read_source(FIXTURES / name / "before.py").text)
    except NotApplicable:
        return None


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("name", CASES)
def test_names_do_not_matter(name: str, flag: str) -> None:
    renamed = rename_locals(read_source(FIXTURES / name / "before.py").text)
    text, outcomes = patched(name, flag)
    found, said = patched(name, flag, renamed.text)
    assert said == outcomes
    assert found == rename_locals(text, renamed.names).text


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("name", CASES)
def test_neighbours_and_places_do_not_matter(name: str, flag: str) -> None:
    texts = {rewrite: text for rewrite in REWRITES if (text := rewritten(name, rewrite)) is not None}
    matters = {rewrite for rewrite, text in texts.items() if patched(name, flag, text)[1] != patched(name, flag)[1]}
    assert not matters


@pytest.mark.slow
@pytest.mark.parametrize("name, rewrite", RUN)
def test_rewritten_programs_are_patched_right(name: str, rewrite: str, tmp_path: Path) -> None:
    require_torch()
    case, text = load_case(name), rewritten(name, rewrite)
    assert text is not None
    script = tmp_path / "script.py"
    script.write_bytes(patched(name, "amp", text)[0].encode())
    for stand_in in (False, True):
        before = run_before(case.before, case.args, stand_in, None)
        pair = Pair(before, run(script, tmp_path, stand_in=stand_in, args=case.args))
        if stand_in:
            check_active(pair, ["amp"])
        tolerance = case.tolerance(["amp"], "float16") if stand_in else None
        check_parity(pair, "close" if stand_in else "exact", tolerance=tolerance)
