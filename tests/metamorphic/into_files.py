"""Split a script into the files that people split theirs into: classes, functions that make things, loops."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from tests.metamorphic.decoys import last_import
from tests.metamorphic.into_main import Chunk
from tests.metamorphic.makers import BUILT, Maker, find_makers
from tests.metamorphic.movable import Movable, bound_names
from tests.metamorphic.scopes import Callable
from tests.metamorphic.text import NotApplicable, free_name, indentation_unit, replace_spans, with_newline

Style = Literal["names", "modules", "everything"]
# What each file is for; one that stands earlier imports nothing of one that stands later.
CANDIDATES = (("nets", "net_parts"), ("makers", "maker_parts"), ("loops", "loop_parts"))
SCRIPT = "script"
MARK = re.compile(r"^# part (\w+)\r?\n", re.MULTILINE)


@dataclass(frozen=True)
class Split:
    """The files by the names of their modules, the script first, and the single file that they come from.

    A comment is ahead of every part, in the single file as well, so that the parts can be found again.
    """

    files: dict[str, str]
    single: str
    makers: tuple[Maker, ...]

    def join(self, texts: Iterable[str]) -> dict[str, str]:
        """The parts of patched files, in the spelling of the single file, without imports."""
        modules = "|".join([*self.files][1:])
        found = {name: part for text in texts for name, part in take_apart(text)}
        found = {name: re.sub(rf"\b(?:{modules})\.(?=\w)", "", part) for name, part in found.items()}
        for maker in self.makers:
            expression = found.pop(maker.name).partition("return ")[2]
            home = str(maker.chunk.first)
            found[home] = found[home].replace(f"= {maker.call}", f"= {expression}")
        return found


def take_apart(text: str) -> Iterator[tuple[str, str]]:
    """The marked parts of a file, without imports and blank lines around them; what is ahead of them is no part."""
    head, *pieces = MARK.split(text)
    parts = [("head", head)] if any(not line.startswith("#") for line in kept(head).splitlines()) else []
    for name, part in [*parts, *zip(pieces[::2], pieces[1::2], strict=True)]:
        if kept(part):
            yield name, kept(part)


def kept(part: str) -> str:
    """A part of a program without its imports."""
    lines = [line for line in part.split("\n") if not line.startswith(("import ", "from "))]
    return "\n".join(lines).strip()


def into_files(text: str, style: Style, make: bool = False) -> Split:
    """The script in several files; with `make`, what builds a model or an optimizer becomes a function."""
    program = Movable(text)
    makers = tuple(find_makers(program)) if make else ()
    if not program.moved and not makers:
        raise NotApplicable("nothing can move")
    splitter = Splitter(program, style, makers)
    files = dict(splitter.texts())
    for name, content in files.items():
        compile(content, f"<{name}>", "exec")
    return Split(files, splitter.single(), splitter.makers)


class Splitter:
    """One program on its way into several files."""

    def __init__(self, program: Movable, style: Style, makers: tuple[Maker, ...]) -> None:
        self.program, self.style, self.makers = program, style, makers
        self.newline = program.source.newline
        self.names = [free_name(program.source.text, *candidates) for candidates in CANDIDATES]
        self.files = self.assign()
        self.owners = {name: file for chunk, file in self.files.items() for name in bound_names(chunk)}
        self.owners |= {maker.name: 1 for maker in makers}

    def assign(self) -> dict[Chunk, int]:
        """The file that each part moves to: its own kind's, or an earlier one where that needs it."""
        files = {chunk: self.kind(chunk) for chunk in self.program.moved}
        needs = [(chunk, name) for chunk in files for name in self.program.reads(chunk) if name in self.program.homes]
        made = [
            (1, self.program.homes[name]) for maker in self.makers for name in maker.reads & set(self.program.homes)
        ]
        for file, chunk in made:
            files[chunk] = min(files[chunk], file)
        for _ in files:
            for chunk, name in needs:
                home = self.program.homes[name]
                files[home] = min(files[home], files[chunk])
        return files

    def kind(self, chunk: Chunk) -> int:
        """The file that a part belongs into by what it is."""
        if not isinstance(chunk.statement, Callable):
            return 0
        for node in ast.walk(chunk.statement):
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Call):
                function = node.value.func
                own = isinstance(function, ast.Name) and function.id in self.program.homes
                if own or self.program.dotted(function).startswith((*BUILT, "torch.utils.data.")):
                    return 1
        return 2

    def texts(self) -> Iterator[tuple[str, str]]:
        """The files, the script first; those that nothing moves to are left out."""
        yield SCRIPT, self.script()
        for file, name in enumerate(self.names):
            content = self.content(file)
            if content:
                yield name, "".join([*self.head(file), *content])

    def single(self) -> str:
        """The program as it was, with the marks."""
        return self.program_text([self.marked(chunk, None) for chunk in self.program.chunks])

    def script(self) -> str:
        """What stays, with imports of what moved behind the other imports."""
        last = last_import(self.program.tree)
        parts: list[str] = []
        own = [f"# part imports{self.newline}", *self.imports(self.reads_of_script(), len(self.names))]
        chunks = [chunk for chunk in self.program.chunks if chunk not in self.files]
        for index, chunk in enumerate(chunks):
            if chunk.last > last >= (chunks[index - 1].last if index else 0):
                parts += own
            parts.append(self.marked(chunk, len(self.names)))
        if not chunks or last >= chunks[-1].last:
            parts += own
        return self.program_text(parts)

    def program_text(self, parts: list[str]) -> str:
        """Parts with what stands ahead of and behind all of them."""
        lines, chunks = self.program.source.lines, self.program.chunks
        return "".join([*lines[: chunks[0].first - 1], *parts, *lines[chunks[-1].last :]])

    def content(self, file: int) -> list[str]:
        """The parts of a file, with their marks."""
        unit = indentation_unit(self.program.source, self.program.tree)
        parts = [self.marked(chunk, file) for chunk, home in self.files.items() if home == file]
        for maker in self.makers if file == 1 else ():
            expression = self.spelled(maker.expression, maker.start, 1)
            lines = [f"# part {maker.name}", "", "", f"def {maker.name}({', '.join(maker.parameters)}):"]
            parts += [*(line + self.newline for line in lines), f"{unit}return {expression}{self.newline}"]
        return parts

    def head(self, file: int) -> list[str]:
        """The imports of a file: those of the script that it needs, then those of earlier files."""
        reads = {name for chunk, home in self.files.items() if home == file for name in self.program.reads(chunk)}
        reads |= {name for maker in self.makers if file == 1 for name in maker.reads}
        own = [chunk for name in reads & set(self.program.imports) for chunk in self.program.imports[name]]
        lines = [
            self.program.source.segment(statement) + self.newline
            for chunk in self.program.chunks
            if chunk in own or is_future(chunk)
            for statement in chunk.statements
        ]
        return [*lines, *self.imports(reads, file)]

    def imports(self, reads: set[str], file: int) -> list[str]:
        """The imports that a file gets other files' names by."""
        lines = []
        for home in sorted({self.owners[name] for name in reads & set(self.owners)} - {file}):
            module = self.names[home]
            names = sorted(name for name in reads if self.owners.get(name) == home)
            hidden = [name for name in names if name.startswith("_")]
            if self.style == "modules":
                lines.append(f"import {module}")
            elif self.style == "names":
                lines.append(f"from {module} import {', '.join(names)}")
            else:
                lines += [f"from {module} import *", *([f"from {module} import {', '.join(hidden)}"] if hidden else [])]
        return [line + self.newline for line in lines]

    def reads_of_script(self) -> set[str]:
        """What the script needs of the other files."""
        rest = [chunk for chunk in self.program.chunks if chunk not in self.files]
        gone = {name for maker in self.makers for name in maker.reads if self.only_in(maker, name)}
        reads = {name for chunk in rest for name in self.program.reads(chunk)} - gone
        return reads | {maker.name for maker in self.makers}

    def only_in(self, maker: Maker, name: str) -> bool:
        """Whether the script names something nowhere but in expressions that moved."""
        chunks = [chunk for chunk in self.program.chunks if chunk not in self.files]
        return all(
            any(other.start <= use.start < other.end for other in self.makers)
            for chunk in chunks
            for use in self.program.uses_in(chunk)
            if use.name == name and use.scope is self.program.scopes.module
        )

    def marked(self, chunk: Chunk, file: int | None) -> str:
        """A part with its mark, as it is spelled in a file; None for the single one."""
        lines = self.program.source.lines[chunk.first - 1 : chunk.last]
        text = "".join(with_newline(lines, self.newline))
        if file is not None:
            text = self.spelled(text, self.program.source.starts[chunk.first - 1], file)
        return f"# part {chunk.first}{self.newline}{text}"

    def spelled(self, text: str, start: int, file: int) -> str:
        """A piece of the program, from an offset, with the names of other files as a file knows them."""
        calls = [maker for maker in self.makers if file == len(self.names) and start <= maker.start < start + len(text)]
        spans = [
            (maker.start - start, maker.end - start, self.qualified(maker.name) + maker.call[len(maker.name) :])
            for maker in calls
        ]
        for use in self.program.uses:
            inside = start <= use.start < start + len(text) and use.scope is self.program.scopes.module
            made = any(maker.start <= use.start < maker.end for maker in calls)
            if inside and not made and self.owners.get(use.name, file) != file and isinstance(use.node, ast.Name):
                if not text.startswith(use.name, use.start - start):
                    raise NotApplicable("a name stands where it cannot be found")
                spans.append((use.start - start, use.start - start + len(use.name), self.qualified(use.name)))
        return replace_spans(text, spans)

    def qualified(self, name: str) -> str:
        """A name of another file as it is spelled where it is used."""
        return f"{self.names[self.owners[name]]}.{name}" if self.style == "modules" else name


def is_future(chunk: Chunk) -> bool:
    """Whether a statement changes how a file is compiled."""
    return isinstance(chunk.statement, ast.ImportFrom) and chunk.statement.module == "__future__"
