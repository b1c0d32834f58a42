"""Let lines of a notebook cell that are no Python (magics, shell, help) stand as Python, and bring them back.

A line that starts a statement with `%`, `!` or `?`, or ends with `?`, becomes a comment with a token, or `pass`
and the token where it is indented; `files = !ls` stays an assignment. The token finds the original again. What
starts with `%` inside of a string or of brackets is Python, and is left alone.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from speedpatch.errors import PatchError
from speedpatch.sources import NEWLINE

KEEPS_PYTHON = frozenset({"time", "timeit", "capture", "prun"})
AUTO_CALLS = ("/", ",", ";")
CELL_MAGIC = re.compile(r"%%\s*(\w+)(?!\w*\?)")
ASSIGNMENT = re.compile(r"([A-Za-z_][^=\r\n]*?)\s*=\s*[%!]{1,2}\s*\S")
ATOM = re.compile(r"#[^\r\n]*|\"{3}|'{3}|[\"'()\[\]{}]|\\(?=[\r\n]|\Z)")
CLOSING = {quote: re.compile(rf"(?:\\.|[^\\])*?{quote}", re.DOTALL) for quote in ("'", '"', "'''", '"""')}
INDENT = re.compile(r"[ \t\f]*")
PASS = "pass  "


@dataclass(frozen=True)
class Mask:
    """Lines that are no Python, without their last ending, and the code and token that stand for them."""

    token: str
    code: str
    text: str
    is_head: bool = False

    @property
    def more_lines(self) -> int:
        """How many lines it has beyond the one that stands for it."""
        return len(NEWLINE.findall(self.text))


@dataclass(frozen=True)
class Masked:
    """A cell as Python, what is masked in it, and why it is none (the text is empty then).

    `indent` is what all its lines began with: Jupyter runs cells that are indented as a whole.
    """

    text: str
    masks: tuple[Mask, ...] = ()
    reason: str = ""
    indent: str = ""


@dataclass(frozen=True)
class State:
    """What a line leaves open for the next: brackets, a string, a backslash; and where its own code ends."""

    depth: int = 0
    quote: str = ""
    is_continued: bool = False
    code_end: int = 0

    @property
    def is_open(self) -> bool:
        """Whether the next line continues a statement."""
        return bool(self.depth or self.quote or self.is_continued)


def mask_cell(source: str, prefix: str, may_import_future: bool) -> Masked:
    """A cell as Python that parses and compiles; `prefix` begins the tokens, and occurs nowhere in the cell.

    `from __future__ import` is masked where it cannot stand in the joined program: when `may_import_future` is false.
    """
    if not why_not_python(source, ast.PyCF_ONLY_AST):
        masked = Masked(source)
    else:
        indent = common_indent(source)
        masked = replace(mask_magics(dedent(source, indent), prefix), indent=indent)
    reason = masked.reason or why_not_python(masked.text, ast.PyCF_ONLY_AST)
    if not reason:
        masked = mask_futures(masked, prefix, may_import_future)
        masked = replace(masked, text=bare_tokens(masked.text, prefix))
        reason = why_not_python(masked.text)
    return Masked("", reason=reason) if reason else masked


def why_not_python(text: str, flags: int = 0) -> str:
    """Why Python does not compile a text by itself; empty when it does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text + "\n", "<cell>", "exec", flags, dont_inherit=True)
    except SyntaxError as error:
        return f"no valid Python: {error.msg or 'invalid syntax'} (line {error.lineno or 1})"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"no valid Python: {error or type(error).__name__}"
    return ""


def mask_magics(source: str, prefix: str) -> Masked:
    """The cell with every line masked that is no Python, or the reason why nothing of it is Python."""
    lines = split_lines(source)
    parts: list[str] = []
    masks: list[Mask] = []
    state, is_head, index = State(), True, 0
    while index < len(lines):
        line, end = lines[index], index + 1
        is_head = is_head and (not line.strip() or line.lstrip().startswith("%%"))
        if not state.is_open and (reason := why_opaque(line, is_head)):
            return Masked("", reason=reason)
        state, code = read_line(line, state)
        if code:
            while end < len(lines) and lines[end - 1].rstrip("\r\n").endswith("\\"):
                end += 1
            masks.append(Mask(f"{prefix}{len(masks) + 1}", code, body_of("".join(lines[index:end])), is_head))
            line, state = stand_in(masks[-1], ending_of(lines[end - 1])), State()
        parts.append(line)
        index = end
    return Masked("".join(parts), tuple(masks))


def common_indent(source: str) -> str:
    """The indentation of the first line if all lines have it that are not blank."""
    lines = [line for line in split_lines(source) if line.strip()]
    indent = indent_of(lines[0]) if lines else ""
    return indent if all(line.startswith(indent) for line in lines) else ""


def dedent(text: str, indent: str) -> str:
    """Lines without an indentation that they all have; `indent_all` brings it back."""
    return "".join(line.removeprefix(indent) if line.strip() else line for line in split_lines(text))


def indent_all(text: str, indent: str) -> str:
    """Lines with an indentation ahead of them, save blank ones."""
    return "".join(indent + line if line.strip() else line for line in split_lines(text))


def why_opaque(line: str, is_head: bool) -> str:
    """Why the line that starts a statement makes the whole cell something else than Python; empty if it does not."""
    text = line.lstrip()
    magic = CELL_MAGIC.match(text)
    if magic and not (magic[1] in KEEPS_PYTHON and is_head):
        return f"cell magic %%{magic[1]}" if is_head else f"cell magic %%{magic[1]} behind the first line"
    return "automatic call" if text.startswith(AUTO_CALLS) else ""


def read_line(line: str, state: State) -> tuple[State, str]:
    """What is open behind a line, and the code that has to stand for it if it starts a statement and is no Python."""
    after = advance(line, state)
    text = line.strip()
    if state.is_open or not text:
        return after, ""
    if text.startswith(("%", "!", "?")):
        return after, PASS
    assignment = ASSIGNMENT.match(text)
    if assignment and not why_not_python(f"{assignment[1]} = 0"):
        return after, f"{assignment[1]} = get_ipython()  "
    is_help = not after.is_open and line[: after.code_end].rstrip().endswith("?")
    return after, PASS if is_help else ""


def advance(line: str, state: State) -> State:
    """Follow strings, brackets and comments through one physical line."""
    depth, quote, position = state.depth, state.quote, 0
    while True:
        if quote:
            closing = CLOSING[quote].match(line, position)
            if closing is None:
                is_kept = len(quote) == 3 or line.rstrip("\r\n").endswith("\\")
                return State(depth, quote if is_kept else "", False, len(line))
            position, quote = closing.end(), ""
        atom = ATOM.search(line, position)
        if atom is None or atom[0].startswith(("#", "\\")):
            return State(depth, "", atom is not None and atom[0] == "\\", atom.start() if atom else len(line))
        position = atom.end()
        if atom[0][0] in "\"'":
            quote = atom[0]
        else:
            depth = max(0, depth + (1 if atom[0] in "([{" else -1))


def mask_futures(masked: Masked, prefix: str, may_import_future: bool) -> Masked:
    """The cell with those `from __future__ import` masked that would come behind other statements."""
    lines, masks = split_lines(masked.text), list(masked.masks)
    for node in list(late_futures(bare_tokens(masked.text, prefix), may_import_future)):
        first, end = node.lineno - 1, node.end_lineno or node.lineno
        text = "".join(lines[first:end])
        if is_alone(text):
            masks.append(Mask(f"{prefix}{len(masks) + 1}", PASS, body_of(text)))
            lines[first:end] = [stand_in(masks[-1], ending_of(text)), *[""] * (end - first - 1)]
    return replace(masked, text="".join(lines), masks=tuple(masks))


def late_futures(text: str, may_import_future: bool) -> Iterator[ast.ImportFrom]:
    """The imports from `__future__` that Python refuses where they are."""
    for index, node in enumerate(parse(text).body):
        if isinstance(node, ast.ImportFrom) and node.module == "__future__" and not node.level:
            if not may_import_future:
                yield node
        elif not (index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            may_import_future = False


def starts_program(text: str) -> bool:
    """Whether an import from `__future__` could still follow a cell."""
    return all(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in parse(text).body)


def is_alone(text: str) -> bool:
    """Whether lines hold a single statement."""
    return text[:1].strip() != "" and not why_not_python(text) and len(parse(text).body) == 1


def parse(text: str) -> ast.Module:
    """The tree of a text that is known to parse."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def stand_in(mask: Mask, ending: str) -> str:
    """The line that stands for a mask."""
    return f"{indent_of(mask.text)}{mask.code}{mask.token}{ending}"


def bare_tokens(text: str, prefix: str) -> str:
    """Tokens that are not indented without `pass` ahead of them, so that imports are still found behind them."""
    return re.sub(rf"(\A|(?<=[\r\n])){PASS}(?={re.escape(prefix)})", "", text)


def unmask(text: str, masks: Sequence[Mask], prefix: str) -> str:
    """The cell with its own lines in the place of the masks; they take on the indentation that those have by now.

    Raises PatchError when a mask is missing, doubled or changed, or when the text is no Python by itself.
    """
    by_token = {mask.token: mask for mask in masks}
    mark = prefix.partition(" line ")[0] + " "
    head: list[str] = []
    lines: list[str] = []
    is_ahead = False
    checked = ""
    for line in split_lines(text):
        start = line.find(mark)
        mask = by_token.pop(body_of(line[start:]), None) if start >= 0 else None
        if start >= 0 and (mask is None or (line[:start].strip() or "pass") != mask.code.strip()):
            raise PatchError(f"`{line.strip()}` does not stand where it did, or is no longer itself")
        checked += line if mask is None else indent_of(line) + PASS + line[start:]
        is_ahead = is_ahead or (mask is None and bool(line.strip()))
        restored = line if mask is None else reindent(mask.text, indent_of(line)) + ending_of(line)
        (head if mask and mask.is_head and is_ahead else lines).append(restored)
    if by_token:
        raise PatchError(f"`{next(iter(by_token))}` is gone, and a line of the notebook with it")
    if reason := why_not_python(checked):
        raise PatchError(f"the cell is {reason}")
    return "".join([*head, *lines])


def reindent(text: str, indent: str) -> str:
    """Lines at another indentation than that of the first of them."""
    old = indent_of(text)
    if old == indent:
        return text
    return "".join(indent + line.removeprefix(old) for line in split_lines(text))


def split_lines(text: str) -> list[str]:
    """The lines of a text with their endings, as Python counts them."""
    cuts = [0, *(match.end() for match in NEWLINE.finditer(text)), len(text)]
    return [text[start:end] for start, end in pairwise(cuts) if start < end]


def indent_of(line: str) -> str:
    """The white space that a line begins with."""
    match = INDENT.match(line)
    return match[0] if match else ""


def ending_of(line: str) -> str:
    """How a line ends; empty when nothing follows it."""
    return line[len(body_of(line)) :]


def body_of(text: str) -> str:
    """A text without the ending of its last line."""
    return next((text.removesuffix(ending) for ending in ("\r\n", "\n", "\r") if text.endswith(ending)), text)
