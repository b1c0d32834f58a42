"""Find the oldest torch that a project allows: its spelling of the API is what we write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from speedpatch.config import CURRENT, OLDEST, UsageError, tables_of

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

REQUIREMENT_FILES = ("requirements*.txt", "requirements/*.txt", "environment*.yml", "environment*.yaml")
TORCH_LINE = re.compile(r"^\s*(?:-\s*)?[\"']?(?:[\w-]+::)?(?:py)?torch(?P<rest>\s*(?:[\[<>=!~;@#,\\\"'].*)?)$")
PATCHES = range(12)


@cache
def target_for(folder: Path) -> tuple[int, int]:
    """The oldest torch, as (major, minor), that the project of an absolute folder allows."""
    stated = [specifier for text in requirements_in(folder) if (specifier := parse_specifier(text)) is not None]
    if stated:
        return min(oldest_allowed(specifier) for specifier in stated)
    is_top = folder.parent == folder or (folder / ".git").exists()
    return CURRENT if is_top else target_for(folder.parent)


def oldest_allowed(specifier: SpecifierSet) -> tuple[int, int]:
    """The first release we write for that fits; the oldest when all that fit are older still."""
    minors = range(OLDEST[1], CURRENT[1] + 1)
    for minor in minors:
        if any(specifier.contains(f"2.{minor}.{patch}") for patch in PATCHES):
            return (2, minor)
    older = [f"{major}.{minor}.{patch}" for major in (1, 2) for minor in range(14) for patch in PATCHES]
    is_older = any(specifier.contains(version) for version in older)
    return OLDEST if is_older else CURRENT


def parse_specifier(text: str) -> SpecifierSet | None:
    """What follows the name in a requirement; None when it allows everything or says nothing we know."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    versions = re.split(r"[;#\\]|\s--", text)[0].strip(" \"',")
    versions = re.sub(r"^\[[^\]]*\]", "", versions)
    versions = re.sub(r"\+[\w.]+", "", versions)
    versions = re.sub(r"(?<![<>=!~])=(?![=])", "==", versions)
    versions = re.sub(r"==(\d+\.\d+)(?=$|,|\s)(?!\.)", r"==\1.*", versions)
    try:
        return SpecifierSet(versions) if versions else None
    except InvalidSpecifier:
        return None


def requirements_in(folder: Path) -> Iterator[str]:
    """Everything that the files of one folder say of torch's version."""
    for pattern in REQUIREMENT_FILES:
        for path in sorted(folder.glob(pattern)):
            yield from torch_lines(path)
    path = folder / "pyproject.toml"
    if path.is_file():
        try:
            yield from torch_in_pyproject(tables_of(path))
        except UsageError:
            return


def torch_lines(path: Path) -> Iterator[str]:
    """What follows torch on its lines of a requirements file, or pytorch in a conda environment."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    yield from (match["rest"] for line in lines if (match := TORCH_LINE.match(line)))


def torch_in_pyproject(tables: dict[str, Any]) -> Iterator[str]:
    """What a pyproject.toml says of torch: dependencies, extras, groups, and Poetry's tables."""
    project = as_table(tables.get("project"))
    lists = [project.get("dependencies"), *as_table(project.get("optional-dependencies")).values()]
    lists += as_table(tables.get("dependency-groups")).values()
    for entries in lists:
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, str) and (match := TORCH_LINE.match(entry)):
                yield match["rest"]
    poetry = as_table(as_table(as_table(tables.get("tool")).get("poetry")).get("dependencies"))
    torch = poetry.get("torch")
    version = torch.get("version") if isinstance(torch, dict) else torch
    if isinstance(version, str):
        yield re.sub(r"[\^~](?!=)(\d+)(\.\d+)?", r">=\1\2", version)


def as_table(value: object) -> dict[str, Any]:
    """A table, or an empty one where something else stands."""
    return value if isinstance(value, dict) else {}
