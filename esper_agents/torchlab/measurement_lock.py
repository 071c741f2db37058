"""Machine-wide lock for one measurement at a time: two at once would disturb each other."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from esper_agents.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# An abstract socket: nothing on disk, and the kernel releases it however its owner ends.
NAME = "\0esper-agents-torchlab"
_PAUSE_S = 0.1


@contextmanager
def measurement_lock(waiting: Callable[[str], None], *, timeout_s: float) -> Iterator[None]:
    """Hold the machine-wide measurement lock; wait for it, with a message, while another process has it.

    Args:
        waiting: Called once with a message about the owner.
        timeout_s: Time to wait.

    Raises:
        BusyError: The lock was not released in time.
    """
    held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    deadline = time.monotonic() + timeout_s
    has_said = False
    try:
        while True:
            try:
                held.bind(NAME)
                break
            except OSError as error:
                owner = _owner()
                if time.monotonic() > deadline:
                    raise BusyError(
                        f"another measurement ({owner}) has run for over {timeout_s:.0f} s",
                        remedy="wait until it ends, or stop it",
                    ) from error
                if not has_said:
                    waiting(f"another measurement ({owner}) is running on this machine; waiting for its end")
                    has_said = True
                time.sleep(_PAUSE_S)
        held.listen(128)
        yield
    finally:
        held.close()


def _owner() -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(1)
        try:
            asking.connect(NAME)
            pid = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        except OSError:
            return "of another process"
    return f"process {pid}"
