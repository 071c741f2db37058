"""Listening socket, signals and end of a process that serves HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from typing import NoReturn

LOOPBACK = "127.0.0.1"
_BACKLOG = 128


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that accepts connections; whoever connects before the server runs waits for it.

    Args:
        host: Address of an interface.
        port: Port; 0 for a free one.

    Raises:
        OSError: The address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


async def signalled() -> None:
    """Return when the process is asked to end."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, event.set)
    await event.wait()


def end_process() -> NoReturn:
    """End the process without waiting for its threads: one may read or compute for long, and none can be stopped."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)
