"""The heart: sources and options in, patched sources and outcomes out. Nothing is read, asked or printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from speedpatch.codemod import Codemod, Options, Outcome

if TYPE_CHECKING:
    from speedpatch.sources import Source


@dataclass(frozen=True)
class FileResult:
    """One file before and after; `error` is set when it could not be parsed or a check of ours failed."""

    before: Source
    after: Source
    error: str | None = None

    @property
    def changed(self) -> bool:
        """Whether there is something to write."""
        return self.before.text != self.after.text


@dataclass(frozen=True)
class Result:
    """What became of one program: its files, and an outcome for everything that was asked for."""

    files: tuple[FileResult, ...]
    outcomes: tuple[Outcome, ...]


def patch(sources: Sequence[Source], codemods: Iterable[Codemod], options: Options) -> Result:
    """Apply codemods to one program, stage by stage, and check what comes out.

    A failed check leaves every file of the program as it was and is told in `FileResult.error`.
    """
    raise NotImplementedError
