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

# Bytes of source reviewed in one pass: trees and tables take about 50 bytes for each byte of source.
LARGEST_BYTES = 24 * 1024 * 1024
# Most of a notebook is the output of its cells.
LARGEST_NOTEBOOK_BYTES = 64 * 1024 * 1024
# Encodings that Python offers but no source uses; some decode in time quadratic in the size.
_NO_SOURCE = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})


@dataclass(frozen=True, slots=True)
class Unreadable:
    """File, or one source in it, that was not examined.

    Attributes:
        path: Relative to the root, with forward slashes.
        problem: Problem, in lower case without a full stop.
        remedy: Command or edit that fixes it.
        line: Line of the problem, from 1; None without one.
    """

    path: str
    problem: str
    remedy: str
    line: int | None


@dataclass(frozen=True, slots=True)
class ReviewSource:
    r"""File that was read.

    Attributes:
        record: Evidence of the file.
        text: Text with `\n` at the end of every line; for a notebook, its code.
        notebook: Source positions of the text, for a notebook.
        unread: Parts that could not be read: the cells that do not parse.
    """

    record: SourceFile
    text: str
    notebook: NotebookSource | None = None
    unread: tuple[Unreadable, ...] = ()

    @property
    def lines(self) -> int:
        """Number of lines of code."""
        return self.record.lines if self.notebook is None else len(self.notebook.places)


def read(file: Path, path: str) -> ReviewSource | Unreadable:
    """Return a file's text and digests, or the reason it cannot be read. Never blocks on a pipe or a device.

    Args:
        file: Path of the file.
        path: Path to report: relative to the root, with forward slashes.
    """
    content = read_content(file, path)
    return content if isinstance(content, Unreadable) else from_bytes(content, path)


def read_content(file: Path, path: str) -> bytes | Unreadable:
    """Return the bytes of a file for `from_bytes`, or the reason it cannot be read; see `read` for the arguments."""
    if carried(path) != path:
        return Unreadable(carried(path), "its name is not UTF-8", "rename it", None)
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return Unreadable(path, f"cannot be opened: {error.strerror}", f"run `ls -l {path}`", None)
    with os.fdopen(descriptor, "rb") as stream:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return Unreadable(path, "not a regular file", "exclude it from the paths", None)
        largest = LARGEST_NOTEBOOK_BYTES if path.endswith(NOTEBOOK) else LARGEST_BYTES
        if facts.st_size > largest:
            return Unreadable(path, f"larger than {largest} bytes", "split it, or exclude it from the paths", None)
        return stream.read(largest + 1)


def from_bytes(content: bytes, path: str) -> ReviewSource | Unreadable:
    """Return the result that `read` would give for a file with this content."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Unreadable(path, "cannot be decoded: it is UTF-16", "save it as UTF-8", None)
    if b"\0" in content:
        return Unreadable(path, "binary, not Python source", "exclude it from the paths", None)
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
        return Unreadable(path, str(error), "save it again from Jupyter, or exclude it from the paths", error.line)
    unread = tuple(_unread(each, path) for each in notebook.broken)
    return replace(source, text=notebook.text, notebook=notebook, unread=unread)


def _unread(broken: BrokenCell, path: str) -> Unreadable:
    from esper_agents.review.syntax import why_not_parsed

    why = why_not_parsed(broken.error, broken.source)
    place = broken.place
    where = f"cell {place.cell}, line {place.of_cell}"
    return Unreadable(path, f"{where} {why.problem}", why.remedy or "correct the cell", place.line)


def git_blob(content: bytes) -> str:
    """Return git's object id of the content, as 40 hex digits."""
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
        raise LookupError(f"{encoding} is not an encoding for source code")
    return encoding


def _line_of(error: Exception, content: bytes) -> int | None:
    if isinstance(error, UnicodeDecodeError):
        return content.count(b"\n", 0, error.start) + 1
    return None


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not valid {error.encoding}"
    return str(error).splitlines()[0]
