"""Bundle of files for another machine: bounded, with digests, and written into one folder only."""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_MOST_HEAD_BYTES = 64 * 2**20
_LONGEST_PATH_BYTES = 4096
_FORMAT = "esper-bundle-1"
_REMEDY = "send it again from the machine that has the project"


@dataclass(frozen=True, slots=True)
class BundledFile:
    """A regular file.

    Attributes:
        path: Its path, relative and with forward slashes.
        content: Its bytes.
        is_executable: Whether its owner may execute it.
    """

    path: str
    content: bytes
    is_executable: bool = False


def pack_files(files: Iterable[BundledFile], facts: dict[str, str]) -> bytes:
    """Return the bytes of a bundle; equal files and facts give equal bytes.

    Args:
        files: The files.
        facts: Other facts about the bundle, by name.
    """
    held = sorted(files, key=lambda file: file.path)
    rows = [[file.path, len(file.content), sha256(file.content).hexdigest(), file.is_executable] for file in held]
    head = json.dumps({"format": _FORMAT, "facts": facts, "files": rows}, sort_keys=True, separators=(",", ":"))
    packed = zlib.compressobj(level=6)
    pieces = [packed.compress(head.encode() + b"\n"), *(packed.compress(file.content) for file in held)]
    return b"".join((*pieces, packed.flush()))


def unpack_files(data: bytes, most_bytes: int) -> tuple[tuple[BundledFile, ...], dict[str, str]]:
    """Return the files and facts of a bundle, once every digest was checked.

    Args:
        data: Bytes of the bundle, from another machine.
        most_bytes: Maximum size of all files together.

    Raises:
        IntegrityError: It is damaged or too large.
    """
    plain = zlib.decompressobj()
    try:
        whole = plain.decompress(data, most_bytes + _MOST_HEAD_BYTES)
    except zlib.error as error:
        raise IntegrityError(f"the bundle is damaged: {error}", remedy=_REMEDY) from error
    head, newline, contents = whole.partition(b"\n")
    if not plain.eof or len(head) > _MOST_HEAD_BYTES or not newline or len(contents) > most_bytes:
        raise IntegrityError("the bundle is incomplete or too large", remedy=_REMEDY)
    try:
        parsed = json.loads(head)
        rows = [(str(path), int(size), str(digest), bool(mode)) for path, size, digest, mode in parsed["files"]]
        facts = {str(name): str(text) for name, text in parsed["facts"].items()}
        is_known = parsed["format"] == _FORMAT
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise IntegrityError("the bundle has no readable list of files", remedy=_REMEDY) from error
    if not is_known or sum(size for _, size, _, _ in rows) != len(contents) or any(size < 0 for _, size, _, _ in rows):
        raise IntegrityError("the bundle does not contain the files that it lists", remedy=_REMEDY)
    return tuple(_files(rows, contents)), facts


def _files(rows: Sequence[tuple[str, int, str, bool]], contents: bytes) -> Iterable[BundledFile]:
    start = 0
    for path, size, digest, is_executable in rows:
        content = contents[start : start + size]
        start += size
        if sha256(content).hexdigest() != digest:
            raise IntegrityError(f"file {path[:200]!r} of the bundle does not match its digest", remedy=_REMEDY)
        yield BundledFile(path, content, is_executable)


def write_files(folder: Path, files: Iterable[BundledFile]) -> None:
    """Write files into a new private folder.

    Args:
        folder: An empty folder of this user; its path is resolved.
        files: The files, from another machine.

    Raises:
        IntegrityError: A path is not inside the folder, has a part named `.git`, or is there already.
        OSError: A file cannot be written.
    """
    for file in files:
        refuse_path(file.path)
        place = folder / PurePosixPath(file.path)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            # The folder contains regular files and folders only, so that no part of the path is a link.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(place, flags, 0o700 if file.is_executable else 0o600)
        except (FileExistsError, NotADirectoryError) as error:
            raise IntegrityError(f"path {file.path!r} is listed twice", remedy=_REMEDY) from error
        except ValueError as error:
            raise IntegrityError(f"path {file.path!r} is not a path", remedy=_REMEDY) from error
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(file.content)


def refuse_path(path: str) -> None:
    """Refuse a path of a bundle that could lead out of its folder, or configure git.

    Raises:
        IntegrityError: It could.
    """
    parts = path.split("/")
    is_plain = "\0" not in path and len(path.encode(errors="replace")) <= _LONGEST_PATH_BYTES
    if not is_plain or any(part in {"", ".", ".."} or part.lower() == ".git" for part in parts):
        raise IntegrityError(f"path {path[:200]!r} cannot be in a bundle", remedy="rename the file")
