"""Read `[tool.speedpatch]` of the nearest pyproject.toml.

[tool.speedpatch]
optimizations = ["amp", "compile"]
amp-dtype = "bfloat16"
target-torch = "2.6"
exclude = ["vendor/"]
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from speedpatch.codemod import Options

LIST, EXCLUDE = "optimizations", "exclude"
CHOICES: Mapping[str, tuple[str, ...]] = {
    "amp_dtype": ("float16", "bfloat16"),
    "compile_mode": ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
}
OLDEST, CURRENT = (2, 4), Options().target_torch


class UsageError(Exception):
    """A command line or a configuration that asks for what does not exist; the message is one line."""


@dataclass(frozen=True)
class Config:
    """What a project asks for; `optimizations` is None when it names none, `values` holds fields of Options.

    `exclude` holds patterns as in a .gitignore, for files that are never edited.
    """

    path: Path | None = None
    optimizations: tuple[str, ...] | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()

    def options(self, given: Mapping[str, Any]) -> Options:
        """The options of the codemods: what the command line gives, else the configuration, else the defaults."""
        return replace(Options(), **{**self.values, **given})


@cache
def config_for(folder: Path) -> Config:
    """The configuration that holds in an absolute folder: the nearest one above it, inside its repository."""
    path = folder / "pyproject.toml"
    table = tables_of(path).get("tool", {}).get("speedpatch") if path.is_file() else None
    if table is not None:
        return parse_config(path, table)
    is_top = folder.parent == folder or (folder / ".git").exists()
    return Config() if is_top else config_for(folder.parent)


def is_excluded(path: Path) -> bool:
    """Whether the configuration says that a file is never edited."""
    absolute = Path(os.path.abspath(path))
    config = config_for(absolute.parent)
    if config.path is None or not config.exclude:
        return False
    from pathspec import GitIgnoreSpec

    name = absolute.relative_to(config.path.parent).as_posix()
    return GitIgnoreSpec.from_lines(config.exclude).match_file(name)


@cache
def tables_of(path: Path) -> dict[str, Any]:
    """A TOML file as it stands. Raises UsageError when it is none."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read as TOML: {error}") from None


def parse_config(path: Path, table: Mapping[str, Any]) -> Config:
    """Check every key and value of the table; an unknown one is an error, never skipped."""
    if not isinstance(table, dict):
        raise UsageError(f"{path}: tool.speedpatch is no table")
    names, values = None, {}
    exclude: tuple[str, ...] = ()
    for key, value in table.items():
        place = f"{path}:{line_of_key(path, key)}"
        if key == LIST:
            names = tuple(name.removeprefix("--") for name in parse_list(place, key, value, '["amp", "compile"]'))
        elif key == EXCLUDE:
            exclude = parse_list(place, key, value, '["vendor/"]')
        else:
            values[key.replace("-", "_")] = parse_option(place, key, value)
    return Config(path, names, values, exclude)


def parse_list(place: str, key: str, value: object, example: str) -> tuple[str, ...]:
    """A list of strings."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise UsageError(f"{place}: {key} has to be a list of names, such as {example}")
    return tuple(value)


def parse_option(place: str, key: str, value: object) -> object:
    """The value of one option, checked as on the command line."""
    known = [option.name.replace("_", "-") for option in fields(Options)]
    if key not in known:
        raise UsageError(
            f"{place}: unknown key `{key}` in [tool.speedpatch]: it knows {', '.join([LIST, EXCLUDE, *known])}"
        )
    if key == "target-torch":
        return parse_target(f"{place}: target-torch", str(value))
    return parse_choice(f"{place}: {key}", key.replace("-", "_"), value)


def parse_choice(place: str, name: str, value: object) -> object:
    """One of the values that an option takes."""
    choices = CHOICES.get(name)
    if choices and value not in choices:
        raise UsageError(f"{place} is {value!r}: it has to be one of {', '.join(choices)}")
    return value


def parse_target(place: str, value: str) -> tuple[int, int]:
    """A torch release such as 2.6, not older than what we write for."""
    match = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)?", value)
    if not match:
        raise UsageError(f'{place} is {value!r}: it has to be a release such as "2.6"')
    target = int(match[1]), int(match[2])
    if target < OLDEST:
        raise UsageError(f"{place} is {value}: nothing older than {OLDEST[0]}.{OLDEST[1]} is written for")
    return target


def line_of_key(path: Path, key: str) -> int:
    """The line of a key in the table's section, for messages."""
    lines = path.read_text(encoding="utf-8").splitlines()
    start = next((index for index, line in enumerate(lines) if line.strip().startswith("[tool.speedpatch")), 0)
    pattern = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=")
    return next((number for number, line in enumerate(lines[start:], start + 1) if pattern.match(line)), start + 1)
