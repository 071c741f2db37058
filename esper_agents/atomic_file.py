"""Atomic file writes: a new file that replaces another in one step, or not at all."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO


@dataclass(slots=True)
class AtomicFile:
    """A file that is being written.

    Attributes:
        stream: Takes the content.
        scratch: Its name until it is complete.
        path: The file to replace; may be set until the block ends.
    """

    stream: BinaryIO
    scratch: Path
    path: Path


@contextmanager
def atomic_file(
    path: Path,
    *,
    mode: int,
    scratch: Path | None = None,
    descriptor: int | None = None,
    folder: int | None = None,
    is_synced: bool = True,
) -> Iterator[AtomicFile]:
    """Yield a new file that replaces a path when the block ends; if the block raises, it is deleted.

    Args:
        path: The file to replace.
        mode: Permissions; until it is complete only the user may read it.
        scratch: A fixed name for the incomplete file, in the same file system, for callers that hold a lock; the
            remains of a killed process are deleted. If omitted, a new hidden name beside the path.
        descriptor: The scratch file, already open; it is truncated, and closed afterwards.
        folder: Descriptor of the folder that the names are relative to.
        is_synced: Whether the content is on the disk before the path is replaced; see also `sync_folder`.

    Raises:
        OSError: It cannot be written.
    """
    half = scratch or path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    if descriptor is not None:
        os.ftruncate(descriptor, 0)
    else:
        if scratch:
            _delete(half, folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(half, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            made = AtomicFile(stream, half, path)
            yield made
            stream.flush()
            os.fchmod(descriptor, mode)
            if is_synced:
                os.fsync(descriptor)
        os.replace(half, made.path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        _delete(half, folder)
        raise


def write_atomically(
    path: Path,
    data: bytes,
    *,
    mode: int,
    scratch: Path | None = None,
    descriptor: int | None = None,
    folder: int | None = None,
    is_synced: bool = True,
) -> None:
    """Replace a file's content in one step; see `atomic_file` for the options."""
    with atomic_file(
        path, mode=mode, scratch=scratch, descriptor=descriptor, folder=folder, is_synced=is_synced
    ) as made:
        made.stream.write(data)


def sync_folder(folder: Path) -> None:
    """Flush changes of a folder, such as a renamed file, to disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _delete(file: Path, folder: int | None) -> None:
    try:
        os.unlink(file, dir_fd=folder)
    except FileNotFoundError:
        return
