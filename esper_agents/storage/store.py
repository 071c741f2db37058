"""The store: transactions, the clock, and a thread for asynchronous callers."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.database_url import display_name
from esper_agents.storage.engine import translate_database_errors
from esper_agents.storage.schema_names import HEAD
from esper_agents.storage.sqlite_file import SqliteFile, schema_version
from esper_agents.storage.worker_thread import WorkerThread
from esper_agents.storage.write_lock import lock_file, write_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection, Engine

    from esper_agents.storage.database_url import DatabaseUrl

P = ParamSpec("P")
T = TypeVar("T")

# The server aborts the transaction of a suspended writer after this time, because others wait for its rows.
STOPPED_MS = 15_000

# The database's clock, not the process's: owners on several machines must agree on when a lease ends.
_NOW_MS = {
    "sqlite": Prepared("SELECT CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"),
    "postgresql": Prepared("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"),
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
        url: URL of the database.
        where: Its display name.
        is_shared: Whether processes on several machines can use it.
    """

    def __init__(self, url: DatabaseUrl, *, clock: Callable[[Connection], int] = database_clock) -> None:
        """Open the database, and migrate an embedded one to the current schema.

        Args:
            url: URL of the database.
            clock: Source of the time; tests replace it.

        Raises:
            StorageError: It cannot be used; NewerDatabaseError: it was written by a newer esper-agents.
        """
        self.url = url
        self.where = display_name(url)
        self.is_shared = url.get_backend_name() != "sqlite"
        self._clock = clock
        self._lock_file = lock_file(url)
        with translate_database_errors(str(self.where)):
            if not self.is_shared and url.database:
                _make_private_folder(url.database)
            self._database = _Server(url) if self.is_shared else _EmbeddedDatabase(str(url.database or ""))
            try:
                # One at a time: the first connection switches the journal mode of the file, and does not wait for
                # another's lock.
                with write_lock(self._lock_file):
                    self._database.ensure_schema(url)
            except BaseException:
                self._database.close()
                raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection that sees one snapshot of the database."""
        with translate_database_errors(str(self.where)), self._database.reading() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Yield an atomic write transaction, durable when the block ends; writers take turns."""
        with (
            translate_database_errors(str(self.where)),
            write_lock(self._lock_file),
            self._database.writing() as connection,
        ):
            now_ms = self._clock(connection)
            yield Transaction(connection, now_ms, timestamp(now_ms))

    def close(self) -> None:
        """Close all connections."""
        self._database.close()


class _EmbeddedDatabase:
    """An SQLite file with the schema."""

    def __init__(self, file: str) -> None:
        self._file = SqliteFile(file)

    def ensure_schema(self, url: DatabaseUrl) -> None:
        """Migrate an older or empty file to the current schema, which loads SQLAlchemy and more."""
        if _is_current(self._file):
            return
        from esper_agents.storage.engine import open_engine
        from esper_agents.storage.migrate import ensure_schema

        engine = open_engine(url)
        try:
            ensure_schema(engine)
        finally:
            engine.dispose()

    def reading(self) -> AbstractContextManager[Connection]:
        """Return a transaction that sees one snapshot."""
        return self._file.transaction("BEGIN")

    def writing(self) -> AbstractContextManager[Connection]:
        """Return a write transaction; a deferred one that upgrades to a writer fails at once, whatever the timeout."""
        return self._file.transaction("BEGIN IMMEDIATE")

    def close(self) -> None:
        """Close all connections."""
        self._file.close()


def _is_current(file: SqliteFile) -> bool:
    with file.transaction("BEGIN") as connection:
        return schema_version(connection) == HEAD


class _Server:
    """The database of a server, with the schema."""

    def __init__(self, url: DatabaseUrl) -> None:
        from esper_agents.storage.engine import open_engine

        self._engine: Engine = open_engine(url)
        # PostgreSQL's default shows newer data with every statement.
        self._readers = self._engine.execution_options(isolation_level="REPEATABLE READ")

    def ensure_schema(self, _url: DatabaseUrl) -> None:
        """Refuse another schema than the current one, and create the first."""
        from esper_agents.storage.migrate import ensure_schema

        ensure_schema(self._engine)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection in a transaction that sees one snapshot."""
        with self._readers.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection in a write transaction."""
        with self._engine.connect() as connection, connection.begin():
            connection.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = {STOPPED_MS}")
            yield connection

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
