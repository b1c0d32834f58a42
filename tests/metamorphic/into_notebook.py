"""Cut a script into the cells of a notebook."""

from __future__ import annotations

import ast
import json
import random
from typing import Any

from tests.metamorphic.into_main import split
from tests.metamorphic.text import Text

HEADS = ("%matplotlib inline", "%%time", "!pip install -q einops", "%load_ext autoreload")
FEET = ("!nvidia-smi", "%reset_selective -f unused", "!ls | head -3")
MAGICS = frozenset((*HEADS, *FEET))
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def into_notebook(text: str, seed: str) -> bytes:
    """The script as a notebook: cut between statements at random, with magics, texts and outputs that a seed chooses.

    The code cells without the lines in MAGICS, joined by line endings, are the script again.
    """
    draw = random.Random(seed)
    cells: list[dict[str, Any]] = []
    for lines in cut(text, draw):
        if draw.random() < 0.3:
            cells.append({"cell_type": "markdown", "metadata": {}, "source": ["## Über\n", "`loss.backward()`"]})
        if draw.random() < 0.2:
            cells.append(code_cell([draw.choice(FEET)], draw))
        cells.append(code_cell(with_magics(lines, draw), draw))
    content = {"cells": cells, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 2}
    layouts: list[dict[str, Any]] = [
        {"indent": 1, "ensure_ascii": False},
        {"indent": None},
        {"indent": 2, "ensure_ascii": True},
    ]
    return (json.dumps(content, **draw.choice(layouts)) + "\n").encode()


def cut(text: str, draw: random.Random) -> list[list[str]]:
    """The lines of the script in pieces, one or more top-level statements each."""
    source = Text(text)
    pieces: list[list[str]] = [[]]
    previous = 0
    chunks = list(split(source, ast.parse(text)))
    for chunk in chunks:
        last = chunk.last if chunk is not chunks[-1] else len(source.lines)
        if previous and draw.random() < 0.5:
            pieces.append([])
        pieces[-1] += source.lines[previous:last]
        previous = last
    return pieces


def with_magics(lines: list[str], draw: random.Random) -> list[str]:
    """A piece as the source of a cell, whose last line has no ending, with lines that are no Python in some."""
    newline = "\r\n" if lines[0].endswith("\r\n") else "\n"
    found = [*lines[:-1], lines[-1].removesuffix("\n").removesuffix("\r")]
    if draw.random() < 0.3:
        found = [draw.choice(HEADS) + newline, *found]
    if draw.random() < 0.3:
        found = [*found[:-1], found[-1] + newline, draw.choice(FEET)]
    return found


def code_cell(lines: list[str], draw: random.Random) -> dict[str, Any]:
    """A cell as nbformat has it, run or not."""
    outputs = [{"output_type": "stream", "name": "stdout", "text": ["loss 0.5\n"]}] if draw.random() < 0.3 else []
    source: Any = lines if draw.random() < 0.8 else "".join(lines)
    return {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": outputs, "source": source}


def joined(sources: list[str], newline: str) -> str:
    """The script that the sources of code cells make, without the magics."""
    cells = [source for source in sources if source not in MAGICS]
    kept = ["".join(line for line in cell.splitlines(True) if line.strip() not in MAGICS) for cell in cells]
    return "".join(cell if cell.endswith("\n") else cell + newline for cell in kept)
