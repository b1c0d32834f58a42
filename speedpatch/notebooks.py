"""Read a Jupyter notebook as one Python program, and put edits of that program back into its cells.

The program is the text of the code cells in their order, a comment (`# %% speedpatch cell 3`) ahead of each but the
first. Lines that are no Python are masked (`speedpatch.magics`). Cells without any Python are no part of it: nothing
can be put into them. In the file only the lines that changed are written (`speedpatch.notebook_json`).
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from speedpatch.codemod import Outcome
from speedpatch.errors import PatchError, SourceError
from speedpatch.magics import (
    PASS,
    Mask,
    Masked,
    body_of,
    indent_all,
    mask_cell,
    split_lines,
    starts_program,
    unmask,
)
from speedpatch.notebook_json import CodeSource, find_code, replace_sources
from speedpatch.sources import NEWLINE, Source

BOM = b"\xef\xbb\xbf"
RUN = re.compile(r"\s*%\s*(run|load)\b")
LINE = re.compile(r"(?<!\.py )\bline (\d+)\b")
PYTHON = re.compile(r"i?python", re.IGNORECASE)


OTHER = re.compile(
    r"\s*%%(bash|sh|script|system|cmd|html|svg|js|javascript|latex|markdown|writefile|file|sql|perl|ruby)\b"
)
"""Cells in other languages, and files that a cell writes."""


@dataclass(frozen=True)
class Cell:
    """A code cell: its source in the file, the Python that stands for it, and what is masked in that.

    `opaque` says why the cell is no Python as a whole; `program` is empty then, or when there is none in it.
    """

    source: CodeSource
    program: str
    masks: tuple[Mask, ...] = ()
    opaque: str = ""
    indent: str = ""

    @property
    def number(self) -> int:
        """The position among all cells of the notebook, from 1."""
        return self.source.number


@dataclass(frozen=True)
class Notebook(Source):
    """A notebook; its text is the program that its cells make, `word` what our comments are known by."""

    cells: tuple[Cell, ...] = ()
    word: str = "speedpatch"

    def with_text(self, text: str) -> Notebook:
        """The same notebook with another program."""
        return replace(self, text=text)

    def part(self, line: int) -> int:
        """The number of the cell that a line of the program is in: no block may reach over two of them."""
        return number_at(self.text, line, self.cells, self.word)[0]

    def unread(self) -> tuple[tuple[int, str], ...]:
        """Python that is not part of the program, by cell: behind line magics, or in cells that do not parse."""
        whole = [(cell.number, cell.source.text) for cell in self.opaque_cells if not OTHER.match(cell.source.text)]
        lines = [(cell.number, mask.text) for cell, mask in self.masks if mask.text.lstrip()[:1] not in "!?"]
        return (*whole, *lines)

    def encode(self) -> bytes:
        """The bytes to write; raises PatchError when the program cannot be taken apart into the cells again."""
        changes = list(find_changes(self))
        if not changes:
            return self.raw
        file = self.raw.removeprefix(BOM).decode(self.encoding)
        result = replace_sources(file, ((cell.source, text) for cell, text in changes))
        expected = {cell.number: cell.source.text for cell in self.cells}
        expected |= {cell.number: text for cell, text in changes}
        if {source.number: source.text for source in find_code(result)} != expected:
            raise PatchError(f"{self.path}: the cells are not written as they should be")
        return (BOM if self.bom else b"") + result.encode(self.encoding)

    @property
    def opaque_cells(self) -> tuple[Cell, ...]:
        """The cells that no analysis sees, `opaque` says why."""
        return tuple(cell for cell in self.cells if cell.opaque)

    @property
    def masks(self) -> tuple[tuple[Cell, Mask], ...]:
        """The lines that no analysis sees, with the cells that they are in."""
        return tuple((cell, mask) for cell in self.cells for mask in cell.masks)


def read_notebook(path: Path, raw: bytes) -> Notebook:
    """The notebook in these bytes. Raises SourceError when they are none, or when its language is not Python."""
    try:
        file = raw.removeprefix(BOM).decode()
    except UnicodeDecodeError as error:
        line = 1 + error.object.count(b"\n", 0, error.start)
        raise SourceError(
            str(path), f"is no notebook: byte 0x{error.object[error.start]:02x} is no UTF-8", line
        ) from None
    content = load_json(path, file)
    check_format(path, content)
    check_language(path, content["metadata"])
    sources = find_code(file)
    word = unused_word(sources)
    cells = read_cells(sources, word)
    return Notebook(path, join(cells, word), "utf-8", raw.startswith(BOM), raw, tuple(cells), word)


def load_json(path: Path, file: str) -> Any:
    """The content of a file; raises SourceError with the place where it is no JSON."""
    try:
        return json.loads(file)
    except json.JSONDecodeError as error:
        reason = error.msg[:1].lower() + error.msg[1:]
        raise SourceError(str(path), f"is no notebook: no JSON, {reason}", error.lineno, error.colno) from None
    except RecursionError:
        raise SourceError(str(path), "is no notebook: its JSON is nested too deeply") from None


def check_format(path: Path, content: Any) -> None:
    """Raise SourceError unless the content is that of a notebook in a format that we know."""
    version = content.get("nbformat") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise SourceError(str(path), "is no notebook: it names no `nbformat`")
    if version < 4:
        way_out = "convert it with `jupyter nbconvert --to notebook`"
        raise SourceError(str(path), f"is a notebook of the old format {version}: {way_out}")
    if reason := why_invalid(content):
        raise SourceError(str(path), f"is no valid notebook: {reason}")


def why_invalid(content: Any) -> str:
    """What nbformat has against a notebook; empty when it is valid. Fields that no format knows do no harm."""
    import nbformat  # It takes half a second to load, and most programs are no notebooks.

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nbformat.validate(content, relax_add_props=True)
    except (nbformat.ValidationError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return str(getattr(error, "message", "") or error or type(error).__name__).split("\n")[0]
    return ""


def check_language(path: Path, metadata: Any) -> None:
    """Raise SourceError when a notebook says that its kernel speaks another language than Python."""
    kernel, info = metadata.get("kernelspec") or {}, metadata.get("language_info") or {}
    for language in (info.get("name"), kernel.get("language")):
        if language and not PYTHON.match(str(language)):
            raise SourceError(str(path), f"is a notebook in {language}: only Python can be patched")


def unused_word(sources: Sequence[CodeSource]) -> str:
    """A word that makes our comments unlike any that the cells have."""
    word, number = "speedpatch", 1
    while any(f"# %% {word} " in source.text for source in sources):
        number += 1
        word = f"speedpatch-{number}"
    return word


def read_cells(sources: Sequence[CodeSource], word: str) -> list[Cell]:
    """The cells as Python each; those that Python refuses only where they stand in the program become opaque too."""
    reasons: dict[int, str] = {}
    while True:
        cells = list(mask_cells(sources, word, reasons))
        text = join(cells, word)
        reason, line = refusal(text)
        number = number_at(text, line, cells, word)[0] if line else 0
        if not number or number in reasons:
            return cells
        reasons[number] = f"no valid Python behind the cells above it: {reason}"


def mask_cells(sources: Sequence[CodeSource], word: str, reasons: dict[int, str]) -> Iterator[Cell]:
    """The cells as Python each, save those that are known not to be."""
    may_import_future = True
    for source in sources:
        reason = reasons.get(source.number, "")
        prefix = token_prefix(word, source.number)
        masked = Masked("", reason=reason) if reason else mask_cell(source.text, prefix, may_import_future)
        has_text = any(line.strip() and prefix not in line for line in split_lines(masked.text))
        is_part = has_text or any(mask.code != PASS for mask in masked.masks)
        may_import_future = may_import_future and (not is_part or starts_program(masked.text))
        yield Cell(source, masked.text if is_part else "", masked.masks, masked.reason, masked.indent)


def refusal(text: str) -> tuple[str, int]:
    """Why Python does not compile a program and on which line, 0 when it does or when that is not known."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<notebook>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return error.msg or "invalid syntax", error.lineno or 0
    except (ValueError, RecursionError, MemoryError):
        return "", 0
    return "", 0


def join(cells: Sequence[Cell], word: str) -> str:
    """The program of all cells; every one keeps to the line ending that it has."""
    parts: list[str] = []
    for cell in filter(lambda cell: cell.program, cells):
        endings = NEWLINE.findall(cell.program) or ["\n"]
        if parts:
            parts.append(f"# %% {word} cell {cell.number}{endings[0]}")
        parts.append(cell.program + ("\r" if cell.program.endswith("\r") else endings[0]))
    return "".join(parts)


def token_prefix(word: str, number: int) -> str:
    """What the tokens of a cell begin with."""
    return f"# %% {word} line {number}."


def boundary(word: str) -> re.Pattern[str]:
    """The comment ahead of a cell."""
    return re.compile(rf"(?:\A|(?<=[\r\n]))# %% {word} cell (\d+)(?:\r\n|\n|\r|\Z)")


def find_changes(notebook: Notebook) -> Iterator[tuple[Cell, str]]:
    """The cells whose part of the program has changed, with the new sources."""
    cells = [cell for cell in notebook.cells if cell.program]
    for cell, text in zip(cells, take_apart(notebook, cells), strict=True):
        if text != cell.program:
            try:
                restored = unmask(text, cell.masks, token_prefix(notebook.word, cell.number))
            except PatchError as error:
                raise PatchError(f"{notebook.path}: cell {cell.number}: {error}") from None
            yield cell, indent_all(restored, cell.indent)


def take_apart(notebook: Notebook, cells: Sequence[Cell]) -> list[str]:
    """The part of the program that each cell has; raises PatchError when the comments between are not as they were."""
    text, word = notebook.text, notebook.word
    pieces = boundary(word).split(text)
    numbers = [int(number) for number in pieces[1::2]]
    if numbers != [cell.number for cell in cells[1:]] or text.count(f"# %% {word} cell ") != len(numbers):
        raise PatchError(f"{notebook.path}: the comments that tell the cells apart are not as they were")
    if not cells and text:
        raise PatchError(f"{notebook.path}: the notebook has no cell to put Python into")
    return [body_of(piece) for piece in pieces[::2]] if cells else []


def place(notebook: Notebook, line: int) -> tuple[int, int]:
    """The cell, by its position among all cells, and the line in it that a line of the program is; both from 1."""
    number, first = number_at(notebook.text, line, notebook.cells, notebook.word)
    above = split_lines(notebook.text)[first - 1 : line - 1]
    masks = next((cell.masks for cell in notebook.cells if cell.number == number), ())
    hidden = sum(mask.more_lines for mask in masks if any(body_of(text).endswith(mask.token) for text in above))
    return number, max(1, line - first + 1) + hidden


def in_cell(notebook: Notebook, outcome: Outcome) -> Outcome:
    """An outcome on a line of the program, with its place in the cells."""
    cell, line = place(notebook, outcome.line)
    reason = LINE.sub(lambda match: "cell {} line {}".format(*place(notebook, int(match[1]))), outcome.reason)
    return replace(outcome, cell=cell, line=line, reason=reason)


def cell_texts(notebook: Notebook) -> dict[int, str]:
    """The sources of the code cells, those whose part of the program has changed with what it changes in them."""
    texts = {cell.number: cell.source.text for cell in notebook.cells}
    return texts | {cell.number: text for cell, text in find_changes(notebook)}


def unseen(notebook: Notebook) -> Iterator[str]:
    """What no analysis sees although it may matter, for people."""
    for cell in notebook.opaque_cells:
        yield f"cell {cell.number} ({cell.opaque})"
    for cell, mask in notebook.masks:
        if RUN.match(mask.text):
            yield f"`{' '.join(mask.text.split()[:2])}` in cell {cell.number}"


def number_at(text: str, line: int, cells: Sequence[Cell], word: str) -> tuple[int, int]:
    """The number of the cell that a line of the program is in, and the line that this cell starts on."""
    number = next((cell.number for cell in cells if cell.program), 1)
    first = 1
    pattern = boundary(word)
    for index, content in enumerate(split_lines(text)[:line], 1):
        if match := pattern.match(content):
            number, first = int(match[1]), index + 1
    return number, first
