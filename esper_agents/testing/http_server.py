"""A minimal HTTP server on a loopback port, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.testing.script import Hang, Slow, TruncateResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_HEAD_END = b"\r\n\r\n"
_BODY_END = b"0\r\n\r\n"
_LARGEST_HEAD_BYTES = 65_536
_PHRASES = {each.value: each.phrase for each in HTTPStatus}

Step: TypeAlias = bytes | Slow | Hang | TruncateResponse


@dataclass(frozen=True, slots=True)
class Received:
    """An HTTP request.

    Attributes:
        method: Method, such as `POST`; empty if the request was not HTTP.
        path: Path of the request.
        headers: Headers, with names in lower case.
        body: The complete body.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response.

    Attributes:
        status: HTTP status.
        headers: Headers, except those for the encoding of the body.
        steps: Data to write and pauses, in order; a `Cut` closes the connection at that point.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]


class LoopbackServer:
    """HTTP server on a loopback port, running from `start` to `stop`."""

    def __init__(self, respond: Callable[[Received], Response], port: int = 0) -> None:
        """Prepare to serve.

        Args:
            respond: Called on the server's thread, one request at a time; must not block.
            port: Port number; 0 lets the system choose.
        """
        self.url = ""
        self._respond = respond
        self._port = port
        self._thread = threading.Thread(target=self._run, name="loopback-server", daemon=True)
        self._is_ready = threading.Event()
        self._problem: OSError | None = None
        self._cpu_s = 0.0
        self._stop: Callable[[], object] = lambda: None

    def start(self) -> None:
        """Start the server; `url` is its address.

        Raises:
            OSError: The port is not available.
        """
        self._thread.start()
        self._is_ready.wait()
        if self._problem is not None:
            raise self._problem

    def stop(self) -> None:
        """Close all connections and end the thread."""
        self._stop()
        self._thread.join()

    @property
    def cpu_s(self) -> float:
        """CPU time of the server's thread, in seconds."""
        if not self._thread.is_alive():
            return self._cpu_s
        return time.clock_gettime(time.pthread_getcpuclockid(self._thread.ident or 0))

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            self._problem = error
        finally:
            self._is_ready.set()

    async def _serve(self) -> None:
        loop, stopping = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(stopping.set)
        connections: set[_Connection] = set()
        server = await loop.create_server(
            lambda: _Connection(self._respond, connections), "127.0.0.1", self._port, backlog=1024
        )
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._is_ready.set()
        await stopping.wait()
        server.close()
        for connection in tuple(connections):
            connection.end()
        # One iteration of the loop, in which the connections are notified of their loss.
        await asyncio.sleep(0)
        self._cpu_s = time.thread_time()


class _Connection(asyncio.Protocol):
    def __init__(self, respond: Callable[[Received], Response], connections: set[_Connection]) -> None:
        self._respond = respond
        self._connections = connections
        self._bytes = bytearray()
        self._playing: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - TCP has no other
        self._transport = transport
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - as asyncio calls it
        self._connections.discard(self)
        if self._playing:
            self._playing.cancel()

    def end(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._bytes += data
        self._go_on()

    def _go_on(self) -> None:
        while self._playing is None and (received := self._whole_request()):
            self._play(self._respond(received))

    def _whole_request(self) -> Received | None:
        end = self._bytes.find(_HEAD_END)
        if end < 0:
            return self._no_http() if len(self._bytes) > _LARGEST_HEAD_BYTES else None
        first, *lines = self._bytes[:end].decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        words, length = first.split(" "), headers.get("content-length", "0")
        if len(words) != 3 or not length.isdecimal() or "transfer-encoding" in headers:  # noqa: PLR2004 - HTTP's own
            return self._no_http()
        body_end = end + len(_HEAD_END) + int(length)
        if len(self._bytes) < body_end:
            return None
        body = bytes(self._bytes[end + len(_HEAD_END) : body_end])
        del self._bytes[:body_end]
        return Received(words[0], words[1], headers, body)

    def _no_http(self) -> Received:
        self._bytes.clear()
        return Received("", "", {}, b"")

    def _play(self, response: Response) -> None:
        if all(isinstance(step, bytes) for step in response.steps):
            chunks = (_chunk(step) for step in response.steps if isinstance(step, bytes))
            self._transport.write(b"".join((_head(response), *chunks, _BODY_END)))
        else:
            self._playing = asyncio.get_running_loop().create_task(self._perform(response))

    async def _perform(self, response: Response) -> None:
        head = _head(response)
        for step in response.steps:
            match step:
                case Slow(seconds):
                    await asyncio.sleep(seconds)
                case Hang():
                    await asyncio.Event().wait()
                case TruncateResponse():
                    self._transport.close()
                    return
                case _:
                    self._transport.write(head + _chunk(step))
                    head = b""
        self._transport.write(head + _BODY_END)
        self._playing = None
        self._go_on()


def _head(response: Response) -> bytes:
    first = f"HTTP/1.1 {response.status} {_PHRASES.get(response.status, '')}"
    lines = [first, *(f"{name}: {value}" for name, value in response.headers)]
    return "\r\n".join((*lines, "transfer-encoding: chunked", "", "")).encode("latin-1", "replace")


def _chunk(step: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(step), step) if step else b""
