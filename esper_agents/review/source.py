"""Reading one source file: its bytes, its digests, its text, or why it cannot be read."""

from __future__ import annotations

import io
import os
import stat
import tokenize
from dataclasses import dataclass
from hashlib import sha1, sha256
from typing import TYPE_CHECKING

from esper_agents.domain.codec import carried
from esper_agents.domain.evidence import SourceFile

if TYPE_CHECKING:
    from pathlib import Path

LARGEST_BYTES = 5 * 1024 * 1024


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
class Source:
    r"""A file that was read.

    Attributes:
        record: What is kept of it as evidence.
        text: Its text, with `\n` at the end of every line.
    """

    record: SourceFile
    text: str


def read(file: Path, path: str) -> Source | Unreadable:
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
        if facts.st_size > LARGEST_BYTES:
            return Unreadable(
                path, f"larger than {LARGEST_BYTES} bytes", "split it, or leave it out of the paths", None
            )
        content = stream.read(LARGEST_BYTES + 1)
    return from_bytes(content, path)


def from_bytes(content: bytes, path: str) -> Source | Unreadable:
    """Return what `read` would for a file with these bytes."""
    if b"\0" in content:
        return Unreadable(path, "binary, not Python source", "leave it out of the paths", None)
    text = _decode(content, path)
    if isinstance(text, Unreadable):
        return text
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    record = SourceFile(path, sha256(content).hexdigest(), git_blob(content), lines, len(content))
    return Source(record, text)


def git_blob(content: bytes) -> str:
    """Return git's object id of these bytes, as 40 hex digits."""
    return sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _decode(content: bytes, path: str) -> str | Unreadable:
    """Decode by byte-order mark and coding line (PEP 263), as Python itself would."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        text = content.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        line = _line_of(error, content)
        return Unreadable(path, f"cannot be decoded: {_reason(error)}", "save it as UTF-8", line)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _line_of(error: Exception, content: bytes) -> int | None:
    if isinstance(error, UnicodeDecodeError):
        return content.count(b"\n", 0, error.start) + 1
    return None


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is no {error.encoding}"
    return str(error).splitlines()[0]
