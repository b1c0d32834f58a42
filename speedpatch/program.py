"""Gather a script and the local modules that it imports, as sources."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from speedpatch.errors import SourceError
from speedpatch.read import read_source
from speedpatch.sources import Source

LIMIT = 200
ANCESTORS = 4


def read_program(
    script: Source, follow: bool = True, read: Callable[[Path], Source] = read_source
) -> tuple[Source, ...]:
    """The script and, with `follow`, every local module that it imports, directly or not, and that can be read."""
    found = {script.path.resolve(): script}
    queue = [script] if follow else []
    folder = Path(os.path.abspath(script.path)).parent
    roots = [folder, *folder.parents[:ANCESTORS]]
    while queue and len(found) < LIMIT:
        current = queue.pop(0)
        for path in imported_files(current, roots):
            if path.resolve() in found:
                continue
            try:
                source = read(path if script.path.is_absolute() else Path(os.path.relpath(path)))
            except SourceError:
                continue
            found[path.resolve()] = source
            queue.append(source)
    return tuple(found.values())


def imported_files(source: Source, roots: list[Path]) -> Iterator[Path]:
    """The files that a module's import statements can mean."""
    for level, name in imported_names(source.text):
        folder = Path(os.path.abspath(source.path)).parent
        bases = [folder, *folder.parents][level - 1 : level] if level else [folder, *roots]
        for base in bases if level else [place for root in bases for place in (root, root / "src")]:
            path = module_file(base, name)
            if path is not None:
                yield path
                break


def imported_names(text: str) -> Iterator[tuple[int, str]]:
    """Relative level and dotted name of everything that a text imports, `from a import b` as `a` and `a.b`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if base or node.level:
                yield node.level, base
            yield from ((node.level, f"{base}.{alias.name}".lstrip(".")) for alias in node.names if alias.name != "*")


def module_file(base: Path, name: str) -> Path | None:
    """The file of a module below a folder, if there is one."""
    stem = base.joinpath(*name.split(".")) if name else base
    choices = (stem.with_suffix(".py"), stem / "__init__.py") if name else (stem / "__init__.py",)
    return next((Path(os.path.abspath(path)) for path in choices if path.is_file()), None)
