"""Say it to a program: JSON of our own, and SARIF for code scanning."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from speedpatch import __version__, registry
from speedpatch.codemod import Outcome
from speedpatch.difference import name_of
from speedpatch.run import Report, real, rewrites

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
KINDS = {"applied": "fail", "declined": "fail", "already": "pass", "not_applicable": "notApplicable"}
LEVELS = {"applied": "warning", "declined": "note", "already": "none", "not_applicable": "none"}


def to_json(reports: Sequence[Report]) -> str:
    """The stable, versioned object of `--json`."""
    return json.dumps(to_object(reports), indent=2)


def to_object(reports: Sequence[Report]) -> dict[str, Any]:
    """The same before it is text."""
    outcomes = [fields_of(outcome) for outcome in all_outcomes(reports)]
    return {"version": 1, "files": list(files_of(reports)), "outcomes": outcomes}


def files_of(reports: Sequence[Report]) -> Iterator[dict[str, Any]]:
    """The scripts, and behind them the other files that change."""
    changed = {real(file.path): file.path for file in rewrites(reports)}
    for report in reports:
        is_changed = changed.pop(real(report.path), None) is not None
        yield {"path": str(report.path), "changed": is_changed, "error": report.error}
    for path in changed.values():
        yield {"path": str(path), "changed": True, "error": None}


def fields_of(outcome: Outcome) -> dict[str, Any]:
    """An outcome as it stands in the JSON; the cell is there in a notebook only."""
    return without_cell(asdict(outcome))


def without_cell(fields: dict[str, Any]) -> dict[str, Any]:
    """A place's fields, without the cell where there are none."""
    return {name: value for name, value in fields.items() if name != "cell" or value}


def all_outcomes(reports: Iterable[Report]) -> list[Outcome]:
    """What was said, once where programs that share a file say the same of it."""
    return list(dict.fromkeys(outcome for report in reports for outcome in report.outcomes))


def to_sarif(reports: Sequence[Report]) -> str:
    """The same as a SARIF 2.1.0 log."""
    outcomes = all_outcomes(reports)
    errors = [report for report in reports if report.error]
    run = {
        "tool": {"driver": {"name": "speedpatch", "version": __version__, "rules": rules_of(outcomes)}},
        "columnKind": "unicodeCodePoints",
        "results": [result_of(outcome) for outcome in outcomes],
        "invocations": [{"executionSuccessful": not errors, "toolExecutionNotifications": list(map(notice, errors))}],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def rules_of(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """One rule for each code that occurs."""
    known = registry.codemods()
    names = {outcome.code: outcome.codemod for outcome in outcomes}
    return [{"id": code, "shortDescription": {"text": known[name].summary}} for code, name in sorted(names.items())]


def result_of(outcome: Outcome) -> dict[str, Any]:
    """One outcome at its place."""
    return {
        "ruleId": outcome.code,
        "kind": KINDS[outcome.status],
        "level": LEVELS[outcome.status],
        "message": {"text": f"{outcome.codemod}: {outcome.reason or outcome.status}"},
        "locations": [location(outcome.path, outcome.line)],
        "properties": {
            "status": outcome.status,
            "parity": outcome.parity,
            **({"cell": outcome.cell, "line": outcome.line} if outcome.cell else {}),
        },
    }


def notice(report: Report) -> dict[str, Any]:
    """A file that failed."""
    return {"level": "error", "message": {"text": report.error}, "locations": [location(str(report.path), 1)]}


def location(path: str, line: int) -> dict[str, Any]:
    """A line of a file, relative to here, as a URI."""
    uri = quote(name_of(Path(path), Path.cwd()))
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": max(line, 1)}}}
