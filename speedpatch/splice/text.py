"""Find places in a text: the offsets of nodes, lines and their endings."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TypeAlias

from speedpatch.sources import NEWLINE

LINE_REST = re.compile(r"(?:[ \t\f;]|\\(?:\r\n|\n|\r))*(?:#[^\r\n]*)?(?:\r\n|\n|\r|\Z)")
LEADING = re.compile(r"[ \t\f]*")


Node: TypeAlias = ast.expr | ast.stmt | ast.ExceptHandler | ast.pattern | ast.keyword | ast.arg


class Conflict(Exception):
    """Edits that cannot be made, with the node that they are about."""

    def __init__(self, reason: str, node: Node) -> None:
        super().__init__(reason)
        self.reason = reason
        self.node = node


@dataclass(frozen=True)
class Text:
    """A text and where its lines start; an unfinished last line and an empty one behind the last ending count."""

    text: str
    starts: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> Text:
        """Find the lines of a text as Python counts them."""
        return cls(text, (0, *(match.end() for match in NEWLINE.finditer(text))))

    def offset(self, line: int, column: int) -> int:
        """The offset of a place as `ast` gives it: lines count from 1, columns are bytes of UTF-8."""
        start = self.starts[line - 1]
        before = self.text[start : start + column]
        return start + (column if before.isascii() else len(before.encode()[:column].decode()))

    def start(self, node: Node) -> int:
        """The offset of a node's first character."""
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: Node) -> int:
        """The offset behind a node's last character."""
        return self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def line(self, offset: int) -> int:
        """The index of the line that an offset lies on."""
        return bisect_right(self.starts, offset) - 1

    def line_start(self, offset: int) -> int:
        """Where the line of an offset starts."""
        return self.starts[self.line(offset)]

    def next_line(self, offset: int) -> int:
        """Where the line behind that of an offset starts: the end of the text when there is none."""
        line = self.line(offset) + 1
        return self.starts[line] if line < len(self.starts) else len(self.text)

    def newline(self, offset: int) -> str:
        """The line ending to use at an offset: that of its own line, or of the one before."""
        line = min(self.line(offset), len(self.starts) - 2)
        return self.ending(line) if line >= 0 else "\n"

    def ending(self, line: int) -> str:
        """The ending of the line with this index, empty for an unfinished one."""
        if line + 1 >= len(self.starts):
            return ""
        end = self.starts[line + 1]
        return "\r\n" if self.text.startswith("\r\n", max(end - 2, 0)) else self.text[end - 1]

    def leading(self, offset: int) -> str:
        """The white space that the line of an offset starts with, behind its last form feed."""
        match = LEADING.match(self.text, self.line_start(offset))
        return match[0].rpartition("\f")[2] if match else ""

    def lead(self, offset: int) -> int:
        """Where the white space and continued empty lines in front of an offset start."""
        while True:
            while offset and self.text[offset - 1] in " \t\f":
                offset -= 1
            ending = self.ending(self.line(offset) - 1) if offset and self.text[offset - 1] in "\r\n" else ""
            before = offset - len(ending)
            line = self.text[self.line_start(before) if ending else 0 : before] if ending else ""
            if not line.endswith("\\") or "#" in line:
                return offset
            offset = before - 1

    def starts_line(self, offset: int) -> bool:
        """Whether an offset is the first of a line that no backslash continues."""
        return offset == 0 or self.text[offset - 1] in "\r\n"

    def behind_line(self, offset: int) -> int:
        """Where the line behind a statement's end starts, past comment and continuation; the end of the text else."""
        match = LINE_REST.match(self.text, offset)
        return match.end() if match else self.next_line(offset)
