"""Notices of queued sessions on PostgreSQL, so that idle workers need not poll often."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.database_url import SqliteUrl
from esper_agents.storage.engine import has_transaction_pooler

if TYPE_CHECKING:
    from sqlalchemy import URL

    from esper_agents.storage.database_url import DatabaseUrl
    from esper_agents.storage.store import Transaction

CHANNEL = "esper_queue"
_ANNOUNCE = Prepared(f"NOTIFY {CHANNEL}")
# A connection that died silently is found by a statement after this time.
_CHECK_S = 60.0
_RECONNECT_S = 5.0
_CONNECT_TIMEOUT_S = 10


def announce(transaction: Transaction) -> None:
    """Wake the waiting workers when the transaction commits; does nothing on SQLite."""
    if transaction.connection.dialect.name == "postgresql":
        _ANNOUNCE.rows(transaction.connection, {})


class QueueNotices:
    """A connection of its own that receives the notices; a notice may be lost, so workers poll as well.

    Attributes:
        is_listening: Whether notices arrive at the moment.
    """

    def __init__(self, url: DatabaseUrl) -> None:
        """Prepare to listen; nothing is opened yet."""
        self._url = url
        self._came = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.is_listening = False

    def start(self) -> None:
        """Start to listen in the background, if the database can send notices."""
        url = self._url
        if isinstance(url, SqliteUrl) or (url.get_backend_name(), url.get_driver_name()) != ("postgresql", "psycopg"):
            return
        # A pooler gives each transaction another connection, so that the notices would be lost.
        if not has_transaction_pooler():
            self._task = asyncio.create_task(self._listen(url))

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

    async def _listen(self, url: URL) -> None:
        import psycopg

        positional, named = url.get_dialect()().create_connect_args(url)
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
