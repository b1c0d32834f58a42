"""Compile what runs on the CPU: dynamo must not see the stand-in at work."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import _pop_mode_temporarily

from .residency import is_resident, mark_if, tensors_in

Function = Callable[..., Any]


def install() -> None:
    """Run compiled functions and modules with the stand-in set aside, and put their results on the device."""
    compile_any, compile_module = torch.compile, torch.nn.Module.compile

    @functools.wraps(compile_any)
    def compile(model: Any = None, **kwargs: Any) -> Any:
        if model is None:
            return lambda function: compile(function, **kwargs)
        compiled = compile_any(model, **kwargs)
        if not isinstance(compiled, torch.nn.Module):
            return _set_aside(compiled, None)
        compiled.forward = _set_aside(compiled.forward, compiled)
        return compiled

    @functools.wraps(compile_module)
    def compile_in_place(self: Any, *args: Any, **kwargs: Any) -> None:
        self._compiled_call_impl = _set_aside(compile_any(self._call_impl, *args, **kwargs), self)

    setattr(torch, "compile", compile)  # noqa: B010 (a function of torch is not assigned to)
    setattr(torch.nn.Module, "compile", compile_in_place)  # noqa: B010


def _set_aside(compiled: Function, module: Any) -> Function:
    @functools.wraps(compiled)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return compiled(*args, **kwargs)
        parameters = [] if module is None else list(module.parameters())
        resident = any(map(is_resident, tensors_in((args, kwargs, parameters))))
        with _pop_mode_temporarily():
            results = compiled(*args, **kwargs)
        return mark_if(resident, results)

    return call
