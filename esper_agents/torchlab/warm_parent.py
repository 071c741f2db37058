"""Warm parent as seen by commands: find the one that fits, or start it; list those that run."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.errors import UsageError
from esper_agents.paths import home
from esper_agents.torchlab.remove_tree import remove
from esper_agents.torchlab.sandbox import SandboxChoice
from esper_agents.torchlab.warm_keeper import LOCK, RECORD, SCRATCH, SOCKET, TOKEN
from esper_agents.torchlab.worker.process.channel import Channel, ChannelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from esper_agents.domain.codec import JsonObject

# Stands for the number of the socket in a command line.
DESCRIPTOR = "{descriptor}"
SETTING = "ESPER_KEEP_WARM"
DEFAULT_S = 300.0
_MOST_S = 86_400.0
_CONNECT_S, _REPLY_S, _START_S = 2.0, 70.0, 125.0
_CREDENTIALS = struct.Struct("3i")
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
# All that its keeper gets of the environment.
_KEPT = ("PATH", "LANG", "LD_LIBRARY_PATH", "TMPDIR")
_WORKER = Path(__file__).parent / "worker"


@dataclass(frozen=True, slots=True)
class WarmParentState:
    """Warm parent that runs.

    Attributes:
        pid: Process id of its keeper.
        project: Folder of its project.
        python: Its interpreter.
        torch: Its version of torch.
        idle_s: Seconds without a command after which it ends.
    """

    pid: int
    project: str
    python: str
    torch: str
    idle_s: float


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Command line of a warm parent, with `DESCRIPTOR` for its socket.

    Attributes:
        command: The words.
        env: Its environment.
        about: `project`, `python` and `choice`.
    """

    command: Sequence[str]
    env: dict[str, str]
    about: JsonObject


@dataclass(frozen=True, slots=True)
class WarmParentPlan:
    """What makes a warm parent fit a command, and how it is started.

    Attributes:
        identity: Project, interpreter, environment and mounts, independent of the scratch folder.
        paths: Files and folders that its sandbox binds: another one under the same name needs another parent.
        launch: Returns the command line for a scratch folder.
    """

    identity: JsonObject
    paths: Sequence[Path]
    launch: Callable[[Path], LaunchPlan]

    @property
    def key(self) -> str:
        """Digest of all that a process inherits from the command that starts it, and of this installation."""
        bound = [(str(path), *_number(path)) for path in self.paths]
        own = [(str(path), *_number(path)) for path in sorted(_WORKER.rglob("*.py"))]
        text = json.dumps([self.identity, bound, own, _surroundings()], sort_keys=True)
        return sha256(text.encode()).hexdigest()[:32]


def seconds_to_stay(given: str = "") -> float:
    """Return for how many seconds a warm parent stays without a command; 0 if none is used.

    Args:
        given: Text of an option; the setting `ESPER_KEEP_WARM` if empty.

    Raises:
        UsageError: It is not a number of seconds.
    """
    text = given or os.environ.get(SETTING, "")
    if not text:
        return DEFAULT_S
    with suppress(ValueError):
        if 0 <= (number := float(text)) <= _MOST_S:
            return number
    source = "--keep-warm" if given else SETTING
    raise UsageError(
        f"invalid seconds of {source}: {text!r}", remedy="use a number such as 300, or 0 for no warm parent"
    )


class AttachedProcess:
    """Fork server of a command, forked by a warm parent.

    Attributes:
        channel: Channel to the fork server.
        scratch: Folder for the processes of this command.
        covered: Folder with those of all commands, which no process sees, except for its own part of it.
        choice: Their sandbox.
    """

    def __init__(self, keeper: Channel, channel: Channel, scratch: Path, choice: SandboxChoice) -> None:
        """Take ownership of both channels and the folder."""
        self._keeper, self.channel, self.choice = keeper, channel, choice
        self.scratch, self.covered = scratch, scratch.parent

    def remember(self, job: str) -> None:
        """Have the parent import the modules of a job after this command, for the next one."""
        with suppress(OSError):
            self._keeper.send({"warm": job})

    def why(self) -> str:
        """Return the reason of its end, which is not known here."""
        return ""

    def close(self) -> None:
        """End the fork server, and every process with it; then let the parent go."""
        pid = self.channel.peer_pid
        process = None
        with suppress(OSError):
            process = os.pidfd_open(pid) if pid else None
        self.channel.close()
        if process is not None:
            if not select.select([process], [], [], 5)[0]:
                with suppress(OSError):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                select.select([process], [], [], 5)
            os.close(process)
        self._keeper.close()


def attached(plan: WarmParentPlan, idle_s: float) -> AttachedProcess | None:
    """Return a fork server of the warm parent that fits a plan, started if there is none; None if none can be.

    Args:
        plan: The plan.
        idle_s: Seconds without a command after which it ends.
    """
    folder = _folder(plan.key)
    if folder is None:
        return None
    with suppress(OSError, EOFError, TimeoutError, ChannelError):
        if (found := _connected(folder, idle_s)) is not None:
            return found
    with suppress(OSError, EOFError, TimeoutError, ChannelError):
        if _start(folder, plan, idle_s):
            return _connected(folder, idle_s)
    return None


def running_parents() -> Iterator[WarmParentState]:
    """Yield the warm parents of this user that run."""
    for folder in sorted(home().glob("warm/*/")):
        with suppress(OSError, ValueError, KeyError, TypeError), ExitStack() as opened:
            if _is_locked(folder / LOCK, opened):
                record = json.loads((folder / RECORD).read_text(encoding="ascii"))
                project, python, torch = (str(record[name]) for name in ("project", "python", "torch"))
                yield WarmParentState(int(record["pid"]), project, python, torch, float(record["idle_s"]))


def _is_locked(file: Path, opened: ExitStack) -> bool:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    opened.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _folder(key: str) -> Path | None:
    """Return the folder of a record, if no one else can write there."""
    folder = home() / "warm" / key
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for each in (folder, folder.parent):
            about = each.lstat()
            if about.st_uid != os.geteuid() or not each.is_dir() or each.is_symlink():
                return None
            each.chmod(0o700)
    except OSError:
        return None
    return folder


def _reached(folder: Path, opened: ExitStack) -> tuple[Channel, str]:
    """Return a channel to the keeper of a record, and its token.

    Raises:
        OSError: There is none of this user.
    """
    with os.fdopen(os.open(folder / TOKEN, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), encoding="ascii") as text:
        token = text.read()
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    opened.callback(end.close)
    end.settimeout(_CONNECT_S)
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        # A short path: the limit of a socket's path is 107 bytes.
        end.connect(f"/proc/self/fd/{place}/{SOCKET}")
    finally:
        os.close(place)
    _, uid, _ = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    if uid != os.geteuid():
        raise PermissionError(f"the socket in {str(folder)!r} belongs to user {uid}")
    return Channel(end), token


def _connected(folder: Path, idle_s: float) -> AttachedProcess | None:
    """Return a fork server of a running parent; None if it is stale."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ExitStack() as failed, theirs:
        failed.callback(ours.close)
        channel, token = _reached(folder, failed)
        channel.send({"do": "serve", "token": token, "idle_s": idle_s}, (theirs.fileno(),))
        reply, _ = channel.receive(_REPLY_S)
        if "serving" not in reply:
            return None
        scratch = Path(tempfile.mkdtemp(prefix="command-", dir=reply["serving"]))
        failed.pop_all()
        return AttachedProcess(channel, Channel(ours), scratch, SandboxChoice.from_described(reply["about"]["choice"]))


def _start(folder: Path, plan: WarmParentPlan, idle_s: float) -> bool:
    """Start a keeper with its parent; return whether it can be used."""
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH))
    is_ready = False
    try:
        launch = plan.launch(scratch)
        given = {
            "command": list(launch.command),
            "env": launch.env,
            "scratch": str(scratch),
            "idle_s": idle_s,
            "umask": _umask(),
            "watched": [str(path) for path in _WORKER.rglob("*.py")],
            "about": launch.about,
        }
        with subprocess.Popen(
            [sys.executable, "-I", "-m", "esper_agents.torchlab.warm_keeper", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: text for name, text in os.environ.items() if name in _KEPT},
            cwd="/",
        ) as process:
            said = process.stdout
            if process.stdin is not None and said is not None:
                process.stdin.write(json.dumps(given).encode())
                process.stdin.close()
                # It goes on in a fork: the process that was started ends at once.
                is_ready = bool(select.select([said], [], [], _START_S)[0]) and said.read(6) == b"ready\n"
    finally:
        if not is_ready:
            remove(scratch)
    return is_ready


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _number(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    is_file = path.is_file()
    return (found.st_dev, found.st_ino, *((found.st_size, found.st_mtime_ns) if is_file else ()))


def _surroundings() -> list[Any]:
    """Return what a process inherits besides its environment."""
    limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    cgroup = Path("/proc/self/cgroup")
    return [
        *(os.getuid(), os.geteuid(), os.getgid(), sorted(os.getgroups()), _umask()),
        *(sorted(os.sched_getaffinity(0)), os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)),
        [resource.getrlimit(getattr(resource, name)) for name in limits],
        [str(Path("/proc/self/ns", name).readlink()) for name in _NAMESPACES],
        cgroup.read_text(encoding="utf-8") if cgroup.exists() else "",
        Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"),
    ]
