"""Fork server: imports torch, runs no operation, and forks a measurement process per request.

A fork takes some milliseconds. The server stays at one thread, because a fork of a process with threads hangs at
torch's next parallel operation, and it never imports the user's code.
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
from pathlib import Path
from typing import Any

from ..jobs import MODULES
from . import confine
from .channel import Channel, ChannelError
from .namespaces import NamespacedWorkers

# Imported before a fork: a process starts sooner, and the fingerprint knows torch before user code runs.
_WORKER = (__package__ or "").rpartition(".")[0]
_AHEAD = (".compare.process_fingerprint", *(MODULES[each] for each in ("timing", "plan", "observe", "referee")))


def main(descriptor: int) -> None:
    """Serve the lab at the other end of a socket until it closes; then leave no process behind.

    Args:
        descriptor: The inherited socket.
    """
    channel = Channel(socket.socket(fileno=descriptor))
    try:
        channel.send(hello())
        with contextlib.closing(_Nursery(channel)) as nursery:
            nursery.serve()
    except (EOFError, OSError, ChannelError):
        os._exit(0)  # the lab hung up
    except BaseException as error:  # noqa: BLE001 - reported to the lab, which reads this output
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(1)


def hello() -> dict[str, Any]:
    """Return the interpreter and torch; imports what measurement processes start with."""
    try:
        import torch
    except ImportError as error:
        return {"python": sys.version.split()[0], "executable": sys.executable, "missing": str(error)}
    # An import could start a thread pool; setting the count here only stores a number.
    torch.set_num_threads(1)
    for each in _AHEAD:
        importlib.import_module(each, _WORKER)
    return {
        "python": sys.version.split()[0],
        "executable": sys.executable,
        "torch": torch.__version__,
        "threads": threading.active_count(),
    }


class _Nursery:
    """Handler of the lab's requests."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._cells: NamespacedWorkers | None = None
        self._woken, waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._private = (self._woken, waker)
        # Imported once here, not in every child.
        self._live = importlib.import_module(".worker_process", __package__).live

    def serve(self) -> None:
        """Fork, kill and reap processes until the lab hangs up."""
        while True:
            wait_s = 0 if self._channel.is_ready else None
            waited_for: list[Channel | int] = [self._channel, self._woken]
            ready, _, _ = select.select(waited_for, [], [], wait_s)
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, 4096)
                self._bury()
            if self._channel in ready or self._channel.is_ready:
                message, files = self._channel.receive()
                if message["do"] == "fork":
                    self._fork(message, files)
                elif message["do"] == "prepare":
                    self._prepare(message)
                elif message["do"] == "warm":
                    self._warm(message["job"])
                else:
                    self._kill(int(message["pid"]))

    def _prepare(self, message: dict[str, Any]) -> None:
        is_boxed = message["own_network"]
        self._cells = NamespacedWorkers(
            cover=[message["scratch"]],
            is_open=not message["confined"],
            # A warm parent makes each fork server the first process of a namespace.
            is_alone=is_boxed or os.getpid() == 1,
            is_read_only=is_boxed,
        )
        confine.prepare(has_own_network=is_boxed, is_walled=self._cells.is_walled)

    def _ready(self) -> NamespacedWorkers:
        if self._cells is None:
            raise ChannelError("a request arrived before the preparation")
        return self._cells

    def _fork(self, message: dict[str, Any], files: list[int]) -> None:
        cells = self._ready()
        grants = message["grants"]
        readable = [place for name, places in grants.items() if name != "writable" for place in places]
        # Some more than the supervisor allows, so that it detects and reports the excess.
        pid = cells.fork(readable, grants["writable"], most_tasks=message["tasks"] + confine.SPARE_TASKS)
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            for each in self._private:
                os.close(each)
            self._channel.close()
            self._live({**message, "walled": cells.is_walled}, files)
        for each in files:
            os.close(each)
        self._channel.send({"forked": pid})

    def _warm(self, job: str) -> None:
        """Import the modules of a job, so that later forks have them."""
        warm = getattr(importlib.import_module(MODULES[job], _WORKER), "warm", None)
        if warm is not None:
            warm()
        threads = len(list(Path("/proc/self/task").iterdir()))
        self._channel.send({"warmed": job, "threads": threads})

    def _kill(self, pid: int) -> None:
        self._bury()
        self._ready().kill(pid)
        self._channel.send({"killed": pid})

    def _bury(self) -> None:
        # Each stays a zombie until its process tree is killed, so that its process id is not reused.
        for pid, status in self._cells.ended() if self._cells else ():
            self._channel.send({"ended": pid, "status": status})

    def close(self) -> None:
        """Leave no process behind."""
        if self._cells:
            self._cells.kill_all()
