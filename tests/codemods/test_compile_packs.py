"""Models that reach the training step in *args or **kwargs, which are not followed."""

from __future__ import annotations

import pytest

from tests.codemods.check import check_declines, run
from tests.codemods.compile_setup import HEAD

STEP = """
def run_step({parameters}):
    {unpack}
    opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    opt.step()

def main():
    model = nn.Conv2d(3, 8, 3)
    opt = torch.optim.Adam(model.parameters())
    for x, y in loader:
        run_step({arguments})

main()
"""


@pytest.mark.parametrize(
    ("parameters", "unpack", "arguments", "taken"),
    [
        pytest.param("*args, **kw", "model, opt, x, y = args", "model, opt, x, y", "*args", id="unpacked"),
        pytest.param("opt, *rest", "model, x, y = rest[0], rest[1], rest[2]", "opt, model, x, y", "*rest", id="items"),
        pytest.param("opt, x, y, **kw", "model = kw['net']", "opt, x, y, net=model", "**kw", id="by name"),
    ],
)
def test_names_what_is_not_followed(parameters: str, unpack: str, arguments: str, taken: str) -> None:
    source = HEAD + STEP.format(parameters=parameters, unpack=unpack, arguments=arguments)
    check_declines("compile", source, "compile.model-elsewhere")
    (outcome,) = run("compile", source).outcomes
    assert outcome.reason == f"run_step() takes {taken}, which is not followed: give it named parameters"
