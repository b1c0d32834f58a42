"""Try every optimization on a list of real scripts, and write how often each applies into docs/coverage.md.

    python benchmarks/coverage.py SCRIPTS.tsv FOLDER

SCRIPTS.tsv has a row for each script with the columns `repo` (owner/name), `path`, `loop_location` and `model_binding`;
FOLDER holds the repositories as owner__name. Nothing of a script is written down but counts.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from speedpatch import registry
from speedpatch.codemod import Options
from speedpatch.errors import SourceError
from speedpatch.program import read_program
from speedpatch.read import read_source
from speedpatch.reasons import reasons_of
from speedpatch.whole import patch_whole

VARIANTS = {
    "--amp": ("amp", Options()),
    "--amp --amp-dtype bfloat16": ("amp", Options(amp_dtype="bfloat16")),
    "--compile": ("compile", Options()),
}
STATUSES = ("applied", "already", "declined", "not_applicable", "failed")
HEAD = """# How often each optimization applies

<!-- Written by benchmarks/coverage.py: do not edit. -->

Tried on {count} public training scripts of {repositories} repositories, {notebooks} of them notebooks. A script counts
as applied where anything was; what was declined is a matter of the script, of its libraries, or of speedpatch not
being sure.
"""


@dataclass(frozen=True)
class Tried:
    """One script: its shape, and for each variant the status and the codes of its outcomes."""

    shape: str
    results: dict[str, tuple[str, tuple[str, ...]]]


def main() -> None:
    """Read the list, try all, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    with given.list.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    tried = [Tried(shape(row), dict(try_script(script(given.folder, row)))) for row in rows]
    head = HEAD.format(
        count=len(rows),
        repositories=len({row["repo"] for row in rows}),
        notebooks=sum(row["path"].endswith(".ipynb") for row in rows),
    )
    page = "\n".join([head, *overview(tried), "", *by_shape(tried), "", *by_code(tried)])
    (ROOT / "docs" / "coverage.md").write_text(page + "\n", encoding="utf-8")


def shape(row: dict[str, str]) -> str:
    """Where the loop is and how it gets at the model."""
    return f"loop: {row['loop_location']}, model: {row['model_binding']}"


def script(folder: Path, row: dict[str, str]) -> Path:
    """The file of a row."""
    return folder / row["repo"].replace("/", "__") / row["path"]


def try_script(path: Path) -> Iterator[tuple[str, tuple[str, tuple[str, ...]]]]:
    """What becomes of a script, by variant."""
    for flags, (name, options) in VARIANTS.items():
        try:
            program = read_program(read_source(path))
            result = patch_whole(program, [registry.codemods()[name]], options, lambda _: frozenset())
        except SourceError:
            yield flags, ("failed", ())
            continue
        statuses = {outcome.status for outcome in result.outcomes}
        status = next((item for item in STATUSES if item in statuses), "failed")
        codes = tuple(dict.fromkeys(outcome.code for outcome in result.outcomes if outcome.status == "declined"))
        yield flags, (status, codes if status == "declined" else ())


def overview(tried: Sequence[Tried]) -> list[str]:
    """Statuses by variant."""
    lines = ["| | " + " | ".join(STATUSES) + " |", "|---|" + "---|" * len(STATUSES)]
    for flags in VARIANTS:
        counts = Counter(item.results[flags][0] for item in tried)
        lines.append(f"| `{flags}` | " + " | ".join(str(counts[status]) for status in STATUSES) + " |")
    return lines


def by_shape(tried: Sequence[Tried]) -> list[str]:
    """How many of each shape are applied."""
    groups: dict[str, list[Tried]] = defaultdict(list)
    for item in tried:
        groups[item.shape].append(item)
    lines = ["## By shape", "", "| | scripts | " + " | ".join(f"`{flags}`" for flags in VARIANTS) + " |"]
    lines.append("|---|---|" + "---|" * len(VARIANTS))
    for name, items in sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        counts = [sum(item.results[flags][0] == "applied" for item in items) for flags in VARIANTS]
        lines.append(f"| {name} | {len(items)} | " + " | ".join(map(str, counts)) + " |")
    return lines


def by_code(tried: Sequence[Tried]) -> list[str]:
    """The reasons to decline, the commonest first, with what to do about them."""
    reasons = {code: texts for item in registry.codemods().values() for code, texts in reasons_of(item).items()}
    lines = [
        "## What was declined",
        "",
        "| code | `--amp` | bfloat16 | `--compile` | what it says |",
        "|---|---|---|---|---|",
    ]
    counts = {flags: Counter(code for item in tried for code in item.results[flags][1]) for flags in VARIANTS}
    total = sum(counts.values(), Counter())
    for code, _ in sorted(total.items(), key=lambda pair: (-pair[1], pair[0])):
        numbers = " | ".join(str(counts[flags][code] or "") for flags in VARIANTS)
        text = "; or: ".join(reasons.get(code, ("",))[:2])
        lines.append(f"| `{code}` | {numbers} | {text} |")
    return lines


if __name__ == "__main__":
    main()
