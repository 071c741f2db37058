"""Find and kill every process that a process started, detached ones too."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

# A chain of processes that fork and exit is caught in some rounds; this many mean another problem.
_MOST_S = 10.0
_NAP_S = 0.0005


def children(pid: int) -> list[int]:
    """Return the children of a process, including zombies."""
    found: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_bytes().split())
    except FileNotFoundError:
        # The process has ended, or the kernel was built without these lists.
        return found if Path("/proc/thread-self/children").exists() else _children_by_search(pid)
    except (ProcessLookupError, PermissionError):
        return found
    return found


def _children_by_search(parent: int) -> list[int]:
    return [pid for pid, its_parent in _everyone() if its_parent == parent]


def _everyone() -> Iterator[tuple[int, int]]:
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            with contextlib.suppress(OSError):
                # The program name is in parentheses and may contain any character.
                yield int(place.name), int((place / "stat").read_bytes().rpartition(b")")[2].split()[1])


def strays(known: Collection[int]) -> list[int]:
    """Return our unknown children: orphans of a measurement process, because we are their subreaper.

    Args:
        known: Process ids of known children.
    """
    return [child for child in children(os.getpid()) if child not in known]


def kill_tree(pid: int, known: Collection[int] = ()) -> int | None:
    """Kill a child, its process group and all its descendants; leave no process and no zombie.

    Args:
        pid: One of our children that leads its process group, and was not reaped yet.
        known: Our other children, which are not touched.

    Returns:
        The exit code of the child, negative for a signal; None if it was already reaped.
    """
    deadline = time.monotonic() + _MOST_S
    # Stopped processes cannot fork; and one signal to a group cannot race with a fork inside it.
    _signal_group(pid, signal.SIGSTOP)
    descendants = _stopped(pid)
    _signal_group(pid, signal.SIGKILL)
    for each in (pid, *descendants):
        _signal(each, signal.SIGKILL)
    status = _wait(pid, deadline)
    spared = {pid, *known}
    while time.monotonic() < deadline:
        left = strays(spared)
        if not left:
            break
        for each in left:
            _signal_group(each, signal.SIGKILL)
            _signal(each, signal.SIGKILL)
        # One may end only after another was reaped, so none is awaited alone.
        if not sum(map(_has_ended, left)):
            time.sleep(_NAP_S)
    return status


def _stopped(pid: int) -> list[int]:
    """Stop all descendants of a process repeatedly until no new one is found; return them."""
    found: dict[int, None] = {}
    while True:
        fresh = [descendant for descendant in _descendants(pid) if descendant not in found]
        if not fresh:
            return list(found)
        for each in fresh:
            _signal(each, signal.SIGSTOP)
            found[each] = None


def _descendants(pid: int) -> Iterator[int]:
    generation = [pid]
    while generation:
        generation = [child for each in generation for child in children(each)]
        yield from generation


def _wait(pid: int, deadline: float) -> int | None:
    while time.monotonic() < deadline:
        try:
            waited, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return None
        if waited:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_NAP_S)
    return None


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if pid != os.getpgrp():
            os.killpg(pid, number)
