"""Logs that a data directory can reach: one per project and database."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import exists, or_, select

from esper_agents.certificates.log import transparency_log
from esper_agents.errors import EsperError, StorageError
from esper_agents.storage.database_url import DatabaseUrl, SqliteUrl, database_url, display_name
from esper_agents.storage.store import Store
from esper_agents.storage.tables import log_entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from esper_agents.domain.project import Project


@contextmanager
def open_logs(home: Path) -> Iterator[tuple[Store, ...]]:
    """Yield the databases with logs: the one of `ESPER_DATABASE_URL` and those of every project.

    Raises:
        StorageError: A database cannot be used; the message names it.
    """
    opened: list[Store] = []
    try:
        for url in _databases(home):
            try:
                store = Store(url)
                opened.append(store)
                with store.reading() as connection:
                    has_log = bool(transparency_log.logs(connection))
            except EsperError as error:
                raise StorageError(f"{display_name(url)}: {error.problem}", remedy=error.remedy) from error
            if not has_log:
                opened.pop().close()
        yield tuple(opened)
    finally:
        for store in opened:
            store.close()


def origin_of(home: Path, project: Project) -> str:
    """Return the name of a project's log; empty if it has no entries. Creates no database."""
    url = database_url(home / "projects" / project.key / "esper.db")
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        return ""
    store = Store(url)
    try:
        with store.reading() as connection:
            return transparency_log.origin(connection, transparency_log.log_of(connection, project.key))
    finally:
        store.close()


def has_entries_of(connection: Connection, key_id: str, project_key: str) -> bool:
    """Return whether a database has an entry signed by a key, or one that belongs to a project."""
    wanted = or_(log_entry.c.key_id == key_id, log_entry.c.project_key == project_key)
    return bool(connection.scalar(select(exists().where(wanted))))


def _databases(home: Path) -> Iterator[DatabaseUrl]:
    own = sorted(home.glob("projects/*/esper.db"))
    given = database_url(home / "none")
    if given.get_backend_name() != "sqlite" or given.database != str(home / "none"):
        yield given
    for file in own:
        url = SqliteUrl(str(file))
        if url != given:
            yield url
