"""Database of a project: status, migration, backup, vacuum; works without opening the project."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.errors import UsageError
from esper_agents.git.find_project import find_project
from esper_agents.paths import home, project_home
from esper_agents.storage import maintenance
from esper_agents.storage.backup import back_up
from esper_agents.storage.database_url import database_url

if TYPE_CHECKING:
    from esper_agents.domain.database_role import DatabaseRole
    from esper_agents.storage.backup import Backup
    from esper_agents.storage.database_url import DatabaseUrl
    from esper_agents.storage.maintenance import DatabaseStatus, Upgraded, Vacuumed

_HERE = Path()


@dataclass(frozen=True, slots=True)
class DatabaseBackup:
    """Backup of a database, and the data that it does not contain.

    Attributes:
        backup: The verified copy.
        artifacts: Folder of the files that tools made.
        keys: Folder of the signing key.
        pins: Folder of the pinned checkpoints of the logs.
    """

    backup: Backup
    artifacts: Path
    keys: Path
    pins: Path


def database_status(where: str | Path = _HERE) -> DatabaseStatus:
    """Return the status of the database of a project; create and migrate nothing.

    Args:
        where: A path in the project.

    Raises:
        InputFileError: The path does not exist.
        StorageError: The database cannot be read.
    """
    return maintenance.status(_url(where))


def upgrade_database(where: str | Path = _HERE) -> Upgraded:
    """Migrate the database of a project to the current schema; create it if there is none.

    Raises:
        NewerDatabaseError: A newer esper-agents wrote it.
        StorageError: The database cannot be used.
    """
    return maintenance.upgrade(_url(where))


def back_up_database(file: str | Path, where: str | Path = _HERE) -> DatabaseBackup:
    """Copy the SQLite database of a project to a new file, even while it is in use, and check the copy.

    Args:
        file: Backup file; must not exist.
        where: A path in the project.

    Raises:
        UsageError: The file exists, or the database is a PostgreSQL database.
        StorageError: There is no database, or the copy cannot be written or is damaged.
    """
    done = back_up(_url(where), Path(file))
    return DatabaseBackup(done, _folder(where) / "artifacts", home() / "keys", home() / "pins")


def database_grants(role: DatabaseRole, user: str, where: str | Path = _HERE) -> tuple[str, ...]:
    """Return the SQL statements that give a user a role in the shared database; run none of them.

    Args:
        role: Role of the user.
        user: Name of the database user.
        where: A path in the project.

    Raises:
        UsageError: The database is an SQLite database or has no archive yet, or the name is not valid.
        StorageError: The database cannot be read.
    """
    return maintenance.grants(_url(where), role, user)


def vacuum_database(where: str | Path = _HERE) -> Vacuumed:
    """Reclaim the unused space of the database of a project, and optimize its full-text index.

    Raises:
        UsageError: There is no database yet.
        StorageError: The database cannot be used.
    """
    url = _url(where)
    if not maintenance.status(url).exists:
        raise UsageError("there is no database yet", remedy="the first session creates it: esper submit ...")
    return maintenance.vacuum(url)


def _folder(where: str | Path) -> Path:
    return project_home(find_project([Path(where).expanduser()], Path.cwd()).key)


def _url(where: str | Path) -> DatabaseUrl:
    return database_url(_folder(where) / "esper.db")
