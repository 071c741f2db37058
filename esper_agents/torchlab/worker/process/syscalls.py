"""Linux system calls that Python does not wrap."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import sys
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_GET_SECCOMP = 21
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522

# What the numbers of system calls depend on; another system has other calls altogether.
MACHINE = platform.machine() if sys.platform == "linux" else ""


def read(path: str) -> bytes:
    """Return a short file of the kernel's, past Python's own files: a fresh fork pays a millisecond for those.

    Raises:
        OSError: It cannot be read.
    """
    place = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(place, 4096)
    finally:
        os.close(place)


def write(path: str, text: bytes) -> None:
    """Write a setting of the kernel's, likewise.

    Raises:
        OSError: It cannot be written.
    """
    place = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(place, text)
    finally:
        os.close(place)


def checked(result: int) -> int:
    """Return what a C function returned.

    Raises:
        OSError: It returned -1; the error is that of `errno`.
    """
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def call(number: int, *arguments: Any) -> int:
    """Make a system call by its number.

    Raises:
        OSError: The kernel refused.
    """
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return checked(_LIBC.syscall(ctypes.c_long(number), *wide))


def libc(name: str, *arguments: Any) -> int:
    """Call a function of the C library that returns -1 and sets errno when it fails.

    Raises:
        OSError: It failed, or this C library does not have it.
    """
    try:
        function = getattr(_LIBC, name)
    except AttributeError:
        raise OSError(38, os.strerror(38), name) from None
    return checked(function(*arguments))


def address(name: str) -> ctypes.c_void_p:
    """Return where a function of the C library is."""
    return ctypes.cast(getattr(_LIBC, name), ctypes.c_void_p)


def _prctl(option: int, argument: int = 0, second: int = 0) -> int:
    wide = [ctypes.c_ulong(each) for each in (argument, second, 0, 0)]
    return checked(_LIBC.prctl(option, *wide))


def die_with_parent(number: int = 9) -> None:
    """Have the kernel send this process a signal when the thread that started it ends."""
    _prctl(_PR_SET_PDEATHSIG, number)


def become_subreaper() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def hide_memory() -> None:
    """Keep other processes of the same user away from this one's memory and descriptors, and leave no core."""
    _prctl(_PR_SET_DUMPABLE, 0)


def show_memory() -> None:
    """Take back what `hide_memory` did: a process that is hidden cannot read all of its own /proc/self."""
    _prctl(_PR_SET_DUMPABLE, 1)


def renounce_privileges() -> None:
    """Give up every capability for good: no program that is run from here on can give one back."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    # Linux before 4.3 has none to clear.
    with contextlib.suppress(OSError):
        _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    libc("capset", header, (ctypes.c_uint32 * 6)())


def has_seccomp() -> bool:
    """Return whether the kernel has system call filters."""
    try:
        return _prctl(_PR_GET_SECCOMP) in (0, 2)
    except OSError:
        return False
