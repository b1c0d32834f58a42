"""`speedpatch scan`: what is there, what could be gained, what would be declined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from speedpatch import registry
from speedpatch.apply import Output, exit_code
from speedpatch.config import UsageError
from speedpatch.gather import gather
from speedpatch.machine import to_json
from speedpatch.run import STDIN, Report
from speedpatch.selection import Request
from speedpatch.text import FEW, STYLES, in_order, line_of, print_errors, print_sum, say

GROUPS = ("speed", "scale")
HEADINGS = {"applied": "could be gained", "already": "there already", "declined": "would be declined"}


def scan(paths: Sequence[Path], names: Sequence[str], options: Mapping[str, Any], json: bool, follow: bool) -> int:
    """Scan everything under the paths; the exit code."""
    if STDIN in paths:
        raise UsageError("scan reads files, not standard input")
    wanted = tuple(names) or tuple(name for name, item in registry.codemods().items() if item.group in GROUPS)
    gathered = gather(paths, Request(names=wanted, options=options), follow, describe=not json)
    if json:
        print(to_json(gathered.reports))
    else:
        for report in gathered.reports:
            print_scan(report, is_brief=len(gathered.reports) > FEW)
        print_sum(gathered.reports, gathered.skipped, "could gain")
    print_errors(gathered.reports)
    return exit_code(gathered.reports, Output())


def print_scan(report: Report, is_brief: bool) -> None:
    """What there is to say of one file; of many, only of those that train."""
    statuses = {outcome.status for outcome in report.outcomes}
    if report.error or (is_brief and statuses <= {"not_applicable"}):
        return
    say(str(report.path), "bold")
    for line in report.description:
        say(f"  {line}")
    for outcome in report.outcomes:
        if outcome.status == "not_applicable":
            say(f"  {line_of(outcome)}", STYLES["not_applicable"])
    for status, heading in HEADINGS.items():
        if status in statuses:
            say(f"  {heading}:", STYLES[status])
            for outcome in in_order(report):
                if outcome.status == status:
                    say(f"    {line_of(outcome, 'applies')}")
