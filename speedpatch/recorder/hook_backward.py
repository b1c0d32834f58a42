"""Watch backward: losses without their scale, what lies behind them, how gradients stand."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import torch

from speedpatch.recorder import tensors
from speedpatch.recorder.recording import Backward
from speedpatch.recorder.watch import Mark, Watch, put, run_within


def hook_backward(watch: Watch) -> None:
    """Record every outermost backward; `Tensor.backward` comes this way too."""
    original = torch.autograd.backward

    @functools.wraps(original)
    def backward(roots: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> Any:
        if watch.depth["backward"] or torch.compiler.is_compiling():
            return original(roots, grad_tensors, *args, **kwargs)
        watch.stop_if_done()
        _note_backward(watch, _as_list(roots), _as_list(grad_tensors))
        result = run_within(watch, "backward", original, roots, grad_tensors, *args, **kwargs)
        if not watch.has_optimizer:
            gradients = [mark.parameter.grad for mark in watch.marks.values()]
            watch.add_step(tensors.norm_of(g for g in gradients if g is not None), None)
        return result

    put(torch.autograd, "backward", backward)


def _note_backward(watch: Watch, roots: Sequence[Any], weights: Sequence[Any]) -> None:
    graph = tensors.walk_graph(roots)
    autocast = tensors.active_autocast()
    if autocast:
        watch.add_fault("autocast-backward", f"backward ran under autocast ({', '.join(autocast)})")
    watch.backwards.append(
        Backward(
            loss=_loss_without_scale(watch, roots, weights, graph),
            step=len(watch.steps),
            scaled=graph.scale is not None,
            autocast=bool(autocast),
        )
    )
    watch.precisions |= graph.precisions
    watch.compiled_backwards += graph.is_compiled
    if any(_is_left_over(watch, leaf) for leaf in graph.leaves):
        watch.add_fault("kept-gradients", "backward added to gradients that were stepped already; zero_grad() was due")
    for leaf in graph.leaves:
        watch.marks[id(leaf)] = _mark(leaf, graph)


def _is_left_over(watch: Watch, leaf: Any) -> bool:
    mark = watch.marks.get(id(leaf))
    return mark is not None and mark.state == "stepped" and leaf.grad is not None and bool(leaf.grad.any())


def _mark(leaf: Any, graph: tensors.Graph) -> Mark:
    if graph.scale is None:
        return Mark(leaf, "plain")
    calls, _ = graph.scale
    return Mark(leaf, "scaled", calls, calls.updates)


def _loss_without_scale(watch: Watch, roots: Sequence[Any], weights: Sequence[Any], graph: tensors.Graph) -> float:
    """What was scaled, where a root came straight from `scale`; else the value over the factor found behind it."""
    known = [watch.scaled.get(root) for root in roots]
    plain = [root if before is None else before for root, before in zip(roots, known, strict=True)]
    value = tensors.value_of(plain, itertools.chain(weights, itertools.repeat(None)))
    if graph.scale is None or any(before is not None for before in known):
        return value
    return value / graph.scale[1]


def _as_list(tensors_or_one: Any) -> list[Any]:
    if tensors_or_one is None:
        return []
    return [tensors_or_one] if isinstance(tensors_or_one, torch.Tensor) else list(tensors_or_one)
