"""`speedpatch revert`: put back what was there before speedpatch wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from speedpatch.errors import SourceError
from speedpatch.text import complain, say
from speedpatch.undo import original_of, recorded_under
from speedpatch.write import write_source

FAILED = 123


def revert(paths: Sequence[Path]) -> int:
    """Revert files, and under folders every file that speedpatch wrote; the exit code."""
    files = [file for path in paths for file in (recorded_under(path) if path.is_dir() else [path])]
    if not files:
        say("nothing to revert: speedpatch keeps no patch of anything there")
    results = [revert_file(file) for file in files]
    return 0 if all(results) else FAILED


def revert_file(path: Path) -> bool:
    """Revert one file; whether it is now as it was."""
    try:
        original = original_of(path)
        if original is not None:
            write_source(original)
    except SourceError as error:
        complain(str(error))
        return False
    say(f"{path}: {'reverted' if original is not None else 'is as it was before speedpatch already'}")
    return True
