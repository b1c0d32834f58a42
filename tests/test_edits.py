"""Edits of all kinds go together, and contradictions are told with the user's line."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from speedpatch.edits import Delete, Import, Insert, Replace, apply_edits
from speedpatch.errors import PatchError
from tests.splice.builders import (
    PATH,
    apply,
    argument,
    around,
    delete,
    entry,
    expression,
    imports,
    insert,
    module_of,
    parameter,
    replace,
    statement,
    wrap,
)

BEFORE = '''\
"""Train."""
import torch


def train(model, loader,
          optimizer):
    for x, y in loader:
        # forward
        out = model(x)
        loss = criterion(out, y)  # mean

        optimizer.zero_grad(); loss.backward()
        if clip: clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"{loss.item():.3f}")
    torch.save({"model": model.state_dict(),
                "optimizer": optimizer.state_dict()}, "last.pt")
'''

AFTER = '''\
"""Train."""
import torch
from contextlib import nullcontext


def train(model, loader,
          optimizer, scaler=None):
    steps = 0
    for x, y in loader:
        # forward
        with torch.autocast("cuda"):
            out = model(x)
            loss = criterion(out, y)  # mean

        optimizer.zero_grad()
        steps += 1
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        scaler.step(optimizer)
        scaler.update()
    torch.save({"model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scaler": scaler.state_dict()}, "last.pt")
'''

EDITS = [
    imports("from contextlib import nullcontext"),
    parameter("train", "scaler=None", after="optimizer"),
    insert("before", "for x", "steps = 0"),
    wrap("out =", "loss =", 'with torch.autocast("cuda"):'),
    insert("before", "loss.backward", "steps += 1"),
    around("loss@2", "scaler.scale(", ")"),
    insert("before", "clip_grad", "scaler.unscale_(optimizer)"),
    argument("clip_grad_norm_(model.parameters(), 1.0)", "foreach=True"),
    replace("optimizer.step()", "scaler.step(optimizer)"),
    insert("after", "optimizer.step", "scaler.update()"),
    delete("print"),
    entry(
        '{"model": model.state_dict(),\n                "optimizer": optimizer.state_dict()}',
        '"scaler": scaler.state_dict()',
        after="optimizer.state_dict()",
    ),
]


def test_all_kinds_go_together() -> None:
    module = module_of(BEFORE)
    result = apply_edits(module, [build(module) for build in EDITS])
    assert result.source.text == AFTER
    assert ast.dump(result.tree) == ast.dump(ast.parse(AFTER))
    assert result.origin == (1, 2, 0, 3, 4, 5, 6, 0, 7, 8, 0, 9, 10, 11, 12, 0, 12, 13, 0, 13, 14, 0, 16, 17, 17)


def test_the_order_of_edits_at_different_places_does_not_matter() -> None:
    module = module_of(BEFORE)
    edits = [build(module) for build in EDITS]
    assert apply_edits(module, edits[::-1]).source.text == apply_edits(module, edits).source.text


def test_no_edits_give_the_module_itself() -> None:
    module = module_of("a\n")
    assert apply_edits(module, []) is module


def test_origins_go_back_to_the_users_file_through_several_rounds() -> None:
    first = apply("a\nb\nc\n", insert("before", "b", "x\ny"))
    second = apply_edits(first, [wrap("b", "c")(first), insert("after", "c")(first)])
    assert second.source.text == "a\nx\ny\nwith amp:\n    b\n    c\nnew()\n"
    assert second.origin == (1, 0, 0, 0, 2, 3, 0)
    assert second.line(statement(second, "c")) == 3
    assert second.line(statement(second, "new")) == 3


def test_contradictions_are_told_with_the_users_line() -> None:
    first = apply("a\nb\n", insert("before", "a", "x\ny"))
    with pytest.raises(PatchError, match=r"^train.py:2: two replacements"):
        apply_edits(first, [replace("b", "c")(first), replace("b", "d")(first)])


def test_refuses_what_is_not_of_this_module() -> None:
    module, other = module_of("a\n"), module_of("a\n")
    with pytest.raises(PatchError, match="not in the module"):
        apply_edits(module, [Delete(PATH, statement(other, "a"))])
    with pytest.raises(PatchError, match="another module"):
        apply_edits(module, [Replace(PATH, expression(other, "a"), "b")])
    with pytest.raises(PatchError, match=r"meant for other.py"):
        apply_edits(module, [Import(Path("other.py"), "import b")])


def test_refuses_an_import_that_is_no_python() -> None:
    with pytest.raises(PatchError, match="an import is no valid Python"):
        apply("a\n", imports("import"))


def test_leaves_the_module_alone_when_the_result_is_no_python() -> None:
    module = module_of("a\n")
    with pytest.raises(PatchError, match="no valid Python"):
        apply_edits(module, [Insert(PATH, statement(module, "a"), "after", "b c")])
    assert module.source.text == "a\n"


@pytest.mark.slow
def test_takes_time_in_proportion_to_length() -> None:
    from time import process_time

    def seconds(copies: int) -> float:
        module = module_of(BEFORE * copies)
        loops = [node for node in ast.walk(module.tree) if isinstance(node, ast.For)]
        edits = [Insert(PATH, loop, "after", "new()") for loop in loops]
        start = process_time()
        apply_edits(module, edits)
        return process_time() - start

    assert min(seconds(800) for _ in range(3)) < 32 * min(seconds(100) for _ in range(3))
