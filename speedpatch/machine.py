"""Say it to a program: JSON of our own, and SARIF for code scanning."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from speedpatch import __version__, registry
from speedpatch.codemod import Outcome
from speedpatch.difference import name_of
from speedpatch.run import Report

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
KINDS = {"applied": "fail", "declined": "fail", "already": "pass", "not_applicable": "notApplicable"}
LEVELS = {"applied": "warning", "declined": "note", "already": "none", "not_applicable": "none"}


def to_json(reports: Sequence[Report]) -> str:
    """The stable, versioned object of `--json`."""
    files = [{"path": str(report.path), "changed": report.changed, "error": report.error} for report in reports]
    outcomes = [asdict(outcome) for report in reports for outcome in report.outcomes]
    return json.dumps({"version": 1, "files": files, "outcomes": outcomes}, indent=2)


def to_sarif(reports: Sequence[Report]) -> str:
    """The same as a SARIF 2.1.0 log."""
    outcomes = [outcome for report in reports for outcome in report.outcomes]
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
        "properties": {"status": outcome.status, "parity": outcome.parity},
    }


def notice(report: Report) -> dict[str, Any]:
    """A file that failed."""
    return {"level": "error", "message": {"text": report.error}, "locations": [location(str(report.path), 1)]}


def location(path: str, line: int) -> dict[str, Any]:
    """A line of a file, relative to here, as a URI."""
    uri = quote(name_of(Path(path), Path.cwd()))
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": max(line, 1)}}}
