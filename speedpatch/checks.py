"""What must hold of a result before anything is shown or written."""

from __future__ import annotations

from collections.abc import Sequence

from speedpatch.errors import PatchError
from speedpatch.sources import Module


def check(before: Sequence[Module], after: Sequence[Module]) -> None:
    """Raise PatchError when a patched module does not compile."""
    for module in after:
        try:
            compile(module.source.text, str(module.source.path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise PatchError(f"{module.source.path}: {error}") from None
