"""Hold a codemod to a case: what it makes of a snippet, byte for byte, or why it leaves it alone."""

from __future__ import annotations

import ast
import io
import textwrap
import tokenize
from pathlib import Path
from typing import Any

from speedpatch import registry
from speedpatch.codemod import Options
from speedpatch.patch import Result, patch
from speedpatch.sources import Source

PATH = Path("train.py")


def check_rewrites(name: str, before: str, after: str, **options: Any) -> None:
    """The codemod turns `before` into `after`, loses nothing of the user's, and finds nothing more to do."""
    before, after = dedent(before), dedent(after)
    result = run(name, before, **options)
    assert text_of(result) == after, outcomes_of(result)
    assert "applied" in {outcome.status for outcome in result.outcomes}
    ast.parse(after)
    assert kept(before, after) == notes(before), "a comment or a string got lost"
    assert text_of(run(name, after, **options)) == after, "a second run changes the result"
    crlf = run(name, before.replace("\n", "\r\n"), **options)
    assert text_of(crlf) == after.replace("\n", "\r\n"), "line endings are not kept"


def check_declines(name: str, source: str, code: str, **options: Any) -> None:
    """The codemod leaves the source as it is and says `code`: declined, already there, or not applicable."""
    source = dedent(source)
    result = run(name, source, **options)
    assert code in {outcome.code for outcome in result.outcomes}, outcomes_of(result) + text_of(result)
    assert "applied" not in {outcome.status for outcome in result.outcomes}
    assert text_of(result) == source


def run(name: str, source: str, **options: Any) -> Result:
    """One codemod on one file; no error of ours is ever the right answer."""
    result = patch([Source(PATH, source)], [registry.codemods()[name]], Options(**options))
    assert result.files[0].error is None, result.files[0].error
    return result


def dedent(text: str) -> str:
    """A case as a file: no indentation, no blank first line, one newline at the end."""
    return textwrap.dedent(text).strip("\n") + "\n"


def text_of(result: Result) -> str:
    """The text of the script after patching."""
    return result.files[0].after.text


def outcomes_of(result: Result) -> str:
    """What was said, for the message of a failed test."""
    return "".join(f"{item.line}: {item.status} {item.code}: {item.reason}\n" for item in result.outcomes)


def notes(text: str) -> list[str]:
    """The comments and string literals of a text, in order."""
    kinds = {tokenize.COMMENT, tokenize.STRING}
    return [token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type in kinds]


def kept(before: str, after: str) -> list[str]:
    """Those comments and strings of `before` that `after` has too, in the order that it has them."""
    wanted = notes(before)
    found: list[str] = []
    for note in notes(after):
        if len(found) < len(wanted) and note == wanted[len(found)]:
            found.append(note)
    return found
