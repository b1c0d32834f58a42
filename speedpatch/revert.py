"""`speedpatch revert`: put back what was there before speedpatch wrote."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from speedpatch.errors import SourceError
from speedpatch.recover import recover
from speedpatch.sources import Source
from speedpatch.text import complain, say
from speedpatch.undo import original_of, recorded_under, written_with
from speedpatch.write import write_sources

FAILED = 123


def revert(paths: Sequence[Path]) -> int:
    """Revert files, and under folders every file that speedpatch wrote; the exit code."""
    recover()
    files = [file for path in paths for file in (recorded_under(path) if path.is_dir() else [path])]
    if not files:
        say("nothing to revert: speedpatch keeps no patch of anything there")
    originals: dict[Path, Source | None] = {}
    for path in dict.fromkeys(files):
        try:
            originals[path] = original_of(path)
        except SourceError as error:
            complain(str(error))
    others = companions(originals)
    done = write_back(originals)
    for path, original in done.items():
        say(f"{path}: {'reverted' if original is not None else 'is as it was before speedpatch already'}")
    if left := " ".join(others):
        say(f"written by the same run, and left as they are: {left} (speedpatch revert {left})")
    return 0 if len(done) == len(set(files)) else FAILED


def companions(originals: dict[Path, Source | None]) -> list[str]:
    """The files that were written with some that are about to be put back, and that are not among them."""
    found = {other for path, original in originals.items() if original is not None for other in written_with(path)}
    return sorted(os.path.relpath(path) for path in found - {path.resolve() for path in originals})


def write_back(originals: dict[Path, Source | None]) -> dict[Path, Source | None]:
    """Write all that can be written, together; what is now as it was."""
    left = dict(originals)
    while True:
        try:
            write_sources(sources_of(left.values()))
            return left
        except SourceError as error:
            complain(str(error))
            failed = next((path for path in left if str(path) == error.path), None)
            if failed is None:
                return {path: original for path, original in left.items() if original is None}
            del left[failed]


def sources_of(originals: Iterable[Source | None]) -> list[Source]:
    """What there is to write."""
    return [original for original in originals if original is not None]
