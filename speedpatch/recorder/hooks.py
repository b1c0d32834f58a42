"""Hook torch from outside, the script unchanged."""

from __future__ import annotations

from speedpatch.recorder.hook_backward import hook_backward
from speedpatch.recorder.hook_modules import hook_loaders, hook_modules
from speedpatch.recorder.hook_optimizer import hook_clipping, hook_optimizers, hook_schedulers
from speedpatch.recorder.hook_scaler import hook_scaler
from speedpatch.recorder.watch import Watch


def install(watch: Watch) -> None:
    """Put every hook in place. Call once, before the script runs."""
    hook_backward(watch)
    hook_optimizers(watch)
    hook_schedulers(watch)
    hook_clipping(watch)
    hook_scaler(watch)
    hook_loaders(watch)
    hook_modules(watch)
