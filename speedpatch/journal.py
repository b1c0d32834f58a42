"""Write down which files are about to be replaced together, so that a run that is killed meanwhile can be finished.

A journal lies beside the reverse patches from before the first file is replaced until after the last one. Whoever
writes holds a lock on it, so that a journal without one tells of a run that has died.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from speedpatch.undo import checksum, create, own_folders

SUFFIX, DRAFT = ".journal", ".journal-draft"


@dataclass(frozen=True)
class Move:
    """One replacement: what lies in `temporary` takes the place of `old` in `target`; `new` is its checksum."""

    target: Path
    temporary: Path
    old: bytes
    new: str


@contextmanager
def journal(moves: Sequence[Move]) -> Iterator[None]:
    """Keep a journal while files are replaced; it stays when the block is left with some replaced and some not."""
    draft = create(moves[0].target.name, encode(moves), DRAFT)
    handle = os.open(draft, os.O_RDWR)
    path = draft.with_suffix(SUFFIX)
    try:
        lock(handle)
        os.rename(draft, path)
        sync_folder(path.parent)
        yield
    finally:
        if is_settled(moves):
            path.unlink(missing_ok=True)
            draft.unlink(missing_ok=True)
        os.close(handle)


def encode(moves: Sequence[Move]) -> bytes:
    """A journal's content."""
    files = [
        {
            "target": str(move.target),
            "temporary": str(move.temporary),
            "old": base64.b64encode(move.old).decode(),
            "new": move.new,
        }
        for move in moves
    ]
    return json.dumps({"version": 1, "files": files}).encode()


def decode(raw: bytes) -> list[Move]:
    """What a journal says; nothing when it is none of ours."""
    try:
        files = json.loads(raw)["files"]
        return [
            Move(Path(item["target"]), Path(item["temporary"]), base64.b64decode(item["old"]), item["new"])
            for item in files
        ]
    except (ValueError, KeyError, TypeError):
        return []


def is_settled(moves: Sequence[Move]) -> bool:
    """Whether all files are new, or none is."""
    return len({holds(move.target) == move.new for move in moves}) == 1


def holds(path: Path) -> str:
    """The checksum of a file; empty when it cannot be read."""
    try:
        return checksum(path.read_bytes())
    except OSError:
        return ""


@contextmanager
def abandoned() -> Iterator[list[tuple[Path, list[Move]]]]:
    """The journals of runs that have died, locked against others who look for them."""
    found: list[tuple[Path, list[Move]]] = []
    handles: list[int] = []
    try:
        for path in [path for folder in own_folders() for path in sorted(folder.glob(f"*{SUFFIX}"))]:
            try:
                handles.append(os.open(path, os.O_RDWR))
                lock(handles[-1])
                found.append((path, decode(path.read_bytes())))
            except OSError:  # in use, or settled by somebody else just now
                continue
        yield found
    finally:
        for handle in handles:
            os.close(handle)


def lock(handle: int) -> None:
    """Claim an open file until it is closed or we die; raises OSError when somebody else has it."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder through to the disk, where folders can be opened."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
