"""Writers of an SQLite file take turns: SQLite lets the lucky one begin, and others starve."""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import URL

# Half a lease: a heartbeat that waited for somebody who is stopped must still be in time.
PATIENCE_S = 15.0
# Files whose turn was waited for in vain: whoever has it is stopped, and it is not waited for again until he goes on.
_in_vain: set[str] = set()


def lock_file(url: URL) -> str:
    """Return the file beside a database whose lock is the turn to write; empty where writers need none."""
    database = url.database or ""
    if url.get_backend_name() != "sqlite" or database in {"", ":memory:"} or database.startswith("file:"):
        return ""
    return f"{os.path.realpath(database)}-lock"


@contextmanager
def in_turn(file: str) -> Iterator[None]:
    """Hold the turn to write, among the threads of all processes, nearly in the order in which they came.

    It is about fairness alone: the database keeps writers apart. So who cannot have the file, or waits for longer than
    `PATIENCE_S` for somebody who is stopped, goes on without; the kernel takes the turn from who ends.

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
        # Closing is not enough: a child that was forked meanwhile has the file open, too.
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)


def _opened(file: str) -> int | None:
    if not file:
        return None
    try:
        return os.open(file, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError:
        return None


def _take(file: str, lock: int) -> None:
    with suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _in_vain.discard(file)
        return
    if file in _in_vain:
        return
    # A lock cannot be waited for with a limit, but a thread can. It has a descriptor of its own to let go of.
    waiter = threading.Thread(target=_wait, args=(os.dup(lock),), daemon=True)
    waiter.start()
    waiter.join(PATIENCE_S)
    if waiter.is_alive():
        _in_vain.add(file)


def _wait(lock: int) -> None:
    try:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
    finally:
        os.close(lock)
