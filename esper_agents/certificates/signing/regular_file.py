"""Bounded reads of untrusted files; refuses FIFOs, devices and oversized files."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class PlainFile:
    """A file that was read.

    Attributes:
        data: Its bytes, at most one more than was asked for.
        status: What the system said of it when it was open.
    """

    data: bytes
    status: os.stat_result


def read_plain(place: Path, most: int, *, follow: bool = True) -> PlainFile | None:
    """Return a file's bytes; None where it is no regular file.

    Args:
        place: The file.
        most: How many bytes are expected at most; one more is read, so that the caller sees that there are more.
        follow: Whether it may be a link.

    Raises:
        OSError: It is not there or cannot be read.
        ValueError: No file can have that name.
    """
    # Not blocking: a FIFO that nobody writes to would hold us for ever.
    file = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return None
        with open(file, "rb", closefd=False) as opened:
            return PlainFile(opened.read(most + 1), status)
    finally:
        os.close(file)
