"""Command line of bubblewrap: an isolated root without network and with selected folders bound in."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# The loader's tables, the time zone, what /usr/bin/cc and CUDA point to, and the name of the loopback.
_SETTINGS = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "alternatives", "hosts")
_HARDWARE = ("/sys/devices/system", "/sys/fs/cgroup")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_STORES = ("/nix/store", "/gnu/store")


@dataclass(frozen=True, slots=True)
class BubblewrapMounts:
    """What is let into the empty machine.

    Attributes:
        python: The interpreter to run.
        readable: Files and folders that can be read.
        scratch: The folder that can be written.
        hidden: Files and folders that are empty inside.
        devices: Device files that can be used.
        can_wall: The interpreter may make namespaces for what it starts.
        has_network: The machine's network is let in.
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
    """Return the command line that runs the interpreter with these arguments in the empty machine.

    Args:
        program: Path of bubblewrap.
        arrangement: What is let in.
        argv: The interpreter's arguments.
    """
    return [
        *(program, "--unshare-user", "--unshare-all", "--die-with-parent", "--new-session"),
        *(("--share-net",) if arrangement.has_network else ()),
        *("--cap-drop", "ALL"),
        # The parent makes namespaces with it; a worker gives it up before it runs anything of the user's.
        *(("--cap-add", "CAP_SYS_ADMIN") if arrangement.can_wall else ()),
        *_system(),
        *("--proc", "/proc", "--tmpfs", "/tmp"),  # noqa: S108 - a new, empty one
        *_devices(arrangement),
        *_places(arrangement),
        # To the kernel, root in a namespace is root, and may write the settings of the machine. Walls have a /proc of
        # their own, and their parent sets a limit here.
        *(() if arrangement.can_wall else ("--ro-bind", "/proc/sys", "/proc/sys")),
        *("--remount-ro", "/tmp", "--remount-ro", "/dev", "--remount-ro", "/"),  # noqa: S108 - likewise
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
    # Not by --dev: its terminals need a user namespace inside the first, in which no walls can be made.
    yield from ("--tmpfs", "/dev", "--tmpfs", "/dev/shm")  # noqa: S108 - a new, empty one
    for path in (*_DEVICES, *map(str, arrangement.devices)):
        yield from ("--dev-bind-try", path, path)
    # The drivers of a graphics processor look for it in more places than can be named.
    for path in ("/sys",) if arrangement.devices else _HARDWARE:
        yield from ("--ro-bind-try", path, path)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        yield from ("--symlink", f"/proc/self/fd/{number}", f"/dev/{name}")
    yield from ("--symlink", "/proc/self/fd", "/dev/fd")


def _places(arrangement: BubblewrapMounts) -> Iterator[str]:
    """Yield what is bound and what is covered, outer before inner, so that the inner one counts."""
    bound = [(each, "--ro-bind") for each in arrangement.readable]
    covered = [(each, "--tmpfs" if each.is_dir() else "/dev/null") for each in arrangement.hidden if each.exists()]
    # Of two for one place the later counts.
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
    # Last: what is bound in a cover needs a place in it.
    for place, how in steps.items():
        if how == "--tmpfs":
            yield from ("--remount-ro", str(place))
