"""HTTP connections that are bounded in number, in waiting for a request and in waiting for a reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

MOST_CONNECTIONS = 128
REQUEST_S = 10.0
READER_S = 30.0
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 5\r\nconnection: close\r\n\r\n"


class BoundedConnection(H11Protocol):
    """Connection that ends if its client sends a request, or reads a response, too slowly."""

    _request_timer: asyncio.TimerHandle | None = None
    _reader_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Accept a connection, or refuse it if there are too many."""
        is_full = len(self.connections) >= MOST_CONNECTIONS
        super().connection_made(transport)
        if is_full:
            transport.write(_BUSY)
            transport.close()
            return
        self._expect_request()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request, which must be complete in time."""
        super().data_received(data)
        if self._is_idle:
            self._expect_request()
        else:
            _stop(self._request_timer)
        self._request_timer = None

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        if self._reader_timer is None:
            self._reader_timer = self.loop.call_later(READER_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Continue after the client has read."""
        _stop(self._reader_timer)
        self._reader_timer = None
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        _stop(self._request_timer)
        self._request_timer = None
        _stop(self._reader_timer)
        self._reader_timer = None
        super().connection_lost(exc)

    @property
    def _is_idle(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _expect_request(self) -> None:
        if self._request_timer is None:
            self._request_timer = self.loop.call_later(REQUEST_S, self._close_if_idle)

    def _close_if_idle(self) -> None:
        self._request_timer = None
        if self._is_idle:
            self.transport.abort()


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
