"""Find the codemods: our own and those that other packages bring."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points

from speedpatch.codemod import Codemod
from speedpatch.errors import PatchError


@cache
def codemods() -> dict[str, Codemod]:
    """All codemods by name. Raises PatchError when there are none, which means a broken installation."""
    package = importlib.import_module("speedpatch.codemods")
    names = [info.name for info in pkgutil.iter_modules(package.__path__)]
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    found = [module.CODEMOD for module in modules]
    found += [entry.load() for entry in entry_points(group="speedpatch.codemods")]
    if not found:
        raise PatchError("no codemods found: the installation of speedpatch is broken, install it again")
    return {codemod.name: codemod for codemod in found}
