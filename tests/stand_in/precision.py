"""autocast and GradScaler for cuda, done by those of the CPU with the same floating point type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Function = Callable[..., Any]
BANNED = "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast."
# What CUDA's autocast computes in float32; the CPU's list is another one.
FLOAT32 = {
    "__pow__", "__rdiv__", "__rpow__", "__rtruediv__", "acos", "asin", "binary_cross_entropy_with_logits", "cdist",
    "cosh", "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "cumprod", "cumsum", "dist", "erfinv",
    "exp", "expm1", "group_norm", "hinge_embedding_loss", "kl_div", "l1_loss", "layer_norm", "log", "log10", "log1p",
    "log2", "log_softmax", "margin_ranking_loss", "mse_loss", "multi_margin_loss", "multilabel_margin_loss",
    "nll_loss", "norm", "normalize", "pdist", "poisson_nll_loss", "pow", "prod", "reciprocal", "renorm", "rsqrt",
    "sinh", "smooth_l1_loss", "soft_margin_loss", "softmax", "softmin", "softplus", "sum", "tan",
    "triplet_margin_loss",
}  # fmt: skip
# Absent or very slow in float16 on the CPU.
EMULATED = {
    "lstm", "gru", "rnn_tanh", "rnn_relu", "conv1d", "conv2d", "conv3d",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
}  # fmt: skip


def install() -> None:
    """Patch the classes in place: their aliases and subclasses are patched with them."""
    common: Any = torch.cuda.amp.common
    common.amp_definitely_not_available = lambda: False
    autocast: Any = torch.autocast
    autocast.__init__ = _redirected(autocast.__init__)
    autocast.__enter__ = _entered(autocast.__enter__)
    autocast.__exit__ = _left(autocast.__exit__)


def refuse_or_emulate(func: Function, name: str, args: Any, kwargs: Any) -> Any:
    """Call a function; what CUDA's autocast refuses is refused, what the CPU does badly in float16 is emulated."""
    if not torch.is_autocast_enabled("cuda"):
        return func(*args, **kwargs)
    if name == "binary_cross_entropy":
        raise RuntimeError(BANNED)
    if name in FLOAT32:
        return func(*_cast(args, torch.float32), **{key: _cast(value, torch.float32) for key, value in kwargs.items()})
    if name in EMULATED and torch.get_autocast_dtype("cuda") == torch.float16:
        return _in_float32(func, args, kwargs)
    return func(*args, **kwargs)


def _redirected(original: Function) -> Function:
    def initialize(
        self: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        self.stands_in = device_type == "cuda"
        if self.stands_in:
            device_type, dtype = "cpu", dtype or torch.get_autocast_dtype("cuda")
        original(self, device_type, dtype, enabled, cache_enabled)

    return initialize


def _entered(original: Function) -> Function:
    def enter(self: Any) -> Any:
        if self.stands_in:
            self.before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
            _set_cuda(self._enabled, self.fast_dtype)
        return original(self)

    return enter


def _left(original: Function) -> Function:
    def leave(self: Any, *error: Any) -> Any:
        if self.stands_in:
            _set_cuda(*self.before)
        return original(self, *error)

    return leave


def _set_cuda(enabled: bool, dtype: Any) -> None:
    torch.set_autocast_enabled("cuda", enabled)
    torch.set_autocast_dtype("cuda", dtype)


def _in_float32(func: Function, args: Any, kwargs: Any) -> Any:
    """Round the operands, compute in float32 and round the results: gradients are rounded on the way back too."""
    with torch.autocast("cpu", enabled=False):
        rounded = [_cast(_cast(value, torch.float16), torch.float32) for value in (args, list(kwargs.values()))]
        results = func(*rounded[0], **dict(zip(kwargs, rounded[1], strict=True)))
        return _cast(results, torch.float16)


def _cast(value: Any, dtype: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.dtype in (torch.float16, torch.bfloat16, torch.float32) else value
    return type(value)(_cast(entry, dtype) for entry in value) if isinstance(value, list | tuple) else value
