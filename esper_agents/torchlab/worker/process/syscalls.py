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

# Architectures with known system call numbers; other operating systems have other calls.
MACHINE = platform.machine() if sys.platform == "linux" else ""


def read(path: str) -> bytes:
    """Return the content of a short kernel file, bypassing Python's file objects: they cost a fresh fork a millisecond.

    Raises:
        OSError: The file cannot be read.
    """
    place = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(place, 4096)
    finally:
        os.close(place)


def write(path: str, text: bytes) -> None:
    """Write a kernel setting, bypassing Python's file objects.

    Raises:
        OSError: The file cannot be written.
    """
    place = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(place, text)
    finally:
        os.close(place)


def checked(result: int) -> int:
    """Return the result of a C function.

    Raises:
        OSError: The result is -1; the error is that of `errno`.
    """
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def call(number: int, *arguments: Any) -> int:
    """Make a system call by its number.

    Raises:
        OSError: The kernel refused the call.
    """
    wide = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    return checked(_LIBC.syscall(ctypes.c_long(number), *wide))


def libc(name: str, *arguments: Any) -> int:
    """Call a function of the C library that returns -1 and sets errno on failure.

    Raises:
        OSError: The call failed, or this C library does not have the function.
    """
    try:
        function = getattr(_LIBC, name)
    except AttributeError:
        raise OSError(38, os.strerror(38), name) from None
    return checked(function(*arguments))


def address(name: str) -> ctypes.c_void_p:
    """Return the address of a function of the C library."""
    return ctypes.cast(getattr(_LIBC, name), ctypes.c_void_p)


def _prctl(option: int, argument: int = 0, second: int = 0) -> int:
    wide = [ctypes.c_ulong(each) for each in (argument, second, 0, 0)]
    return checked(_LIBC.prctl(option, *wide))


def die_with_parent(number: int = 9) -> None:
    """Have the kernel signal this process when the thread that started it ends."""
    _prctl(_PR_SET_PDEATHSIG, number)


def become_subreaper() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def hide_memory() -> None:
    """Keep the user's other processes from reading this one's memory and descriptors, and disable core dumps."""
    _prctl(_PR_SET_DUMPABLE, 0)


def show_memory() -> None:
    """Undo `hide_memory`: a hidden process cannot read all of its own /proc/self."""
    _prctl(_PR_SET_DUMPABLE, 1)


def renounce_privileges() -> None:
    """Drop every capability permanently: no program that is executed later can regain one."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    # Linux before 4.3 has no ambient capabilities to clear.
    with contextlib.suppress(OSError):
        _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    libc("capset", header, (ctypes.c_uint32 * 6)())


def has_seccomp() -> bool:
    """Return whether the kernel supports system call filters."""
    try:
        return _prctl(_PR_GET_SECCOMP) in (0, 2)
    except OSError:
        return False
