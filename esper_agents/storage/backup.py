"""Back up an SQLite database while it is in use, into one verified new file."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.atomic_file import atomic_file, sync_folder
from esper_agents.errors import StorageError, UsageError
from esper_agents.storage.database_url import SqliteUrl, display_name
from esper_agents.storage.engine import translate_database_errors
from esper_agents.storage.maintenance import is_file, reading

if TYPE_CHECKING:
    from esper_agents.storage.database_url import DatabaseUrl

# Pages per step of the copy; writers proceed between steps.
_PAGES = 4096
_ELSEWHERE = "name a new file"


@dataclass(frozen=True, slots=True)
class Backup:
    """A verified backup.

    Attributes:
        path: The file.
        size_bytes: Its size.
        shape: The latest migration of its schema.
        sessions: Number of sessions in it.
        certificates: Number of certificates in it.
        log_entries: Number of transparency log entries in it.
    """

    path: Path
    size_bytes: int
    shape: str
    sessions: int
    certificates: int
    log_entries: int


def back_up(url: DatabaseUrl, to: Path) -> Backup:
    """Copy a consistent snapshot of a database to a new file that only its owner may read, and check the copy.

    Args:
        url: The database.
        to: The file to create.

    Raises:
        UsageError: The file exists already, or the database is a PostgreSQL database.
        StorageError: There is no database, or the copy cannot be written or is damaged.
    """
    to = to.expanduser().absolute()
    if not isinstance(url, SqliteUrl) and not is_file(url):
        command = f"pg_dump --format=custom --file={to} {url.set(drivername='postgresql', password=None)}"
        raise UsageError("a PostgreSQL database is backed up with pg_dump", remedy=command)
    if not Path(str(url.database)).is_file():
        raise StorageError(f"there is no database {display_name(url)!r}", remedy="name the project with --project")
    with translate_database_errors(str(to)):
        try:
            # The file is created exclusively: an existing file is never overwritten.
            os.close(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError as error:
            raise UsageError(f"{str(to)!r} exists already", remedy=_ELSEWHERE) from error
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UsageError(
                f"there is no folder {str(to.parent)!r}", remedy="create it, or name another one"
            ) from error
        try:
            return _made(url, to)
        except BaseException:
            with suppress(OSError):
                to.unlink()
            raise


def _made(url: DatabaseUrl, to: Path) -> Backup:
    with (
        atomic_file(to, mode=0o600) as file,
        translate_database_errors(display_name(url)),
        closing(reading(url)) as source,
        closing(sqlite3.connect(file.scratch)) as copy,
    ):
        source.backup(copy, pages=_PAGES)
        # A single file, without a write-ahead log that would have to be copied along.
        copy.execute("PRAGMA journal_mode=DELETE")
        made = _checked(copy, to)
    sync_folder(to.parent)
    return made


def _checked(copy: sqlite3.Connection, to: Path) -> Backup:
    said = [str(each) for (each,) in copy.execute("PRAGMA integrity_check")]
    broken = copy.execute("PRAGMA foreign_key_check").fetchone()
    if said != ["ok"] or broken:
        raise StorageError(
            f"the database is damaged: {said[0] if said != ['ok'] else f'dangling references in {broken[0]}'}",
            remedy="keep the backups that you have, and move the file away before you restore one",
        )
    shape = str(copy.execute("SELECT version_num FROM alembic_version").fetchone()[0])
    sessions, certificates, entries = (_count(copy, name) for name in ("session", "certificate", "log_entry"))
    (size,) = copy.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchone()
    return Backup(to, int(size), shape, sessions, certificates, entries)


def _count(copy: sqlite3.Connection, table: str) -> int:
    if not copy.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
        return 0
    return int(copy.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - a constant name
