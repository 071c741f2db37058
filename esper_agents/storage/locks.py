"""File locks with a timeout, because the process that holds one may be suspended."""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from esper_agents.errors import BusyError

if TYPE_CHECKING:
    from pathlib import Path

# Half a lease: a heartbeat that waits for a suspended process must still be in time.
PATIENCE_S = 15.0


def locked(file: Path) -> int:
    """Return the descriptor of a file locked exclusively by this process; the file is created if it is missing.

    Raises:
        BusyError: Another process held the lock for all of `PATIENCE_S`.
        OSError: The file cannot be opened or locked.
    """
    lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        is_mine = take(lock, PATIENCE_S)
    except OSError:
        os.close(lock)
        raise
    if not is_mine:
        os.close(lock)
        raise BusyError(
            f"another process has held the lock {str(file)!r} for over {PATIENCE_S:.0f} s",
            remedy="find it with `lslocks`, let it continue or end it, then run the command again",
        )
    return lock


def take(lock: int, patience_s: float) -> bool:
    """Return whether an open file could be locked within a time.

    Raises:
        OSError: The file cannot be locked at all.
    """
    if _take_at_once(lock):
        return True
    if not patience_s:
        return False
    # `flock` has no timeout, but waiting for a thread has. The thread has a descriptor of its own to close.
    waiter = threading.Thread(target=_wait, args=(os.dup(lock),), daemon=True)
    waiter.start()
    waiter.join(patience_s)
    return _take_at_once(lock)


def release(lock: int) -> None:
    """Release a lock and close its file."""
    # Closing is not sufficient: a child process forked in the meantime also has the file open.
    with suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)


def _take_at_once(lock: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _wait(lock: int) -> None:
    try:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
    finally:
        os.close(lock)
