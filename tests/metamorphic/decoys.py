"""Put things beside the program that are spelled like training, and are not."""

from __future__ import annotations

import ast
import re

from tests.metamorphic.text import NotApplicable, Text, indentation_unit, with_newline

DECOYS = '''

class Optimizer:
    """Trims a list of words; nothing here learns anything."""

    def __init__(self, words):
        self.words = list(words)
        self.param_groups = []

    def zero_grad(self):
        self.words.clear()

    def step(self):
        return self.words.pop() if self.words else None


def unrelated_report(rows):
    model = dict()
    loss = []
    optimizer = Optimizer(rows)
    for batch in rows:
        model[batch] = len(batch)
        loss.append(model[batch])
        optimizer.step()
    scaler = max(loss, default=1)
    return {name: size / scaler for name, size in model.items()}


def never_called(spare_module, spare_rows):
    spare_optimizer = spare_torch.optim.SGD(spare_module.parameters(), lr=0.1)
    spare_loader = spare_data.DataLoader(spare_rows, batch_size=2)
    return spare_optimizer, spare_loader


spare_loader = spare_data.DataLoader([0, 1, 2], batch_size=3)
'''
IMPORTS = "import torch as spare_torch\nimport torch.utils.data as spare_data\n"
NAMES = ("Optimizer", "unrelated_report", "never_called", "spare_loader", "spare_torch", "spare_data")


def add_decoys(text: str) -> str:
    """The program with a dict called model, a class with `step()`, a loader and an optimizer that nobody uses."""
    source = Text(text)
    tree = ast.parse(text)
    decoys = IMPORTS + DECOYS.replace("    ", indentation_unit(source, tree))
    for name in NAMES:
        if re.search(rf"\b{name}\b", text):
            if name != "Optimizer":
                raise NotApplicable(f"{name} is taken")
            decoys = decoys.replace(name, "WordOptimizer")
    last = last_import(tree)
    lines = with_newline(source.lines, source.newline)
    added = [line + source.newline for line in decoys.split("\n")]
    return "".join([*lines[:last], *added, *lines[last:]])


def last_import(tree: ast.Module) -> int:
    """The line of the last of the imports at the top, or of the docstring."""
    line = 0
    for index, statement in enumerate(tree.body):
        docstring = index == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not docstring and not isinstance(statement, ast.Import | ast.ImportFrom):
            break
        following = tree.body[index + 1].lineno if index + 1 < len(tree.body) else 0
        line = line if following == statement.end_lineno else statement.end_lineno or line
    return line
