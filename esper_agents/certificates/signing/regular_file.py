"""Bounded reads of untrusted files; refuses FIFOs, devices and oversized files."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


_AT_ONCE = 2**16


@dataclass(frozen=True, slots=True)
class PlainFile:
    """Content and status of a regular file.

    Attributes:
        data: Bytes of the file, at most one more than the limit.
        status: Status of the open file.
    """

    data: bytes
    status: os.stat_result


def read_plain(place: Path, most: int, *, follow: bool = True) -> PlainFile | None:
    """Return a file's bytes; None if it is not a regular file.

    Args:
        place: Path of the file.
        most: Maximum number of expected bytes; one more is read, so that the caller can detect a longer file.
        follow: Whether a symbolic link is followed.

    Raises:
        OSError: The file does not exist or cannot be read.
        ValueError: The path is not a valid file name.
    """
    # Non-blocking: opening a FIFO without a writer would block forever.
    file = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return None
        return PlainFile(_read(file, min(most, status.st_size), most + 1), status)
    finally:
        os.close(file)


def _read(file: int, expected: int, most: int) -> bytes:
    """Return the bytes of an open regular file, at most so many, whatever its size was when it was opened."""
    # Not `most` at once: memory of that size would be allocated for each file.
    wanted, parts = min(expected + 1, most), list[bytes]()
    while wanted > 0:
        parts.append(os.read(file, wanted))
        most -= len(parts[-1])
        # A regular file returns fewer bytes at its end only.
        wanted = min(most, _AT_ONCE) if len(parts[-1]) == wanted else 0
    return b"".join(parts)
