"""Keep track of which tensors are on the device, and send every cuda device argument to the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from .callers import is_script
from .precision import refuse_or_emulate

DEVICE = torch.device("cuda", 0)
HOST = torch.device("cpu")
Function = Callable[..., Any]

on_device: Any = WeakIdKeyDictionary()


class StandIn(TorchFunctionMode):
    """Sees every torch function of the thread."""

    def __torch_function__(self, func: Function, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "__get__" and is_script(1):
            return _read(func, args[0])
        if name in ("to", "cuda", "cpu"):
            return _transfer(func, name, args, kwargs, is_script(1))
        if name == "get_device" and is_resident(args[0]) and is_script(1):
            return 0
        if name == "pin_memory":
            return args[0].clone()
        if name == "record_stream":
            return None
        return _compute(func, name, args, kwargs)


def install() -> None:
    """Watch this thread from now on, parameters made from tensors on the device included."""
    make = torch.nn.Parameter.__new__

    def make_parameter(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        return mark_if(data is not None and is_resident(data), make(cls, data, requires_grad))

    setattr(torch.nn.Parameter, "__new__", make_parameter)  # noqa: B010 (a type is not assigned to)
    mode: Any = StandIn()
    mode.__enter__()


def is_resident(tensor: Any) -> bool:
    """Whether a tensor is on the device."""
    return tensor in on_device


def mark_if(resident: bool, value: Any) -> Any:
    """The value, every tensor in it put on the device."""
    if resident:
        for tensor in tensors_in(value):
            on_device[tensor] = True
    return value


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors in nested lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from tensors_in(entry)
    elif isinstance(value, dict):
        for entry in value.values():
            yield from tensors_in(entry)


def is_device(value: Any) -> bool:
    """Whether an argument names a cuda device."""
    if isinstance(value, str | torch.device):
        return str(value).startswith("cuda")
    return isinstance(value, int) and not isinstance(value, bool)


def _read(func: Function, tensor: Any) -> Any:
    owner = getattr(func, "__self__", None)
    if owner is torch.Tensor.device and is_resident(tensor):
        return DEVICE
    if owner is torch.Tensor.is_cuda:
        return is_resident(tensor)
    return mark_if(is_resident(tensor), func(tensor))


def _transfer(func: Function, name: str, args: Any, kwargs: Any, by_script: bool) -> Any:
    """A copy to the device or back is a copy, although nothing has to move."""
    tensor, target = args[0], _target(name, args, kwargs)
    rest = {key: value for key, value in kwargs.items() if key not in ("device", "other")}
    if name == "cuda" or (name == "to" and target is not None and _other(args, kwargs) is None):
        result = tensor.to(HOST, *(args[2:] if name == "to" else ()), **rest)
    else:
        result = func(*args, **kwargs)
    resident = is_resident(tensor)
    moves = target is not None and (target.type == "cuda") != resident and (target.type == "cuda" or by_script)
    if moves and result is tensor:
        result = tensor.clone()
    return mark_if(resident != moves, result)


def _target(name: str, args: Any, kwargs: Any) -> torch.device | None:
    if name != "to":
        return DEVICE if name == "cuda" else HOST
    other = _other(args, kwargs)
    if other is not None:
        return DEVICE if is_resident(other) else HOST
    device = kwargs.get("device", args[1] if len(args) > 1 else None)
    if device is None or isinstance(device, torch.dtype):
        return None
    return DEVICE if is_device(device) else HOST


def _other(args: Any, kwargs: Any) -> Any:
    other = kwargs.get("other", args[1] if len(args) > 1 else None)
    return other if isinstance(other, torch.Tensor) else None


def _compute(func: Function, name: str, args: Any, kwargs: Any) -> Any:
    """Results are where an operand is, unless the call names a device."""
    device = kwargs.get("device")
    if is_device(device):
        kwargs = {**kwargs, "device": HOST}
    resident = is_device(device) or (device is None and any(map(is_resident, tensors_in((args, kwargs)))))
    result = refuse_or_emulate(func, name, args, kwargs)
    if name == "__set__" and getattr(func, "__self__", None) is torch.Tensor.data:
        on_device.pop(args[0], None)
        mark_if(is_resident(args[1]), args[0])
    in_place = name.endswith("_") and not name.endswith("__")
    return result if in_place else mark_if(resident, result)
