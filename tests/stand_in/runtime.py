"""The rest of torch.cuda and its relatives, as a machine with one device answers."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .callers import shown_to_script

PROPERTIES = types.SimpleNamespace(
    name="stand-in", major=9, minor=0, total_memory=80 << 30, multi_processor_count=132, warp_size=32
)
ANSWERS: dict[str, Any] = {
    "is_available": True, "device_count": 1, "current_device": 0, "is_initialized": True, "is_bf16_supported": True,
    "get_device_name": PROPERTIES.name, "get_device_capability": (9, 0), "get_device_properties": PROPERTIES,
    "mem_get_info": (79 << 30, 80 << 30), "get_arch_list": ["sm_90"], "memory_summary": "",
}  # fmt: skip
ZERO = (
    "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached",
    "max_memory_cached", "utilization",
)  # fmt: skip
SILENT = (
    "init", "synchronize", "empty_cache", "set_device", "ipc_collect", "reset_peak_memory_stats",
    "reset_max_memory_allocated", "reset_max_memory_cached", "set_per_process_memory_fraction", "_lazy_init",
    "set_rng_state", "set_rng_state_all", "set_stream",
)  # fmt: skip
TYPES = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")


class Stream:
    """A stream or an event: everything that it waits for is done."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: {"elapsed_time": 0.0, "query": True, "record_event": self}.get(name)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None: ...


def install() -> None:
    """Answer what a script may ask."""
    cuda: Any = torch.cuda
    for name, value in {**ANSWERS, **dict.fromkeys(ZERO, 0), **dict.fromkeys(SILENT)}.items():
        if hasattr(cuda, name):
            shown_to_script(cuda, name, functools.partial(_answer, value))
    shown_to_script(cuda, "get_rng_state", lambda *args, **kwargs: torch.get_rng_state())
    shown_to_script(cuda, "get_rng_state_all", lambda *args, **kwargs: [torch.get_rng_state()])
    cuda.Stream = cuda.Event = Stream
    cuda.current_stream = cuda.default_stream = Stream
    cuda.stream = cuda.device = _context
    for name in TYPES:
        setattr(cuda, f"{name}Tensor", getattr(torch, f"{name}Tensor"))
    _answer_accelerator()
    _load_on_host()
    setattr(torch, "Generator", Generator)  # noqa: B010 (a type is not assigned to)


class Generator(torch.Generator):
    """Random numbers for any device come from the CPU."""

    def __new__(cls, device: Any = "cpu") -> Generator:
        make: Any = super().__new__
        return make(cls, "cpu")  # type: ignore[no-any-return]

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__()


def _answer(value: Any, *args: Any, **kwargs: Any) -> Any:
    return value


@contextlib.contextmanager
def _context(*args: Any, **kwargs: Any) -> Iterator[None]:
    yield


def _answer_accelerator() -> None:
    """torch.accelerator came with 2.6."""
    accelerator: Any = getattr(torch, "accelerator", None)
    device = torch.device("cuda", 0)
    answers = {
        "is_available": True, "current_accelerator": torch.device("cuda"), "device_count": 1,
        "current_device_index": 0, "synchronize": None, "set_device_index": None, "current_device": device,
    }  # fmt: skip
    for name, value in answers.items():
        if hasattr(accelerator, name):
            shown_to_script(accelerator, name, functools.partial(_answer, value))


def _load_on_host() -> None:
    """Checkpoints are loaded on the CPU, whatever `map_location` asks for."""
    original = torch.load

    @functools.wraps(original)
    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        is_cuda = isinstance(map_location, str | torch.device) and str(map_location).startswith("cuda")
        return original(f, "cpu" if is_cuda else map_location, *args, **kwargs)

    setattr(torch, "load", load)  # noqa: B010
