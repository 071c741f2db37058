"""The program's own schema in a PostgreSQL database, and the move of an archive from `public` into it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlalchemy import text

from esper_agents.errors import StorageError
from esper_agents.storage.schema_names import FULL_TEXTS, SCHEMA
from esper_agents.storage.tables import metadata

if TYPE_CHECKING:
    from sqlalchemy import Connection

EARLIER_SCHEMA = "public"
VERSION_TABLE = "alembic_version"
# An older esper-agents that looks in `public` refuses this as a newer version instead of creating an archive there.
MOVED = f"moved to schema {SCHEMA}"
_OWN_VERSION = re.compile(r"[0-9]{4}")
_ENOUGH = ("project", "session", "ledger", "certificate")


def is_postgresql(connection: Connection) -> bool:
    """Return whether a connection leads to a PostgreSQL database."""
    return connection.dialect.name == "postgresql"


def schema_of_archive(connection: Connection) -> str:
    """Return the schema that contains the archive; empty if there is none.

    Raises:
        StorageError: The program's schema belongs to another Alembic application.
    """
    found = _version_in(connection, SCHEMA)
    if found and not _OWN_VERSION.fullmatch(found):
        raise StorageError(
            f"schema {SCHEMA!r} belongs to another Alembic application, at version {found!r}",
            remedy="set ESPER_DATABASE_URL to another database: esper-agents changes nothing here",
        )
    if found:
        return SCHEMA
    found = _version_in(connection, EARLIER_SCHEMA)
    is_own = _OWN_VERSION.fullmatch(found) and set(_ENOUGH) <= _tables(connection, EARLIER_SCHEMA)
    return EARLIER_SCHEMA if is_own else ""


def other_application(connection: Connection) -> str:
    """Return the schema version of another Alembic application in `public`; empty if there is none."""
    found = _version_in(connection, EARLIER_SCHEMA)
    return "" if found == MOVED or schema_of_archive(connection) == EARLIER_SCHEMA else found


def use_schema(connection: Connection, schema: str) -> None:
    """Let the unqualified names of a transaction mean tables of a schema."""
    connection.execute(text(f'SET LOCAL search_path TO "{schema}"'))


def create_schema(connection: Connection) -> None:
    """Create the program's schema if it is missing."""
    # Not IF NOT EXISTS alone: that needs the permission to create even if the schema exists.
    if not connection.scalar(text("SELECT 1 FROM pg_namespace WHERE nspname = :name"), {"name": SCHEMA}):
        connection.execute(text(f'CREATE SCHEMA IF NOT EXISTS "{SCHEMA}"'))
    use_schema(connection, SCHEMA)


def move_archive(connection: Connection) -> int:
    """Move an archive from `public` into the program's schema, and return the number of moved tables.

    Indexes, constraints and sequences move with their tables; tables of others stay. Does nothing without an archive in
    `public`.
    """
    if schema_of_archive(connection) != EARLIER_SCHEMA:
        return 0
    create_schema(connection)
    own = {*metadata.tables, *FULL_TEXTS, VERSION_TABLE} & _tables(connection, EARLIER_SCHEMA)
    for table in sorted(own):
        connection.execute(text(f'ALTER TABLE "{EARLIER_SCHEMA}"."{table}" SET SCHEMA "{SCHEMA}"'))
    sign = f'"{EARLIER_SCHEMA}"."{VERSION_TABLE}"'
    connection.execute(text(f"CREATE TABLE {sign} (version_num VARCHAR(32) NOT NULL)"))
    connection.execute(text(f"INSERT INTO {sign} VALUES (:moved)"), {"moved": MOVED})  # noqa: S608 - a constant name
    return len(own)


def owner_of_archive(connection: Connection) -> str:
    """Return the database user who owns the archive's tables; empty if there is no archive in the program's schema."""
    wanted = text("SELECT tableowner FROM pg_tables WHERE schemaname = :schema AND tablename = :table")
    return str(connection.scalar(wanted, {"schema": SCHEMA, "table": VERSION_TABLE}) or "")


def act_as_owner(connection: Connection) -> None:
    """Let a member of the archive's owner create tables as that owner, so that all tables have one owner."""
    owner = owner_of_archive(connection)
    is_member = text("SELECT :owner <> current_user AND pg_has_role(current_user, CAST(:owner AS name), 'MEMBER')")
    if owner and connection.scalar(is_member, {"owner": owner}):
        quoted = owner.replace('"', '""')
        connection.execute(text(f'SET LOCAL ROLE "{quoted}"'))


def _tables(connection: Connection, schema: str) -> set[str]:
    wanted = text("SELECT tablename FROM pg_tables WHERE schemaname = :schema")
    return {str(name) for name in connection.scalars(wanted, {"schema": schema})}


def _version_in(connection: Connection, schema: str) -> str:
    if VERSION_TABLE not in _tables(connection, schema):
        return ""
    wanted = f'SELECT max(version_num) FROM "{schema}"."{VERSION_TABLE}"'  # noqa: S608 - constant names
    return str(connection.scalar(text(wanted)) or "")
