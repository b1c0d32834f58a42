"""Turn the paths of a command line into the files to look at."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from speedpatch.errors import SourceError
from speedpatch.read import explain

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})


@dataclass(frozen=True)
class Found:
    """What a command line names: `given` files by name, the others by their folder; `errors` of folders."""

    given: tuple[Path, ...]
    walked: tuple[Path, ...]
    errors: tuple[SourceError, ...]


@dataclass(frozen=True)
class Ignore:
    """The .gitignore rules that hold in one folder, those of its parents first."""

    rules: tuple[tuple[str, GitIgnoreSpec], ...] = ()

    def covers(self, path: str, is_folder: bool) -> bool:
        """Whether git would ignore this path; the rule nearest to it decides."""
        for base, spec in reversed(self.rules):
            name = os.path.relpath(path, base).replace(os.sep, "/")
            verdict = spec.check_file(name + "/" if is_folder else name).include
            if verdict is not None:
                return verdict
        return False


def find_files(paths: Iterable[Path]) -> Found:
    """Every file once: those given by name as they are, and the scripts and notebooks under each folder."""
    given: list[Path] = []
    walked: list[Path] = []
    errors: list[SourceError] = []
    seen: set[str] = set()
    for path in paths:
        is_folder = path.is_dir()
        for file in walk(path, errors) if is_folder else [path]:
            key = os.path.realpath(file)
            if key not in seen:
                seen.add(key)
                (walked if is_folder else given).append(file)
    return Found(tuple(given), tuple(walked), tuple(errors))


def walk(folder: Path, errors: list[SourceError]) -> Iterator[Path]:
    """The scripts and notebooks under a folder in a stable order; folders that cannot be listed go to `errors`."""
    ignores = {str(folder): ignore_above(folder)}
    for root, folders, files in os.walk(folder, onerror=lambda error: errors.append(unlistable(error))):
        ignore = with_rules_of(root, ignores.pop(root))
        folders[:] = sorted(name for name in folders if is_wanted_folder(root, name, ignore))
        ignores.update((os.path.join(root, name), ignore) for name in folders)
        for name in sorted(files):
            if name.endswith((".py", ".ipynb")) and is_wanted_file(os.path.join(root, name), ignore):
                yield Path(root, name)


def is_wanted_folder(root: str, name: str, ignore: Ignore) -> bool:
    """Whether to look into a folder: not a hidden one, a virtual environment or what git ignores."""
    path = os.path.join(root, name)
    if name.startswith(".") or name in SKIPPED or os.path.islink(path):
        return False
    return not os.path.exists(os.path.join(path, "pyvenv.cfg")) and not ignore.covers(path, is_folder=True)


def is_wanted_file(path: str, ignore: Ignore) -> bool:
    """Whether to look at a file: its own, not a link, which is found where it points to."""
    return not os.path.islink(path) and not ignore.covers(path, is_folder=False)


@dataclass(frozen=True)
class Ownership:
    """Tells the user's own files from those that no run may edit; what is known of folders is kept."""

    folders: dict[str, Ignore | None] = field(default_factory=dict)

    def is_foreign(self, path: str) -> bool:
        """Whether an absolute path is ignored by git, installed, or in a virtual environment."""
        ignore = self.rules(os.path.dirname(path))
        return ignore is None or ignore.covers(path, is_folder=False)

    def rules(self, folder: str) -> Ignore | None:
        """The rules that hold in a folder; None when all in it is foreign."""
        if folder not in self.folders:
            self.folders[folder] = self.find_rules(folder)
        return self.folders[folder]

    def find_rules(self, folder: str) -> Ignore | None:
        """The rules of a folder, from those of the one above it."""
        is_top = folder == os.path.dirname(folder)
        above = Ignore() if is_top else self.rules(os.path.dirname(folder))
        if above is None or os.path.basename(folder) in SKIPPED or os.path.exists(os.path.join(folder, "pyvenv.cfg")):
            return None
        if os.path.exists(os.path.join(folder, ".git")):
            above = Ignore()
        return None if above.covers(folder, is_folder=True) else with_rules_of(folder, above)


def ignore_above(folder: Path) -> Ignore:
    """The rules that hold in a folder because of its parents, up to the root of its repository."""
    parents = Path(os.path.abspath(folder)).parents
    root = next((index for index, parent in enumerate(parents) if (parent / ".git").exists()), None)
    if root is None or (folder / ".git").exists():
        return Ignore()
    ignore = Ignore()
    for parent in reversed(parents[: root + 1]):
        ignore = with_rules_of(str(parent), ignore)
    return ignore


def with_rules_of(folder: str, ignore: Ignore) -> Ignore:
    """The rules of a folder's parents and its own; pathspec is imported when there are any."""
    rules = ignore.rules
    for name in (".git/info/exclude", ".gitignore"):
        try:
            lines = Path(folder, name).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        from pathspec import GitIgnoreSpec

        rules += ((folder, GitIgnoreSpec.from_lines(lines)),)
    return Ignore(rules)


def unlistable(error: OSError) -> SourceError:
    """One clear line for a folder that cannot be listed."""
    return SourceError(str(error.filename), f"cannot be listed: {explain(error)}")
