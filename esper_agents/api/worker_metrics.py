"""Metrics of a queue worker in the text format of Prometheus, served over HTTP."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from esper_agents.api.worker_events import WorkerEvent, WorkerEventKind
from esper_agents.errors import EsperError, UsageError
from esper_agents.http_server import LOOPBACK, listen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

    from esper_agents.storage.queue_metrics import QueueMetrics

_MOST_BYTES, _PATIENCE_S = 8192, 5.0
_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class EventCounter:
    """Number of events of a worker by kind."""

    def __init__(self, tell: Callable[[WorkerEvent], None]) -> None:
        """Count the events that are passed on to `tell`."""
        self.counts: Counter[WorkerEventKind] = Counter()
        self._tell = tell

    def __call__(self, event: WorkerEvent) -> None:
        """Count an event and pass it on."""
        self.counts[event.what] += 1
        self._tell(event)


def metrics_text(found: QueueMetrics | None, counts: Mapping[WorkerEventKind, int]) -> str:
    """Return the metrics as text.

    Args:
        found: Numbers of the database; None if it cannot be read.
        counts: Number of events of the worker.
    """
    return "".join(f"{line}\n" for line in _lines(found, counts))


def _lines(found: QueueMetrics | None, counts: Mapping[WorkerEventKind, int]) -> Iterator[str]:
    yield from _family("esper_database_up", "gauge", "Whether the database can be read.", {"": int(found is not None)})
    if found is not None:
        for name, help_text, value in (
            ("esper_queue_sessions", "Sessions that wait for a worker.", found.queued),
            (
                "esper_queue_oldest_seconds",
                "Time since the last event of the oldest of them.",
                round(found.oldest_s, 3),
            ),
            ("esper_sessions_running", "Sessions with a valid lease.", found.running),
            ("esper_sessions_abandoned", "Open sessions whose lease has expired.", found.abandoned),
            ("esper_sessions_waiting", "Sessions that wait for a user.", found.waiting),
        ):
            yield from _family(name, "gauge", help_text, {"": value})
        verdicts = {f'{{status="{status}"}}': count for status, count in found.verdicts.items()}
        yield from _family("esper_certificates", "gauge", "Certificates by status.", verdicts)
    events = {f'{{event="{kind}"}}': counts.get(kind, 0) for kind in WorkerEventKind}
    yield from _family("esper_worker_events_total", "counter", "Events of this worker, lost leases included.", events)


def _family(name: str, kind: str, help_text: str, samples: Mapping[str, float]) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"
    yield from (f"{name}{labels} {value}" for labels, value in samples.items())


@asynccontextmanager
async def serve_metrics(
    port: int, read: Callable[[], Awaitable[QueueMetrics]], counts: Mapping[WorkerEventKind, int]
) -> AsyncIterator[int]:
    """Serve `/metrics` on the loopback interface until the block ends; yield the port.

    Args:
        port: Port; 0 for a free one.
        read: Returns the numbers of the database.
        counts: Number of events of the worker.

    Raises:
        UsageError: The port cannot be used.
    """
    answering: set[asyncio.StreamWriter] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering.add(writer)
        try:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                async with asyncio.timeout(_PATIENCE_S):
                    request = await reader.readuntil(b"\r\n\r\n")
                    writer.write(await _response(request.split(b"\r\n", 1)[0], read, counts))
                    await writer.drain()
        finally:
            await _close(writer)
            answering.discard(writer)

    try:
        listener = listen(LOOPBACK, port)
    except OSError as error:
        raise UsageError(
            f"port {port} cannot be used: {error.strerror}", remedy="choose another --metrics port"
        ) from error
    server = await asyncio.start_server(answer, sock=listener, limit=_MOST_BYTES)
    try:
        yield listener.getsockname()[1]
    finally:
        server.close()
        # Who is still being answered is left alone no longer than the worker lives.
        for writer in tuple(answering):
            await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _response(
    line: bytes, read: Callable[[], Awaitable[QueueMetrics]], counts: Mapping[WorkerEventKind, int]
) -> bytes:
    method, _, rest = line.partition(b" ")
    if method != b"GET":
        return _message("405 Method Not Allowed", "only GET\n")
    if rest.split(b" ")[0].split(b"?")[0] != b"/metrics":
        return _message("404 Not Found", "only /metrics\n")
    try:
        found = await read()
    except EsperError:
        # The scraper learns that the database is away from `esper_database_up`.
        found = None
    return _message("200 OK", metrics_text(found, counts))


def _message(status: str, text: str) -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {_TYPE}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode("ascii") + body
