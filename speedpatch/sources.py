"""Turn files into text and back without losing a byte: encoding, byte order mark, line endings."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

NEWLINE = re.compile(r"\r\n|\n|\r")
MAIN = re.compile(r"^if\b.*\b__name__\b.*\b__main__\b", re.MULTILINE)
"""The head of what runs only when its file is run."""


@dataclass(frozen=True)
class Source:
    """One file: its text with the line endings that it has, and what is needed to write it back."""

    path: Path
    text: str
    encoding: str = "utf-8"
    bom: bool = False
    raw: bytes = field(default=b"", repr=False)

    def with_text(self, text: str) -> Source:
        """The same file with other text."""
        return replace(self, text=text)

    def part(self, line: int) -> int:
        """The part that a line of the text belongs to, where the parts are files of their own to their reader."""
        return 0

    def unread(self) -> tuple[tuple[int, str], ...]:
        """Code of the file that its text does not hold, with the number of the part that it is in."""
        return ()

    def encode(self) -> bytes:
        """The bytes to write."""
        return (b"\xef\xbb\xbf" if self.bom else b"") + self.text.encode(self.encoding)


@dataclass(frozen=True)
class Rewrite:
    """One file before and after."""

    before: Source
    after: Source

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.before.path


@dataclass(frozen=True)
class Module:
    """A parsed source; `origin[i]` is the line of the user's file that line i + 1 came from, 0 if we added it."""

    source: Source
    tree: ast.Module
    origin: tuple[int, ...]

    def line(self, node: ast.AST) -> int:
        """The line of a node in the user's file: its own, or the nearest before it that is the user's."""
        here: int = getattr(node, "lineno", 1)
        return next((line for line in reversed(self.origin[:here]) if line), 1)
