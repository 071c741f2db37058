"""A fair write lock for SQLite files, so that no writer starves."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from esper_agents.storage import locks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import URL

# Files whose turn was waited for in vain: whoever has it is stopped, and it is not waited for again until he goes on.
_in_vain: set[str] = set()


def lock_file(url: URL) -> str:
    """Return the file beside a database whose lock is the turn to write; empty where writers need none."""
    database = url.database or ""
    if url.get_backend_name() != "sqlite" or database in {"", ":memory:"} or database.startswith("file:"):
        return ""
    return f"{os.path.realpath(database)}-lock"


@contextmanager
def write_lock(file: str) -> Iterator[None]:
    """Hold the turn to write, among the threads of all processes, nearly in the order in which they came.

    It is about fairness alone: the database keeps writers apart. So who cannot have the file, or waits for longer than
    `locks.PATIENCE_S` for somebody who is stopped, goes on without; the kernel takes the turn from who ends.

    Args:
        file: What `lock_file` gives; nobody waits where it is empty.
    """
    lock = _opened(file)
    if lock is None:
        yield
        return
    try:
        _take(file, lock)
        yield
    finally:
        locks.release(lock)


def _opened(file: str) -> int | None:
    if not file:
        return None
    try:
        return os.open(file, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError:
        return None


def _take(file: str, lock: int) -> None:
    with suppress(OSError):
        if locks.take(lock, 0 if file in _in_vain else locks.PATIENCE_S):
            _in_vain.discard(file)
        else:
            _in_vain.add(file)
