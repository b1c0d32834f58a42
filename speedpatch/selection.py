"""Decide which optimizations a file gets, and with which options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from speedpatch import registry
from speedpatch.codemod import Codemod, Options
from speedpatch.config import Config, UsageError, config_for
from speedpatch.target import target_for


@dataclass(frozen=True)
class Request:
    """What a command line asks of every file: flags that were given, options that were given."""

    names: tuple[str, ...] = ()
    everything: bool = False
    configured: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Selection:
    """What one file gets; `others` is set when nobody chose: what else there is to try."""

    names: tuple[str, ...]
    options: Options
    others: tuple[str, ...] = ()


def select(request: Request, folder: Path) -> Selection:
    """What a file in a folder (absolute) gets: the flags, else the configuration, else what is exact."""
    config = config_for(folder)
    names = chosen_names(request, config)
    is_default = names is None and not request.configured
    others = tuple(item.name for item in speedups() if item.parity != "exact") if is_default else ()
    names = default_names() if is_default else names or ()
    check_used(request.options, names)
    options = config.options(request.options)
    if "target_torch" not in {*config.values, *request.options}:
        options = replace(options, target_torch=target_for(folder))
    return Selection(names, options, others)


def chosen_names(request: Request, config: Config) -> tuple[str, ...] | None:
    """The optimizations that somebody named, in the order of the registry."""
    named = request.names or config.optimizations
    if request.everything:
        named = (*(item.name for item in speedups() if item.parity != "changed"), *request.names)
    if named is None:
        return None
    unknown = sorted(set(named) - set(registry.codemods()))
    if unknown:
        raise UsageError(f"{config.path}: no optimization is called {unknown[0]}: see `speedpatch list`")
    return tuple(name for name in registry.codemods() if name in set(named))


def default_names() -> tuple[str, ...]:
    """What runs when nobody chose: what cannot change a single number."""
    return tuple(item.name for item in speedups() if item.parity == "exact")


def speedups() -> list[Codemod]:
    """The optimizations that only make it faster."""
    return [item for item in registry.codemods().values() if item.group == "speed"]


def check_used(given: Mapping[str, Any], names: Iterable[str]) -> None:
    """An option of an optimization that does not run is a mistake, not a silent nothing."""
    for option in given:
        owners = [item.name for item in registry.codemods().values() if option in item.options]
        if owners and not set(owners) & set(names):
            flag = option.replace("_", "-")
            raise UsageError(f"--{flag} does nothing without --{' or --'.join(owners)}")
