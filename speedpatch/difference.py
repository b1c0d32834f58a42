"""Say what changed as a unified diff that `git apply` and `patch -p1` take, byte for byte.

Lines are compared as bytes and end at newline characters only, as git sees them: a CRLF file, a lone
carriage return, a form feed, a missing final newline or another encoding comes out right.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

CONTEXT = 3
NO_NEWLINE = b"\\ No newline at end of file\n"
HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
NEEDS_QUOTES = re.compile(rb'[\x00-\x1f"\\\x7f-\xff]')


@dataclass(frozen=True)
class Change:
    """One file before and after, under the name that the diff gives it."""

    name: str
    before: bytes
    after: bytes

    def reversed(self) -> Change:
        """The way back."""
        return Change(self.name, self.after, self.before)


@dataclass(frozen=True)
class Hunk:
    """Lines (" ", "-" or "+" in front) and where they start, counted from 0, in the old and the new file."""

    old: int
    new: int
    lines: tuple[bytes, ...]

    def count(self, prefixes: bytes) -> int:
        """How many lines start with one of these."""
        return sum(line[0] in prefixes for line in self.lines)


def diff_of(change: Change) -> bytes:
    """The unified diff of one file; nothing when it is the same."""
    hunks = list(hunks_of(lines_of(change.before), lines_of(change.after)))
    if not hunks:
        return b""
    header = b"--- " + quoted("a/", change.name) + b"\n+++ " + quoted("b/", change.name) + b"\n"
    return header + b"".join(map(render, hunks))


def hunks_of(before: list[bytes], after: list[bytes]) -> Iterator[Hunk]:
    """What differs, with lines of context; equal ends are left out of the comparison, which is quadratic."""
    head = count_equal(before, after)
    tail = count_equal(before[head:][::-1], after[head:][::-1])
    skip, keep = max(0, head - CONTEXT), max(0, tail - CONTEXT)
    old, new = before[skip : len(before) - keep], after[skip : len(after) - keep]
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(CONTEXT):
        lines: list[bytes] = []
        for tag, first, last, new_first, new_last in group:
            if tag == "equal":
                lines += [b" " + line for line in old[first:last]]
            else:
                lines += [b"-" + line for line in old[first:last]]
                lines += [b"+" + line for line in new[new_first:new_last]]
        if any(line[0] in b"-+" for line in lines):
            yield Hunk(group[0][1] + skip, group[0][3] + skip, tuple(lines))


def count_equal(before: list[bytes], after: list[bytes]) -> int:
    """How many lines are the same before the first that differs."""
    pairs = zip(before, after, strict=False)
    return next((index for index, (old, new) in enumerate(pairs) if old != new), min(len(before), len(after)))


def render(hunk: Hunk) -> bytes:
    """A hunk as it stands in a diff."""
    old, new = span(hunk.old, hunk.count(b" -")), span(hunk.new, hunk.count(b" +"))
    lines = (line if line.endswith(b"\n") else line + b"\n" + NO_NEWLINE for line in hunk.lines)
    return f"@@ -{old} +{new} @@\n".encode() + b"".join(lines)


def span(start: int, count: int) -> str:
    """A range of lines as a hunk's header spells it."""
    return f"{start + 1}" if count == 1 else f"{start + (count > 0)},{count}"


def parse_diffs(text: bytes) -> Iterator[tuple[Hunk, ...]]:
    """The hunks of each file of a diff that `diff_of` made; lines before the first file are skipped."""
    lines = iter(lines_of(text))
    hunks: list[Hunk] | None = None
    for line in lines:
        if line.startswith(b"--- "):
            if hunks is not None:
                yield tuple(hunks)
            hunks = []
        elif hunks is not None and (match := HUNK.match(line)):
            counts = [int(number or 1) for number in match.groups()]
            hunks.append(parse_hunk(counts, lines))
        elif hunks and line == NO_NEWLINE:
            hunks[-1] = without_newline(hunks[-1])
    if hunks is not None:
        yield tuple(hunks)


def parse_hunk(counts: list[int], lines: Iterator[bytes]) -> Hunk:
    """A hunk whose header has been read."""
    old, old_count, new, new_count = counts
    hunk = Hunk(old - (old_count > 0), new - (new_count > 0), ())
    while (hunk.count(b" -"), hunk.count(b" +")) != (old_count, new_count):
        line = next(lines)
        hunk = without_newline(hunk) if line == NO_NEWLINE else Hunk(hunk.old, hunk.new, (*hunk.lines, line))
    return hunk


def without_newline(hunk: Hunk) -> Hunk:
    """The hunk with the newline of its last line taken off."""
    return Hunk(hunk.old, hunk.new, (*hunk.lines[:-1], hunk.lines[-1].removesuffix(b"\n")))


def apply_hunks(hunks: Iterable[Hunk], before: bytes) -> bytes:
    """What a diff makes of the very bytes that it was made from."""
    lines = lines_of(before)
    result: list[bytes] = []
    position = 0
    for hunk in hunks:
        result += lines[position : hunk.old]
        result += [line[1:] for line in hunk.lines if line[0] in b" +"]
        position = hunk.old + hunk.count(b" -")
    return b"".join(result + lines[position:])


def lines_of(raw: bytes) -> list[bytes]:
    """The lines as git counts them."""
    return re.findall(rb"[^\n]*\n|[^\n]+", raw)


def quoted(prefix: str, name: str) -> bytes:
    """A file name as git writes it: quoted when it has odd characters, a tab behind it when it has blanks."""
    raw = os.fsencode(prefix + name)
    if not NEEDS_QUOTES.search(raw):
        return raw + (b"\t" if b" " in raw else b"")
    escaped = re.sub(rb'["\\]', rb"\\\g<0>", raw)
    return b'"' + re.sub(rb"[^\x20-\x7e]", lambda match: b"\\%03o" % match[0][0], escaped) + b'"'


def name_of(path: Path, root: Path) -> str:
    """The name of a file below a root, with forward slashes; `..` when it lies elsewhere."""
    return os.path.relpath(path, root).replace(os.sep, "/")
