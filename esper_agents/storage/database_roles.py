"""Roles of a shared PostgreSQL database: the statements that give them to a user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.database_role import DatabaseRole
from esper_agents.errors import UsageError
from esper_agents.storage.postgres_schema import is_postgresql, owner_of_archive
from esper_agents.storage.schema_names import FULL_TEXTS, SCHEMA
from esper_agents.storage.tables import metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

_NAME_BYTES = 63
# Tables that a worker changes, with the rights it needs besides SELECT and INSERT. The ledger, the entries of the log,
# certificates and all others are append-only.
_CHANGED_BY_WORKERS = {
    "project": ("UPDATE (log_id)",),
    "session": ("UPDATE",),
    "session_text": ("UPDATE",),
    "note": ("UPDATE",),
    "note_text": ("UPDATE", "DELETE"),
    "note_file": ("DELETE",),
    # Locking the row of a log for an append takes the right to update one of its columns.
    "log": ("UPDATE (created_at)",),
    # An append replaces the checkpoint.
    "log_checkpoint": ("DELETE",),
    "device_lease": ("UPDATE",),
}


def grant_statements(connection: Connection, role: DatabaseRole, user: str) -> tuple[str, ...]:
    """Return the statements that give a role to a user of the database; runs none of them.

    Args:
        connection: The database; its archive must exist.
        role: The role.
        user: Name of the database user.

    Raises:
        UsageError: The database is not a PostgreSQL database or has no archive yet, or the name is not valid.
    """
    if not is_postgresql(connection):
        raise UsageError("an SQLite database has no users", remedy="set ESPER_DATABASE_URL to a PostgreSQL database")
    if not user or not user.isprintable() or len(user.encode()) > _NAME_BYTES:
        raise UsageError(
            f"invalid user name {user[:_NAME_BYTES]!r}", remedy="name a database user, as listed by psql's \\du"
        )
    owner = owner_of_archive(connection)
    if not owner:
        raise UsageError(f"the database has no archive in schema {SCHEMA!r} yet", remedy="esper db upgrade")
    match role:
        case DatabaseRole.READER:
            return tuple(_reader(_quoted(user), _quoted(owner)))
        case DatabaseRole.WORKER:
            return tuple(_worker(_quoted(user), _quoted(owner)))
        case DatabaseRole.OWNER:
            return (f"GRANT {_quoted(owner)} TO {_quoted(user)};",)


def _reader(user: str, owner: str) -> Iterator[str]:
    yield f"GRANT USAGE ON SCHEMA {SCHEMA} TO {user};"
    yield f"GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO {user};"
    yield f"ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA {SCHEMA} GRANT SELECT ON TABLES TO {user};"


def _worker(user: str, owner: str) -> Iterator[str]:
    yield from _reader(user, owner)
    appended = ", ".join(f"{SCHEMA}.{table}" for table in sorted({*metadata.tables, *FULL_TEXTS}))
    yield f"GRANT INSERT ON {appended} TO {user};"
    for table, rights in sorted(_CHANGED_BY_WORKERS.items()):
        yield f"GRANT {', '.join(rights)} ON {SCHEMA}.{table} TO {user};"
    yield f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {SCHEMA} TO {user};"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
