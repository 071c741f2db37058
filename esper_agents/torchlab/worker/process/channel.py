"""Messages between lab, fork server and workers: length-prefixed JSON and open files on a Unix socket."""

from __future__ import annotations

import array
import json
import os
import socket
import struct
import time
from typing import Any

# Length of the message in bytes, and number of attached files.
_LENGTH = struct.Struct("!IB")
_MOST_BYTES = 256 << 20
# Exit code of a process whose channel was closed by user code.
CHANNEL_LOST = 73
_MOST_FILES = 16
_CREDENTIALS = struct.Struct("3i")


class ChannelError(Exception):
    """Error for an invalid message of the peer."""


class Channel:
    """One end of a connection.

    Attributes:
        peer_pid: Process id of the peer as seen from this process; 0 before its first message.
    """

    def __init__(self, end: socket.socket) -> None:
        """Take ownership of a connected Unix stream socket."""
        self._end = end
        self._buffer = bytearray()
        self._files: list[int] = []
        self.peer_pid = 0
        # The kernel translates process ids between PID namespaces.
        end.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)

    def fileno(self) -> int:
        """Return the socket's descriptor, for waiting."""
        return self._end.fileno()

    def close(self) -> None:
        """Close this end and the received files that nothing took."""
        self._end.close()
        for file in self._files:
            os.close(file)
        self._files.clear()

    @property
    def is_ready(self) -> bool:
        """Whether a whole message has arrived already, which waiting for the socket would miss."""
        if len(self._buffer) < _LENGTH.size:
            return False
        length, _ = _LENGTH.unpack_from(self._buffer)
        return len(self._buffer) >= _LENGTH.size + int(length)

    def send(self, message: dict[str, Any], files: tuple[int, ...] = ()) -> None:
        """Send one message with attached open files.

        Raises:
            OSError: The peer has closed the connection.
        """
        text = json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
        framed = _LENGTH.pack(len(text), len(files)) + text
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
        sent = self._end.sendmsg([framed], ancillary)
        self._end.sendall(framed[sent:])

    def receive(self, timeout_s: float | None = None) -> tuple[dict[str, Any], list[int]]:
        """Return the next message and its attached files.

        Raises:
            TimeoutError: No message arrived in time.
            EOFError: The peer has closed the connection.
            ChannelError: The message is invalid.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            if len(self._buffer) >= _LENGTH.size:
                length, count = _LENGTH.unpack_from(self._buffer)
                if length > _MOST_BYTES:
                    raise ChannelError(f"a message of {length} bytes")
                if len(self._buffer) >= _LENGTH.size + length:
                    return self._take(length, count)
            # A deadline for the whole message: a peer that sends a byte per second must not block us forever.
            left = None if deadline is None else max(deadline - time.monotonic(), 1e-6)
            self._end.settimeout(left)
            self._read()

    def _read(self) -> None:
        space = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(_MOST_FILES * 4)
        try:
            got, ancillary, _, _ = self._end.recvmsg(1 << 20, space, socket.MSG_CMSG_CLOEXEC)
        except ConnectionError as error:
            raise EOFError from error
        for level, kind, body in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._files += array.array("i", body[: len(body) - len(body) % 4])
            elif level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                self.peer_pid = _CREDENTIALS.unpack(body)[0]
        if not got:
            raise EOFError
        self._buffer += got

    def _take(self, length: int, count: int) -> tuple[dict[str, Any], list[int]]:
        text = bytes(self._buffer[_LENGTH.size : _LENGTH.size + length])
        del self._buffer[: _LENGTH.size + length]
        files, self._files = self._files[:count], self._files[count:]
        try:
            message = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ChannelError("a message that is not JSON") from error
        if not isinstance(message, dict):
            raise ChannelError("a message that is not an object")
        return message, files
