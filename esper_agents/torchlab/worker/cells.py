"""Forks workers, each into a cell of its own where the kernel lets us: PID, mount and IPC namespaces.

A worker in a cell can name no process but its own, sees nothing that another one left in `/tmp` or `/dev/shm`, and
when the cell's first process is killed the kernel kills everything in it, faster than anything can fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import kernel
from .descent import kill_tree, strays

if TYPE_CHECKING:
    from collections.abc import Sequence

_CLONE_VM, _CLONE_FILES = 0x100, 0x400
_NEW_MOUNTS, _NEW_IPC, _NEW_PIDS = 0x20000, 0x8000000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_STACK_BYTES = 64 << 10
_SHARED_BYTES = 4 << 30
# Since this version of Linux the limit belongs to a PID namespace; before, to the whole machine.
_OWN_PID_LIMIT = (6, 14)
_MOST_PROCESSES = 8192
_NO_CELL = 72
_TMP = "/tmp"  # noqa: S108 - this is where it is made a private one


@dataclass
class _Cell:
    """A worker's namespaces: their first process, and the stack that it sleeps on."""

    first: int
    stack: ctypes.Array[ctypes.c_char]


class Cells:
    """The workers that this process forked.

    Attributes:
        is_walled: Each worker gets namespaces of its own.
    """

    def __init__(self, *, cover: Sequence[str] = (), is_open: bool = False, is_alone: bool = False) -> None:
        """Try whether this process may make namespaces.

        Args:
            cover: Folders beside `/tmp` in which a worker sees only what it is to keep.
            is_open: Wanted without walls, since a person said so.
            is_alone: This process is in a PID namespace with nothing but what it starts.
        """
        kernel.become_subreaper()
        kernel.hide_memory()
        self._cover = _outermost([_TMP, *cover])
        self._cells: dict[int, _Cell | None] = {}
        self._told: set[int] = set()
        self._every_signal = signal.valid_signals()
        self._home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.is_walled = not is_open and self._try()
        if is_alone:
            _limit_processes()

    def _try(self) -> bool:
        self.is_walled = True
        try:
            # Whoever may not come back out of a namespace must not go into one.
            kernel.libc("setns", self._home, _NEW_PIDS)
            pid = self.fork()
        except OSError:
            return False
        if pid == 0:
            os._exit(0)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return self.kill(pid) == 0

    def fork(self, keep: Sequence[str] = ()) -> int:
        """Fork a worker; return its process id, and 0 in the worker itself.

        Args:
            keep: Files and folders that the worker sees even in what is covered.

        Raises:
            OSError: The kernel refused.
        """
        parent = os.getpid()
        cell = self._open_cell() if self.is_walled else None
        try:
            pid = os.fork()
            if pid == 0:
                self._become_worker(parent, cell, keep)
                return 0
        except OSError:
            if cell:
                self._close_cell(cell)
            raise
        if cell:
            kernel.libc("setns", self._home, _NEW_PIDS)
        self._cells[pid] = cell
        return pid

    def _become_worker(self, parent: int, cell: _Cell | None, keep: Sequence[str]) -> None:
        kernel.die_with_parent()
        try:
            os.close(self._home)
            kernel.show_memory()
            _be_first_to_die()
            if cell:
                _furnish(self._cover, keep)
            elif os.getppid() != parent:
                os._exit(_NO_CELL)
        except OSError:
            os._exit(_NO_CELL)

    def kill(self, pid: int) -> int | None:
        """Kill a worker and everything that it started; return when none of it is left.

        Returns:
            Its exit code, negative for a signal; None if there is no such worker.
        """
        if pid not in self._cells:
            return None
        cell = self._cells.pop(pid)
        self._told.discard(pid)
        if cell is None:
            return kill_tree(pid, self._known())
        os.kill(cell.first, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        # Ends only after the last process of its namespace.
        os.waitpid(cell.first, 0)
        return os.waitstatus_to_exitcode(status)

    def ended(self) -> list[tuple[int, int]]:
        """Return the workers that ended since it was last asked, each with its exit code, negative for a signal.

        What they started may live on, and they have yet to be killed, so that no other process gets their number.
        """
        found = []
        for pid in self._cells.keys() - self._told:
            end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if end is not None:
                self._told.add(pid)
                found.append((pid, end.si_status if end.si_code == os.CLD_EXITED else -end.si_status))
        return found

    def kill_all(self) -> None:
        """Kill every worker and everything that they started."""
        for pid in tuple(self._cells):
            self.kill(pid)
        for pid in strays(()):
            kill_tree(pid)

    def _known(self) -> set[int]:
        return {*self._cells, *(each.first for each in self._cells.values() if each)}

    def _open_cell(self) -> _Cell:
        """Make a PID namespace for the next child, with a first process that sleeps until it is killed."""
        stack = ctypes.create_string_buffer(_STACK_BYTES)
        top = ctypes.c_void_p((ctypes.addressof(stack) + _STACK_BYTES) & ~15)
        kernel.libc("unshare", _NEW_PIDS)
        # It inherits that it hears no signal, so that none of our handlers ever runs in it.
        heard = signal.pthread_sigmask(signal.SIG_BLOCK, self._every_signal)
        try:
            # It shares our memory and descriptors: it costs nothing, and keeps no pipe open that we closed.
            flags = _CLONE_VM | _CLONE_FILES | signal.SIGCHLD
            first = kernel.libc("clone", kernel.address("pause"), top, flags, None)
        except OSError:
            kernel.libc("setns", self._home, _NEW_PIDS)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)
        return _Cell(first, stack)

    def _close_cell(self, cell: _Cell) -> None:
        kernel.libc("setns", self._home, _NEW_PIDS)
        os.kill(cell.first, signal.SIGKILL)
        os.waitpid(cell.first, 0)


def _be_first_to_die() -> None:
    """Offer this process, and not somebody's editor, when the machine runs out of memory."""
    with contextlib.suppress(OSError):
        kernel.write("/proc/self/oom_score_adj", b"1000")


def _limit_processes() -> None:
    """Bound what a fork bomb can do to the machine: no other limit holds for root."""
    release = tuple(int(each) for each in os.uname().release.split(".")[:2] if each.isdecimal())
    if release >= _OWN_PID_LIMIT:
        with contextlib.suppress(OSError):
            kernel.write("/proc/sys/kernel/pid_max", b"%d" % _MOST_PROCESSES)


def _outermost(folders: list[str]) -> list[str]:
    return [each for each in dict.fromkeys(folders) if not any(each.startswith(other + "/") for other in folders)]


def _furnish(cover: Sequence[str], keep: Sequence[str]) -> None:
    """Give this process mounts of its own: its processes alone in /proc, empty folders where others leave things."""
    kernel.libc("unshare", _NEW_MOUNTS | _NEW_IPC)
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    # Read-only: to the kernel, root in a namespace is root, and may write the settings of the machine.
    _mount("proc", "/proc", "proc", _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    options = f"mode=1777,size={_SHARED_BYTES}"
    _mount("tmpfs", "/dev/shm", "tmpfs", _MS_NOSUID | _MS_NODEV, options)  # noqa: S108 - likewise
    for folder in cover:
        beneath = [each for each in keep if each.startswith(folder + "/")]
        kept = [(each, os.open(each, os.O_PATH | os.O_CLOEXEC)) for each in _outermost(beneath)]
        _mount("tmpfs", folder, "tmpfs", _MS_NOSUID | _MS_NODEV, options)
        for path, place in kept:
            _put_back(Path(path), place)


def _put_back(path: Path, place: int) -> None:
    seen = Path(f"/proc/self/fd/{place}")
    path.parent.mkdir(parents=True, exist_ok=True)
    if seen.is_dir():
        path.mkdir(exist_ok=True)
    else:
        path.touch()
    _mount(str(seen), str(path), None, _MS_BIND | _MS_REC)
    os.close(place)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [each and each.encode() for each in (source, target, kind)]
    kernel.libc("mount", *words, ctypes.c_ulong(flags), options and options.encode())
