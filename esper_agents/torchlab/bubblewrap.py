"""Command line of bubblewrap: an isolated root without network and with selected folders bound in."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# The loader's tables, the time zone, the targets of /usr/bin/cc and CUDA links, and the loopback's name.
_SETTINGS = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "alternatives", "hosts")
_HARDWARE = ("/sys/devices/system", "/sys/fs/cgroup")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_STORES = ("/nix/store", "/gnu/store")


@dataclass(frozen=True, slots=True)
class BubblewrapMounts:
    """Mounts and rights inside the isolated root.

    Attributes:
        python: The interpreter to run.
        readable: Files and folders that can be read.
        scratch: The writable folder.
        hidden: Files and folders that appear empty.
        devices: Device files that can be used.
        can_wall: Whether the interpreter may create namespaces for its child processes.
        has_network: Whether the machine's network is available.
    """

    python: str
    readable: tuple[Path, ...]
    scratch: Path
    hidden: tuple[Path, ...]
    devices: tuple[Path, ...]
    can_wall: bool = True
    has_network: bool = False


def find() -> str | None:
    """Return the path of bubblewrap; None if it is not installed."""
    return shutil.which("bwrap")


def command(program: str, arrangement: BubblewrapMounts, argv: Sequence[str]) -> list[str]:
    """Return the command line that runs the interpreter with these arguments in the isolated root.

    Args:
        program: Path of bubblewrap.
        arrangement: Mounts and rights.
        argv: The interpreter's arguments.
    """
    return [
        *(program, "--unshare-user", "--unshare-all", "--die-with-parent", "--new-session"),
        *(("--share-net",) if arrangement.has_network else ()),
        *("--cap-drop", "ALL"),
        # The fork server creates namespaces with it; a measurement process drops it before it runs user code.
        *(("--cap-add", "CAP_SYS_ADMIN") if arrangement.can_wall else ()),
        *_system(),
        *("--proc", "/proc", "--tmpfs", "/tmp"),  # noqa: S108 - a new, empty one
        *_devices(arrangement),
        *_places(arrangement),
        # For the kernel, root in a namespace is root, and may write the machine's settings. Inner namespaces mount
        # their own /proc, and the fork server sets a limit there.
        *(() if arrangement.can_wall else ("--ro-bind", "/proc/sys", "/proc/sys")),
        *("--remount-ro", "/tmp", "--remount-ro", "/dev", "--remount-ro", "/"),  # noqa: S108 - same reason
        *("--chdir", str(arrangement.scratch), "--", arrangement.python, *argv),
    ]


def _system() -> Iterator[str]:
    for place in map(Path, _SYSTEM):
        if place.is_symlink():
            yield from ("--symlink", str(place.readlink()), str(place))
        elif place.is_dir():
            yield from ("--ro-bind", str(place), str(place))
    for path in (*(f"/etc/{name}" for name in _SETTINGS), *_STORES):
        yield from ("--ro-bind-try", path, path)


def _devices(arrangement: BubblewrapMounts) -> Iterator[str]:
    # Not --dev: its terminals need a user namespace inside the first, in which no inner namespaces can be created.
    yield from ("--tmpfs", "/dev", "--tmpfs", "/dev/shm")  # noqa: S108 - a new, empty one
    for path in (*_DEVICES, *map(str, arrangement.devices)):
        yield from ("--dev-bind-try", path, path)
    # GPU drivers search more places than can be listed.
    for path in ("/sys",) if arrangement.devices else _HARDWARE:
        yield from ("--ro-bind-try", path, path)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        yield from ("--symlink", f"/proc/self/fd/{number}", f"/dev/{name}")
    yield from ("--symlink", "/proc/self/fd", "/dev/fd")


def _places(arrangement: BubblewrapMounts) -> Iterator[str]:
    """Yield the bound and the covered paths, outer before inner, so that the inner one applies."""
    bound = [(each, "--ro-bind") for each in arrangement.readable]
    covered = [(each, "--tmpfs" if each.is_dir() else "/dev/null") for each in arrangement.hidden if each.exists()]
    # Of two mounts at one path, the later one applies.
    steps = dict([*bound, *covered, (arrangement.scratch, "--bind")])
    for place, how in sorted(steps.items(), key=lambda step: len(step[0].parts)):
        path = str(place)
        match how:
            case "--tmpfs":
                yield from (how, path)
            case "/dev/null":
                yield from ("--ro-bind", how, path)
            case _:
                yield from (how, path, path)
    # Last: a bind inside a cover needs an existing mount point.
    for place, how in steps.items():
        if how == "--tmpfs":
            yield from ("--remount-ro", str(place))
