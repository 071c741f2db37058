"""Database maintenance: schema status, upgrade and vacuum."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import create_engine, func, inspect, select, text

from esper_agents.errors import UsageError
from esper_agents.storage import migrate
from esper_agents.storage.database_roles import grant_statements
from esper_agents.storage.database_url import display_name
from esper_agents.storage.engine import open_engine, translate_database_errors
from esper_agents.storage.postgres_schema import (
    EARLIER_SCHEMA,
    VERSION_TABLE,
    is_postgresql,
    other_application,
    schema_of_archive,
    use_schema,
)
from esper_agents.storage.schema_names import FULL_TEXTS, HEAD, SCHEMA
from esper_agents.storage.tables import certificate, log_entry, metadata, note, session
from esper_agents.storage.write_lock import lock_file, write_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

    from esper_agents.domain.database_role import DatabaseRole
    from esper_agents.storage.database_url import DatabaseUrl

_COUNTED = {"sessions": session, "certificates": certificate, "log_entries": log_entry, "notes": note}
_PATIENCE_S = 30


@dataclass(frozen=True, slots=True)
class DatabaseStatus:
    """Status of a database.

    Attributes:
        system: `sqlite` or `postgresql`.
        version: The version of the database system.
        where: The file, or the URL without a password.
        exists: Whether it contains a schema.
        shape: The latest applied migration, or empty.
        newest: The latest migration known to this version.
        pending: Migrations that are not applied yet.
        is_newer: Whether a newer esper-agents wrote it.
        size_bytes: Size of the database.
        journal: Journal mode, such as `wal`.
        sessions: Number of sessions; None if the schema has no such table.
        certificates: Number of certificates, or None likewise.
        log_entries: Number of transparency log entries, or None likewise.
        notes: Number of notes, or None likewise.
        queued: Number of sessions waiting for a worker; None if the schema has no queue.
        schema: PostgreSQL schema of the tables; empty for SQLite and for an empty database.
        other_application: Schema version of another Alembic application in `public`, which is left untouched; or empty.
    """

    system: str
    version: str
    where: str
    exists: bool
    shape: str
    newest: str
    pending: tuple[str, ...]
    is_newer: bool
    size_bytes: int
    journal: str
    sessions: int | None
    certificates: int | None
    log_entries: int | None
    notes: int | None
    queued: int | None
    schema: str = ""
    other_application: str = ""


@dataclass(frozen=True, slots=True)
class Upgraded:
    """Result of an upgrade.

    Attributes:
        before: The previous schema version; empty for an empty database.
        after: The current schema version.
        migrations: The applied migrations, in order.
        moved: Number of tables that were moved from `public` into the program's own schema.
    """

    before: str
    after: str
    migrations: tuple[str, ...]
    moved: int = 0


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """Result of a vacuum.

    Attributes:
        before_bytes: Size before.
        after_bytes: Size after.
    """

    before_bytes: int
    after_bytes: int


def status(url: DatabaseUrl) -> DatabaseStatus:
    """Return the status of a database without changing or creating it.

    Raises:
        StorageError: The database cannot be read.
    """
    if is_file(url) and not Path(str(url.database)).is_file():
        return _missing(url)
    with _looking(url) as connection:
        schema = other = ""
        if is_postgresql(connection):
            schema, other = schema_of_archive(connection), other_application(connection)
            use_schema(connection, schema or SCHEMA)
        shape = migrate.version(connection) if schema != EARLIER_SCHEMA else _version_before_move(connection)
        tables = {name: table for name, table in _COUNTED.items() if inspect(connection).has_table(table.name)}
        counts = {name: connection.scalar(select(func.count()).select_from(table)) for name, table in tables.items()}
        return DatabaseStatus(
            system=connection.dialect.name,
            version=".".join(str(each) for each in connection.dialect.server_version_info or ()),
            where=display_name(url),
            exists=bool(shape),
            shape=shape,
            newest=HEAD,
            pending=migrate.pending(shape),
            is_newer=shape > HEAD,
            size_bytes=_size_bytes(connection, url),
            journal=_journal(connection),
            **{name: counts.get(name) for name in _COUNTED},
            queued=_queued(connection) if "sessions" in tables else None,
            schema=schema,
            other_application=other,
        )


def upgrade(url: DatabaseUrl) -> Upgraded:
    """Migrate a database to the current schema, under a lock and in one transaction.

    Raises:
        NewerDatabaseError: A newer esper-agents wrote it.
        StorageError: The database cannot be used.
    """
    if is_file(url):
        Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _engine(url) as engine:
        done = migrate.upgrade_schema(engine)
    return Upgraded(done.before, HEAD, migrate.pending(done.before), done.moved)


def vacuum(url: DatabaseUrl) -> Vacuumed:
    """Reclaim unused space, and optimize the full-text indexes.

    Raises:
        StorageError: Another program has locked the database.
    """
    with _engine(url) as engine:
        with engine.connect() as connection, connection.begin():
            before = _size_bytes(connection, url)
        if is_file(url):
            with write_lock(lock_file(url)), closing(sqlite3.connect(str(url.database), timeout=_PATIENCE_S)) as plain:
                _vacuum_file(plain)
        else:
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                for each in (*metadata.tables, *FULL_TEXTS):
                    connection.execute(text(f"VACUUM (ANALYZE) {SCHEMA}.{each}"))
        with engine.connect() as connection, connection.begin():
            return Vacuumed(before, _size_bytes(connection, url))


def grants(url: DatabaseUrl, role: DatabaseRole, user: str) -> tuple[str, ...]:
    """Return the statements that give a user a role in a shared database; see `grant_statements`.

    Raises:
        UsageError: The database is an SQLite database or has no archive yet, or the name is not valid.
        StorageError: The database cannot be read.
    """
    if is_file(url) and not Path(str(url.database)).is_file():
        raise UsageError("there is no shared database", remedy="set ESPER_DATABASE_URL to a PostgreSQL database")
    with _looking(url) as connection:
        return grant_statements(connection, role, user)


def is_file(url: DatabaseUrl) -> bool:
    """Return whether a database is an SQLite file."""
    return url.get_backend_name() == "sqlite"


def reading(url: DatabaseUrl) -> sqlite3.Connection:
    """Return a read-only connection to an SQLite file."""
    file = Path(str(url.database)).absolute()
    return sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=_PATIENCE_S, check_same_thread=False)


@contextmanager
def _looking(url: DatabaseUrl) -> Iterator[Connection]:
    with translate_database_errors(display_name(url)):
        engine = create_engine("sqlite://", creator=lambda: reading(url)) if is_file(url) else open_engine(url)
        try:
            with engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()


@contextmanager
def _engine(url: DatabaseUrl) -> Iterator[Engine]:
    with translate_database_errors(display_name(url)):
        engine = open_engine(url)
        try:
            yield engine
        finally:
            engine.dispose()


def _vacuum_file(plain: sqlite3.Connection) -> None:
    # VACUUM cannot run inside a transaction.
    plain.isolation_level = None
    for full_text in FULL_TEXTS:
        plain.execute(f"INSERT INTO {full_text} ({full_text}) VALUES ('optimize')")  # noqa: S608 - constant names
    plain.execute("VACUUM")
    plain.execute("PRAGMA optimize")
    plain.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _size_bytes(connection: Connection, url: DatabaseUrl) -> int:
    if not is_file(url):
        return int(connection.scalar(text("SELECT pg_database_size(current_database())")) or 0)
    files = (Path(f"{url.database}{end}") for end in ("", "-wal", "-shm"))
    return sum(file.stat().st_size for file in files if file.is_file())


def _journal(connection: Connection) -> str:
    if connection.dialect.name == "sqlite":
        return str(connection.scalar(text("PRAGMA journal_mode")))
    return f"wal, synchronous_commit {connection.scalar(text('SHOW synchronous_commit'))}"


def _queued(connection: Connection) -> int | None:
    if "queued" not in {column["name"] for column in inspect(connection).get_columns(session.name)}:
        return None
    waiting = select(func.count()).where(session.c.queued, session.c.state == "open", session.c.owner == "")
    return int(connection.scalar(waiting) or 0)


def _version_before_move(connection: Connection) -> str:
    return str(connection.scalar(text(f"SELECT version_num FROM {EARLIER_SCHEMA}.{VERSION_TABLE}")))  # noqa: S608 - constant names


def _missing(url: DatabaseUrl) -> DatabaseStatus:
    return DatabaseStatus(
        system="sqlite",
        version=sqlite3.sqlite_version,
        where=display_name(url),
        exists=False,
        shape="",
        newest=HEAD,
        pending=migrate.pending(""),
        is_newer=False,
        size_bytes=0,
        journal="",
        sessions=None,
        certificates=None,
        log_entries=None,
        notes=None,
        queued=None,
    )
