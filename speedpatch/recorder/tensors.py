"""Read tensors without disturbing the run: norms, digests, the graph behind a loss, the state of autocast."""

from __future__ import annotations

import ctypes
import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

DEVICES = ("cpu", "cuda", "xpu", "mps")
SCALE = "speedpatch.scale"
NODES = 200_000
PRODUCTS = ("Addmm", "Mm", "Bmm", "Baddbmm", "Convolution", "Linear", "Addmv", "ScaledDotProduct", "CudnnConvolution")
OPERANDS = ("mat1", "mat2", "self", "batch2", "weight", "input", "query")


@dataclass(frozen=True)
class Graph:
    """What lies behind a loss: leaves, floating point types, who scaled it by what, compiled code."""

    leaves: tuple[Any, ...]
    precisions: frozenset[str]
    scale: tuple[Any, float] | None
    is_compiled: bool


def walk_graph(roots: Iterable[Any]) -> Graph:
    """The autograd graph behind tensors, up to a number of nodes."""
    seen: dict[Any, None] = dict.fromkeys(root.grad_fn for root in roots if root.grad_fn is not None)
    waiting = list(seen)
    while waiting and len(seen) < NODES:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in seen:
                seen[node] = None
                waiting.append(node)
    scales = [node.metadata[SCALE] for node in seen if SCALE in node.metadata]
    return Graph(
        leaves=tuple(node.variable for node in seen if hasattr(node, "variable")),
        precisions=frozenset(precision for node in seen for precision in _precisions(node)),
        scale=scales[0] if scales else None,
        is_compiled=any("CompiledFunction" in node.name() for node in seen),
    )


def precisions_of(result: Any) -> set[str]:
    """The floating point types of the tensors that a module returns."""
    entries = result.values() if isinstance(result, dict) else result if isinstance(result, list | tuple) else [result]
    return {_name(t.dtype) for t in entries if isinstance(t, torch.Tensor) and t.is_floating_point()}


def mark_scaled(tensor: Any, by: Any, factor: float) -> None:
    """Remember in the graph that everything behind this tensor is multiplied by a factor, and who did it."""
    if tensor.grad_fn is not None:
        tensor.grad_fn.metadata[SCALE] = (by, factor)


def active_autocast() -> tuple[str, ...]:
    """What autocast is on in this thread, such as `("cuda:float16",)`."""
    return tuple(
        f"{device}:{_name(torch.get_autocast_dtype(device))}"
        for device in _devices()
        if torch.is_autocast_enabled(device)
    )


@cache
def _devices() -> tuple[str, ...]:
    """The device types that this release has autocast for."""
    return tuple(device for device in DEVICES if _has_autocast(device))


def _has_autocast(device: str) -> bool:
    try:
        torch.is_autocast_enabled(device)
    except RuntimeError:
        return False
    return True


def value_of(tensors: Iterable[Any], weights: Iterable[Any]) -> float:
    """The number that a backward goes out from: the sum of the tensors times their weights."""
    pairs = zip(tensors, weights, strict=False)
    with torch.no_grad():
        return sum(float((t.detach() if w is None else t.detach() * w).sum()) for t, w in pairs)


def norm_of(gradients: Iterable[Any], scale: float = 1.0) -> float | None:
    """The 2-norm over all gradients in double precision, divided by a scale; None without any."""
    with torch.no_grad():
        squares = [_square(gradient) for gradient in gradients]
    total = sum(squares)
    return math.sqrt(total) / scale if squares else None


def digest(tensors: Iterable[Any]) -> str:
    """A digest of every bit of the tensors, their types and their shapes."""
    total = hashlib.sha256()
    for tensor in tensors:
        host = _local(tensor).detach().cpu().contiguous()
        total.update(f"{host.dtype}{tuple(host.shape)}".encode())
        total.update(ctypes.string_at(host.data_ptr(), host.numel() * host.element_size()) if host.numel() else b"")
    return total.hexdigest()


def checksum(tensors: Iterable[Any]) -> float:
    """The sum of the absolute values."""
    with torch.no_grad():
        return sum(float(_dense(tensor).abs().sum()) for tensor in tensors)


def _precisions(node: Any) -> list[str]:
    """The floating point types that an operation computed in; older releases tell of matrix products only."""
    metadata = getattr(node, "_input_metadata", None)
    if metadata is not None:
        return [_name(entry.dtype) for entry in metadata]
    if not node.name().startswith(PRODUCTS):
        return []
    saved = [getattr(node, f"_saved_{operand}", None) for operand in OPERANDS]
    return [_name(t.dtype) for t in saved if isinstance(t, torch.Tensor)]


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _square(gradient: Any) -> float:
    return float(_dense(gradient).pow(2).sum())


def _dense(tensor: Any) -> Any:
    local = _local(tensor).detach()
    values = local.coalesce().values() if local.is_sparse else local
    return values.abs().double() if values.is_complex() else values.double()


def _local(tensor: Any) -> Any:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
