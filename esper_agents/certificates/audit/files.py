"""Find and read documents below given paths, within limits and without following links."""

from __future__ import annotations

import base64
import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.errors import InputFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_BYTES = 256 * 1024
# A record contains the tool output, so it is longer than its view.
_MOST_RECORD_BYTES = 64 * 2**20
MOST_LINES = 20_000
MOST_FILES = 50_000
_MOST_ENTRIES = 1_000_000
_LEFT_OUT = frozenset(("node_modules", "site-packages", "__pycache__", "venv", "build"))


@dataclass
class Findings:
    """Files found under the given paths.

    Attributes:
        files: Markdown files, sorted; absolute paths, links not followed.
        named: Files that the user named explicitly.
        left_out: Skipped files and folders, with the reason.
    """

    files: list[Path] = field(default_factory=list)
    named: set[Path] = field(default_factory=set)
    left_out: list[str] = field(default_factory=list)


class UnreadableError(Exception):
    """A file cannot be read as a document; the message is a one-line reason."""


def find_documents(paths: Iterable[Path]) -> Findings:
    """Return the Markdown files below the given paths.

    Folders are walked: hidden folders and installed packages are skipped, links are not followed.

    Raises:
        InputFileError: A path does not exist.
    """
    found = Findings()
    files: set[Path] = set()
    for given in paths:
        path = Path(os.path.abspath(given.expanduser()))  # noqa: PTH100 - resolve() would follow links
        try:
            mode = path.lstat().st_mode
        except (OSError, ValueError) as error:
            raise InputFileError(str(given), "no such file or folder", remedy="correct the path") from error
        if stat.S_ISDIR(mode) or (stat.S_ISLNK(mode) and path.is_dir()):
            for file in _walk(path, found):
                if len(files) >= MOST_FILES:
                    found.left_out.append(f"more than {MOST_FILES} Markdown files: name fewer folders")
                    break
                files.add(file)
        else:
            files.add(path)
            found.named.add(path)
    found.files = sorted(files)
    return found


def _walk(top: Path, found: Findings) -> Iterator[Path]:
    folders, entries = [os.fspath(top)], 0
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as listed:
                for entry in listed:
                    entries += 1
                    if entries > _MOST_ENTRIES:
                        found.left_out.append(f"{top}: more than {_MOST_ENTRIES} entries")
                        return
                    if entry.is_dir(follow_symlinks=False):
                        if not entry.name.startswith(".") and entry.name not in _LEFT_OUT:
                            folders.append(entry.path)
                    elif entry.name.lower().endswith(".md"):
                        if entry.is_file(follow_symlinks=False):
                            yield Path(entry.path)
                        else:
                            found.left_out.append(f"{entry.path}: a link or no regular file")
        except OSError as error:
            found.left_out.append(f"{folder}: {(error.strerror or 'cannot be read').lower()}")


def read_records(view: Path) -> list[bytes]:
    """Return the records in the folder of a certificate's view; whether they belong to it is not checked."""
    records = []
    with suppress(UnreadableError):
        records.append(_read(view.with_suffix(".intoto.json"), _MOST_RECORD_BYTES))
    with suppress(UnreadableError, ValueError, TypeError, KeyError, RecursionError):
        envelope = json.loads(_read(view.with_suffix(".dsse.json"), _MOST_RECORD_BYTES))
        records.append(base64.b64decode(envelope["payload"], validate=True))
    return records


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a regular file; never blocks and never follows a link.

    Raises:
        UnreadableError: Not a regular file, too long, or it contains NUL bytes.
    """
    data = _read(path, MOST_BYTES)
    if b"\0" in data:
        raise UnreadableError("it holds NUL bytes, and is no text")
    if data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n") > MOST_LINES:
        raise UnreadableError(f"it has more than the {MOST_LINES} lines that are read")
    return data


def _read(path: Path, most: int) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        problem = "it is a link" if path.is_symlink() else (error.strerror or "it cannot be read").lower()
        raise UnreadableError(problem) from error
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise UnreadableError("it is no regular file")
        if about.st_size > most:
            raise UnreadableError(f"it has {about.st_size} bytes, more than the {most} that are read")
        try:
            data = file.read(most + 1)
        except OSError as error:
            raise UnreadableError((error.strerror or "it cannot be read").lower()) from error
    if len(data) > most:
        raise UnreadableError(f"it grew over {most} bytes while it was read")
    return data
