"""Keep the way back: a reverse patch of every run that wrote, and `speedpatch revert` from it.

The patches lie in the user's state folder, not in the project. Each is an ordinary diff (`git apply` and
`patch -p1` take it) whose head names the files and the checksums of their content.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from speedpatch import __version__
from speedpatch.difference import Change, apply_hunks, diff_of, name_of, parse_diffs
from speedpatch.errors import SourceError
from speedpatch.read import explain, read_bytes
from speedpatch.sources import Source

ENTRY = re.compile(r"# file ([0-9a-f]{64}) ([0-9a-f]{64}) (\".*\")")


@dataclass(frozen=True)
class Entry:
    """One file of a kept patch: checksums of what we wrote (`after`) and of what was there (`before`)."""

    patch: Path
    index: int
    path: str
    after: str
    before: str


def state_folder() -> Path:
    """Where programs keep what has to outlive a run."""
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "speedpatch"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "speedpatch"


def fallback_folder() -> Path:
    """Where patches lie for who has no home to write to."""
    return Path(tempfile.gettempdir()) / f"speedpatch-{os.getuid() if hasattr(os, 'getuid') else 0}"


def keep_patch(changed: Sequence[Source], over: Path | None = None) -> Path | None:
    """Keep the way back from `changed`, before it is written; `over` replaces an earlier patch of this run."""
    if not changed:
        if over:
            over.unlink(missing_ok=True)
        return None
    content = reverse_patch(changed)
    if over:
        over.write_bytes(content)
        return over
    return create(f"{time.strftime('%Y%m%d-%H%M%S')}-{changed[0].path.name}", content)


def create(name: str, content: bytes, suffix: str = ".patch") -> Path:
    """A new file in the state folder, or in the temporary one where there is no home to write to."""
    failure: OSError | None = None
    for folder in (state_folder(), fallback_folder()):
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not is_ours(folder):
                raise PermissionError(1, "somebody else's folder", str(folder))
            return create_in(folder, name, content, suffix)
        except OSError as error:
            failure = failure or error
    assert failure is not None
    raise SourceError(
        str(state_folder()),
        f"the way back cannot be kept ({explain(failure)}), nothing written: set XDG_STATE_HOME",
    )


def own_folders() -> list[Path]:
    """The folders in which we may have kept something."""
    return [folder for folder in (state_folder(), fallback_folder()) if is_ours(folder)]


def is_ours(folder: Path) -> bool:
    """Whether a folder is there and nobody else can have put a patch into it."""
    return folder.is_dir() and (not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid())


def create_in(folder: Path, name: str, content: bytes, suffix: str) -> Path:
    """A new file that only its owner can read, under the first free number; it is on the disk when this returns."""
    for number in range(1, 10_000):
        path = folder / f"{name}{'' if number == 1 else f'-{number:04}'}{suffix}"
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return path
    raise FileExistsError(17, "too many patches of one second", str(folder))


def reverse_patch(changed: Sequence[Source]) -> bytes:
    """The patch that leads from the sources' new text back to their raw bytes, with the head that names them."""
    paths = [source.path.resolve() for source in changed]
    root = Path(os.path.commonpath([path.parent for path in paths]))
    head = [f"# speedpatch {__version__}: back to before {time.strftime('%Y-%m-%d %H:%M:%S')}"]
    head += [f"# speedpatch revert PATH, or in {json.dumps(str(root))}: git apply THIS_FILE"]
    for source, path in zip(changed, paths, strict=True):
        head.append(f"# file {checksum(source.encode())} {checksum(source.raw)} {json.dumps(str(path))}")
    diffs = [
        diff_of(Change(name_of(path, root), source.encode(), source.raw))
        for source, path in zip(changed, paths, strict=True)
    ]
    return "\n".join([*head, ""]).encode() + b"".join(diffs)


def written_with(path: Path) -> list[Path]:
    """The other files of the run that left a file as it is now, as far as they too are what that run wrote."""
    here = checksum(read_bytes(path))
    real = str(path.resolve())
    entry = next((entry for entry in kept_entries() if (entry.path, entry.after) == (real, here)), None)
    others = [other for other in entries_of(entry.patch) if other.path != real] if entry else []
    return [Path(other.path) for other in others if is_as_written(other)]


def is_as_written(entry: Entry) -> bool:
    """Whether a file is what a run left."""
    try:
        return checksum(Path(entry.path).read_bytes()) == entry.after
    except OSError:
        return False


def original_of(path: Path) -> Source | None:
    """The bytes as they were before speedpatch wrote, to be written back; None when they are that already.

    Raises SourceError when nothing is kept for the file, or when it was changed since.
    """
    raw = read_bytes(path)
    here, real = checksum(raw), str(path.resolve())
    entries = [entry for entry in kept_entries() if entry.path == real]
    for entry in entries:
        if entry.after == here:
            hunks = list(parse_diffs(entry.patch.read_bytes()))
            before = apply_hunks(hunks[entry.index], raw)
            if checksum(before) != entry.before:
                raise SourceError(str(path), f"cannot be reverted: {entry.patch} is damaged, the file is as it was")
            return Source(path, before.decode("latin-1"), "latin-1", raw=raw)
    if not entries:
        raise SourceError(str(path), "nothing to revert: speedpatch keeps no patch of this file")
    if any(entry.before == here for entry in entries):
        return None
    raise SourceError(
        str(path), f"was changed since speedpatch wrote it, nothing written: try `git apply --3way {entries[0].patch}`"
    )


def kept_entries() -> Iterator[Entry]:
    """All files of all kept patches, the latest patch first."""
    patches = [patch for folder in own_folders() for patch in folder.glob("*.patch")]
    for patch in sorted(patches, key=lambda patch: (patch.stat().st_mtime_ns, patch.name), reverse=True):
        yield from entries_of(patch)


def entries_of(patch: Path) -> Iterable[Entry]:
    """The files that a kept patch names in its head."""
    try:
        with patch.open(encoding="utf-8", errors="surrogateescape") as lines:
            head = list(takewhile(lambda line: line.startswith("# "), lines))
    except OSError:
        return
    for index, match in enumerate(filter(None, map(ENTRY.match, head))):
        yield Entry(patch, index, json.loads(match[3]), match[1], match[2])


def recorded_under(folder: Path) -> list[Path]:
    """The files under a folder that a kept patch names and that are still there."""
    root = folder.resolve()
    paths = sorted({Path(entry.path) for entry in kept_entries()})
    return [folder / path.relative_to(root) for path in paths if path.is_relative_to(root) and path.is_file()]


def checksum(raw: bytes) -> str:
    """What tells whether a file is still the one we know."""
    return hashlib.sha256(raw).hexdigest()
