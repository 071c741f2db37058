"""Lease owners: processes whose liveness can be checked on their own machine."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from pathlib import Path

_ENDED = ("Z", "X")
# Fields after the name: the state, then those that proc(5) numbers from 4 on; the start time is field 22.
_START = 22 - 3


@cache
def machine_name() -> str:
    """Return a name of the machine and the process namespace, because process ids are only valid inside one."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        namespace, boot = "", platform.node()
    return f"{platform.node()}|{boot}|{namespace}"


def _started(process_id: int) -> str:
    """Return the start time of a live process, or empty; it distinguishes processes that reuse an id.

    On Linux it is in ticks since boot, which changes of the clock do not affect.
    """
    if sys.platform == "linux":
        try:
            text = Path(f"/proc/{process_id}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return ""
        # The name in parentheses may contain any characters, including parentheses and spaces.
        state, *others = text.rpartition(")")[2].split()
        return "" if state in _ENDED else others[_START - 1]
    import psutil

    try:
        process = psutil.Process(process_id)
        return "" if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.Error:
        return ""


def this_process() -> str:
    """Return the owner name of this process for its leases."""
    return f"{machine_name()}|{os.getpid()}|{_started(os.getpid())}"


def is_dead(owner: str) -> bool:
    """Return whether an owner is known to be dead; always false for owners on other machines."""
    machine, process_id, started = owner.rsplit("|", 2) if owner.count("|") >= 2 else ("", "", "")  # noqa: PLR2004
    return machine == machine_name() and process_id.isdecimal() and _started(int(process_id)) != started
