"""Read a script or a notebook: the bytes as they are, the text in its declared encoding, line endings kept."""

from __future__ import annotations

import io
import re
import stat
import tokenize
from pathlib import Path

from speedpatch.errors import SourceError
from speedpatch.sources import NEWLINE, Source

BOM = b"\xef\xbb\xbf"
NOTEBOOK = ".ipynb"
SUFFIXES = frozenset({".py", ".pyw", ".pyi", NOTEBOOK})
NOT_ASCII = re.compile(rb"[\x80-\xff]")


def read_source(path: Path) -> Source:
    """The script at `path`. Raises SourceError when it is no script, or cannot be read or decoded."""
    return source_from_bytes(path, read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """The bytes of a file that may be a script."""
    try:
        mode = path.stat().st_mode
        raw = b"" if stat.S_ISDIR(mode) else path.read_bytes() if stat.S_ISREG(mode) else None
    except (OSError, ValueError) as error:
        raise SourceError(str(path), f"cannot be read: {explain(error)}") from None
    if stat.S_ISDIR(mode):
        raise SourceError(str(path), "is a folder where a file is needed: name a script in it")
    if raw is None:
        raise SourceError(str(path), "is not a regular file: use `-` to read from a pipe")
    if path.suffix not in SUFFIXES and not has_python_shebang(raw):
        raise SourceError(str(path), "is not a Python script: its name does not end in .py or .ipynb")
    return raw


def source_from_bytes(path: Path, raw: bytes) -> Source:
    """Decode a script so that encoding it again gives the same bytes; raises SourceError when that fails."""
    if path.suffix == NOTEBOOK:
        from speedpatch.notebooks import read_notebook

        return read_notebook(path, raw)
    encoding = declared_encoding(path, raw)
    bom = raw.startswith(BOM)
    body = raw[len(BOM) :] if bom else raw
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        raise SourceError(str(path), undecodable(encoding, error), line_of(body[: error.start])) from None
    if "\0" in text:
        line = 1 + len(NEWLINE.findall(text, 0, text.index("\0")))
        raise SourceError(str(path), "holds a NUL byte: this is no Python source", line)
    source = Source(path, text, encoding, bom, raw)
    if source.encode() != raw:
        raise SourceError(str(path), f"is not written back the same in {encoding}: save it as UTF-8", 1)
    return source


def mentions_torch(raw: bytes) -> bool:
    """Whether a file is worth a look: what does not say torch cannot train with it."""
    return b"torch" in raw


def has_python_shebang(raw: bytes) -> bool:
    """Whether the first line says that Python runs this file."""
    first = raw.split(b"\n", 1)[0]
    return first.startswith(b"#!") and b"python" in first


def declared_encoding(path: Path, raw: bytes) -> str:
    """What PEP 263 says of the encoding: a comment in the first two lines, a byte order mark, or UTF-8."""
    # A declaration is ASCII; Python itself does not mind what else its line holds, `tokenize` does.
    mark = BOM if raw.startswith(BOM) else b""
    lines = [NOT_ASCII.sub(b"?", line) for line in raw[len(mark) :].splitlines(keepends=True)[:2]]
    try:
        name, _ = tokenize.detect_encoding(io.BytesIO(mark + b"".join(lines)).readline)
        "x".encode(name)
    except (SyntaxError, LookupError, UnicodeError) as error:
        line = 1 if b"coding" in lines[0] else 2
        reason = str(error).partition(";")[0]
        raise SourceError(
            str(path), f"declares an encoding that Python cannot read ({reason}): correct the comment", line
        ) from None
    return "utf-8" if name == "utf-8-sig" else name


def undecodable(encoding: str, error: UnicodeDecodeError) -> str:
    """One clause for bytes that are no text, with the way out."""
    byte = error.object[error.start : error.start + 1].hex()
    name = "UTF-8" if encoding == "utf-8" else encoding
    return f"not {name} (byte 0x{byte}): save it as UTF-8, or declare its encoding in the first line"


def line_of(before: bytes) -> int:
    """The number of the line that comes after these bytes, in encodings that keep ASCII."""
    return 1 + len(NEWLINE.findall(before.decode("latin-1")))


def explain(error: Exception) -> str:
    """What the system says, in lower case and without the path."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return text[:1].lower() + text[1:]
