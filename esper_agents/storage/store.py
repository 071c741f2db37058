"""The store: transactions, the clock, and a thread for asynchronous callers."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from sqlalchemy import text

from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.engine import WRITES, open_engine, translate_database_errors, where
from esper_agents.storage.migrate import ensure_schema
from esper_agents.storage.worker_thread import WorkerThread
from esper_agents.storage.write_lock import lock_file, write_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import URL, Connection

P = ParamSpec("P")
T = TypeVar("T")

# The server aborts the transaction of a suspended writer after this time, because others wait for its rows.
STOPPED_MS = 15_000

# The database's clock, not the process's: owners on several machines must agree on when a lease ends.
_NOW_MS = {
    "sqlite": Prepared(text("SELECT CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)")),
    "postgresql": Prepared(text("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)")),
}


def database_clock(connection: Connection) -> int:
    """Return the current time of the database, in milliseconds since 1970 UTC."""
    ((now_ms,),) = _NOW_MS[connection.dialect.name].rows(connection, {})
    return int(now_ms)


def timestamp(now_ms: int) -> str:
    """Return a time as `YYYY-MM-DDTHH:MM:SS.mmmZ`.

    Args:
        now_ms: Milliseconds since 1970 UTC.
    """
    from datetime import UTC, datetime

    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{now_ms % 1000:03d}Z"


@dataclass(frozen=True, slots=True)
class Transaction:
    """One write transaction.

    Attributes:
        connection: The connection for its statements.
        now_ms: The timestamp of all its rows, in milliseconds since 1970 UTC.
        at: The same timestamp as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
    """

    connection: Connection
    now_ms: int
    at: str


class Store:
    """A database with the current schema; the only component that opens connections.

    Attributes:
        where: Display name of the database.
        is_shared: Whether processes on several machines can use it.
    """

    def __init__(self, url: URL, *, clock: Callable[[Connection], int] = database_clock) -> None:
        """Open the database, and migrate an embedded one to the current schema.

        Args:
            url: URL of the database.
            clock: Source of the time; tests replace it.

        Raises:
            StorageError: It cannot be used; NewerDatabaseError: it was written by a newer esper-agents.
        """
        self.where = where(url)
        self.is_shared = url.get_backend_name() != "sqlite"
        self._clock = clock
        self._lock_file = lock_file(url)
        # SQLite readers see one snapshot; PostgreSQL's default shows newer data with every statement.
        reads = {"isolation_level": "REPEATABLE READ"} if url.get_backend_name() == "postgresql" else {}
        with translate_database_errors(str(self.where)):
            if url.get_backend_name() == "sqlite" and url.database:
                _make_private_folder(url.database)
            self._engine = open_engine(url)
            self._readers = self._engine.execution_options(**reads)
            self._writers = self._engine.execution_options(**{WRITES: True})
            try:
                # One at a time: the first connection switches the journal mode of the file, and does not wait for
                # another's lock.
                with write_lock(self._lock_file):
                    ensure_schema(self._engine)
            except BaseException:
                self._engine.dispose()
                raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection that sees one snapshot of the database."""
        with translate_database_errors(str(self.where)), self._readers.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Yield an atomic write transaction, durable when the block ends; writers take turns."""
        with (
            translate_database_errors(str(self.where)),
            self._writers.connect() as connection,
            write_lock(self._lock_file),
            connection.begin(),
        ):
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = {STOPPED_MS}")
            now_ms = self._clock(connection)
            yield Transaction(connection, now_ms, timestamp(now_ms))

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def _make_private_folder(database: str) -> None:
    from pathlib import Path

    folder = Path(database).parent
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


class AsyncStore:
    """The store on threads of its own, so that a blocked writer does not block the event loop."""

    def __init__(self, store: Store) -> None:
        """Wrap a store; its threads start at their first call."""
        self.store = store
        self._thread = WorkerThread("esper-store")
        self._aside = WorkerThread("esper-store-aside")

    async def run(self, work: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of `work(store, ...)`, computed on the store's thread."""
        return await self._thread.run(lambda: work(self.store, *args, **kwargs))

    async def run_aside(self, work: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of `work(store, ...)`, computed on a second thread for long-running work."""
        return await self._aside.run(lambda: work(self.store, *args, **kwargs))

    def close(self) -> None:
        """Wait for the threads and close the store."""
        self._thread.close()
        self._aside.close()
        self.store.close()
