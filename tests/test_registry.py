"""Every codemod is complete, and other packages can bring theirs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from speedpatch import registry
from speedpatch.errors import PatchError
from speedpatch.screens import explain_screen
from tests.checkouts import ROOT

NAMES = sorted(registry.codemods())


@pytest.mark.parametrize("name", NAMES)
def test_a_codemod_is_called_the_same_everywhere(name: str) -> None:
    codemod = registry.codemods()[name]
    stem = name.replace("-", "_")
    assert codemod.name == name
    assert codemod.plan.__module__.startswith(f"speedpatch.codemods.{stem}")
    assert list((ROOT / "tests" / "codemods").glob(f"test_{stem}*.py")), "it has no tests"
    assert f"`{name}`" in (ROOT / "CHANGELOG.md").read_text(), "it has no line in the changelog"
    page = ROOT / "docs" / codemod.docs
    assert page.read_text().startswith(f"# {name}\n"), "it has no page"


@pytest.mark.parametrize("name", NAMES)
def test_a_codemod_explains_itself(name: str) -> None:
    codemod = registry.codemods()[name]
    explained = sys.modules[codemod.plan.__module__].__doc__ or ""
    assert "https://" in explained, "say why it is faster, with a link"
    assert codemod.summary[0].islower() and not codemod.summary.endswith(".")
    assert len(codemod.summary) <= 70


@pytest.mark.parametrize("name", NAMES)
def test_a_speedup_says_what_it_gains_and_who_says_so(name: str) -> None:
    codemod = registry.codemods()[name]
    gain = codemod.gain
    assert gain is not None or codemod.group != "speed"
    assert gain is None or (1 < gain.low <= gain.high and gain.source.startswith("https://"))
    if gain is not None:
        assert gain.on_gpu == ("GPU" in gain.text)
        assert f"gain: {gain.text}\n" in explain_screen(codemod)


def test_takes_codemods_of_other_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "others-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[speedpatch.codemods]\nprune = tests.fakes:PRUNE\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.codemods.cache_clear()
    try:
        assert set(registry.codemods()) == {*NAMES, "prune"}
    finally:
        registry.codemods.cache_clear()


def test_an_installation_without_codemods_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pkgutil.iter_modules", lambda _: [])
    registry.codemods.cache_clear()
    try:
        with pytest.raises(PatchError, match="no codemods found"):
            registry.codemods()
    finally:
        registry.codemods.cache_clear()
