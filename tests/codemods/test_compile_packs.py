"""Models that reach the training step in *args or **kwargs."""

from __future__ import annotations

import pytest

from tests.codemods.check import check_declines, check_rewrites, run
from tests.codemods.compile_setup import HEAD

STEP = """
def run_step({parameters}):
    {unpack}
    opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    opt.step()

"""
MAIN = """
def main():
    model = nn.Conv2d(3, 8, 3)
    opt = torch.optim.Adam(model.parameters())
    for x, y in loader:
        run_step({arguments})

main()
"""
LINE = "    model = nn.Conv2d(3, 8, 3)\n"


def source(parameters: str, unpack: str, arguments: str) -> str:
    """A step that is given all that it needs."""
    return HEAD + STEP.format(parameters=parameters, unpack=unpack) + MAIN.format(arguments=arguments)


@pytest.mark.parametrize(
    ("parameters", "unpack", "arguments"),
    [
        pytest.param("*args, **kw", "model, opt, x, y = args", "model, opt, x, y", id="unpacked"),
        pytest.param("*args", "model, opt = args[0], args[1]; x, y = args[2:]", "model, opt, x, y", id="by index"),
        pytest.param("model, *args", "opt, x, y = args", "model, opt, x, y", id="behind a parameter"),
        pytest.param(
            "**kw", "model, opt, x, y = kw['m'], kw['o'], kw['x'], kw['y']", "m=model, o=opt, x=x, y=y", id="by name"
        ),
        pytest.param("x, y, *args", "model, opt = args", "x, y, *(model, opt)", id="from a tuple"),
        pytest.param("*args", "x, y, model, opt = args", "x, *(y, model, opt)", id="partly from a tuple"),
    ],
)
def test_follows_packs(parameters: str, unpack: str, arguments: str) -> None:
    before = source(parameters, unpack, arguments)
    check_rewrites("compile", before, before.replace(LINE, LINE + "    model.compile()\n"))


def test_follows_a_pack_that_is_handed_on() -> None:
    before = source("model, opt, x, y", "pass", "model, opt, x, y").replace(
        "def main", "def outer(*args, **kw):\n    return run_step(*args, **kw)\n\ndef main"
    )
    before = before.replace("        run_step(model", "        outer(model")
    check_rewrites("compile", before, before.replace(LINE, LINE + "    model.compile()\n"))


METHODS = """
class Trainer:
    def fit(*args):
        self, model, opt, x, y = args
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()

"""


def test_follows_the_pack_of_a_method() -> None:
    before = HEAD + METHODS + MAIN.replace("run_step({arguments})", "Trainer().fit(model, opt, x, y)")
    check_rewrites("compile", before, before.replace(LINE, LINE + "    model.compile()\n"))


def test_names_the_pack_that_cannot_be_followed() -> None:
    text = source("*args", "model, opt, x, y = args", "*given(model, opt), x, y")
    check_declines("compile", text, "compile.model-elsewhere")
    (outcome,) = run("compile", text).outcomes
    assert outcome.reason == "run_step() takes *args, which cannot be followed here: give it named parameters"
