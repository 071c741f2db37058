"""Keeper of a warm parent: the process outside of the sandbox that owns its socket.

It starts the parent, passes commands of this user on to it, and ends it after an idle time, or when a file that the
parent has loaded changes. It imports the standard library and the channel alone, and reads nothing that a measurement
process writes.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from esper_agents.torchlab.remove_tree import remove
from esper_agents.torchlab.worker.jobs import MODULES
from esper_agents.torchlab.worker.process.channel import Channel, ChannelError

SOCKET, TOKEN, LOCK, RECORD = "socket", "token", "lock", "parent.json"
# Prefix of the scratch folders of labs.
SCRATCH = "esper-lab-"
_START_S, _REPLY_S, _REQUEST_S = 120.0, 60.0, 2.0
_TICK_S = 5.0
# For the command that started it, whatever the idle time is.
_FIRST_S = 30.0
_MOST_COMMANDS = 16
_CREDENTIALS = struct.Struct("3i")


class _EndError(Exception):
    """Signal that the parent ends; the message is the reason."""


class Keeper:
    """Warm parent with its socket."""

    def __init__(self, folder: Path, plan: dict[str, Any]) -> None:
        """Prepare.

        Args:
            folder: Folder of the record, which only this user can read.
            plan: `command`, `env`, `scratch`, `idle_s`, `umask`, `watched` (files) and `about`, from the first command.
        """
        self._folder, self._plan = folder, plan
        self._token = secrets.token_hex(32)
        self._begun_ns = time.time_ns()
        self._files: dict[str, tuple[int, ...]] = {}
        self._commands: dict[Channel, list[str]] = {}
        self._idle_until = 0.0
        self._warmed: set[str] = set()

    def run(self, ready: Any) -> None:
        """Start the parent, and serve until it ends.

        Args:
            ready: Called when the socket can be used.
        """
        ours, theirs = socket.socketpair()
        self._parent = Channel(ours)
        command = [str(theirs.fileno()) if word == "{descriptor}" else word for word in self._plan["command"]]
        null = subprocess.DEVNULL
        with theirs:
            process = subprocess.Popen(
                command,
                stdin=null,
                stdout=null,
                stderr=null,
                env=self._plan["env"],
                pass_fds=[theirs.fileno()],
                umask=self._plan["umask"],
                cwd=self._plan["scratch"],
            )
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with suppress(_EndError, EOFError, OSError, ChannelError, TimeoutError, KeyError):
                self._welcome()
                self._listen(listener)
                self._idle_until = time.monotonic() + max(_FIRST_S, self._plan["idle_s"])
                ready()
                self._serve(listener)
        finally:
            for name in (SOCKET, TOKEN, RECORD):
                (self._folder / name).unlink(missing_ok=True)
            listener.close()
            self._finish()
            self._parent.close()
            _end(process)
            remove(Path(self._plan["scratch"]))

    def _welcome(self) -> None:
        """Wait until the parent has imported torch."""
        about, _ = self._parent.receive(_START_S)
        if "torch" not in about or not about["separate"] or about["threads"] != 1:
            raise _EndError("it cannot serve")
        self._watch(about["files"])
        self._torch = about["torch"]

    def _watch(self, files: list[str]) -> None:
        """Watch files for changes.

        Raises:
            _EndError: One has changed since the parent was started: it may have loaded the old one.
        """
        for file in (*files, *self._plan["watched"]):
            self._files.setdefault(file, _identity(file))
        if any(seen and max(seen[-1], seen[-2]) >= self._begun_ns for seen in self._files.values()):
            raise _EndError("a file changed while it started")

    def _is_stale(self) -> bool:
        """Return whether a file that the parent has loaded is another one now, or its record is gone."""
        if not self._is_ours():
            return True
        return any(_identity(file) != seen for file, seen in self._files.items())

    def _is_ours(self) -> bool:
        with suppress(OSError):
            return (self._folder / TOKEN).read_text(encoding="ascii") == self._token
        return False

    def _listen(self, listener: socket.socket) -> None:
        place = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # A short path: the limit of a socket's path is 107 bytes.
            listener.bind(f"/proc/self/fd/{place}/{SOCKET}")
        finally:
            os.close(place)
        (self._folder / SOCKET).chmod(0o600)
        listener.listen(8)
        _write(self._folder / TOKEN, self._token)
        record = {
            **self._plan["about"],
            "pid": os.getpid(),
            "torch": self._torch,
            "idle_s": self._plan["idle_s"],
            "scratch": self._plan["scratch"],
        }
        _write(self._folder / RECORD, json.dumps(record))

    def _serve(self, listener: socket.socket) -> None:
        while True:
            left_s = self._idle_until - time.monotonic()
            if not self._commands and left_s <= 0:
                raise _EndError("it was idle")
            waiting: list[Any] = [listener, self._parent, *self._commands]
            ready, _, _ = select.select(waiting, [], [], _TICK_S if self._commands else min(left_s, _TICK_S))
            if not ready and not self._commands and self._is_stale():
                raise _EndError("it is stale")
            if self._parent in ready:
                raise _EndError("it has ended")
            for each in ready:
                if each is listener:
                    self._accept(listener)
                else:
                    self._read(each)

    def _accept(self, listener: socket.socket) -> None:
        end, _ = listener.accept()
        channel = Channel(end)
        files: list[int] = []
        try:
            if _is_peer(end) and len(self._commands) < _MOST_COMMANDS:
                request, files = channel.receive(_REQUEST_S)
                if secrets.compare_digest(str(request.get("token", "")), self._token):
                    self._answer(channel, request, files)
                    return
        except (EOFError, OSError, ChannelError, TimeoutError):
            pass
        finally:
            for file in files:
                os.close(file)
        if channel not in self._commands:
            channel.close()

    def _answer(self, channel: Channel, request: dict[str, Any], files: list[int]) -> None:
        if self._is_stale():
            channel.send({"refused": "stale"})
            raise _EndError("it is stale")
        self._plan["idle_s"] = float(request["idle_s"])
        self._parent.send({"do": "serve"}, tuple(files[:1]))
        self._parent.receive(_REPLY_S)
        self._commands[channel] = []
        channel.send({"serving": self._plan["scratch"], "about": self._plan["about"]})

    def _read(self, channel: Channel) -> None:
        """Read from a command: the jobs whose modules its fork server has imported, or its end."""
        try:
            request, files = channel.receive(_REQUEST_S)
            for file in files:
                os.close(file)
            if request.get("warm") in MODULES:
                self._commands[channel].append(request["warm"])
        except (EOFError, OSError, ChannelError, TimeoutError):
            channel.close()
            jobs = self._commands.pop(channel)
            self._idle_until = time.monotonic() + self._plan["idle_s"]
            if not self._commands:
                self._warm(jobs)

    def _warm(self, jobs: list[str]) -> None:
        """Have the parent import what the last command did, for the next one."""
        for job in dict.fromkeys(jobs):
            if job not in self._warmed:
                self._warmed.add(job)
                self._parent.send({"do": "warm", "job": job})
                about, _ = self._parent.receive(_START_S)
                if about["threads"] != 1:
                    raise _EndError("it has threads, so that its forks would hang")
                self._watch(about["files"])

    def _finish(self) -> None:
        """Wait for the commands that run; their fork servers end with the parent."""
        while self._commands:
            for channel in select.select([*self._commands], [], [])[0]:
                with suppress(EOFError, OSError, ChannelError, TimeoutError):
                    channel.receive(_REQUEST_S)
                    continue
                channel.close()
                del self._commands[channel]


def _is_peer(end: socket.socket) -> bool:
    """Return whether a peer is a process of this user in this PID namespace, which no measurement process is."""
    pid, uid, _ = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    try:
        theirs, own = (Path(f"/proc/{process}/ns/pid").readlink() for process in (pid, "self"))
    except OSError:
        return False
    return bool(pid) and uid == os.geteuid() and theirs == own


def _identity(file: str) -> tuple[int, ...]:
    """Return what changes with a file: device, number, size, and the times of both kinds of change."""
    try:
        found = Path(file).stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _write(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as opened:
        opened.write(text)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _clear(folder: Path) -> None:
    """Remove what an earlier keeper of this record left when it was killed."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        scratch = Path(json.loads((folder / RECORD).read_text(encoding="ascii"))["scratch"])
        if scratch.name.startswith(SCRATCH) and not scratch.is_symlink() and scratch.stat().st_uid == os.geteuid():
            remove(scratch)
    for name in (SOCKET, TOKEN, RECORD):
        (folder / name).unlink(missing_ok=True)


def main() -> None:
    """Keep a warm parent for the record whose folder is the argument; the plan is on standard input."""
    folder, plan = Path(sys.argv[1]), json.load(sys.stdin)
    if os.fork():
        # The command waits for this process and not for the keeper.
        os._exit(0)
    os.setsid()
    os.umask(0o077)
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        remove(Path(plan["scratch"]))
        os._exit(0)
    _clear(folder)

    def end(_number: int, _frame: object) -> None:
        raise _EndError("a signal")

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)

    def ready() -> None:
        os.write(1, b"ready\n")
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)

    Keeper(folder, plan).run(ready)


if __name__ == "__main__":
    main()
