"""Checkouts of one repository at different paths that share one database."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.atomic_file import write_atomically
from esper_agents.errors import EsperError, UsageError
from esper_agents.git.find_project import find_project
from esper_agents.git.repository import is_same_repository, root_commits
from esper_agents.paths import home, joined_file, key_of_path, project_home
from esper_agents.storage import maintenance
from esper_agents.storage.database_url import SqliteUrl, database_url
from esper_agents.storage.engine import translate_database_errors

if TYPE_CHECKING:
    from esper_agents.domain.project import Project

_HERE = Path()
_MOST_PROJECTS = 200


@dataclass(frozen=True, slots=True)
class Checkout:
    """Checkout of the same repository, with an archive.

    Attributes:
        root: Its directory.
        first_commit: First commit of the repository.
        sessions: Number of sessions in its database.
        certificates: Number of certificates in its database.
    """

    root: Path
    first_commit: str
    sessions: int
    certificates: int


def find_checkout(other: str | Path, where: str | Path = _HERE) -> Checkout:
    """Return another checkout of the repository of a project, whose database the project may use; change nothing.

    Args:
        other: A path in the other checkout.
        where: A path in the project.

    Raises:
        InputFileError: A path does not exist.
        UsageError: It is another repository, has no archive, or the project has sessions of its own.
    """
    here, there = _project(where), _project(other)
    root = Path(there.root)
    if here.key == there.key:
        raise UsageError(f"{there.root!r} has the database of this project already", remedy="run `esper db status`")
    if not (here.is_git and there.is_git and is_same_repository(Path(here.root), root)):
        problem = f"{there.root!r} is not a checkout of the same repository: first commit or remote differ"
        raise UsageError(problem, remedy="name another checkout; a shallow clone has no first commit")
    own, found = _status(here), _status(there)
    if own.sessions:
        problem = f"this checkout has {own.sessions} sessions of its own"
        raise UsageError(problem, remedy="join the other checkout with this one instead")
    if not found.sessions:
        raise UsageError(f"{there.root!r} has no archive", remedy="name the checkout in which sessions ran")
    return Checkout(root, min(root_commits(root)), found.sessions, found.certificates or 0)


def find_checkouts(where: str | Path = _HERE) -> tuple[Checkout, ...]:
    """Return the other checkouts of the repository of a project that have an SQLite database on this machine."""
    here = _project(where)
    if not here.is_git or database_url(project_home(here.key) / "esper.db").get_backend_name() != "sqlite":
        return ()
    files = sorted((home() / "projects").glob("*/esper.db"))[:_MOST_PROJECTS]
    found = []
    for root in (root for file in files if file.parent.name != here.key for root in _roots_in(file)):
        with suppress(EsperError):
            found.append(find_checkout(root, where))
    return tuple(found)


def _roots_in(file: Path) -> list[Path]:
    """Return the existing roots that a database names."""
    try:
        with closing(maintenance.reading(SqliteUrl(str(file)))) as connection:
            roots = [Path(str(root)) for (root,) in connection.execute("SELECT root FROM project")]
    except sqlite3.Error:
        return []
    return [root for root in roots if root.is_absolute() and root.is_dir()]


def join_checkout(other: str | Path, where: str | Path = _HERE) -> Checkout:
    """Let a project use the database of another checkout of its repository from now on; see `find_checkout`.

    Raises:
        StorageError: The data directory cannot be written.
    """
    found = find_checkout(other, where)
    file = joined_file(key_of_path(Path(_project(where).root)))
    with translate_database_errors(str(file)):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(file, f"{_project(other).key}\n".encode("ascii"), mode=0o600)
    return found


def _project(where: str | Path) -> Project:
    return find_project([Path(where).expanduser()], Path.cwd())


def _status(project: Project) -> maintenance.DatabaseStatus:
    return maintenance.status(database_url(project_home(project.key) / "esper.db"))
