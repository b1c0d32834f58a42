"""Write patched scripts: whole or not at all, and never over somebody else's change."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from speedpatch.errors import SourceError
from speedpatch.journal import Move, journal, sync_folder
from speedpatch.read import explain
from speedpatch.sources import Source
from speedpatch.undo import checksum


@dataclass(frozen=True)
class Staged:
    """New content that lies beside the file it is for."""

    source: Source
    target: Path
    temporary: Path
    content: bytes


def write_source(source: Source) -> None:
    """Put the source's text into its file; `source.raw` is what the file has to hold until then."""
    write_sources([source])


def write_sources(sources: Iterable[Source]) -> None:
    """Write the files of one program: all of them, or none when one cannot be written or we are killed."""
    staged: list[Staged] = []
    try:
        for source in sources:
            staged.append(stage(source))
        for item in staged:
            check_unchanged(item)
        if len(staged) == 1:
            replace_all(staged)
        elif staged:
            with journal(
                [Move(item.target, item.temporary, item.source.raw, checksum(item.content)) for item in staged]
            ):
                replace_all(staged)
    finally:
        for item in staged:
            item.temporary.unlink(missing_ok=True)


def stage(source: Source) -> Staged:
    """Write the new content, through to the disk, into a temporary file in the same folder."""
    content = source.encode()
    try:
        target = source.path.resolve(strict=True)
        return Staged(source, target, stage_bytes(target, content), content)
    except OSError as error:
        raise unwritable(source, error) from None


def stage_bytes(target: Path, content: bytes) -> Path:
    """A temporary file beside the target, with its mode and owner, that is on the disk."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        copy_permissions(target, Path(name))
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def replace_bytes(target: Path, content: bytes) -> None:
    """Put other content into a file, whole or not at all."""
    temporary = stage_bytes(target, content)
    try:
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def copy_permissions(target: Path, temporary: Path) -> None:
    """Give the new file the mode of the old one, and its owner where we may."""
    shutil.copymode(target, temporary)
    status = target.stat()
    if hasattr(os, "chown"):
        with contextlib.suppress(PermissionError):
            os.chown(temporary, status.st_uid, status.st_gid)


def check_unchanged(item: Staged) -> None:
    """Refuse to write over what was written since we read, or over what we may not write."""
    path = str(item.source.path)
    try:
        if item.target.read_bytes() != item.source.raw:
            raise SourceError(path, "was changed since it was read, nothing written: run speedpatch again")
    except OSError as error:
        raise unwritable(item.source, error) from None
    if not os.access(item.target, os.W_OK):
        raise SourceError(path, "cannot be written: permission denied, the file is as it was")


def replace_all(staged: list[Staged]) -> None:
    """Move every new file into place; when one fails, put the old content of the others back."""
    current = staged[0]
    try:
        for current in staged:
            os.replace(current.temporary, current.target)
        for folder in {item.target.parent for item in staged}:
            sync_folder(folder)
    except BaseException as error:
        put_back(staged, current)
        if isinstance(error, OSError):
            raise unwritable(current.source, error) from None
        raise


def put_back(staged: list[Staged], failed: Staged) -> None:
    """Give the files that were replaced their old content."""
    try:
        for item in staged:
            if not item.temporary.exists():
                replace_bytes(item.target, item.source.raw)
    except OSError as error:
        reason = f"cannot be written, nor can the files before it be put back: {explain(error)}"
        raise SourceError(str(failed.source.path), f"{reason}; the next run of speedpatch undoes it") from None


def unwritable(source: Source, error: OSError) -> SourceError:
    """One clear line for a file that stays as it was."""
    return SourceError(str(source.path), f"cannot be written: {explain(error)}, the file is as it was")
