"""Confine a forked process before it runs user code, with every mechanism of this kernel."""

from __future__ import annotations

import os
import resource
import tempfile
from dataclasses import dataclass
from typing import Any

from . import landlock, seccomp
from . import syscalls as kernel

# Paths that every program needs, on any distribution.
_SYSTEM = (
    *("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/localtime", "/etc/alternatives", "/etc/hosts", "/proc", "/sys/devices/system", "/sys/fs/cgroup"),
    *("/nix/store", "/gnu/store"),
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_PRIVATE = ("/dev/shm",)  # noqa: S108 - in a namespace, a process has its own
_MOST_OPEN_FILES = 65_536
# Tasks above the limit at which the kernel refuses more: the supervisor can detect the excess first.
SPARE_TASKS = 128


@dataclass(frozen=True)
class Grants:
    """Files that a process may access, each including everything beneath it.

    Attributes:
        writable: Folders with full access.
        readable: Files and folders that may be read and executed.
        listable: Folders whose entries may be listed but not read.
        devices: Device files that may be used, such as GPUs.
    """

    writable: tuple[str, ...]
    readable: tuple[str, ...]
    listable: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limits:
    """Resource limits of a process.

    Attributes:
        memory_bytes: Additional memory that each process may map from now on; None for no limit.
        file_bytes: Maximum size of each file, including files in memory; None for no limit.
        has_cuda: Whether it may use CUDA, whose driver reserves more addresses than most machines have memory. Then
            only private, writable memory counts: not reserved or shared memory.
        tasks: Maximum number of processes and threads of its user, those outside included; None for no limit. The
            kernel does not apply it to root.
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
    """Confine this process and its descendants. This cannot be undone.

    Args:
        grants: Accessible files; without effect if there is no Landlock.
        limits: How much it may take.
        use_landlock: Confine files and signals by Landlock, if the kernel has it.
        use_seccomp: Filter system calls, if possible.
        has_own_network: Whether it has a separate network namespace that contains only itself and its siblings.
        is_walled: Whether `NamespacedWorkers` gave it its own PID, mount and IPC namespaces; checked here.

    Returns:
        The active mechanisms: `landlock` (its version, 0 for none), `seccomp`, `walled`, `own_network`, the limits, and
        whether `multiprocessing` (named semaphores, shared memory, sockets between one's own processes) can work.

    Raises:
        OSError: The kernel refused a request.
    """
    # In a separate PID namespace, the parent outside has process id 0.
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
        # The only protection between measurement processes.
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
    """Make a folder this process's home, working directory and temporary directory."""
    os.environ.update(HOME=folder, TMPDIR=folder)
    # The parent may have cached its own temporary directory.
    tempfile.tempdir = None
    os.chdir(folder)


def prepare(*, has_own_network: bool, is_walled: bool) -> None:
    """Prepare in the parent the filter program that every process would otherwise compute."""
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
        # The limits include existing mappings, mostly torch's libraries.
        mapped, *_, private, _ = map(int, kernel.read("/proc/self/statm").split())
        page_bytes = resource.getpagesize()
        if limits.has_cuda:
            held["private_bytes"] = _lower(resource.RLIMIT_DATA, private * page_bytes + limits.memory_bytes)
        else:
            held["address_space_bytes"] = _lower(resource.RLIMIT_AS, mapped * page_bytes + limits.memory_bytes)
    _held_processors.update(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ())
    for name in ("RLIMIT_AS", "RLIMIT_DATA"):
        _held_limits[name] = resource.getrlimit(getattr(resource, name))
    return held


# Limits right after confinement: the mapped size differs between processes.
_held_limits: dict[str, tuple[int, int]] = {}


# Processors right after confinement: each process may have another.
_held_processors: set[int] = set()


def has_processors(processors: set[int]) -> bool:
    """Return whether these are the processors that this process was given."""
    return processors == _held_processors


def is_as_confined(name: str) -> bool:
    """Return whether a limit of this process, such as `RLIMIT_AS`, is unchanged since confinement."""
    return _held_limits.get(name) == resource.getrlimit(getattr(resource, name))


def _lower(which: int, most: int) -> int:
    soft, hard = resource.getrlimit(which)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    soft = most if soft == resource.RLIM_INFINITY else min(most, soft)
    resource.setrlimit(which, (soft, most))
    return soft
