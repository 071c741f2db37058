"""Migrate the database to the current schema at first use, under a lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import text

from esper_agents.errors import NewerDatabaseError, StorageError
from esper_agents.paths import data_folder
from esper_agents.storage import sqlite_file
from esper_agents.storage.engine import WRITES
from esper_agents.storage.schema_names import HEAD, SCHEMA

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from esper_agents.storage.store import Store

# An arbitrary number reserved for this program; PostgreSQL's advisory locks are identified by numbers.
_LOCK = 0x65737065


def ensure_schema(engine: Engine) -> None:
    """Migrate the database to the current schema.

    An embedded SQLite database is upgraded automatically. The check costs one statement; only an older or empty
    database loads Alembic. Processes that start at the same time wait for each other.

    Raises:
        NewerDatabaseError: A newer esper-agents wrote it.
        StorageError: An older shared database, which only `esper db upgrade` may change.
    """
    with engine.connect() as connection:
        if _is_current(connection):
            return
    with engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        if not _is_current(connection):
            upgrade(connection)


@dataclass(frozen=True, slots=True)
class Migration:
    """Result of a migration.

    Attributes:
        before: Previous schema version; empty for an empty database.
        moved: Number of tables that were moved from `public` into the program's own schema.
    """

    before: str
    moved: int


def upgrade_schema(engine: Engine) -> Migration:
    """Migrate any database to the current schema on request of a user.

    An archive in the schema `public` of a PostgreSQL database, where earlier versions created it, is moved first.

    Raises:
        NewerDatabaseError: A newer esper-agents wrote it.
    """
    with engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        moved = 0
        if _is_postgresql(connection):
            from esper_agents.storage.postgres_schema import move_archive

            moved = move_archive(connection)
        found = version(connection)
        _refuse_newer(found)
        if found != HEAD:
            upgrade(connection)
            # Workers of an earlier version stop when they see it.
            if connection.dialect.name == "postgresql":
                from esper_agents.storage.queue_notices import CHANNEL

                connection.execute(text(f"NOTIFY {CHANNEL}"))
        return Migration(found, moved)


def refuse_newer_schema(store: Store) -> None:
    """Raise an error if another process has migrated an open database beyond this version.

    Raises:
        NewerDatabaseError: A newer esper-agents migrated it.
    """
    with store.reading() as connection:
        _refuse_newer(version(connection))


def pending(found: str) -> tuple[str, ...]:
    """Return the migrations that are missing from a database with the given schema version, in order."""
    names = sorted(path.stem for path in (data_folder("alembic") / "versions").glob("[0-9]*.py"))
    return tuple(name for name in names if name.partition("_")[0] > found)


def _refuse_newer(found: str) -> None:
    if found > HEAD:
        raise NewerDatabaseError(
            f"the database has schema version {found}, this esper-agents supports up to {HEAD}",
            remedy="pip install --upgrade esper-agents",
        )


def _is_current(connection: Connection) -> bool:
    found = version(connection)
    _refuse_newer(found)
    if not found and _is_postgresql(connection):
        from esper_agents.storage.postgres_schema import EARLIER_SCHEMA, schema_of_archive

        # Another process may have created it in the program's own schema since.
        if schema_of_archive(connection) == EARLIER_SCHEMA:
            problem = f"the archive of the shared database is still in schema {EARLIER_SCHEMA!r}"
            raise StorageError(problem, remedy="esper db upgrade")
    if found and found < HEAD and connection.dialect.name != "sqlite":
        raise StorageError(f"the shared database has the older schema version {found}", remedy="esper db upgrade")
    return found == HEAD


def version(connection: Connection) -> str:
    """Return the schema version of the database, such as `0001`; empty for an empty database."""
    if _is_postgresql(connection):
        from esper_agents.storage.postgres_schema import VERSION_TABLE, schema_of_archive

        if schema_of_archive(connection) != SCHEMA:
            return ""
        return str(connection.scalar(text(f"SELECT version_num FROM {SCHEMA}.{VERSION_TABLE}")) or "")  # noqa: S608 - constant names
    return sqlite_file.schema_version(connection)


def upgrade(connection: Connection) -> None:
    """Run all missing migrations inside the connection's transaction."""
    from alembic.config import Config

    from alembic import command

    if _is_postgresql(connection):
        from esper_agents.storage.postgres_schema import act_as_owner, create_schema

        create_schema(connection)
        act_as_owner(connection)
    config = Config()
    config.set_main_option("script_location", str(data_folder("alembic")).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _is_postgresql(connection: Connection) -> bool:
    return connection.dialect.name == "postgresql"
