"""Supervision of a process tree: total limits on processes, memory and disk; kills on excess."""

from __future__ import annotations

import os
import signal
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread, get_native_id
from typing import TYPE_CHECKING, Self

from esper_agents.torchlab.worker.process.process_tree import children

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

_PAUSE_S = 0.2
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Directories are walked only after so much of their disk was taken.
_WORTH_WALKING_BYTES = 16 << 20
_WORTH_WALKING_FILES = 1_000
_MOST_ROUNDS = 1_000
_ALL = 100_000
_MOST_OF_MACHINE = 0.9


def memory_at_most(wanted_bytes: int) -> int:
    """Return how much memory processes may use together: what is wanted, but not all that the machine has."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(wanted_bytes, int(machine * _MOST_OF_MACHINE))


@dataclass(frozen=True, slots=True)
class TotalLimits:
    """What all processes of a measurement may use together.

    Attributes:
        memory_bytes: Private memory of all of them.
        tasks: Processes and threads.
        disk_bytes: What they may add to their directories, deleted files that are still open included.
        files: How many files they may add.
    """

    memory_bytes: int
    tasks: int = 2_048
    disk_bytes: int = 8 << 30
    files: int = 200_000


_UNLIMITED = TotalLimits(sys.maxsize, sys.maxsize, sys.maxsize, sys.maxsize)


class Supervisor:
    """A thread that watches a process tree; a context manager that ends the watch, not the tree.

    Attributes:
        exceeded: The limit that the tree exceeded, in words; empty if it stayed within all of them.
    """

    def __init__(
        self,
        members: Callable[[int], Collection[int]],
        folders: Sequence[Path],
        limits: TotalLimits,
        leaders: Callable[[], Iterable[int]],
    ) -> None:
        """Prepare; entering starts the watch.

        Args:
            members: Returns the processes to watch, and to kill; little more than a number of them.
            folders: The directories that they can write.
            limits: What they may use.
            leaders: Returns those of the processes whose end ends the others where they have namespaces of their own.
        """
        self._leaders = leaders
        self.exceeded = ""
        self._members = members
        self._folders = folders
        self._limits = limits
        self._free = _free(folders)
        self._before = _written(folders, (), _UNLIMITED)
        self._ended = Event()
        # Two: memory that a fork copies can be looked at only when that ends, and a bomb forks on meanwhile.
        self._threads = [
            Thread(target=self._watch, args=(check,), name="esper-supervisor", daemon=True)
            for check in (self._check_tasks, self._check_rest)
        ]

    def __enter__(self) -> Self:
        """Start the watch."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the watch."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def look(self) -> str:
        """Count processes at once, not only at the next turn; return what is exceeded, and empty if nothing is."""
        self.exceeded = self.exceeded or self._check_tasks(self._members(self._limits.tasks))
        return self.exceeded

    def _watch(self, check: Callable[[Collection[int]], str]) -> None:
        _come_first()
        while not self._ended.wait(_PAUSE_S):
            if why := check(self._members(self._limits.tasks)):
                self.exceeded = self.exceeded or why
                kill_members(self._members, self._leaders)

    def _check_tasks(self, members: Collection[int]) -> str:
        if len(members) > self._limits.tasks or sum(map(_tasks, members)) > self._limits.tasks:
            return f"more than {self._limits.tasks} processes and threads"
        return ""

    def _check_rest(self, members: Collection[int]) -> str:
        private = sum(map(_private_bytes, members))
        # Pages that a fork shares are counted once for each process: only a closer look decides.
        if private > self._limits.memory_bytes and _proportional_bytes(members) > self._limits.memory_bytes:
            return f"more than {self._limits.memory_bytes >> 20} MiB of memory"
        return self._check_disk(members)

    def _check_disk(self, members: Collection[int]) -> str:
        now = _free(self._folders)
        # Less than is worth a walk, since the last one.
        if self._free[0] - now[0] < _WORTH_WALKING_BYTES and self._free[1] - now[1] < _WORTH_WALKING_FILES:
            self._free = (max(now[0], self._free[0]), max(now[1], self._free[1]))
            return ""
        self._free = now
        bytes_before, files_before = self._before
        most = replace(
            self._limits,
            disk_bytes=self._limits.disk_bytes + bytes_before,
            files=self._limits.files + files_before,
        )
        taken, files = _written(self._folders, members, most)
        if files > most.files:
            return f"more than {self._limits.files} files"
        return f"more than {self._limits.disk_bytes >> 20} MiB of disk" if taken > most.disk_bytes else ""


def _come_first() -> None:
    """Have the kernel run this thread before all that it watches, if allowed: a bomb leaves it no time otherwise."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        return
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, get_native_id(), -20)


def tasks_of_user() -> int:
    """Return how many processes and threads the user of this process has on the machine."""
    found = 0
    for place in Path("/proc").iterdir():
        with suppress(OSError):
            if place.name.isdecimal() and place.stat().st_uid == os.getuid():
                found += _tasks(int(place.name))
    return found


def descendants(pid: int, most: int = _ALL) -> list[int]:
    """Return the processes that descend from one, itself not included; the search ends at more than `most`."""
    found: dict[int, None] = {}
    waiting = [pid]
    # What forks faster than it is counted would be counted for ever.
    while waiting and len(found) <= most:
        fresh = [child for child in children(waiting.pop()) if child not in found]
        found.update(dict.fromkeys(fresh))
        waiting += fresh
    return list(found)


def kill_members(members: Callable[[int], Iterable[int]], leaders: Callable[[], Iterable[int]]) -> None:
    """Kill the leaders; stop every process that is left until none is new, then kill all: what is stopped forks not."""
    for pid in leaders():
        _signal(pid, signal.SIGKILL)
    stopped: dict[int, None] = {}
    for _ in range(_MOST_ROUNDS):
        fresh = [pid for pid in members(_ALL) if pid not in stopped]
        if not fresh:
            break
        for pid in fresh:
            _signal(pid, signal.SIGSTOP)
            stopped[pid] = None
    for pid in stopped:
        _signal(pid, signal.SIGKILL)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _tasks(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        # What ended is counted until it was waited for, as the kernel does.
        return max(1, int(state[17]))
    return 0


def _private_bytes(pid: int) -> int:
    with suppress(OSError, ValueError):
        _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_bytes().split())
        return max(0, resident - shared) * _PAGE_BYTES
    return 0


def _proportional_bytes(members: Iterable[int]) -> int:
    """Return the private memory of all of them, shared pages divided among those that share them."""
    return sum(map(_own_share_bytes, members))


def _own_share_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return next(int(each.split()[1]) << 10 for each in lines if each.startswith("Pss_Anon:"))
    except (OSError, ValueError, StopIteration):
        return _private_bytes(pid)


def _free(folders: Sequence[Path]) -> tuple[int, int]:
    """Return how many bytes and files there is room for, on the fullest of the disks that folders are on."""
    found = []
    for folder in folders:
        with suppress(OSError):
            state = os.statvfs(folder)
            found.append((state.f_bfree * state.f_frsize, state.f_ffree))
    return min((each[0] for each in found), default=0), min((each[1] for each in found), default=0)


def _written(folders: Sequence[Path], members: Iterable[int], limits: TotalLimits) -> tuple[int, int]:
    """Return how many bytes and files the folders hold, and deleted files that are open; counting ends at a limit."""
    taken, files = 0, 0
    waiting = [str(each) for each in folders]
    while waiting and taken <= limits.disk_bytes and files <= limits.files:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                files += 1
                with suppress(OSError):
                    taken += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
    deleted: dict[tuple[int, int], int] = {}
    for pid in members:
        with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as handles:
            for handle in handles:
                with suppress(OSError):
                    about = handle.stat()
                    if stat.S_ISREG(about.st_mode) and about.st_nlink == 0:
                        deleted[about.st_dev, about.st_ino] = about.st_blocks * 512
    return taken + sum(deleted.values()), files
