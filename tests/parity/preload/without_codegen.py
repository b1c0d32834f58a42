"""Run before a compiled script: capture and differentiate as usual, without the C++ compiler, which takes long."""

from __future__ import annotations

import functools
from typing import Any

import torch

inductor = torch.compile


@functools.wraps(inductor)
def compile(model: Any = None, *, mode: Any = None, options: Any = None, **kwargs: Any) -> Any:
    """torch.compile with a backend that runs the captured graphs as they are."""
    if model is None:
        return functools.partial(compile, **kwargs)
    return inductor(model, **{"backend": "aot_eager", **kwargs})


setattr(torch, "compile", compile)  # noqa: B010 (a function of torch is not assigned to)
