"""Confine a forked process before it runs user code, with every mechanism of this kernel."""

from __future__ import annotations

import os
import resource
import tempfile
from dataclasses import dataclass
from typing import Any

from . import landlock, seccomp
from . import syscalls as kernel

# What every program needs, wherever it lies on this system.
_SYSTEM = (
    *("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/localtime", "/etc/alternatives", "/etc/hosts", "/proc", "/sys/devices/system", "/sys/fs/cgroup"),
    *("/nix/store", "/gnu/store"),
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_PRIVATE = ("/dev/shm",)  # noqa: S108 - inside walls a worker has one of its own
_MOST_OPEN_FILES = 65_536
# Tasks above a limit at which the kernel refuses more: a supervisor sees in time that the limit is exceeded.
SPARE_TASKS = 128


@dataclass(frozen=True)
class Grants:
    """What a worker may touch, each with all that is beneath it.

    Attributes:
        writable: Folders in which anything may be done.
        readable: Files and folders that may be read and run.
        listable: Folders whose entries may be named but not read.
        devices: Device files that may be used, such as those of a graphics processor.
    """

    writable: tuple[str, ...]
    readable: tuple[str, ...]
    listable: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limits:
    """How much a worker may take.

    Attributes:
        memory_bytes: How much more memory each process may map than the worker has now; None for no limit.
        file_bytes: How large each file may grow, those in memory included; None for no limit.
        has_cuda: It may use CUDA, whose driver reserves more addresses than most machines have memory. Then memory is
            counted where it is private and can be written: not what is only reserved, nor what is shared.
        tasks: How many processes and threads its user may have, those outside included; None for no limit. The kernel
            asks nobody who is root.
    """

    memory_bytes: int | None = None
    file_bytes: int | None = 16 << 30
    has_cuda: bool = False
    tasks: int | None = None


def confine(
    grants: Grants,
    limits: Limits,
    *,
    use_landlock: bool,
    use_seccomp: bool,
    has_own_network: bool = False,
    is_walled: bool = False,
) -> dict[str, Any]:
    """Confine this process and all that it will start. It cannot be undone.

    Args:
        grants: What it may touch; without Landlock this says nothing.
        limits: How much it may take.
        use_landlock: Confine files and signals by Landlock, where the kernel has it.
        use_seccomp: Filter system calls, where that can be done.
        has_own_network: It has a network namespace with nothing in it but itself and its siblings.
        is_walled: `Cells` gave it PID, mount and IPC namespaces of its own; it is not believed where it has none.

    Returns:
        What held: `landlock` (its version, 0 for none), `seccomp`, `walled`, `own_network`, the limits, and whether
        `multiprocessing` (named semaphores, shared memory, sockets between one's own processes) can work.

    Raises:
        OSError: The kernel refused what was asked for.
    """
    # A parent outside one's own PID namespace has no number in it.
    is_walled = is_walled and os.getppid() == 0
    held = _limit(limits)
    if use_landlock or use_seccomp:
        kernel.renounce_privileges()
    abi = landlock.version() if use_landlock else 0
    if abi:
        private = _PRIVATE if is_walled else ()
        rules = [
            *((each, landlock.READ) for each in (*_SYSTEM, *grants.readable)),
            *((each, landlock.LIST) for each in grants.listable),
            *((each, landlock.DEVICE) for each in (*_DEVICES, *grants.devices)),
            *((each, landlock.WRITE) for each in (*grants.writable, *private)),
        ]
        landlock.restrict(rules, abi=abi, keep_tcp=has_own_network)
    elif use_landlock and not is_walled:
        # The one fence left between workers.
        kernel.hide_memory()
    is_filtered = use_seccomp and seccomp.is_supported()
    if is_filtered:
        fences = seccomp.OtherConfinement(has_own_network=has_own_network, is_walled=is_walled, landlock=abi)
        seccomp.restrict(fences, os.getpid())
    can_meet = has_own_network or abi >= landlock.SOCKETS_SINCE
    return {
        "landlock": abi,
        "seccomp": is_filtered,
        "walled": is_walled,
        "own_network": has_own_network,
        "multiprocessing": (is_walled and can_meet) or not is_filtered,
        **held,
    }


def settle(folder: str) -> None:
    """Make a folder this process's home, its working directory and where its temporary files go."""
    os.environ.update(HOME=folder, TMPDIR=folder)
    # The parent may have looked for the place already, and found its own.
    tempfile.tempdir = None
    os.chdir(folder)


def prepare(*, has_own_network: bool, is_walled: bool) -> None:
    """Do in the parent, once, what every worker would do again: write the filter's program."""
    if seccomp.is_supported():
        fences = seccomp.OtherConfinement(
            has_own_network=has_own_network, is_walled=is_walled, landlock=landlock.version()
        )
        seccomp.prepare(fences)


def _limit(limits: Limits) -> dict[str, int]:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_NOFILE, _MOST_OPEN_FILES)
    held = {}
    if limits.file_bytes is not None:
        held["file_bytes"] = _lower(resource.RLIMIT_FSIZE, limits.file_bytes)
    if limits.tasks is not None:
        held["tasks"] = _lower(resource.RLIMIT_NPROC, limits.tasks + SPARE_TASKS)
    if limits.memory_bytes is not None:
        # The limits count what is mapped already, most of it torch's libraries.
        mapped, *_, private, _ = map(int, kernel.read("/proc/self/statm").split())
        page_bytes = resource.getpagesize()
        if limits.has_cuda:
            held["private_bytes"] = _lower(resource.RLIMIT_DATA, private * page_bytes + limits.memory_bytes)
        else:
            held["address_space_bytes"] = _lower(resource.RLIMIT_AS, mapped * page_bytes + limits.memory_bytes)
    for name in ("RLIMIT_AS", "RLIMIT_DATA"):
        _held_limits[name] = resource.getrlimit(getattr(resource, name))
    return held


# As confining left them: how much is mapped by then is another number in each process.
_held_limits: dict[str, tuple[int, int]] = {}


def is_as_confined(name: str) -> bool:
    """Return whether a limit of this process, such as `RLIMIT_AS`, is still what confining made it."""
    return _held_limits.get(name) == resource.getrlimit(getattr(resource, name))


def _lower(which: int, most: int) -> int:
    soft, hard = resource.getrlimit(which)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    soft = most if soft == resource.RLIM_INFINITY else min(most, soft)
    resource.setrlimit(which, (soft, most))
    return soft
