"""What a codemod is, what it yields, and what is said of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from speedpatch.edits import Edit
    from speedpatch.facts import Facts

Status = Literal["applied", "already", "declined", "not_applicable"]
Parity = Literal["exact", "close", "redrawn", "changed"]
Group = Literal["speed", "scale", "instrument", "migrate", "model"]
Stage = Literal[
    "upgrade", "device", "data", "layout", "optimizer", "backends", "amp",
    "accumulate", "data-parallel", "ddp", "fsdp", "compile", "instruments",
]  # fmt: skip


@dataclass(frozen=True)
class Options:
    """What the command line or the configuration asks of the codemods; `target_torch` is (major, minor)."""

    amp_dtype: str = "float16"
    compile_mode: str | None = None
    target_torch: tuple[int, int] = (2, 15)


@dataclass(frozen=True)
class Outcome:
    """What became of one codemod at one place: `path` as the user named it, `line` in the user's file.

    In a notebook `cell` counts from 1, and `line` is the line in that cell.
    """

    codemod: str
    status: Status
    code: str
    path: str
    line: int
    reason: str
    parity: Parity
    cell: int = 0

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return place_of(self.path, self.line, self.cell)


def place_of(path: str, line: int, cell: int = 0) -> str:
    """A place, for people."""
    return f"{path}:cell {cell}:{line}" if cell else f"{path}:{line}"


@dataclass(frozen=True)
class Edited:
    """How many edits a codemod makes in one file: `path` as the user named it."""

    codemod: str
    path: str
    count: int


@dataclass(frozen=True)
class Finding:
    """A codemod's word on a place it leaves alone, or a note on one that it edits."""

    status: Status
    code: str
    path: str
    line: int
    reason: str


@dataclass(frozen=True)
class Gain:
    """How many times as fast training gets, `low` to `high`, in the words of a `source`; `on_gpu`: on GPUs only."""

    low: float
    high: float
    text: str
    source: str
    on_gpu: bool = True


@dataclass(frozen=True)
class Codemod:
    """One optimization. `since`: the oldest torch that its output runs on; `options`: its fields of `Options`.

    `gain` is None where nobody has measured one that could be cited.
    """

    name: str
    group: Group
    stage: Stage
    summary: str
    since: str
    parity: Parity
    needs: str
    docs: str
    plan: Callable[[Facts, Options], Iterable[Edit | Finding]]
    options: tuple[str, ...] = ()
    gain: Gain | None = None
