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

# Half a lease: a heartbeat that waited for somebody who is stopped must still be in time.
PATIENCE_S = 15.0


def locked(file: Path) -> int:
    """Return the descriptor of a file that this process alone has locked; the file is made if there is none.

    Raises:
        BusyError: Another process has had it for all of `PATIENCE_S`.
        OSError: It cannot be opened or locked.
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
            remedy="`lslocks` names it: have it go on or end, then do this again, or `esper resume` a session",
        )
    return lock


def take(lock: int, patience_s: float) -> bool:
    """Return whether an open file could be locked within a time.

    Raises:
        OSError: It cannot be locked at all.
    """
    if _take_at_once(lock):
        return True
    if not patience_s:
        return False
    # A lock cannot be waited for with a limit, but a thread can. It has a descriptor of its own to let go of.
    waiter = threading.Thread(target=_wait, args=(os.dup(lock),), daemon=True)
    waiter.start()
    waiter.join(patience_s)
    return _take_at_once(lock)


def release(lock: int) -> None:
    """Let go of a lock and close its file."""
    # Closing is not enough: a child that was forked meanwhile has the file open, too.
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
