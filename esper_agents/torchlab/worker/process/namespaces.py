"""Fork measurement processes into their own PID, mount and IPC namespaces, if the kernel allows it.

An isolated process can address no process but its own, sees nothing that another one left in `/tmp` or `/dev/shm`, and
can write no file system but its own folders and its `/dev/shm`. When the first process of its PID namespace is killed,
the kernel kills everything in it, faster than anything can fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import syscalls as kernel
from .process_tree import kill_tree, strays

if TYPE_CHECKING:
    from collections.abc import Sequence

_CLONE_VM, _CLONE_FILES = 0x100, 0x400
_NEW_MOUNTS, _NEW_IPC, _NEW_PIDS = 0x20000, 0x8000000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_STACK_BYTES = 64 << 10
_SHARED_BYTES = 4 << 30
# Since this Linux version the limit belongs to a PID namespace; before, to the whole machine.
_OWN_PID_LIMIT = (6, 14)
_MOST_PROCESSES = 8192
# A namespace reserves this many process ids once it has used all others.
_RESERVED = 300
_MOST_DESCRIPTORS = 65_536
_NO_CELL = 72
# The number is the same on every architecture; Linux has it since 5.12, and Landlock since 5.13.
_MOUNT_SETATTR, _HERE, _RECURSIVE, _READ_ONLY = 442, -100, 0x8000, 1
_TMP, _SHARED = "/tmp", "/dev/shm"  # noqa: S108 - private ones are made here


@dataclass
class _Cell:
    """Namespaces of a process: their first process, and its stack if it shares our memory."""

    first: int
    stack: ctypes.Array[ctypes.c_char] | None = None


class NamespacedWorkers:
    """Measurement processes forked by this process.

    Attributes:
        is_walled: Whether each process gets its own namespaces.
    """

    def __init__(
        self,
        *,
        cover: Sequence[str] = (),
        is_open: bool = False,
        is_alone: bool = False,
        is_read_only: bool = False,
    ) -> None:
        """Test whether this process may create namespaces.

        Args:
            cover: Folders besides `/tmp` in which a process sees only its granted paths.
            is_open: Whether the user waived isolation.
            is_alone: Whether this process is in a PID namespace that contains only its descendants and ends with it.
            is_read_only: Whether all file systems are read-only already, except for the writable folders.
        """
        kernel.become_subreaper()
        kernel.hide_memory()
        self._cover = _outermost([_TMP, _SHARED, *cover])
        self._is_alone, self._is_read_only = is_alone, is_read_only
        self._cells: dict[int, _Cell | None] = {}
        self._told: set[int] = set()
        self._every_signal = signal.valid_signals()
        self._home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.is_walled = not is_open and self._try()
        if is_alone:
            _limit_processes(_MOST_PROCESSES)

    def _try(self) -> bool:
        self.is_walled = True
        try:
            # A process that cannot leave a namespace again must not enter one.
            kernel.libc("setns", self._home, _NEW_PIDS)
            pid = self.fork()
        except OSError:
            return False
        if pid == 0:
            os._exit(0)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return self.kill(pid) == 0

    def fork(self, keep: Sequence[str] = (), writable: Sequence[str] = (), *, most_tasks: int = _MOST_PROCESSES) -> int:
        """Fork a process; return its process id, and 0 in the process itself.

        Args:
            keep: Files and folders visible even in covered folders; read-only in namespaces.
            writable: Folders visible there as well, and writable.
            most_tasks: Processes and threads in its namespace that the kernel always allows; it refuses some hundreds
                more, if the kernel can limit a namespace.

        Raises:
            OSError: The kernel refused a request.
        """
        parent = os.getpid()
        cell = self._open_cell() if self.is_walled else None
        try:
            pid = os.fork()
            if pid == 0:
                self._become_worker(parent, cell, keep, writable, most_tasks)
                return 0
        except OSError:
            if cell:
                self._close_cell(cell)
            raise
        if cell:
            kernel.libc("setns", self._home, _NEW_PIDS)
        self._cells[pid] = cell
        return pid

    def _become_worker(
        self, parent: int, cell: _Cell | None, keep: Sequence[str], writable: Sequence[str], most_tasks: int
    ) -> None:
        kernel.die_with_parent()
        try:
            os.close(self._home)
            kernel.show_memory()
            _be_first_to_die()
            if cell:
                # The setting belongs to the namespace of the writing process.
                _limit_processes(most_tasks + _RESERVED)
                _furnish(self._cover, keep, writable, is_read_only=self._is_read_only)
            elif os.getppid() != parent:
                os._exit(_NO_CELL)
        except OSError:
            os._exit(_NO_CELL)

    def kill(self, pid: int) -> int | None:
        """Kill a process and everything it started; return when no process is left.

        Returns:
            Its exit code, negative for a signal; None if there is no such process.
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
        """Return the processes that ended since the last call, each with its exit code, negative for a signal.

        Their descendants may still run, and they must still be killed, so that their process ids are not reused.
        """
        found = []
        for pid in self._cells.keys() - self._told:
            end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if end is not None:
                self._told.add(pid)
                found.append((pid, end.si_status if end.si_code == os.CLD_EXITED else -end.si_status))
        return found

    def kill_all(self) -> None:
        """Kill every process and everything they started."""
        for pid in tuple(self._cells):
            self.kill(pid)
        for pid in strays(()):
            kill_tree(pid)

    def _known(self) -> set[int]:
        return {*self._cells, *(cell.first for cell in self._cells.values() if cell)}

    def _open_cell(self) -> _Cell:
        """Create a PID namespace for the next child, with a first process that sleeps until it is killed."""
        kernel.libc("unshare", _NEW_PIDS)
        # It inherits blocked signals, so that none of our handlers ever runs in it.
        heard = signal.pthread_sigmask(signal.SIG_BLOCK, self._every_signal)
        try:
            return self._share_with_first() if self._is_alone else _fork_first()
        except OSError:
            kernel.libc("setns", self._home, _NEW_PIDS)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)

    def _share_with_first(self) -> _Cell:
        """Start the first process of a PID namespace inside one that ends with us, such as bubblewrap's."""
        stack = ctypes.create_string_buffer(_STACK_BYTES)
        top = ctypes.c_void_p((ctypes.addressof(stack) + _STACK_BYTES) & ~15)
        # It shares our memory and descriptors: it costs nothing, and keeps no closed pipe open.
        flags = _CLONE_VM | _CLONE_FILES | signal.SIGCHLD
        return _Cell(kernel.libc("clone", kernel.address("pause"), top, flags, None), stack)

    def _close_cell(self, cell: _Cell) -> None:
        kernel.libc("setns", self._home, _NEW_PIDS)
        os.kill(cell.first, signal.SIGKILL)
        os.waitpid(cell.first, 0)


class SeparateForks:
    """Forks of this process that are the first process of a PID namespace: all that they start ends with them.

    Attributes:
        are_possible: Whether the kernel allows it.
    """

    def __init__(self) -> None:
        """Test whether this process may create namespaces."""
        kernel.hide_memory()
        self._home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.are_possible = self._try()

    def _try(self) -> bool:
        try:
            kernel.libc("setns", self._home, _NEW_PIDS)
            pid = self.fork()
        except OSError:
            return False
        if pid == 0:
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    def fork(self) -> int:
        """Fork; return the process id, and 0 in the fork, which sees no process but its own in `/proc`.

        Raises:
            OSError: The kernel refused a request.
        """
        kernel.libc("unshare", _NEW_PIDS)
        try:
            pid = os.fork()
        except OSError:
            kernel.libc("setns", self._home, _NEW_PIDS)
            raise
        if pid:
            kernel.libc("setns", self._home, _NEW_PIDS)
            return pid
        try:
            kernel.die_with_parent()
            os.close(self._home)
            kernel.libc("unshare", _NEW_MOUNTS | _NEW_IPC)
            _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
            _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
        except OSError:
            os._exit(_NO_CELL)
        return 0


def _fork_first() -> _Cell:
    """Start the first process of a PID namespace that must end itself when we are killed."""
    pid = os.fork()
    if pid == 0:
        try:
            kernel.die_with_parent()
            os.closerange(0, _MOST_DESCRIPTORS)
            while True:
                signal.pause()
        finally:
            os._exit(_NO_CELL)
    return _Cell(pid)


def _be_first_to_die() -> None:
    """Make this process the preferred victim of the out-of-memory killer."""
    with contextlib.suppress(OSError):
        kernel.write("/proc/self/oom_score_adj", b"1000")


def _limit_processes(most: int) -> None:
    """Limit the processes in this PID namespace: no other limit applies to root."""
    release = tuple(int(each) for each in os.uname().release.split(".")[:2] if each.isdecimal())
    if release >= _OWN_PID_LIMIT:
        with contextlib.suppress(OSError):
            kernel.write("/proc/sys/kernel/pid_max", b"%d" % most)


def _outermost(folders: list[str]) -> list[str]:
    found: list[str] = []
    # In this order, a folder is followed by its contents.
    for folder in sorted(set(folders), key=lambda path: f"{path}/"):
        if not found or not folder.startswith(f"{found[-1]}/"):
            found.append(folder)
    return found


def _furnish(cover: Sequence[str], keep: Sequence[str], writable: Sequence[str], *, is_read_only: bool) -> None:
    """Give this process private mounts: only its own processes in /proc, empty shared folders.

    Args:
        cover: Folders that are empty except for kept paths.
        keep: Files and folders that stay visible, read-only.
        writable: Folders that stay writable.
        is_read_only: Whether all file systems are read-only already, except for the writable folders.
    """
    kernel.libc("unshare", _NEW_MOUNTS | _NEW_IPC)
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    beneath = [each for each in keep if any(each.startswith(folder + "/") for folder in cover)]
    # Writable folders come last: they may lie in read-only ones.
    wanted = [*((each, False) for each in _outermost(beneath)), *((each, True) for each in writable)]
    kept = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC), can_write) for path, can_write in wanted]
    if not is_read_only:
        _set_read_only("/")
    # Read-only: for the kernel, root in a namespace is root, and may write the machine's settings.
    _mount("proc", "/proc", "proc", _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    options = f"mode=1777,size={_SHARED_BYTES}"
    for folder in cover:
        _mount("tmpfs", folder, "tmpfs", _MS_NOSUID | _MS_NODEV, options)
    for path, place, can_write in kept:
        _put_back(Path(path), place)
        if not can_write:
            _set_read_only(path)
        elif not is_read_only:
            _set_read_only(path, is_cleared=True)
    for folder in cover:
        if folder != _SHARED:
            _set_read_only(folder, is_recursive=False)


def _put_back(path: Path, place: int) -> None:
    seen = Path(f"/proc/self/fd/{place}")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        if seen.is_dir():
            path.mkdir(exist_ok=True)
        else:
            path.touch()
    _mount(str(seen), str(path), None, _MS_BIND | _MS_REC)
    os.close(place)


def _set_read_only(path: str, *, is_recursive: bool = True, is_cleared: bool = False) -> None:
    """Make a mount and everything mounted beneath it read-only, or writable again."""
    setting = (0, _READ_ONLY) if is_cleared else (_READ_ONLY, 0)
    attributes = struct.pack("=4Q", *setting, 0, 0)
    flags = _RECURSIVE if is_recursive else 0
    try:
        kernel.call(_MOUNT_SETATTR, _HERE, path.encode(), flags, attributes, len(attributes))
    except OSError as error:
        # Older Linux versions have no Landlock either: then bubblewrap bound these read-only.
        if error.errno != errno.ENOSYS:
            raise


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [each and each.encode() for each in (source, target, kind)]
    kernel.libc("mount", *words, ctypes.c_ulong(flags), options and options.encode())
