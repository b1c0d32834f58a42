"""Parse a source, and say in the user's terms why one cannot be parsed."""

from __future__ import annotations

import ast
import re
import warnings

from speedpatch.errors import SourceError
from speedpatch.sources import NEWLINE, Module, Source

PYTHON_2 = re.compile(
    r"""(?: ^ | [:;] ) \s* (?:
        print\s+[^(=.,\[\s] | print\s*>> | exec\s+["'\w] | raise\s+[\w.\[\]]+\s*, | except\s+[^:]+,\s*\w+\s*:
    ) | (?<!`) `[^`]+` (?!`) | <> | \b[uU][rR]["']""",
    re.VERBOSE,
)
PYTHON_2_MESSAGES = (
    "Missing parentheses in call to",
    "multiple exception types must be parenthesized",
    "leading zeros in decimal integer literals",
)
LONG_NUMBER = re.compile(r"\b(0[xX])?[0-9a-fA-F]+[lL]\b")
KEYWORD_AS_NAME = re.compile(r"\b(async|await)\s*[=,)\]:]|\.\s*(async|await)\b|\bimport\s+(async|await)\b")
MAGIC = re.compile(r"\s*([!%]{1,2}\s*[A-Za-z][\w.]*|\?{1,2}\w[\w.]*|\w[\w.]*\?{1,2})")


def parse_module(source: Source) -> Module:
    """The parsed source, every line its own origin. Raises SourceError with place and reason."""
    return Module(source, parse_text(source), tuple(range(1, count_lines(source.text) + 1)))


def parse_text(source: Source) -> ast.Module:
    """The tree of a source, without the warnings that its literals may cause."""
    path = str(source.path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source.text, path)
    except SyntaxError as error:
        raise SourceError(path, explain(error, source.text), error.lineno or 0, max(error.offset or 0, 0)) from None
    except (RecursionError, MemoryError):
        raise SourceError(path, "expressions are nested too deeply to parse") from None
    except ValueError as error:
        raise SourceError(path, str(error)) from None


def count_lines(text: str) -> int:
    """The number of lines, of which the last may lack its ending."""
    ends = [match.end() for match in NEWLINE.finditer(text)]
    return len(ends) + ((ends[-1] if ends else 0) < len(text))


def explain(error: SyntaxError, text: str) -> str:
    """The reason for a syntax error: an older Python or a notebook where that is what it is."""
    lines = NEWLINE.split(text)
    number = error.lineno or 0
    line = lines[number - 1] if 0 < number <= len(lines) else ""
    message = error.msg or "invalid syntax"
    if keyword := KEYWORD_AS_NAME.search(line):
        return f"written for Python before 3.7 (`{keyword[1] or keyword[2] or keyword[3]}` as a name)"
    if is_python_2(message, line):
        return "Python 2 source"
    if (magic := MAGIC.match(line)) and message == "invalid syntax":
        return f"notebook magic (`{magic[1]}`) is no Python: remove the line"
    return message


def is_python_2(message: str, line: str) -> bool:
    """Whether an error is one that Python 2 would not report."""
    is_long = message.endswith("literal") and LONG_NUMBER.search(line)
    return message.startswith(PYTHON_2_MESSAGES) or bool(is_long or PYTHON_2.search(line))
