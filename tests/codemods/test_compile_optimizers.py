"""Which model stands behind an optimizer that the program defines itself."""

from __future__ import annotations

import pytest

from tests.codemods.check import check_declines, check_rewrites
from tests.codemods.compile_setup import HEAD, program

SAM = """
class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, **kwargs):
        super().__init__(params, dict(kwargs))
        self.base = base(self.param_groups, **kwargs)
        self.param_groups = self.base.param_groups

    def first_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.add_(p.grad)

    def second_step(self):
        self.base.step()

"""
OUTER = SAM.replace("torch.optim.Optimizer", "object").replace("super().__init__(params, dict(kwargs))", "pass")
TRAINING = """
optimizer = SAM(model.parameters(), torch.optim.SGD, lr=0.1)
for x, y in loader:
    F.cross_entropy(model(x), y).backward()
    optimizer.first_step()
    F.cross_entropy(model(x), y).backward()
    optimizer.second_step()
"""
CONV = "model = nn.Conv2d(3, 8, 3)\n"


@pytest.mark.parametrize(
    ("classes", "training"),
    [
        pytest.param(SAM, TRAINING, id="around an optimizer of its groups"),
        pytest.param(
            SAM + "class Adaptive(SAM):\n    pass\n", TRAINING.replace("= SAM", "= Adaptive"), id="by a base class"
        ),
        pytest.param(
            SAM.replace("self.param_groups, **kw", "params, **kw"), TRAINING, id="around one of its parameters"
        ),
        pytest.param(
            SAM.replace("self.param_groups, **kw", "params, **kw"),
            TRAINING.replace("model.parameters()", "[{'params': model.parameters()}]"),
            id="around one of groups that are written out",
        ),
        pytest.param(
            OUTER.replace("self.param_groups, **kw", "self.groups, **kw").replace("pass", "self.groups = list(params)"),
            TRAINING,
            id="that only holds one",
        ),
        pytest.param(
            SAM,
            TRAINING.replace("SAM(model.parameters()", "SAM(base.param_groups").replace(
                "optimizer =", "base = torch.optim.Adam(model.parameters())\noptimizer =", 1
            ),
            id="of the groups of another",
        ),
        pytest.param(
            SAM.replace("base(self.param_groups", "base([{'params': g['params']} for g in self.param_groups]"),
            TRAINING,
            id="of copies of its groups",
        ),
        pytest.param(
            SAM.replace("def second_step", "def step").replace("super().__init__(params", "super().__init__([*params]"),
            TRAINING.replace("second_step", "step"),
            id="that has a step",
        ),
        pytest.param(
            SAM.replace("self.base.step()", "self.first_step()").replace("        self.base = ", "        base = "),
            TRAINING,
            id="that steps by itself",
        ),
    ],
)
def test_the_model_behind_a_class_of_optimizers(classes: str, training: str) -> None:
    check_rewrites(
        "compile", program(classes + CONV, training), program(classes + CONV + "model.compile()\n", training)
    )


def test_parameters_from_elsewhere_are_not_taken_for_tensors() -> None:
    training = TRAINING.replace("model.parameters()", "chosen()")
    source = program("from mylib import chosen\n" + SAM + CONV, training)
    check_declines("compile", source, "compile.model-elsewhere")


def test_a_tensor_that_a_class_of_optimizers_is_given() -> None:
    training = TRAINING.replace("model.parameters()", "[image]").replace("F.cross_entropy(model(x), y)", "model(image)")
    setup = SAM + "image = torch.rand(1, 3, 8, 8, requires_grad=True)\n" + CONV
    check_declines("compile", HEAD + setup + training, "compile.no-model")
