"""Find who else uses a function whose parameters change: the other scripts of the project, which have to follow."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from speedpatch.discovery import find_files
from speedpatch.errors import SourceError
from speedpatch.program import ANCESTORS, imported_files
from speedpatch.read import read_source
from speedpatch.sources import Source

LIMIT = 5000
"""Files that are looked at; a project with more has a root that is none."""


def find_importers(known: Iterable[Path], signatures: Iterable[tuple[Path, str]], script: Path) -> list[Source]:
    """The files of the project that import a module and name one of some functions of it.

    `known` are the files of the program itself, `signatures` the functions by file and name; no name stands for any.
    """
    wanted: dict[Path, set[str]] = {}
    for path, name in signatures:
        wanted.setdefault(path.resolve(), set()).add(name)
    own = {path.resolve() for path in known}
    found: list[Source] = []
    for path in find_files([project_root(script.resolve())]).walked[:LIMIT]:
        if path.resolve() not in own and (source := using(path, wanted)) is not None:
            shown = source.path if script.is_absolute() else Path(os.path.relpath(source.path))
            found.append(replace(source, path=shown))
    return found


MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "environment.yml")
"""What lies at the root of a project."""
LEVELS = 4


def project_root(script: Path) -> Path:
    """The nearest folder above the script that looks like the root of its project, else the folder of its package."""
    for folder in list(script.parents)[:LEVELS]:
        if any((folder / name).exists() for name in MARKS):
            return folder
    folder = script.parent
    while (folder / "__init__.py").exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def using(path: Path, wanted: dict[Path, set[str]]) -> Source | None:
    """A file as a source if it uses one of the wanted functions."""
    try:
        raw = path.read_bytes()
        names = {name.encode() for group in wanted.values() for name in group}
        stems = {(module.parent if module.stem == "__init__" else module).stem.encode() for module in wanted}
        if not any(name in raw for name in names) or not any(stem in raw for stem in stems):
            return None
        source = read_source(path)
    except (OSError, SourceError):
        return None
    roots = [path.resolve().parent, *list(path.resolve().parents)[1 : ANCESTORS + 1]]
    modules = [module for module in imported_files(source, roots) if module in wanted]
    return source if any(name in source.text for module in modules for name in wanted[module]) else None
