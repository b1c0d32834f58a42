"""Every code that a message may end in is explained, by the words of that message."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from speedpatch import registry
from speedpatch.codemod import Codemod, Options
from speedpatch.patch import patch
from speedpatch.pragmas import EXCLUDED, LEFT_ALONE, NO_TORCH
from speedpatch.reasons import UNKNOWN, reasons_of
from speedpatch.screens import reason_screen
from speedpatch.sources import Source
from tests.checkouts import ROOT

CODEMODS = list(registry.codemods().values())
NAMES = [codemod.name for codemod in CODEMODS]
SOURCE = """
from speedpatch.codemod import Finding

LATE = "too late: come sooner"
KINDS = {"a": "an apple", "b": "a pear"}

def plan(facts, options):
    yield facts.declined("plain", node, "plain: do")
    yield facts.declined("named", node, LATE)
    yield facts.declined("either", node, f"{KINDS[x]} {'here' if y else f'in {z}'}")
    yield facts.declined("first" if x else "second", node, "one of two")
    node, reason = next(found(facts), (None, "nothing"))
    yield Finding("already", "odd.unpacked", "path", 1, reason)
    yield facts.finding("not_applicable", "odd.starred", *next(found(facts)))
    yield Finding("applied", "odd", "path", 1, "done")
    yield passed(facts, "given: take it")

def found(facts):
    for what, word in (("a", "left"), ("b", "right")):
        yield facts.node, f"{word} of {what}"

def passed(facts, words):
    return facts.declined("passed", facts.node, words)
"""
REASONS = {
    "odd.plain": ("plain: do",),
    "odd.named": ("too late: come sooner",),
    "odd.either": ("an apple here", f"an apple in {UNKNOWN}", "a pear here", f"a pear in {UNKNOWN}"),
    "odd.first": ("one of two",),
    "odd.second": ("one of two",),
    "odd.unpacked": ("left of a", "left of b", "right of a", "right of b", "nothing"),
    "odd.starred": ("left of a", "left of b", "right of a", "right of b"),
    "odd.passed": ("given: take it",),
}


def test_reads_reasons_out_of_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd_codemod.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = __import__("odd_codemod")
    try:
        codemod = Codemod("odd", "speed", "amp", "odd", "2.4", "exact", "", "odd.md", module.plan)
        common = {"odd.off": (LEFT_ALONE,), "odd.no-torch": (NO_TORCH,), "odd.excluded": (EXCLUDED,)}
        assert reasons_of(codemod) == dict(sorted({**REASONS, **common}.items()))
    finally:
        del sys.modules["odd_codemod"]


@pytest.mark.parametrize("codemod", CODEMODS, ids=NAMES)
def test_no_code_is_left_unexplained(codemod: Codemod) -> None:
    codes = set(re.findall(rf'"({codemod.name}\.[a-z0-9-]+)"', cases_of(codemod)))
    assert codes and not codes - set(reasons_of(codemod))
    for code, reasons in reasons_of(codemod).items():
        assert all(reason.strip(f"{UNKNOWN}. ") for reason in reasons), f"{code} says nothing"
        assert max(map(len, reason_screen(codemod, code, reasons).splitlines())) <= 80, code


def cases_of(codemod: Codemod) -> str:
    """The text of all tests of an optimization."""
    files = (ROOT / "tests" / "codemods").glob(f"test_{codemod.name.replace('-', '_')}*.py")
    return "".join(file.read_text(encoding="utf-8") for file in files)


@pytest.mark.parametrize("codemod", CODEMODS, ids=NAMES)
def test_what_is_explained_is_what_is_said(codemod: Codemod) -> None:
    for script in sorted((ROOT / "fixtures").glob("*/before.py")):
        source = Source(Path("train.py"), script.read_text(encoding="utf-8"))
        for outcome in patch([source], [codemod], Options()).outcomes:
            if outcome.status == "applied":
                continue
            assert any(is_form_of(reason, outcome.reason) for reason in reasons_of(codemod)[outcome.code]), outcome


def is_form_of(reason: str, said: str) -> bool:
    """Whether a message is a reason with its gaps filled."""
    return re.fullmatch(re.escape(reason).replace(re.escape(UNKNOWN), ".*"), said) is not None
