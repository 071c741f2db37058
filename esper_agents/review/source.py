"""Read one source file or notebook: bytes, digests and text, or the reason it cannot be read."""

from __future__ import annotations

import io
import os
import stat
import tokenize
from dataclasses import dataclass, replace
from hashlib import sha1, sha256
from typing import TYPE_CHECKING

from esper_agents.domain.codec import carried
from esper_agents.domain.evidence import SourceFile

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.review.notebook import BrokenCell, NotebookSource

NOTEBOOK = ".ipynb"

# As much as is reviewed at a time: trees and tables take about 50 bytes for each byte of source.
LARGEST_BYTES = 24 * 1024 * 1024
# Most of a notebook is what its cells printed.
LARGEST_NOTEBOOK_BYTES = 64 * 1024 * 1024
# Encodings that Python offers and nobody writes code in; some take time that grows with the square of the size.
_NO_SOURCE = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file, or one source of it, that was not examined.

    Attributes:
        path: Relative to the root, with forward slashes.
        problem: What is wrong; lower case, no full stop.
        remedy: A command or an edit that mends it.
        line: The line it is about, from 1, where it is about one.
    """

    path: str
    problem: str
    remedy: str
    line: int | None


@dataclass(frozen=True, slots=True)
class ReviewSource:
    r"""A file that was read.

    Attributes:
        record: What is kept of it as evidence.
        text: Its text, with `\n` at the end of every line; of a notebook its code.
        notebook: Where the lines of the text stand, if it is a notebook.
        unread: What of it could not be read: the cells that do not parse.
    """

    record: SourceFile
    text: str
    notebook: NotebookSource | None = None
    unread: tuple[Unreadable, ...] = ()

    @property
    def lines(self) -> int:
        """How many lines of code it has."""
        return self.record.lines if self.notebook is None else len(self.notebook.places)


def read(file: Path, path: str) -> ReviewSource | Unreadable:
    """Return a file's text and digests, or why it cannot be read. Never waits on a pipe or a device.

    Args:
        file: Where it is.
        path: What to call it: relative to the root, with forward slashes.
    """
    if carried(path) != path:
        return Unreadable(carried(path), "its name is not UTF-8", "rename it", None)
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return Unreadable(path, f"cannot be opened: {error.strerror}", f"run `ls -l {path}`", None)
    with os.fdopen(descriptor, "rb") as stream:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return Unreadable(path, "no regular file", "leave it out of the paths", None)
        largest = LARGEST_NOTEBOOK_BYTES if path.endswith(NOTEBOOK) else LARGEST_BYTES
        if facts.st_size > largest:
            return Unreadable(path, f"larger than {largest} bytes", "split it, or leave it out of the paths", None)
        content = stream.read(largest + 1)
    return from_bytes(content, path)


def from_bytes(content: bytes, path: str) -> ReviewSource | Unreadable:
    """Return what `read` would for a file with these bytes."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Unreadable(path, "cannot be decoded: it is UTF-16", "save it as UTF-8", None)
    if b"\0" in content:
        return Unreadable(path, "binary, not Python source", "leave it out of the paths", None)
    text = _decode(content, path)
    if isinstance(text, Unreadable):
        return text
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    record = SourceFile(path, sha256(content).hexdigest(), git_blob(content), lines, len(content))
    return _opened(ReviewSource(record, text)) if path.endswith(NOTEBOOK) else ReviewSource(record, text)


def _opened(source: ReviewSource) -> ReviewSource | Unreadable:
    """Return the code of a notebook."""
    from esper_agents.review.notebook import NotANotebookError, read_notebook

    path = source.record.path
    try:
        notebook = read_notebook(source.text)
    except NotANotebookError as error:
        return Unreadable(path, str(error), "save it anew from Jupyter, or leave it out of the paths", error.line)
    unread = tuple(_unread(each, path) for each in notebook.broken)
    return replace(source, text=notebook.text, notebook=notebook, unread=unread)


def _unread(broken: BrokenCell, path: str) -> Unreadable:
    from esper_agents.review.syntax import why_not_parsed

    why = why_not_parsed(broken.error, broken.source)
    place = broken.place
    where = f"cell {place.cell}, line {place.of_cell}"
    return Unreadable(path, f"{where} {why.problem}", why.remedy or "correct the cell", place.line)


def git_blob(content: bytes) -> str:
    """Return git's object id of these bytes, as 40 hex digits."""
    return sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _decode(content: bytes, path: str) -> str | Unreadable:
    """Decode by byte-order mark and coding line (PEP 263), as Python itself would."""
    try:
        text = content.decode("utf-8-sig" if path.endswith(NOTEBOOK) else _encoding(content))
    except (SyntaxError, UnicodeError, LookupError) as error:
        line = _line_of(error, content)
        return Unreadable(path, f"cannot be decoded: {_reason(error)}", "save it as UTF-8", line)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _encoding(content: bytes) -> str:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    if encoding.replace("_", "-").lower() in _NO_SOURCE:
        raise LookupError(f"{encoding} is no encoding of source")
    return encoding


def _line_of(error: Exception, content: bytes) -> int | None:
    if isinstance(error, UnicodeDecodeError):
        return content.count(b"\n", 0, error.start) + 1
    return None


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is no {error.encoding}"
    return str(error).splitlines()[0]
