"""The warm parent: has imported torch, runs no operation, and forks a worker for each request in some milliseconds.

It stays at one thread, because a fork of a process with threads hangs at torch's next parallel operation, and it never
imports the user's code.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import socket
import sys
import threading
from typing import Any

from .channel import Channel, ChannelError


def main(descriptor: int) -> None:
    """Serve the lab at the other end of a socket until it goes away; then leave no process behind.

    Args:
        descriptor: The inherited socket.
    """
    from . import kernel

    channel = Channel(socket.socket(fileno=descriptor))
    kernel.become_subreaper()
    try:
        channel.send(_hello())
        _Nursery(channel).serve()
    except (EOFError, OSError, ChannelError):
        pass
    finally:
        _kill_strays(set())
        os._exit(0)


def _hello() -> dict[str, Any]:
    try:
        import torch
    except ImportError as error:
        return {"python": sys.version.split()[0], "executable": sys.executable, "missing": str(error)}
    # Importing is where a thread pool could begin; setting the count here only writes a number.
    torch.set_num_threads(1)
    return {
        "python": sys.version.split()[0],
        "executable": sys.executable,
        "torch": torch.__version__,
        "threads": threading.active_count(),
    }


class _Nursery:
    """The parent's children, by process id."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._children: set[int] = set()
        self._woken, waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._private = (self._woken, waker)
        # Imported once here, not in every child.
        self._live = importlib.import_module(".child", __package__).live

    def serve(self) -> None:
        """Fork, kill and bury until the lab goes away."""
        from . import confine

        while True:
            wait_s = 0 if self._channel.is_ready else None
            ready, _, _ = select.select([self._channel, self._woken], [], [], wait_s)
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, 4096)
                self._bury()
            if self._channel in ready or self._channel.is_ready:
                message, files = self._channel.receive()
                if message["do"] == "fork":
                    self._fork(message, files)
                elif message["do"] == "prepare":
                    confine.prepare(has_own_network=message["walled"], is_walled=message["walled"])
                elif message["do"] == "warm":
                    self._warm(message["job"])
                else:
                    self._kill(int(message["pid"]))

    def _fork(self, message: dict[str, Any], files: list[int]) -> None:
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            for each in self._private:
                os.close(each)
            self._channel.close()
            self._live(message, files)
        for each in files:
            os.close(each)
        self._children.add(pid)
        self._channel.send({"forked": pid})

    def _warm(self, job: str) -> None:
        """Load what a job needs, so that its workers are forked with it."""
        warm = getattr(importlib.import_module(f".jobs.{job}", __package__), "warm", None)
        if warm is not None:
            warm()
        threads = len(os.listdir("/proc/self/task"))
        self._channel.send({"warmed": job, "threads": threads})

    def _kill(self, pid: int) -> None:
        from . import descent

        if pid in self._children:
            descent.kill_tree(pid, self._children - {pid})
            self._children.discard(pid)
        self._bury()
        self._channel.send({"killed": pid})

    def _bury(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid in self._children:
                    self._children.discard(pid)
                    self._channel.send({"ended": pid, "status": os.waitstatus_to_exitcode(status)})
        # What a worker started and left behind is ours now.
        _kill_strays(self._children)


def _kill_strays(known: set[int]) -> None:
    from . import descent

    while left := descent.strays(known):
        for each in left:
            descent.kill_tree(each, known)
