"""A fair write lock for SQLite files, so that no writer starves."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from esper_agents.storage import locks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.storage.database_url import DatabaseUrl

# Files for which a wait has timed out because the holder is suspended; they are not waited for until it continues.
_in_vain: set[str] = set()


def lock_file(url: DatabaseUrl) -> str:
    """Return the lock file next to a database; empty if writers need none."""
    database = url.database or ""
    if url.get_backend_name() != "sqlite" or database in {"", ":memory:"} or database.startswith("file:"):
        return ""
    return f"{os.path.realpath(database)}-lock"


@contextmanager
def write_lock(file: str) -> Iterator[None]:
    """Hold the write lock, shared by the threads of all processes, in nearly first-come order.

    The lock is only for fairness: the database itself keeps writers apart. A writer that cannot open the file, or waits
        for longer than `locks.PATIENCE_S` for a suspended process, proceeds without it. The kernel releases the lock of
        a process that ends.

    Args:
        file: Result of `lock_file`; if empty, there is no wait.
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
