"""Finish what a killed run left half written: complete it, or undo it, and never touch what somebody changed since."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from speedpatch.journal import Move, abandoned, holds, sync_folder
from speedpatch.read import explain
from speedpatch.text import complain, say
from speedpatch.undo import checksum
from speedpatch.write import replace_bytes


def recover() -> None:
    """Settle every run that has died, and say so in one line each."""
    with abandoned() as journals:
        for path, moves in journals:
            try:
                line = settle(moves)
            except OSError as error:
                complain(f"a run that was killed cannot be undone ({explain(error)}): its journal is {path}")
                continue
            path.unlink(missing_ok=True)
            if line:
                say(line, file=sys.stderr)


def settle(moves: Sequence[Move]) -> str:
    """Complete a run when nothing stands against it, else undo it; what to say of that."""
    done = [move for move in moves if holds(move.target) == move.new]
    waiting = [move for move in moves if holds(move.target) == checksum(move.old)]
    strange = [move for move in moves if move not in done and move not in waiting]
    blocked = [move for move in strange if move.temporary.exists()]
    if not waiting and not blocked:
        return ""
    is_begun = len(waiting) + len(blocked) < len(moves)
    if is_begun and not blocked and all(holds(move.temporary) == move.new for move in waiting):
        for move in waiting:
            os.replace(move.temporary, move.target)
            sync_folder(move.target.parent)
        return f"completed a run that was killed: {names(moves)}"
    for move in done:
        replace_bytes(move.target, move.old)
    for move in waiting:
        move.temporary.unlink(missing_ok=True)
    restored = (
        [f"undid a run that was killed, these are as before: {names([*done, *waiting])}"] if done or waiting else []
    )
    return "; ".join([*restored, *map(left_alone, strange)])


def left_alone(move: Move) -> str:
    """What to say of a file that somebody changed."""
    there = f", what was to be written is in {move.temporary}" if move.temporary.exists() else ""
    return f"{move.target} was changed since a run was killed and is left as it is{there}"


def names(moves: Iterable[Move]) -> str:
    """The files, relative to here."""
    return ", ".join(os.path.relpath(move.target, Path.cwd()) for move in moves)
