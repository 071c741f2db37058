"""Streams of a connection that deliver no further request while too many are open."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import anyio
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

if TYPE_CHECKING:
    from contextvars import Context
    from types import TracebackType
    from typing import Self

    from mcp.shared._context_streams import ContextReceiveStream, ContextSendStream
    from mcp.shared.message import SessionMessage

# A client that sends more and reads no response would fill the memory with responses.
MOST_OPEN = 256
_CANCELLED = "notifications/cancelled"


class OpenRequests:
    """Requests of a client without a response, by their ID; a client may use one ID twice."""

    def __init__(self) -> None:
        self._count: Counter[object] = Counter()
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def begin(self, identifier: object) -> None:
        """Count a request, as soon as few enough are open."""
        while self._count.total() >= MOST_OPEN:
            self._has_room.clear()
            await self._has_room.wait()
        self._count[identifier] += 1

    def end(self, identifier: object, count: int = 1) -> None:
        """Count a response, or all requests with an ID that were cancelled."""
        if self._count[identifier] > count:
            self._count[identifier] -= count
        else:
            del self._count[identifier]
        self._has_room.set()


class BoundedReadStream:
    """Messages of a client; a request is delivered as soon as few enough are open."""

    def __init__(self, inner: ContextReceiveStream[SessionMessage | Exception], requests: OpenRequests) -> None:
        self._inner = inner
        self._requests = requests

    @property
    def last_context(self) -> Context | None:
        """Context of the sender of the last message."""
        return self._inner.last_context

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        item = await self._inner.receive()
        message = None if isinstance(item, Exception) else item.message
        if isinstance(message, JSONRPCRequest):
            await self._requests.begin(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self._requests.end((message.params or {}).get("requestId"), MOST_OPEN)
        return item

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        """Return the stream."""
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        """Return the next message."""
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        """Return the stream."""
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        """Close the stream."""
        await self.aclose()


class BoundedWriteStream:
    """Messages to a client; a response makes room for a request once it is passed on."""

    def __init__(self, inner: ContextSendStream[SessionMessage], requests: OpenRequests) -> None:
        self._inner = inner
        self._requests = requests

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message."""
        await self._inner.send(item)
        message: Any = item.message
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._requests.end(message.id)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        """Return the stream."""
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        """Close the stream."""
        await self.aclose()
