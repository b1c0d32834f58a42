"""Keep programs that share files in step."""

from __future__ import annotations

from collections.abc import Iterable

from speedpatch.run import Report, real


def linked(reports: Iterable[Report]) -> list[list[Report]]:
    """The programs that change something, those together of which one reads what another changes."""
    groups: list[tuple[set[str], set[str], list[Report]]] = []
    for report in reports:
        if not report.files:
            continue
        changed = {real(file.path) for file in report.files}
        read = changed | {real(source.path) for source in (report.job.program if report.job else ())}
        members = [report]
        for group in [group for group in groups if changed & group[1] or read & group[0]]:
            groups.remove(group)
            changed, read, members = changed | group[0], read | group[1], [*group[2], *members]
        groups.append((changed, read, members))
    return [members for _, _, members in groups]
