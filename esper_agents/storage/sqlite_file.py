"""Connections to an SQLite file; SQLAlchemy is loaded for the first statement that it has to compile."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from esper_agents.storage.compiled_statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from sqlalchemy import Connection, Engine

BUSY_TIMEOUT_S = 30
_MOST_IDLE = 5


@contextmanager
def _closed_on_failure(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def connect(file: str) -> sqlite3.Connection:
    """Return a connection to an SQLite file, set up for many processes; it begins no transaction.

    Raises:
        sqlite3.Error: The file cannot be used.
    """
    # A connection serves one thread at a time, but not always the same one.
    connection = sqlite3.connect(file, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    with _closed_on_failure(connection):
        set_up(connection)
    return connection


def set_up(connection: Any) -> None:
    """Set up a new connection: SQLite keeps these settings for each connection, except for the journal mode."""
    cursor = connection.cursor()
    # FULL, not NORMAL: an acknowledged row must survive a power failure.
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def schema_version(connection: Connection) -> str:
    """Return the schema version of an SQLite database; empty if it is empty."""
    return str(_VERSION.scalar(connection, {}) or "") if _HAS_VERSION.rows(connection, {}) else ""


_HAS_VERSION = Prepared("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'")
_VERSION = Prepared("SELECT version_num FROM alembic_version")


class _Dialect(NamedTuple):
    """What statements that are compiled already need to know of a database."""

    name: str
    loaded_dbapi: ModuleType


_SQLITE = _Dialect("sqlite", sqlite3)


class _LazyConnection:
    """A connection that stands for the one of SQLAlchemy, which is made at the first use of what only that has.

    Attributes:
        dialect: Name and driver of the database.
        connection: The connection of the driver.
    """

    def __init__(self, file: SqliteFile) -> None:
        self.dialect = _SQLITE
        self.connection = connect(file.path)
        self._file = file
        self._whole: Connection | None = None

    def __getattr__(self, name: str) -> Any:
        if self._whole is None:
            self._whole = self._file.whole(self.connection)
        return getattr(self._whole, name)

    def commit(self) -> None:
        """Commit the transaction."""
        if self._whole is not None and self._whole.in_transaction():
            self._whole.commit()
        # SQLAlchemy commits nothing if it has run no statement.
        self.connection.commit()

    def close(self) -> None:
        """Close the connection, and roll back its transaction."""
        if self._whole is not None:
            with suppress(Exception):  # the database rolls back, whatever SQLAlchemy says about its end
                self._whole.close()
        self.connection.close()


class SqliteFile:
    """The connections of this process to an SQLite file.

    Most statements are compiled already, or are SQL text: a command that only reads needs no SQLAlchemy, whose import
    takes longer than everything else that the command does.

    Attributes:
        path: The file.
    """

    def __init__(self, path: str) -> None:
        """Open nothing yet."""
        self.path = path
        self._idle: list[_LazyConnection] = []
        self._is_closed = False
        self._lock = Lock()
        self._engine: Engine | None = None
        self._next: sqlite3.Connection | None = None

    @contextmanager
    def transaction(self, begin: str) -> Iterator[Connection]:
        """Yield a connection in a transaction, which is committed at the end of the block.

        Args:
            begin: SQL that begins it.

        Raises:
            sqlite3.Error: The file cannot be used.
        """
        connection = self._taken()
        try:
            connection.connection.execute(begin)
            yield cast("Connection", connection)
            connection.commit()
        except BaseException:
            connection.close()
            raise
        with self._lock:
            if len(self._idle) < _MOST_IDLE and not self._is_closed:
                self._idle.append(connection)
                return
        connection.close()

    def whole(self, connection: sqlite3.Connection) -> Connection:
        """Return SQLAlchemy's connection over one of the driver, whose transaction goes on."""
        with self._lock:
            if self._engine is None:
                self._engine = _engine_of(self._given)
            self._next = connection
            try:
                return self._engine.connect()
            finally:
                self._next = None

    def close(self) -> None:
        """Close the connections; those of open transactions at their end."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _taken(self) -> _LazyConnection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _LazyConnection(self)

    def _given(self) -> sqlite3.Connection | None:
        return self._next


def _engine_of(give: Callable[[], Any]) -> Engine:
    """Return an engine over connections that are in a transaction already.

    An engine of `create_engine` rolls back on its first connection, and defines a function on each, which SQLite
    refuses in a transaction that has written full text. This one has a dialect that another engine has set up.
    """
    from sqlalchemy import Engine, NullPool, create_engine

    other = create_engine("sqlite://")
    other.connect().close()
    other.dispose()
    return Engine(NullPool(give, dialect=other.dialect), other.dialect, other.url)
