"""What most cases of compiling are made of."""

from __future__ import annotations

import textwrap

HEAD = """import torch
import torch.nn.functional as F
from torch import nn
"""
TRAINING = """optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def program(setup: str, training: str = TRAINING, more: str = "") -> str:
    """A script: imports, what a case sets up, a training loop, what a case does afterwards."""
    return HEAD + dedent(setup) + dedent(training) + dedent(more)


def network(forward: str, init: str = "") -> str:
    """A model class with these lines in `forward` and `__init__`, and a model of it."""
    lines = textwrap.indent(dedent(forward), " " * 8)
    made = textwrap.indent(dedent(init), " " * 8)
    return (
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.conv = nn.Conv2d(3, 8, 3)\n"
        f"{made}\n"
        "    def forward(self, x):\n"
        f"{lines}"
        "        return self.conv(x)\n"
        "\n"
        "model = Net()\n"
    )


def dedent(text: str) -> str:
    """Lines of code without their common indentation, ending in one newline if there are any."""
    text = textwrap.dedent(text).strip("\n")
    return text + "\n" if text else ""
