"""The database engine: SQLite set up for many processes, PostgreSQL by URL, translated errors."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from esper_agents.errors import StorageError, UsageError
from esper_agents.storage.schema_names import SCHEMA
from esper_agents.storage.sqlite_file import BUSY_TIMEOUT_S, set_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import URL, Connection, Engine

    from esper_agents.storage.database_url import DatabaseUrl

WRITES = "esper_writes"
_CONNECT_TIMEOUT_S = 10
_POOL_SIZE, _LEAST_POOL_SIZE, _MOST_POOL_SIZE = 5, 2, 100


def open_engine(url: DatabaseUrl) -> Engine:
    """Return an engine whose transactions do not deadlock between processes.

    Write transactions on SQLite begin IMMEDIATE: a deferred transaction that upgrades to a writer fails at once,
    whatever the timeout.

    Raises:
        UsageError: The driver of the database is not installed.
    """
    from sqlalchemy import URL, create_engine, event
    from sqlalchemy.exc import NoSuchModuleError

    if isinstance(url, URL) and url.get_backend_name() != "sqlite":
        try:
            return _server_engine(url)
        except (ImportError, NoSuchModuleError) as error:
            from esper_agents.extras import Extra, require_extra

            require_extra(Extra.POSTGRESQL)
            problem = f"the driver of {url.drivername!r} is not installed"
            raise UsageError(problem, remedy="install it, or write the URL as postgresql://...") from error
    file = url if isinstance(url, URL) else URL.create("sqlite", database=url.database)
    engine = create_engine(file, connect_args={"timeout": BUSY_TIMEOUT_S})

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        set_up(connection)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(WRITES, False)
        connection.connection.cursor().execute("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _server_engine(url: URL) -> Engine:
    from sqlalchemy import create_engine, event

    given: dict[str, Any] = {"application_name": "esper-agents", "connect_timeout": _CONNECT_TIMEOUT_S}
    arguments = {name: value for name, value in given.items() if name not in url.query}
    if has_pooler := has_transaction_pooler():
        # A prepared statement belongs to a server connection; a pooler gives each transaction any of them.
        arguments["prepare_threshold"] = None
    else:
        arguments["options"] = f"{url.query.get('options', '')} -c search_path={SCHEMA}".strip()
    engine = create_engine(
        url, pool_pre_ping=True, pool_size=pool_size(), max_overflow=0, pool_use_lifo=True, connect_args=arguments
    )
    if has_pooler:

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            connection.connection.cursor().execute(f"SET LOCAL search_path TO {SCHEMA}")

    return engine


def pool_size() -> int:
    """Return the maximum number of connections that one open database of this process uses.

    Raises:
        UsageError: `ESPER_DATABASE_POOL_SIZE` is not a number from 2 to 100.
    """
    given = os.environ.get("ESPER_DATABASE_POOL_SIZE") or str(_POOL_SIZE)
    if not given.isascii() or not given.isdigit() or not _LEAST_POOL_SIZE <= int(given) <= _MOST_POOL_SIZE:
        raise UsageError(
            f"invalid ESPER_DATABASE_POOL_SIZE {given!r}",
            remedy=f"set it to a number from {_LEAST_POOL_SIZE} to {_MOST_POOL_SIZE}, or unset it",
        )
    return int(given)


def has_transaction_pooler() -> bool:
    """Return whether the URL leads to a pooler such as PgBouncer that gives each transaction another connection.

    Raises:
        UsageError: `ESPER_DATABASE_POOLER` is neither `transaction` nor `none`.
    """
    given = os.environ.get("ESPER_DATABASE_POOLER") or "none"
    if given not in {"transaction", "none"}:
        raise UsageError(
            f"invalid ESPER_DATABASE_POOLER {given!r}", remedy="set it to transaction or none, or unset it"
        )
    return given == "transaction"


@contextmanager
def translate_database_errors(where: str) -> Iterator[None]:
    """Translate errors of the database and its disk into `StorageError`.

    Args:
        where: Display name of the database.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _explained(error, where) from error
    except OSError as error:
        raise StorageError(
            f"cannot use {where!r}: {error.strerror or error}", remedy="make it writable or set ESPER_HOME"
        ) from error
    except Exception as error:
        # An error of SQLAlchemy exists only if that is loaded.
        if "sqlalchemy" in sys.modules and (translated := _translated(error, where)):
            raise translated from error
        raise


def _translated(error: Exception, where: str) -> StorageError | None:
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.exc import TimeoutError as PoolTimeoutError

    if isinstance(error, DBAPIError):
        return _explained(error.orig or error, where)
    if isinstance(error, PoolTimeoutError):
        return StorageError(
            f"the database {where!r}: no connection of this process became free in time",
            remedy="set ESPER_DATABASE_POOL_SIZE to a higher number, or run fewer sessions at the same time",
        )
    return None


# SQLite messages: text to match, problem, and remedy.
_REMEDIES = (
    (
        "not a database",
        "is damaged or not a database",
        "move the file away and run the command again, or restore a backup",
    ),
    ("malformed", "is damaged", "move the file away and run the command again, or restore a backup"),
    ("readonly", "is read-only", "make the file and its folder writable, or set ESPER_HOME to a folder that is"),
    ("unable to open", "cannot be opened", "make its folder exist and writable, or set ESPER_HOME to one that is"),
    ("full", "has no space left on its disk", "free some space and run `esper resume`; recorded steps are safe"),
    ("disk i/o", "has a failing or full disk", "free some space and run `esper resume`; recorded steps are safe"),
    ("locked", "is locked by another program", "close the other program and run the command again"),
)
_CORRECT = "in ESPER_DATABASE_URL"
# Messages of PostgreSQL and psycopg. The reason follows "connection failed", so the general patterns come last.
_SERVER_REMEDIES = (
    (
        r"unsupported startup parameter: options",
        "a pooler such as PgBouncer refuses the session settings of esper-agents",
        "set ESPER_DATABASE_POOLER=transaction",
    ),
    (
        r"prepared statement .* (?:does not exist|already exists)",
        "a pooler such as PgBouncer gives each transaction another connection",
        "set ESPER_DATABASE_POOLER=transaction",
    ),
    (
        r"\w+ authentication failed for user (?P<it>\".*?\")",
        "authentication failed for user {it}",
        f"correct the user or the password {_CORRECT}, or in PGPASSWORD or ~/.pgpass",
    ),
    (
        r"no password supplied|password was provided|passfile|wrong password type",
        "authentication failed: the server requires a password and none was given",
        f"put one {_CORRECT}, or in PGPASSWORD or ~/.pgpass",
    ),
    (
        r"pg_hba\.conf (?:entry|rejects connection) for .*?user (?P<it>\".*?\")",
        "authentication failed: pg_hba.conf of the server does not allow user {it}",
        f"add an entry for this client, or correct user, database or sslmode {_CORRECT}",
    ),
    (
        r"role (?P<it>\".*?\") (?:does not exist|is not permitted to log in)",
        "authentication failed: the server has no role {it} that can log in",
        f"create the role, or correct the user {_CORRECT}",
    ),
    (
        r"database (?P<it>\".*?\") does not exist",
        "the server has no database {it}",
        f"create it, as with createdb, or correct its name {_CORRECT}",
    ),
    (
        r"(?:permission denied|must be owner) (?P<it>(?:for|to|of) .*)",
        "permission denied {it}",
        f"ask its owner for a role that may: `esper db grant ROLE --to USER`; or name another user {_CORRECT}",
    ),
    (
        r"cannot execute [\w ]+ in a read-only transaction",
        "the server is read-only, as a standby is",
        f"name the primary server {_CORRECT}",
    ),
    (
        r"(?P<it>(?:relation|column|table) \S+(?: of relation \S+)?) does not exist",
        "{it} is missing, so the schema is of another version of esper-agents",
        "run `esper db status` with the newest esper-agents",
    ),
    (
        r"No space left on device|could not extend file|disk full",
        "the server has no space left on its disk",
        "free some space there and run `esper resume`; recorded steps are safe",
    ),
    (
        r"idle-in-transaction timeout",
        "the server ended a transaction because this process was suspended",
        "run the command again, or `esper resume`; recorded steps are safe",
    ),
    (
        r"terminating connection|server closed|consuming input failed|connection (?:is|was|has been) (?:lost|closed)",
        "the network or the server ended the connection",
        "run the command again, or `esper resume`; recorded steps are safe",
    ),
    (
        r"the database system is (?:starting up|shutting down|in recovery mode)",
        "the server is starting or stopping",
        "run the command again in a few seconds",
    ),
    (
        r"timeout expired|timed out|Network is unreachable|No route to host",
        "the network does not reach the server in time",
        f"check network and firewall, or correct host and port {_CORRECT}",
    ),
    (
        r"failed to resolve host|could not translate host name|Name or service not known|getaddrinfo failed",
        "the host is unknown",
        f"correct the host {_CORRECT}",
    ),
    (
        r"Connection refused|No such file or directory",
        "no server accepts connections at this host and port",
        f"start the server, or correct host and port {_CORRECT}",
    ),
    (
        r"too many (?:clients|connections)|connection slots",
        "the server has no connection left",
        "run fewer workers, or raise max_connections of the server",
    ),
    (
        r"connection",
        "the server cannot be reached",
        f"start the database server, or correct host and port {_CORRECT}",
    ),
)


def _explained(error: BaseException, where: str) -> StorageError:
    said = str(error).strip() or type(error).__name__
    if isinstance(error, sqlite3.Error):
        lowered = said.lower()
        for words, problem, remedy in _REMEDIES:
            if words in lowered:
                return StorageError(f"the database {where!r} {problem}", remedy=remedy)
    else:
        for words, problem, remedy in _SERVER_REMEDIES:
            if found := re.search(words, said, re.IGNORECASE):
                it = found.groupdict().get("it", "")
                return StorageError(f"the database {where!r}: {problem.format(it=it)}", remedy=remedy)
    return StorageError(f"the database {where!r} refused: {said.splitlines()[0]}", remedy="run `esper doctor`")
