"""Put splices into a text, and tell for every line of the result where it came from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from speedpatch.parse import count_lines
from speedpatch.sources import NEWLINE
from speedpatch.splice.text import Text


class Kind(IntEnum):
    """What a splice is, in the order in which splices stand that start at one place."""

    BEHIND = 0
    ITEM = 1
    GAP = 2
    LINES = 3
    DELETE = 4
    INDENT = 5
    AHEAD = 6
    REPLACE = 7


class Overlap(Exception):
    """Two splices change the same text, on this line of the user's file."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


@dataclass(frozen=True)
class Splice:
    """Text to put in place of text[start:end]; `rank` orders the ones of a kind that start at one place."""

    start: int
    end: int
    text: str
    kind: Kind
    rank: tuple[float, ...] = ()


@dataclass
class Result:
    """Collect the pieces of the result and the origin of each of its lines."""

    before: Text
    origin: Sequence[int]
    pieces: list[str] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)
    user: int = 0
    blank: int = 0
    ours: bool = False
    empty: bool = True

    def keep(self, start: int, end: int) -> None:
        """Take over text[start:end]."""
        while start < end:
            line = self.before.line(start)
            whole = self.before.line(end)
            if self.empty and self.before.starts[line] == start and whole > line:
                self.pieces.append(self.before.text[start : self.before.starts[whole]])
                self.origins.extend(self.origin[line:whole])
                start = self.before.starts[whole]
            else:
                stop = min(self.before.next_line(start), end)
                self.take(self.before.text[start:stop], self.origin[line])
                start = stop

    def put(self, splice: Splice) -> None:
        """Add the text of a splice; a line that begins with a replacement is still the user's."""
        start = 0
        user = self.origin[self.before.line(splice.start)] if splice.kind is Kind.REPLACE and splice.text else 0
        for ending in NEWLINE.finditer(splice.text):
            self.take(splice.text[start : ending.end()], user)
            start, user = ending.end(), 0
        self.take(splice.text[start:], user)

    def take(self, text: str, origin: int) -> None:
        """Add a line or a part of one."""
        if not text:
            return
        self.pieces.append(text)
        self.empty = False
        if text.strip(" \t\f\r\n"):
            self.user = self.user or origin
            self.ours = self.ours or not origin
        else:
            self.blank = self.blank or origin
        if text[-1] in "\r\n":
            self.finish()

    def finish(self) -> None:
        """Close the current line if there is anything on it."""
        if not self.empty:
            self.origins.append(self.user or (0 if self.ours else self.blank))
        self.user, self.blank, self.ours, self.empty = 0, 0, False, True


def merge(before: Text, origin: Sequence[int], splices: Iterable[Splice]) -> tuple[str, tuple[int, ...]]:
    """The text with all splices made, and the origin of each line. Raises Overlap when two change the same text."""
    result = Result(before, origin)
    position = 0
    for splice in sorted(splices, key=lambda splice: (splice.start, splice.kind, splice.rank)):
        if splice.start < position and splice.kind is Kind.INDENT:
            continue
        if splice.start < position:
            raise Overlap(result.origin[before.line(splice.start)])
        result.keep(position, splice.start)
        result.put(splice)
        position = splice.end
    result.keep(position, len(before.text))
    result.finish()
    text = "".join(result.pieces)
    if before.text and before.text[-1] not in "\r\n":
        text = text.rstrip("\r\n")
    return text, tuple(result.origins[: count_lines(text)])
