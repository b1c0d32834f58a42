"""Find who else uses a function whose parameters change: the other scripts of the project, which have to follow."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from speedpatch.discovery import Ignore, is_wanted_folder
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
        folders[:] = sorted(name for name in folders if is_wanted_folder(folder, name, Ignore()))
        yield from (Path(folder, name) for name in sorted(files) if name.endswith((".py", ".ipynb")))


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
    try:
        if not any(word.encode() in path.read_bytes() for word in words(wanted)):
            return None
        source = read_source(path)
    except (OSError, SourceError):
        return None
    reached = {module.path.resolve() for module in read_program(source)[1:]} & wanted.keys()
    return source if any(name in source.text for module in reached for name in wanted[module]) else None


def words(wanted: dict[Path, set[str]]) -> set[str]:
    """What a file has to mention to be worth a look: a function, or for any function a module or its packages."""
    found: set[str] = set()
    for path, names in wanted.items():
        packages = [folder.name for folder in path.parents if (folder / "__init__.py").exists()]
        found |= {path.stem, *packages} - {"__init__"} if "" in names else names
    return found
