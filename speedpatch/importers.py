"""Find who else uses a function whose parameters change: the other scripts of the project, which have to follow."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from speedpatch.discovery import SKIPPED
from speedpatch.errors import SourceError
from speedpatch.program import read_program
from speedpatch.read import read_source
from speedpatch.sources import Source

LIMIT = 5000
"""Files that are looked at; a project with more has a root that is none."""


def find_importers(known: Iterable[Path], signatures: Iterable[tuple[Path, str]], script: Path) -> list[Source]:
    """The files of the project that get at a module, directly or not, and name one of some functions of it.

    `known` are the files of the program itself, `signatures` the functions by file and name; no name stands for any.
    """
    wanted: dict[Path, set[str]] = {}
    for path, name in signatures:
        wanted.setdefault(path.resolve(), set()).add(name)
    own = [path.resolve() for path in known]
    found: list[Source] = []
    for path in islice(python_files(project_root([script.resolve(), *own])), LIMIT):
        if path.resolve() not in own and (source := using(path, wanted)) is not None:
            shown = source.path if script.is_absolute() else Path(os.path.relpath(source.path))
            found.append(replace(source, path=shown))
    return found


def python_files(root: Path) -> Iterator[Path]:
    """The scripts and notebooks below a folder, those that git ignores as well, in a stable order."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if is_code_folder(folder, name))
        yield from (Path(folder, name) for name in sorted(files) if name.endswith((".py", ".ipynb")))


def is_code_folder(folder: str, name: str) -> bool:
    """Whether a folder may hold code of the project: not hidden, installed or a virtual environment."""
    path = os.path.join(folder, name)
    hidden = name.startswith(".") or name in SKIPPED or os.path.islink(path)
    return not hidden and not os.path.exists(os.path.join(path, "pyvenv.cfg"))


MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "environment.yml")
"""What lies at the root of a project."""
LEVELS = 4


def project_root(paths: Sequence[Path]) -> Path:
    """The nearest folder above all files that looks like the root of their project, else the one that holds them."""
    folder = Path(os.path.commonpath([path.parent for path in paths]))
    for above in [folder, *list(folder.parents)[: LEVELS - 1]]:
        if any((above / name).exists() for name in MARKS):
            return above
    while (folder / "__init__.py").exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def using(path: Path, wanted: dict[Path, set[str]]) -> Source | None:
    """A file as a source if it uses one of the wanted functions."""
    names = {name for group in wanted.values() for name in group}
    try:
        raw = path.read_bytes()
        if not any(name.encode() in raw for name in names):
            return None
        source = read_source(path)
    except (OSError, SourceError):
        return None
    reached = {module.path.resolve() for module in read_program(source)[1:]} & wanted.keys()
    return source if any(name in source.text for module in reached for name in wanted[module]) else None
