"""The two exceptions: broken input, and a mistake of our own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)  # not frozen: Python sets the traceback of an exception that passes through a context manager
class SourceError(Exception):
    """Input that cannot be read, parsed or written; `line` and `column` count from 1, 0 is unknown."""

    path: str
    reason: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        place = ":".join([self.path, *(str(number) for number in (self.line, self.column) if number)])
        return f"{place}: {self.reason}"


class PatchError(Exception):
    """A failed check of ours: the edit is wrong, the file has to stay as it was."""
