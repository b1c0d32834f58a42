"""What a program was found to be made of, and where, as `speedpatch scan` tells it: places and names, no code."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from speedpatch.codemod import place_of
from speedpatch.errors import SourceError
from speedpatch.facts import Facts, build_facts
from speedpatch.facts.devices import Kind
from speedpatch.facts.inventory import Inventory
from speedpatch.notebooks import Notebook, place, unseen
from speedpatch.parse import parse_module
from speedpatch.patch import parsable
from speedpatch.sources import Source


@dataclass(frozen=True)
class Found:
    """One thing that was found: `path` as the user named it; in a notebook `cell` counts from 1, and `line` in it."""

    kind: str
    name: str
    path: str
    line: int
    cell: int = 0

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return place_of(self.path, self.line, self.cell)


@dataclass(frozen=True)
class Evidence:
    """What is known of one program; `not_read`: the parts of a notebook that no analysis sees."""

    trains: bool
    device: Kind | None
    found: tuple[Found, ...] = ()
    not_read: tuple[str, ...] = ()

    def names(self, kind: str) -> list[str]:
        """What the things of a kind are called."""
        return list(dict.fromkeys(item.name for item in self.found if item.kind == kind))


def find_evidence(sources: Sequence[Source]) -> Evidence | None:
    """What the program of a script is made of; None when the script cannot be parsed."""
    script = sources[0]
    try:
        modules = [parse_module(script), *parsable(sources[1:])]
    except SourceError:
        return None
    facts = build_facts(modules)
    inventory = Inventory(facts)
    found = dict.fromkeys(locate(facts, item.kind, item.name, item.node) for item in inventory.things())
    hidden = tuple(unseen(script)) if isinstance(script, Notebook) else ()
    device = inventory.device
    return Evidence(inventory.trains, device.kind if device is not None else None, tuple(found), hidden)


def locate(facts: Facts, kind: str, name: str, node: ast.AST) -> Found:
    """A thing at its place."""
    source, line = facts.tree.module(node).source, facts.line(node)
    cell, line = place(source, line) if isinstance(source, Notebook) else (0, line)
    return Found(kind, name, str(source.path), line, cell)
