"""Say what a training program is made of, for `speedpatch scan`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from speedpatch.errors import SourceError
from speedpatch.facts import Facts, build_facts
from speedpatch.facts.devices import find_device
from speedpatch.facts.values import Derived, Instance, Parameter, Value
from speedpatch.notebooks import Notebook, unseen
from speedpatch.notebooks import place as cell_place
from speedpatch.parse import parse_module
from speedpatch.patch import parsable
from speedpatch.sources import Source

DEVICES = {
    "cpu": "the CPU only",
    "cuda": "CUDA, always",
    "flag": "CUDA under a condition",
    "object": "chosen at run time",
    "unknown": "not known",
}


def describe_program(sources: Sequence[Source]) -> tuple[str, ...]:
    """What the program of a script is made of, a line each; nothing when it does not train or cannot be parsed."""
    try:
        modules = [parse_module(sources[0]), *parsable(sources[1:])]
    except SourceError:
        return ()
    lines = describe(build_facts(modules))
    script = sources[0]
    hidden = list(unseen(script)) if lines and isinstance(script, Notebook) else []
    return (*lines, f"not read: {', '.join(hidden)}") if hidden else lines


def describe(facts: Facts) -> tuple[str, ...]:
    """The roles and sites of a training program, with their lines."""
    sites = facts.sites
    if not sites.backwards:
        return ()
    device = find_device(facts)
    chosen = f" ({facts.text(device.node)})" if device.node is not None else ""
    rows = {
        "trains": [made(facts, value) for value in sites.models],
        "with": [made(facts, value) for value in sites.optimizers],
        "reads from": [called(facts, call) for call in sites.loaders],
        "backward": places(facts, (site.call for site in sites.backwards)),
        "optimizer steps": places(facts, (step.call for step in sites.steps)),
        "scheduler steps": places(facts, (step.call for step in sites.scheduler_steps)),
        "mixed precision": places(facts, sites.amp_uses),
        "device": [f"{DEVICES[device.kind]}{chosen}"],
    }
    return tuple(f"{name}: {', '.join(dict.fromkeys(items))}" for name, items in rows.items() if items)


def made(facts: Facts, value: Value) -> str:
    """An object by its class and the line that makes it."""
    if isinstance(value, Parameter):
        return f"parameter {value.name} of {value.function.name} ({place(facts, value.function)})"
    site = value.site if isinstance(value, (Instance, Derived)) else None
    name = value.name.rpartition(".")[2] if isinstance(value, Instance) else "something"
    return f"{name} ({place(facts, site)})" if site is not None else name


def called(facts: Facts, call: ast.Call) -> str:
    """A call by what it calls and its line."""
    return f"{facts.text(call.func)} ({place(facts, call)})"


def places(facts: Facts, nodes: Iterable[ast.AST]) -> list[str]:
    """The places of some nodes."""
    return [place(facts, node) for node in nodes]


def place(facts: Facts, node: ast.AST) -> str:
    """The line of a node, with its file where that is not the script."""
    line = f"line {facts.line(node)}"
    script = facts.script.source
    if facts.in_script(node) and isinstance(script, Notebook):
        return "cell {} line {}".format(*cell_place(script, facts.line(node)))
    return line if facts.in_script(node) else f"{facts.path(node).name} {line}"
