"""Calls that no longer fit are found, whatever the function is called by; those that still fit are no reason."""

from __future__ import annotations

import pytest

from speedpatch.callers import broken_call, changed_functions

BEFORE = """
def train(model, loader, epochs=1): ...
class Trainer:
    def __init__(self, model): ...
    def step(self, batch): ...
    @staticmethod
    def save(path): ...
"""
AFTER = """
def train(model, loader, scaler, epochs=1): ...
class Trainer:
    def __init__(self, model, *, scaler): ...
    def step(self, batch, scaler=None): ...
    @staticmethod
    def save(path, scaler): ...
"""


@pytest.mark.parametrize(
    "call",
    [
        "train(a, b)",
        "engine.train(a, loader=b)",
        "train(model=a, loader=b, epochs=3)",
        "Trainer(a)",
        "lib.Trainer(model=a)",
        "Trainer.save('x')",
        "def f():\n    return [train(a, b) for a in c]",
    ],
)
def test_does_not_fit_any_more(call: str) -> None:
    assert broken_call(call, changed_functions(BEFORE, AFTER)) is not None


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("train(a, b, scaler)", id="patched too"),
        pytest.param("train(a, b, scaler=c)", id="by keyword"),
        pytest.param("train(a, *rest)", id="unpacked"),
        pytest.param("train(**all)", id="unpacked keywords"),
        pytest.param("train()", id="a namesake"),
        pytest.param("train(a, b, other=1)", id="a namesake with another keyword"),
        pytest.param("t.step(batch)", id="an optional parameter more"),
        pytest.param("Trainer(a, scaler=b)", id="a constructor"),
        pytest.param("x = (", id="no Python"),
    ],
)
def test_still_fits_or_never_did(call: str) -> None:
    assert broken_call(call, changed_functions(BEFORE, AFTER)) is None


def test_nothing_to_look_for_where_parameters_are_the_same() -> None:
    assert changed_functions(BEFORE, BEFORE.replace("...", "pass")) == {}
