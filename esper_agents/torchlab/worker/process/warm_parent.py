"""Warm parent: imports torch once, and forks a fork server with own namespaces for each command.

It reads requests of its keeper alone: to fork, and to import modules of this package. No code of a project is imported
here, and nothing that a fork server or a measurement process sends arrives here.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from ..jobs import MODULES
from . import fork_server
from .channel import Channel, ChannelError
from .namespaces import SeparateForks

_WORKER = (__package__ or "").rpartition(".")[0]


def main(descriptor: int) -> None:
    """Serve the keeper at the other end of a socket until it closes.

    Args:
        descriptor: The inherited socket.
    """
    channel = Channel(socket.socket(fileno=descriptor))
    try:
        about = fork_server.hello()
        forks = SeparateForks()
        channel.send({**about, "separate": forks.are_possible, **_state()})
        # Fork servers end unseen: their commands wait for them.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            message, files = channel.receive()
            if message["do"] == "serve":
                _serve(channel, forks, files)
            else:
                warm = getattr(importlib.import_module(MODULES[message["job"]], _WORKER), "warm", None)
                if warm is not None:
                    warm()
                channel.send({"warmed": message["job"], **_state()})
    except (EOFError, OSError, ChannelError):
        os._exit(0)  # the keeper has ended
    finally:
        os._exit(1)


def _serve(channel: Channel, forks: SeparateForks, files: list[int]) -> None:
    gc.collect(0)
    pid = forks.fork()
    if pid == 0:
        channel.close()
        fork_server.main(files[0])
    for each in files:
        os.close(each)
    channel.send({"forked": pid})


def _state() -> dict[str, Any]:
    """Return the number of threads, and every file whose change makes this process stale."""
    modules = {str(getattr(module, "__file__", None) or "") for module in tuple(sys.modules.values())}
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    mapped = {line.split(maxsplit=5)[5] for line in maps if "/" in line}
    threads = len(list(Path("/proc/self/task").iterdir()))
    return {"threads": threads, "files": sorted(each for each in modules | mapped if each.startswith("/"))}
