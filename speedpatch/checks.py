"""Check the result before anyone sees it: it compiles, knows its names, and is the original outside of the edits.

A check that fails means that an edit of ours is wrong.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from speedpatch.errors import PatchError
from speedpatch.line_checks import check_lines
from speedpatch.sources import Module
from speedpatch.splice.literals import LITERALS, TEMPLATES, walk

DEEP = 4000
UNDEFINED = ("UndefinedName", "UndefinedLocal", "UndefinedExport", "ImportStarUsage")


def check(before: Sequence[Module], after: Sequence[Module]) -> None:
    """Compare a program with what came of it. Raises PatchError for the first thing that is wrong."""
    if [module.source.path for module in before] != [module.source.path for module in after]:
        raise PatchError("the files of the program are not the same ones any more")
    for old, new in zip(before, after, strict=True):
        if old.source.text != new.source.text:
            check_compiles(old, new)
            check_names(old, new)
            check_strings(old, new)
            check_lines(old, new)


def check_compiles(before: Module, after: Module) -> None:
    """Raise PatchError when Python refuses the result."""
    reason, line = refusal(after)
    if reason and refusal(before)[0]:
        raise PatchError(f"{before.source.path}:{refusal(before)[1]}: is no valid Python: {refusal(before)[0]}")
    if reason:
        raise PatchError(f"{after.source.path}:{user_line(after, line)}: the result is no valid Python: {reason}")


def refusal(module: Module) -> tuple[str, int]:
    """Why Python does not compile a module, and on which line; empty when it does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(module.source.text, str(module.source.path), "exec", dont_inherit=True)
    except SyntaxError as error:
        return error.msg or "invalid syntax", error.lineno or 1
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or type(error).__name__, 1
    return "", 0


def check_names(before: Module, after: Module) -> None:
    """Raise PatchError when the result uses a name that is defined nowhere, and the original did not."""
    undefined = undefined_names(after)
    known = undefined_names(before) if undefined else {}
    for name, line in undefined.items():
        if name not in known:
            raise PatchError(
                f"{after.source.path}:{user_line(after, line)}: the result uses {name}, which is undefined"
            )


def undefined_names(module: Module) -> dict[str, int]:
    """The names that are used but defined nowhere, or perhaps in a star import, with their lines."""
    from pyflakes.checker import Checker  # It loads doctest and unittest, which takes longer than most patches.

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEEP))  # pyflakes takes three calls for each `elif` of a chain, or term of a sum
    try:
        messages = Checker(ast.parse(module.source.text), filename=str(module.source.path)).messages
    except RecursionError:
        raise PatchError(f"{module.source.path}: expressions are nested too deeply to check") from None
    finally:
        sys.setrecursionlimit(limit)
    found = [message for message in messages if type(message).__name__ in UNDEFINED]
    return {str(message.message_args[0]): message.lineno for message in reversed(found)}


def check_strings(before: Module, after: Module) -> None:
    """Raise PatchError when a string over several lines has become another one."""
    old, new = list(long_strings(before)), list(long_strings(after))
    lost = Counter(key for key, _ in old) - Counter(key for key, _ in new)
    fresh = Counter(key for key, _ in new) - Counter(key for key, _ in old)
    if lost and fresh:
        line = next(line for key, line in new if key in fresh)
        raise PatchError(f"{after.source.path}:{user_line(after, line)}: a string over several lines has changed")


def long_strings(module: Module) -> Iterator[tuple[str, int]]:
    """The strings that are written over several lines, formatted ones included, with their lines."""
    for node in walk([module.tree]):
        if isinstance(node, LITERALS) and node.end_lineno != node.lineno:
            parts = [node] if not isinstance(node, TEMPLATES) else ast.walk(node)
            texts = [part.value for part in parts if isinstance(part, ast.Constant)]
            yield repr(texts), node.lineno


def user_line(module: Module, line: int) -> int:
    """The line of the user's file for a line of a result: its own, or the nearest before it."""
    return next(filter(None, chain(reversed(module.origin[:line]), [1])))
