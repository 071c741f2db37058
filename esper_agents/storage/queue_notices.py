"""Notices of queued sessions on PostgreSQL, so that idle workers need not poll often."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from esper_agents.storage.engine import has_transaction_pooler

if TYPE_CHECKING:
    from sqlalchemy import URL

    from esper_agents.storage.store import Transaction

CHANNEL = "esper_queue"
_ANNOUNCE = text(f"NOTIFY {CHANNEL}")
# A connection that died silently is found by a statement after this time.
_CHECK_S = 60.0
_RECONNECT_S = 5.0
_CONNECT_TIMEOUT_S = 10


def announce(transaction: Transaction) -> None:
    """Wake the waiting workers when the transaction commits; does nothing on SQLite."""
    if transaction.connection.dialect.name == "postgresql":
        transaction.connection.execute(_ANNOUNCE)


class QueueNotices:
    """A connection of its own that receives the notices; a notice may be lost, so workers poll as well.

    Attributes:
        is_listening: Whether notices arrive at the moment.
    """

    def __init__(self, url: URL) -> None:
        """Prepare to listen; nothing is opened yet."""
        self._url = url
        self._came = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.is_listening = False

    def start(self) -> None:
        """Start to listen in the background, if the database can send notices."""
        if self._url.get_backend_name() != "postgresql" or self._url.get_driver_name() != "psycopg":
            return
        # A pooler gives each transaction another connection, so that the notices would be lost.
        if not has_transaction_pooler():
            self._task = asyncio.create_task(self._listen())

    async def wait(self) -> None:
        """Wait until a notice came since the last wait."""
        await self._came.wait()
        self._came.clear()

    async def close(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _listen(self) -> None:
        import psycopg

        positional, named = self._url.get_dialect()().create_connect_args(self._url)
        arguments: dict[str, Any] = {
            "connect_timeout": _CONNECT_TIMEOUT_S,
            "application_name": "esper-agents notices",
            **named,
        }
        while True:
            # The database may be unavailable for a while; meanwhile the worker polls.
            with suppress(psycopg.Error, OSError):
                async with await psycopg.AsyncConnection.connect(
                    *positional, **arguments, autocommit=True
                ) as connection:
                    await connection.execute(f"LISTEN {CHANNEL}")
                    self.is_listening = True
                    # What was queued before the first notice.
                    self._came.set()
                    while True:
                        async for _ in connection.notifies(timeout=_CHECK_S):
                            self._came.set()
                        await connection.execute("SELECT 1")
            self.is_listening = False
            await asyncio.sleep(_RECONNECT_S)
