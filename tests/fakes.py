"""A registry and a heart of few words: what a file says decides what happens to it.

Command-line tests are about the command line, so they bring their own codemods. `python tests/fakes.py ARGS`
runs speedpatch with them.
"""

from __future__ import annotations

import ast
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from speedpatch import patch, registry
from speedpatch.codemod import Codemod, Group, Options, Outcome, Parity, Status
from speedpatch.errors import SourceError
from speedpatch.patch import FileResult, Result
from speedpatch.sources import Source


def fake_codemod(name: str, group: Group, parity: Parity, options: tuple[str, ...] = ()) -> Codemod:
    """A codemod that adds a line with its name."""
    return Codemod(
        name=name,
        group=group,
        stage="compile" if name == "compile" else "amp",
        summary=f"the summary of {name}",
        since="2.4",
        parity=parity,
        needs="",
        docs=f"{name}.md",
        plan=lambda facts, options: [],
        options=options,
    )


PRUNE = fake_codemod("prune", "model", "changed")
CODEMODS = {
    item.name: item
    for item in (
        fake_codemod("amp", "speed", "close", ("amp_dtype",)),
        fake_codemod("compile", "speed", "close", ("compile_mode",)),
        fake_codemod("non-blocking", "speed", "exact"),
        PRUNE,
    )
}


def fake_patch(
    sources: Sequence[Source],
    codemods: Iterable[Codemod],
    options: Options,
    frozen: frozenset[Path] = frozenset(),
    scripts: int = 1,
) -> Result:
    """Add `# NAME` for every codemod, unless the text says otherwise, to the script and to what is SHARED in it.

    A script that is a SHELL is no place for it: all happens in what is shared.
    """
    script = sources[0]
    obey(script)
    after, outcomes = {source.path: source for source in sources}, []
    for codemod in codemods:
        places = [source.path for source in sources if is_place(source, script, frozen)]
        status = status_of(codemod.name, after[script.path].text, [after[path].text for path in places])
        outcomes.append(outcome(codemod, status, script.path))
        for path in places if status == "applied" else ():
            after[path] = with_line(after[path], codemod.name, options.amp_dtype if codemod.name == "amp" else "on")
    return Result(tuple(FileResult(source, after[source.path]) for source in sources), tuple(outcomes))


def is_place(source: Source, script: Source, frozen: frozenset[Path]) -> bool:
    """Whether a file gets lines."""
    is_wanted = "SHELL" not in source.text if source is script else "SHARED" in source.text
    return is_wanted and source.path not in frozen


def with_line(source: Source, name: str, value: str) -> Source:
    """The source with the line of a codemod, once."""
    if "# ADDS\n" in source.text:
        source = source.with_text(source.text.replace("(model)", "(model, scaler)"))
    newline = "\r\n" if "\r\n" in source.text else "\n"
    return source if f"# {name} " in source.text else source.with_text(f"{source.text}# {name} {value}{newline}")


def obey(script: Source) -> None:
    """Do what the text says happens in the middle of the work."""
    if "CRASH" in script.text:
        raise KeyError("what\nwas I doing")
    if "DEEP" in script.text:
        raise RecursionError
    if "SLEEP" in script.text:
        time.sleep(1)
    if "KILL" in script.text:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        ast.parse(script.text)
    except SyntaxError as error:
        raise SourceError(str(script.path), str(error.msg), error.lineno or 0, error.offset or 0) from None


def status_of(name: str, text: str, places: Sequence[str]) -> Status:
    """What becomes of a codemod."""
    if all(f"# {name} " in place for place in places):
        return "already" if places else "declined"
    return "declined" if f"NO {name}" in text else "not_applicable" if "NOTHING" in text else "applied"


def outcome(codemod: Codemod, status: Status, path: Path) -> Outcome:
    """An outcome on line 1."""
    return Outcome(
        codemod.name, status, f"{codemod.name}.{status}", str(path), 1, f"because of {status}", codemod.parity
    )


def install() -> None:
    """Put the fakes in the place of the real ones."""
    registry.codemods = lambda: CODEMODS  # type: ignore[assignment]
    patch.patch = fake_patch


if __name__ == "__main__":
    install()
    from speedpatch.__main__ import main

    sys.argv[0] = "speedpatch"
    main()
