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
# Directories are walked only after this much of their disk was used.
_WORTH_WALKING_BYTES = 16 << 20
_WORTH_WALKING_FILES = 1_000
_MOST_ROUNDS = 1_000
_ALL = 100_000
_MOST_OF_MACHINE = 0.9


def memory_at_most(wanted_bytes: int) -> int:
    """Return the memory limit of processes together: the wanted limit, but less than the machine's memory."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(wanted_bytes, int(machine * _MOST_OF_MACHINE))


@dataclass(frozen=True, slots=True)
class TotalLimits:
    """Total limits of all processes of a measurement.

    Attributes:
        memory_bytes: Private memory.
        tasks: Processes and threads.
        disk_bytes: Bytes added to their directories, including deleted files that are still open.
        files: Number of files added.
    """

    memory_bytes: int
    tasks: int = 2_048
    disk_bytes: int = 8 << 30
    files: int = 200_000


_UNLIMITED = TotalLimits(sys.maxsize, sys.maxsize, sys.maxsize, sys.maxsize)


class Supervisor:
    """Thread that supervises a process tree; a context manager that ends the supervision, not the tree.

    Attributes:
        exceeded: Limit that was exceeded, in words; empty if none was.
    """

    def __init__(
        self,
        members: Callable[[int], Collection[int]],
        folders: Sequence[Path],
        limits: TotalLimits,
        leaders: Callable[[], Iterable[int]],
    ) -> None:
        """Prepare; entering starts the supervision.

        Args:
            members: Returns the processes to supervise and to kill; not many more than the given number.
            folders: Directories that they can write.
            limits: The limits.
            leaders: Returns the processes whose end ends the others in their namespaces.
        """
        self._leaders = leaders
        self.exceeded = ""
        self._members = members
        self._folders = folders
        self._limits = limits
        self._free = _free(folders)
        self._before = _written(folders, (), _UNLIMITED)
        self._ended = Event()
        # Two threads: memory copied by a fork is readable only after the fork ends, and a fork bomb goes on meanwhile.
        self._threads = [
            Thread(target=self._watch, args=(check,), name="esper-supervisor", daemon=True)
            for check in (self._check_tasks, self._check_rest)
        ]

    def __enter__(self) -> Self:
        """Start the supervision."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the supervision."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def look(self) -> str:
        """Count processes immediately; return the exceeded limit, empty if there is none."""
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
        # Pages shared by a fork count once per process: only proportional counting decides.
        if private > self._limits.memory_bytes and _proportional_bytes(members) > self._limits.memory_bytes:
            return f"more than {self._limits.memory_bytes >> 20} MiB of memory"
        return self._check_disk(members)

    def _check_disk(self, members: Collection[int]) -> str:
        now = _free(self._folders)
        # Too little disk used since the last walk.
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
    """Raise this thread's priority above the supervised processes, if allowed: a fork bomb would starve it."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        return
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, get_native_id(), -20)


def tasks_of_user() -> int:
    """Return the number of processes and threads of this process's user on the machine."""
    found = 0
    for place in Path("/proc").iterdir():
        with suppress(OSError):
            if place.name.isdecimal() and place.stat().st_uid == os.getuid():
                found += _tasks(int(place.name))
    return found


def descendants(pid: int, most: int = _ALL) -> list[int]:
    """Return the descendants of a process, without itself; the search stops at more than `most`."""
    found: dict[int, None] = {}
    waiting = [pid]
    # Processes that fork faster than the search would never end it.
    while waiting and len(found) <= most:
        fresh = [child for child in children(waiting.pop()) if child not in found]
        found.update(dict.fromkeys(fresh))
        waiting += fresh
    return list(found)


def kill_members(members: Callable[[int], Iterable[int]], leaders: Callable[[], Iterable[int]]) -> None:
    """Kill the leaders, stop the others until no new one appears, then kill all: a stopped process cannot fork."""
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
        # An ended process counts until it is reaped, as in the kernel.
        return max(1, int(state[17]))
    return 0


def _private_bytes(pid: int) -> int:
    with suppress(OSError, ValueError):
        _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_bytes().split())
        return max(0, resident - shared) * _PAGE_BYTES
    return 0


def _proportional_bytes(members: Iterable[int]) -> int:
    """Return the total private memory in bytes, with shared pages divided among their users."""
    return sum(map(_own_share_bytes, members))


def _own_share_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss_Anon:"))
    except (OSError, ValueError, StopIteration):
        return _private_bytes(pid)


def _free(folders: Sequence[Path]) -> tuple[int, int]:
    """Return the free bytes and files on the fullest disk of the folders."""
    found = []
    for folder in folders:
        with suppress(OSError):
            state = os.statvfs(folder)
            found.append((state.f_bfree * state.f_frsize, state.f_ffree))
    return min((each[0] for each in found), default=0), min((each[1] for each in found), default=0)


def _written(folders: Sequence[Path], members: Iterable[int], limits: TotalLimits) -> tuple[int, int]:
    """Return bytes and files in the folders, including open deleted files; counting stops at a limit."""
    taken, files = 0, 0
    waiting = [str(folder) for folder in folders]
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
