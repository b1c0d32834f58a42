"""Time `speedpatch apply --diff`: stage by stage, by file length, and against other tools on the same files.

    python benchmarks/speed.py stages PATH...       seconds of each stage for each file, slowest first
    python benchmarks/speed.py growth [LINES...]    generated scripts; how much more time a longer one takes
    python benchmarks/speed.py peers PATH...        whole commands beside torch-preflight and torchfix

`peers` runs what it finds on PATH (`--tools FOLDER` looks there instead); the tools take turns, and what counts is the
median over the rounds of the ratios within one round, for other programs on the machine slow all tools alike. `wall`
is what a user waits, `cpu` is user plus system time of the process and its workers.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parent.parent))

from speedpatch import registry
from speedpatch.__main__ import GARBAGE
from speedpatch.checks import check
from speedpatch.codemod import Finding, Options
from speedpatch.edits import Edit, apply_edits
from speedpatch.errors import SourceError
from speedpatch.facts import Facts, build_facts
from speedpatch.parse import parse_module
from speedpatch.patch import parsable
from speedpatch.program import read_program
from speedpatch.read import mentions_torch, read_source
from speedpatch.sources import Module, Source

NAMES = ("amp", "compile")
LENGTHS = (1_000, 10_000, 50_000)
ROUNDS = 5
PEERS = {"torch-preflight": ["torch-preflight", "check"], "torchfix": ["torchfix"]}
Found = TypeVar("Found")

TRAINING = """\
import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, 10))

    def forward(self, inputs):
        return self.layers(inputs)


def evaluate(model, loader, criterion, device):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for inputs, targets in loader:
            inputs, targets = inputs.to(device), targets.to(device)
            total += criterion(model(inputs), targets).item()
    return total / len(loader)


def train(model, loader, criterion, optimizer, device, clip):
    model.train()
    for inputs, targets in loader:
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = criterion(outputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()


"""
PADDING = '''\
class Block{number}(nn.Module):
    """A block that the script holds beside the one it trains."""

    def __init__(self, channels, ratio=4):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.reduce = nn.Conv2d(channels, channels // ratio, 1)
        self.expand = nn.Conv2d(channels // ratio, channels, 1)

    def forward(self, inputs):
        hidden = torch.relu(self.reduce(self.norm(inputs)))
        return inputs + self.expand(hidden)


def summarize_{number}(values, names=None, limit=10):
    rows = {{}}
    for index, value in enumerate(values):
        name = names[index] if names else f"value {{index}}"
        if name in rows:
            rows[name].append(float(value))
        elif len(rows) < limit:
            rows[name] = [float(value)]
    try:
        best = max(rows, key=lambda name: sum(rows[name]) / len(rows[name]))
    except ValueError:
        best = None
    return rows, best


def report_{number}(model, values):
    rows, best = summarize_{number}(values)
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{{best}} of {{len(rows)}} with {{count}} weights")
    return Block{number}(count)


if {number} > len(TABLE):
    TABLE[{number}] = report_{number}
'''
MAIN = """

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net(64).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    data = TensorDataset(torch.randn(64, 32), torch.randint(10, (64,)))
    loader = DataLoader(data, batch_size=8)
    for epoch in range(arguments.epochs):
        train(model, loader, criterion, optimizer, device, 1.0)
        print(epoch, evaluate(model, loader, criterion, device))


if __name__ == "__main__":
    main()
"""


def generate(lines: int) -> str:
    """A training script of about that many lines, padded with classes and functions."""
    count = max(0, lines - (TRAINING + MAIN).count("\n")) // (PADDING.count("\n") + 2)
    padding = [PADDING.format(number=number) for number in range(count)]
    return TRAINING + "TABLE = {}\n\n\n" + "\n\n".join(padding) + MAIN


class Clock:
    """CPU seconds by stage."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def time(self, stage: str, work: Callable[[], Found]) -> Found:
        """Do something on a stage's account."""
        start = time.process_time()
        found = work()
        self.seconds[stage] += time.process_time() - start  # type: ignore[assignment]
        return found

    def total(self) -> float:
        """All stages together."""
        return sum(self.seconds.values())


def time_stages(path: Path) -> Clock:
    """What `apply --diff` does to one file, stage by stage. Raises SourceError."""
    clock = Clock()
    script = clock.time("read", lambda: read_source(path))
    if mentions_torch(script.raw):
        time_patch(clock, clock.time("program", lambda: read_program(script)))
    return clock


def time_patch(clock: Clock, sources: Sequence[Source]) -> None:
    """Parse a program, patch it, check the result, and patch that again."""
    modules = clock.time("parse", lambda: [parse_module(sources[0]), *parsable(sources[1:])])
    before = clock.time("facts", lambda: build_facts(modules))
    after = time_codemods(clock, before, "")
    if after is not before:
        clock.time("checks", lambda: check(before.modules, after.modules))
        time_codemods(clock, after, " again")


def time_codemods(clock: Clock, facts: Facts, suffix: str) -> Facts:
    """One codemod after the other."""
    for name in NAMES:
        codemod = registry.codemods()[name]
        planned = clock.time(f"{name}{suffix}", lambda facts=facts, plan=codemod.plan: list(plan(facts, Options())))  # type: ignore[misc]
        edits: list[Edit] = [item for item in planned if not isinstance(item, Finding)]
        if edits:
            modules = clock.time("edits", lambda facts=facts, edits=edits: splice(facts, edits))  # type: ignore[misc]
            facts = clock.time("facts", lambda modules=modules: build_facts(modules))  # type: ignore[misc]
    return facts


def splice(facts: Facts, edits: Sequence[Edit]) -> list[Module]:
    """Every module with its edits made."""
    return [
        apply_edits(module, [edit for edit in edits if edit.path == module.source.path]) for module in facts.modules
    ]


def show_stages(paths: Sequence[Path]) -> None:
    """A line for each file, slowest first, and the sums."""
    clocks: dict[Path, Clock] = {}
    for path in python_files(paths):
        try:
            clocks[path] = time_stages(path)
        except SourceError as error:
            print(f"{error}", file=sys.stderr)
    total: Counter[str] = Counter()
    for clock in clocks.values():
        total.update(clock.seconds)
    print(row("", ["total", *total]))
    print(row("all", [f"{value:.3f}" for value in [sum(total.values()), *total.values()]]))
    for path, clock in sorted(clocks.items(), key=lambda item: -item[1].total()):
        print(row(str(path), [f"{value:.3f}" for value in [clock.total(), *map(clock.seconds.__getitem__, total)]]))


def row(name: str, cells: Sequence[str]) -> str:
    """A line of a table."""
    return "".join(f"{cell:>13}" for cell in cells) + f"  {name}"


def python_files(paths: Sequence[Path]) -> list[Path]:
    """The scripts that paths stand for."""
    return [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]


def show_growth(lengths: Sequence[int]) -> None:
    """The stages of generated scripts, each against the shortest, by line."""
    with tempfile.TemporaryDirectory() as folder:
        clocks: dict[int, Clock] = {}
        for length in lengths:
            path = Path(folder) / f"generated_{length}.py"
            path.write_text(generate(length))
            clocks[length] = time_stages(path)
        stages = list(clocks[lengths[0]].seconds)
        print(row("lines", ["total", *stages]))
        for length, clock in clocks.items():
            print(row(str(length), [f"{value:.3f}" for value in [clock.total(), *map(clock.seconds.get, stages)]]))
        for one, other in pairwise(lengths):
            ratio = clocks[other].total() / clocks[one].total()
            print(f"{other} lines take {ratio:.1f} times as long as {one}")


def show_peers(paths: Sequence[Path], tools: str | None, rounds: int) -> None:
    """Every tool in turn, round after round; the ratios of speedpatch to the others."""
    flags = [f"--{name}" for name in NAMES]
    commands = {"speedpatch": [sys.executable, "-m", "speedpatch", "apply", "--diff", *flags]}
    for name, (program, *rest) in PEERS.items():
        found = shutil.which(program, path=tools)
        if found:
            commands[name] = [found, *rest]
    names = list(map(str, paths))
    runs = [{name: run([*command, *names]) for name, command in commands.items()} for _ in range(rounds)]
    for name in commands:
        wall, cpu = (median(times[name][index] for times in runs) for index in range(2))
        print(f"{name:16} wall {wall:7.3f} s   cpu {cpu:7.3f} s", end="")
        if name != "speedpatch":
            ratios = [median(times["speedpatch"][index] / times[name][index] for times in runs) for index in range(2)]
            print(f"   speedpatch takes {ratios[0]:.2f} of its wall, {ratios[1]:.2f} of its cpu time", end="")
        print()


def run(command: Sequence[str]) -> tuple[float, float]:
    """Wall and CPU seconds of a command with its children; what it prints and its exit code do not matter."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    before = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return time.perf_counter() - before, usage.ru_utime + usage.ru_stime


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("stages").add_argument("paths", nargs="+", type=Path)
    commands.add_parser("growth").add_argument("lengths", nargs="*", type=int, default=list(LENGTHS))
    peers = commands.add_parser("peers")
    peers.add_argument("paths", nargs="+", type=Path)
    peers.add_argument("--tools")
    peers.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    gc.set_threshold(*GARBAGE)  # as the command does
    if given.command == "stages":
        show_stages(given.paths)
    elif given.command == "growth":
        show_growth(given.lengths)
    else:
        show_peers(given.paths, given.tools, given.rounds)


if __name__ == "__main__":
    main()
