"""Names, neighbours and places must not matter: a changed program gives the correspondingly changed result."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

import pytest

from speedpatch import registry
from speedpatch.codemod import Options
from speedpatch.notebook_json import CodeSource, find_code
from speedpatch.notebooks import read_notebook
from speedpatch.patch import patch
from speedpatch.read import read_source
from speedpatch.sources import Source
from tests.metamorphic import (
    NotApplicable,
    add_decoys,
    extract_step,
    into_files,
    into_main,
    into_notebook,
    rename_locals,
)
from tests.metamorphic.into_files import Style, take_apart
from tests.metamorphic.into_notebook import joined
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
# How the script gets what is in other files, and whether what makes models and optimizers is there as well.
SPLITS: dict[str, tuple[Style, bool]] = {
    "names": ("names", False),
    "modules": ("modules", True),
    "everything": ("everything", True),
}
# A function of another file does not see the script's variables: what the condition is spelled with there, and here.
CONDITIONS = {
    "data_parallel": [
        ("scaler.is_enabled()", 'device.type == "cuda"'),
        ("next(model.parameters()).is_cuda", 'device.type == "cuda"'),
    ],
    "lstm_classifier": [
        ('\nuse_amp = device.type == "cuda"', ""),
        ("use_amp", 'device.type == "cuda"'),
    ],
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


def patch_all(sources: Sequence[Source], flag: str) -> tuple[list[Source], list[tuple[str, str]]]:
    """Files after patching, in their order, and everything that was said, without lines."""
    result = patch(sources, [registry.codemods()[flag]], Options())
    assert result.files[0].error is None
    after = {file.before.path: file.after for file in result.files}
    said = sorted((str(item.status), item.code) for item in result.outcomes)
    return [after.get(source.path, source) for source in sources], said


@cache
def patched_single(name: str, flag: str, text: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The parts of a program in one file after patching, and what was said."""
    (source,), said = patch_all([Source(Path("/p/script.py"), text)], flag)
    return dict(take_apart(source.text)), said


def alike(name: str, flag: str, parts: dict[str, str]) -> dict[str, str]:
    """The parts with the same condition in every file."""
    for old, new in CONDITIONS.get(name, ()) if flag == "amp" else ():
        parts = {part: text.replace(old, new) for part, text in parts.items()}
    return parts


def without_code(file: str, sources: Sequence[CodeSource]) -> list[str]:
    """What stands between the code of a notebook's cells."""
    starts, ends = [source.start for source in sources], [source.end for source in sources]
    return [file[end:start] for end, start in zip([0, *ends], [*starts, len(file)], strict=True)]


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


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("name", CASES)
def test_files_do_not_matter(name: str, flag: str, split: str) -> None:
    try:
        program = into_files(read_source(FIXTURES / name / "before.py").text, *SPLITS[split])
    except NotApplicable:
        return  # test_metamorphic_places.py counts these
    parts, outcomes = patched_single(name, flag, program.single)
    sources = [Source(Path("/p", f"{module}.py"), text) for module, text in program.files.items()]
    files, said = patch_all(sources, flag)
    assert said == outcomes
    assert frozenset(said) == patched(name, flag)[1]
    assert alike(name, flag, program.join(file.text for file in files)) == alike(name, flag, parts)


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("name", CASES)
def test_cells_do_not_matter(name: str, flag: str) -> None:
    script = read_source(FIXTURES / name / "before.py")
    raw = into_notebook(script.text, f"{name} {flag}")
    (notebook,), said = patch_all([read_notebook(Path("train.ipynb"), raw)], flag)
    before, after = raw.decode(), notebook.encode().decode()
    old, new = find_code(before), find_code(after)
    text, outcomes = patched(name, flag)
    assert frozenset(said) == outcomes
    assert joined([source.text for source in new], "\r\n" if "\r\n" in text else "\n") == text
    assert json.loads(after)["metadata"] == json.loads(before)["metadata"]
    assert without_code(after, new) == without_code(before, old)
    for one, other in zip(old, new, strict=True):
        assert (one.text == other.text) == (before[one.start : one.end] == after[other.start : other.end])


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


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", ["device_string", "lstm_classifier", "trainer_class"])
def test_programs_of_several_files_are_patched_right(name: str, split: str, tmp_path: Path) -> None:
    require_torch()
    case = load_case(name)
    program = into_files(read_source(case.before).text, *SPLITS[split])
    sources = [Source(tmp_path / f"{module}.py", text) for module, text in program.files.items()]
    for source in patch_all(sources, "amp")[0]:
        source.path.write_bytes(source.encode())
    pair = Pair(
        run_before(case.before, case.args, True, None), run(sources[0].path, tmp_path, stand_in=True, args=case.args)
    )
    check_active(pair, ["amp"])
    check_parity(pair, "close", tolerance=case.tolerance(["amp"], "float16"))
