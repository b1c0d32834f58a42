"""Tell whether torch or the script asks: torch has to see the machine as it is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

# These act for the script: Module.to("cpu"), custom_fwd(device_type="cuda").
SPEAKS_FOR_SCRIPT = ("torch.nn.modules.module", "torch.amp.autocast_mode")


def is_script(depth: int) -> bool:
    """Whether the function `depth` frames above the caller belongs to the script."""
    name = sys._getframe(depth + 1).f_globals.get("__name__", "")
    return name in SPEAKS_FOR_SCRIPT or not (name == "torch" or name.startswith(("torch.", "speedpatch.")))


def shown_to_script(owner: Any, name: str, answer: Callable[..., Any]) -> None:
    """Let a function answer the script otherwise than torch."""
    original = getattr(owner, name)

    def ask(*args: Any, **kwargs: Any) -> Any:
        return answer(*args, **kwargs) if is_script(1) else original(*args, **kwargs)

    setattr(owner, name, ask)
