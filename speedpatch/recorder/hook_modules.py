"""Watch forward calls, DataLoaders and compilation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader

from speedpatch.recorder import tensors
from speedpatch.recorder.watch import Watch, put, run_within

Function = Callable[..., Any]


def hook_loaders(watch: Watch) -> None:
    """Record the settings of every DataLoader that is iterated."""
    original = DataLoader.__iter__

    @functools.wraps(original)
    def iterate(self: Any) -> Any:
        watch.loaders[id(self)] += 1
        watch.loader_objects[id(self)] = self
        return original(self)

    put(DataLoader, "__iter__", iterate)


def hook_modules(watch: Watch) -> None:
    """Record the calls of outermost modules until something is compiled: dynamo sees unhooked modules only."""
    original, compile_module, compile_any = torch.nn.Module.__call__, torch.nn.Module.compile, torch.compile
    put(torch.nn.Module, "__call__", _watched_call(watch, original))

    @functools.wraps(compile_any)
    def compile(*args: Any, **kwargs: Any) -> Any:
        put(torch.nn.Module, "__call__", original)
        return compile_any(*args, **kwargs)

    @functools.wraps(compile_module)
    def compile_in_place(self: Any, *args: Any, **kwargs: Any) -> None:
        compile_module(self, *args, **kwargs)
        compiled = self._compiled_call_impl
        self._compiled_call_impl = functools.wraps(compiled)(functools.partial(_call_compiled, watch, self, compiled))

    put(torch, "compile", compile)
    put(torch.nn.Module, "compile", compile_in_place)


def _watched_call(watch: Watch, original: Function) -> Function:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if watch.depth["forward"] or torch.compiler.is_compiling():
            return original(self, *args, **kwargs)
        return _run_noted(watch, self, functools.partial(original, self), *args, **kwargs)

    return call


def _call_compiled(watch: Watch, module: Any, compiled: Function, *args: Any, **kwargs: Any) -> Any:
    if torch.compiler.is_compiling():
        return compiled(*args, **kwargs)
    return _run_noted(watch, module, compiled, *args, **kwargs)


def _run_noted(watch: Watch, module: Any, function: Function, *args: Any, **kwargs: Any) -> Any:
    """Count a call of a module with parameters; a loss function may rightly stay outside autocast."""
    if next(module.buffers(), None) is not None:
        watch.modules[id(module)] = module
    has_parameters = next(module.parameters(), None) is not None
    if has_parameters:
        watch.forwards[torch.is_grad_enabled(), bool(module.training), tensors.active_autocast()] += 1
    result = run_within(watch, "forward", function, *args, **kwargs)
    if has_parameters and torch.is_grad_enabled():
        watch.precisions |= tensors.precisions_of(result)
    return result
