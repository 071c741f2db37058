"""Landlock: restrict a process and its descendants to named files, and deny TCP and outside signals."""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from typing import TYPE_CHECKING

from . import syscalls as kernel

if TYPE_CHECKING:
    from collections.abc import Iterable

# The numbers are the same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
# Landlock version that introduced each right; older kernels reject newer rights.
REFER_SINCE, TRUNCATE_SINCE, TCP_SINCE, IOCTL_SINCE, SCOPES_SINCE, SOCKETS_SINCE, UDP_SINCE = 2, 3, 4, 5, 6, 9, 10
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE, _IOCTL_DEV, _RESOLVE_UNIX = 1 << 13, 1 << 14, 1 << 15, 1 << 16
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11

READ = _EXECUTE | _READ_FILE | _READ_DIR
LIST = _READ_DIR
WRITE = READ | _WRITE_FILE | _REMOVE_AND_MAKE & ~(_MAKE_CHAR | _MAKE_BLOCK) | _REFER | _TRUNCATE | _RESOLVE_UNIX
DEVICE = _READ_FILE | _WRITE_FILE | _READ_DIR | _IOCTL_DEV


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def version() -> int:
    """Return the kernel's Landlock version; 0 if it is missing or may not be used."""
    if sys.platform != "linux":
        return 0
    try:
        return kernel.call(_CREATE_RULESET, 0, 0, _VERSION)
    except OSError:
        return 0


def _files_handled(abi: int) -> int:
    rights = READ | _WRITE_FILE | _REMOVE_AND_MAKE
    later = (
        (REFER_SINCE, _REFER),
        (TRUNCATE_SINCE, _TRUNCATE),
        (IOCTL_SINCE, _IOCTL_DEV),
        (SOCKETS_SINCE, _RESOLVE_UNIX),
    )
    return rights | sum(right for since, right in later if abi >= since)


def restrict(rules: Iterable[tuple[str, int]], *, abi: int, keep_tcp: bool = False) -> None:
    """Restrict this thread and its descendants to the files of the rules. This cannot be undone.

    Args:
        rules: Paths, each with its rights (`READ`, `LIST`, `WRITE` or `DEVICE`) for it and everything beneath; missing
            paths are ignored.
        abi: Landlock version to use; rights of later versions are not restricted.
        keep_tcp: Do not restrict TCP: there is a separate, empty network namespace.

    Raises:
        OSError: The kernel refused the ruleset.
    """
    handled = _files_handled(abi)
    tcp, udp = (0b0011 if abi >= TCP_SINCE else 0), (0b1100 if abi >= UDP_SINCE else 0)
    network = 0 if keep_tcp else tcp | udp
    attributes = _Attributes(handled, network, 0b11 if abi >= SCOPES_SINCE else 0)
    # Older kernels reject a larger structure than they know.
    size = 24 if abi >= SCOPES_SINCE else 16 if abi >= TCP_SINCE else 8
    ruleset = kernel.call(_CREATE_RULESET, ctypes.byref(attributes), size, 0)
    try:
        for path, rights in rules:
            _allow(ruleset, path, rights & handled)
        kernel.call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_FILES
        if not rights:
            return
        kernel.call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(_Beneath(rights, place)), 0)
    finally:
        os.close(place)
