"""Turn of a user's measurements that read clocks: one at a time, in the order in which they came."""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from esper_agents.errors import BusyError, EvidenceError
from esper_agents.paths import home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_PAUSE_S = 0.1
_TICKET = re.compile(r"[0-9]{20}-([0-9]{1,10})-[0-9]{1,10}")
_NUMBER = itertools.count()


@contextmanager
def timing_turn(
    waiting: Callable[[str], None], *, timeout_s: float, is_cancelled: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Yield when no other timing of this user runs on this machine.

    Each caller has a ticket, a file that it locks for as long as it waits and measures. The lock of the turn itself
    decides; the tickets give the order and what is shown of it. The kernel releases both when their owner ends.

    Args:
        waiting: Called with the position in the queue at the start of a wait and whenever it changes.
        timeout_s: Time to wait, in seconds; 0 for not at all.
        is_cancelled: Whether to stop waiting.

    Raises:
        BusyError: The turn did not come in time.
        EvidenceError: The wait was cancelled.
    """
    folder = home() / "timing"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    deadline = time.monotonic() + timeout_s
    shown = None
    with ExitStack() as opened:
        ticket = _opened(folder / f"{time.time_ns():020d}-{os.getpid()}-{next(_NUMBER)}", opened)
        opened.callback(lambda: ticket.unlink(missing_ok=True))
        turn = _lock(folder / "turn", opened)
        while (ahead := _ahead(folder, ticket)) or not _is_taken(turn):
            owner = f"process {ahead[0]}" if ahead else "another process"
            if is_cancelled():
                raise EvidenceError("the measurement was cancelled while it waited", remedy="start it again")
            if time.monotonic() >= deadline:
                raise _busy(owner, timeout_s)
            if shown != len(ahead):
                shown = len(ahead)
                place = f"number {shown} in the queue" if shown > 1 else "next in the queue"
                waiting(f"waiting for the timing of {owner}; {place}")
            time.sleep(_PAUSE_S)
        yield


def _busy(owner: str, timeout_s: float) -> BusyError:
    if not timeout_s:
        return BusyError(f"another timing is running ({owner})", remedy="leave out --no-wait, or wait until it ends")
    return BusyError(
        f"another timing ({owner}) has run for over {timeout_s:.0f} s", remedy="wait until it ends, or stop it"
    )


def _opened(file: Path, opened: ExitStack) -> Path:
    _is_taken(_lock(file, opened))
    return file


def _lock(file: Path, opened: ExitStack) -> int:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    opened.callback(os.close, descriptor)
    return descriptor


def _is_taken(descriptor: int) -> bool:
    """Return whether the lock of an open file could be taken at once."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _ahead(folder: Path, ticket: Path) -> list[int]:
    """Return the processes with an earlier ticket, in their order; tickets of ended processes are removed."""
    found = []
    for name in sorted(path.name for path in folder.iterdir() if path.name < ticket.name):
        if match := _TICKET.fullmatch(name):
            with ExitStack() as opened, suppress(OSError):
                if not _is_taken(_existing(folder / name, opened)):
                    found.append(int(match[1]))
                else:
                    (folder / name).unlink()
    return found


def _existing(file: Path, opened: ExitStack) -> int:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    opened.callback(os.close, descriptor)
    return descriptor
