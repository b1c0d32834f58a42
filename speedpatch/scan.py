"""`speedpatch scan`: what was found, what could be gained, and what would be declined."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from speedpatch import __version__, registry
from speedpatch.apply import Output, exit_code
from speedpatch.codemod import Codemod, Edited, Gain, Outcome, Status
from speedpatch.config import UsageError
from speedpatch.gather import Gathered, gather
from speedpatch.machine import fields_of, to_object, without_cell
from speedpatch.run import STDIN, Report
from speedpatch.selection import Request
from speedpatch.text import in_order, print_errors

GROUPS = ("speed", "scale")
ORDER: tuple[Status, ...] = ("applied", "declined", "already", "not_applicable")


@dataclass(frozen=True)
class Prospect:
    """What one optimization would do to one program; `gain` is None where nothing is known of it for that program."""

    codemod: Codemod
    status: Status
    gain: Gain | None
    outcomes: tuple[Outcome, ...]
    edits: tuple[Edited, ...]


@dataclass(frozen=True)
class Scanned:
    """One program, and its optimizations, those that would gain most first."""

    report: Report
    prospects: tuple[Prospect, ...]

    @property
    def is_of_interest(self) -> bool:
        """Whether it trains, or something is done to it or refused."""
        is_training = self.report.evidence is not None and self.report.evidence.trains
        return is_training or any(item.status in ("applied", "declined") for item in self.prospects)

    @property
    def torch(self) -> str | None:
        """The release that it is edited for."""
        return "{}.{}".format(*self.report.job.options.target_torch) if self.report.job is not None else None

    @property
    def expected(self) -> float:
        """How many times as fast it may get, all that applies together."""
        product = 1.0
        for item in self.prospects:
            product *= middle(item.gain) if item.status == "applied" else 1
        return product


def scan(paths: Sequence[Path], names: Sequence[str], options: Mapping[str, Any], json: bool, follow: bool) -> int:
    """Scan everything under the paths; the exit code."""
    if STDIN in paths:
        raise UsageError("scan reads files, not standard input")
    wanted = tuple(names) or tuple(name for name, item in registry.codemods().items() if item.group in GROUPS)
    gathered = gather(paths, Request(names=wanted, options=options), follow, describe=True)
    scanned = [scan_report(report) for report in gathered.reports]
    if json:
        print(scan_json(gathered, scanned))
    else:
        from speedpatch.scan_text import print_scan

        print_scan(gathered, scanned, versions())
    print_errors(gathered.reports)
    return exit_code(gathered.reports, Output())


def scan_report(report: Report) -> Scanned:
    """The optimizations of one program, sorted."""
    names = dict.fromkeys(outcome.codemod for outcome in report.outcomes)
    found = [prospect(report, registry.codemods()[name]) for name in names]
    found.sort(key=lambda item: (ORDER.index(item.status), -middle(item.gain), item.codemod.name))
    return Scanned(report, tuple(found))


def prospect(report: Report, codemod: Codemod) -> Prospect:
    """What one optimization would do; when it does something, that counts, whatever else it declines."""
    outcomes = tuple(item for item in in_order(report) if item.codemod == codemod.name)
    status = min((item.status for item in outcomes), key=ORDER.index)
    edits = tuple(item for item in report.edits if item.codemod == codemod.name)
    return Prospect(codemod, status, gain_in(report, codemod), outcomes, edits)


def gain_in(report: Report, codemod: Codemod) -> Gain | None:
    """What is known to be gained in a program; what was measured on GPUs says nothing of one that trains on a CPU."""
    on_cpu = report.evidence is None or report.evidence.device in (None, "cpu")
    return None if codemod.gain is None or (on_cpu and codemod.gain.on_gpu) else codemod.gain


def middle(gain: Gain | None) -> float:
    """What to expect of a gain, for sorting."""
    return (gain.low + gain.high) / 2 if gain is not None else 1


def versions() -> dict[str, str]:
    """What a report of a mistake has to name."""
    return {"speedpatch": __version__, "python": platform.python_version()}


def scan_json(gathered: Gathered, scanned: Iterable[Scanned]) -> str:
    """What `apply --json` says, and behind it everything that is known of each program."""
    programs = [program_object(item) for item in scanned]
    return json.dumps({**to_object(gathered.reports), "versions": versions(), "programs": programs}, indent=2)


def program_object(item: Scanned) -> dict[str, Any]:
    """One program."""
    evidence = item.report.evidence
    return {
        "path": str(item.report.path),
        "error": item.report.error,
        "torch": item.torch,
        "trains": evidence is not None and evidence.trains,
        "device": evidence.device if evidence is not None else None,
        "found": [without_cell(asdict(found)) for found in evidence.found] if evidence is not None else [],
        "not_read": list(evidence.not_read) if evidence is not None else [],
        "optimizations": [prospect_object(found) for found in item.prospects],
    }


def prospect_object(item: Prospect) -> dict[str, Any]:
    """One optimization in one program."""
    gain = item.gain
    keys = {"from": gain.low, "to": gain.high, "text": gain.text, "source": gain.source} if gain is not None else None
    return {
        "codemod": item.codemod.name,
        "status": item.status,
        "gain": keys,
        "edits": [{"path": edited.path, "count": edited.count} for edited in item.edits],
        "outcomes": [fields_of(outcome) for outcome in item.outcomes],
    }
