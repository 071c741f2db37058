"""Read-only health checks of a project: database, agents, settings and environment."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.api.environment_checks import find_versions, look_at_folder
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.session import SessionState
from esper_agents.errors import EsperError
from esper_agents.paths import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.api.environment_checks import Folder, Versions
    from esper_agents.archive.inspection import UnknownSigner
    from esper_agents.archive.publishing import PublishingPlace
    from esper_agents.domain.project import Project
    from esper_agents.orchestration.settings import PermissionSettings
    from esper_agents.storage.database_url import DatabaseUrl
    from esper_agents.torchlab.warm_parent import WarmParentState

LEAST_FREE_BYTES = 100 * 10**6
_MOST_ROWS = 1_000_000
_HERE = Path()


@dataclass(frozen=True, slots=True)
class HealthProblem:
    """Problem with a fix.

    Attributes:
        problem: Description in one line.
        remedy: Command or edit that fixes the problem.
    """

    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class DatabaseContents:
    """Contents of the database of a project.

    Attributes:
        where: File, or URL without its password.
        exists: Whether the database has been created.
        size_bytes: Size of the file; None for a database server.
        shape: Schema version; empty if the database cannot be used.
        sessions: Number of sessions; None if the database cannot be used.
        certificates: Number of certificates; None if the database cannot be used.
        interrupted: Unfinished sessions that no process runs and that are not queued.
        waiting: Sessions that wait for user input.
        unknown_signers: Keys that signed entries of the project's log and are unknown here.
    """

    where: str
    exists: bool
    size_bytes: int | None
    shape: str = ""
    sessions: int | None = None
    certificates: int | None = None
    interrupted: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    unknown_signers: tuple[UnknownSigner, ...] = ()


@dataclass(frozen=True, slots=True)
class ArchiveSize:
    """Size of the archive of a project, without its database.

    Attributes:
        published: Number of published files in the project.
        published_bytes: Their size.
        artifacts: Number of files that tools produced, in the data directory.
        artifacts_bytes: Their size.
    """

    published: int
    published_bytes: int
    artifacts: int
    artifacts_bytes: int


@dataclass(frozen=True, slots=True)
class HealthReport:
    """Result of the health checks of a project.

    Attributes:
        versions: Installed versions.
        project: Project directory.
        folder: Data directory of the project.
        database: Contents of the database.
        agents: Number of available agents.
        publishing: Place where views are published.
        rules: Permission rules in effect, with their source.
        ignored: Allow rules of the project settings; only user settings may allow tools.
        problems: Problems found.
        archive: Size of the archive.
        warm_parents: Processes with torch that stay for the next measurement.
    """

    versions: Versions
    project: str
    folder: Folder
    database: DatabaseContents
    agents: int
    publishing: PublishingPlace
    rules: tuple[str, ...]
    ignored: tuple[str, ...]
    problems: tuple[HealthProblem, ...]
    archive: ArchiveSize
    warm_parents: tuple[WarmParentState, ...] = ()


async def check_health(where: str | Path = _HERE) -> HealthReport:
    """Return the health report of a project.

    Args:
        where: A path in the project.

    Raises:
        InputFileError: The path does not exist.
    """
    from esper_agents.agents.registry import load_registry
    from esper_agents.archive.publishing import place_of
    from esper_agents.git.find_project import find_project
    from esper_agents.paths import project_home
    from esper_agents.tools.registry import load_tools
    from esper_agents.torchlab.warm_parent import running_parents

    project = find_project([Path(where).expanduser()], Path.cwd())
    home = project_home(project.key)
    versions, folder, registry = find_versions(), look_at_folder(home), load_registry(Path(project.root))
    database, problems = await _look_at_database(project, home)
    settings, unread = _look_at_settings(project)
    return HealthReport(
        versions=versions,
        project=project.root,
        folder=folder,
        database=database,
        agents=len(registry.agents),
        publishing=place_of(project, home),
        rules=tuple(f"{rule.source}: {rule}" for rule in settings.rules),
        ignored=tuple(f"{each.source}: {each}" for each in settings.ignored),
        problems=(
            *general_problems(versions, folder),
            *problems,
            *(HealthProblem(error.problem, error.remedy) for error in (*registry.refused, *load_tools().refused)),
            *unread,
            *_interrupted(database),
            *_unknown_signers(database),
        ),
        archive=ArchiveSize(*_size_of(Path(project.root) / PUBLISHED), *_size_of(home / "artifacts")),
        warm_parents=tuple(running_parents()),
    )


def _size_of(folder: Path) -> tuple[int, int]:
    """Return number and size of the files in a folder and its folders; links are not followed."""
    count = size = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(where, name)).st_size  # noqa: PTH118 - a million names
                count += 1
    return count, size


def general_problems(versions: Versions, folder: Folder) -> Iterator[HealthProblem]:
    """Yield problems with programs and directories. A missing torch is no problem: only measurements need it."""
    if not versions.git:
        yield HealthProblem(
            "git is not found, so no certificate can name a commit", "install git, as by apt-get install git"
        )
    if not folder.is_writable:
        quoted = shlex.quote(folder.path)
        remedy = f"run `mkdir -p {quoted} && chmod -R u+rwX {quoted}`, or set ESPER_HOME to a folder that you may write"
        yield HealthProblem(f"the data folder {folder.path!r} cannot be written", remedy)
    elif folder.free_bytes < LEAST_FREE_BYTES:
        remedy = "free some space there, or set ESPER_HOME to a folder on another disk"
        yield HealthProblem(f"the disk of {folder.path!r} has only {folder.free_bytes // 10**6} MB left", remedy)


def _look_at_settings(project: Project) -> tuple[PermissionSettings, Sequence[HealthProblem]]:
    from esper_agents.orchestration.settings import PermissionSettings, load_settings
    from esper_agents.paths import home

    try:
        return load_settings(home(), Path(project.root)), ()
    except EsperError as error:
        return PermissionSettings(), (HealthProblem(error.problem, error.remedy),)


def _interrupted(database: DatabaseContents) -> Iterator[HealthProblem]:
    if not (count := len(database.interrupted)):
        return
    ended = "esper sessions cancel --interrupted"
    if count == 1:
        (session,) = database.interrupted
        yield HealthProblem(f"session {session} is interrupted", f"run `esper resume {session}`, or `{ended}`")
    else:
        remedy = f"run `{ended}`, or resume those that `esper sessions list --state open` lists"
        yield HealthProblem(f"{count} sessions are interrupted", remedy)


def _unknown_signers(database: DatabaseContents) -> Iterator[HealthProblem]:
    for signer in database.unknown_signers:
        entries = number_of(signer.entries, "entry of the log", "entries of the log")
        yield HealthProblem(
            f"{entries} signed by a key that is not known here: {signer.key_id}",
            "write the output of `esper keys export` where that key is to signer.pub; then, for a worker of yours,"
            " `esper keys enroll signer.pub`, and for another person `esper keys trust signer.pub`",
        )


async def _look_at_database(project: Project, home: Path) -> tuple[DatabaseContents, Sequence[HealthProblem]]:
    from sqlalchemy.exc import SQLAlchemyError

    from esper_agents.storage.database_url import database_url

    seen = DatabaseContents("ESPER_DATABASE_URL", exists=True, size_bytes=None)
    try:
        url = database_url(home / "esper.db")
        seen = _from_outside(url)
        if not seen.exists:
            return seen, ()
        return await _counted(project, seen), _damage(url)
    except EsperError as error:
        return seen, (HealthProblem(error.problem, error.remedy),)
    except (ImportError, SQLAlchemyError) as error:
        # The driver named by a URL may not be installed.
        remedy = 'pip install "esper-agents[postgresql]", or correct ESPER_DATABASE_URL'
        return seen, (HealthProblem(f"the database {seen.where!r} cannot be used: {error}", remedy),)


def _from_outside(url: DatabaseUrl) -> DatabaseContents:
    from esper_agents.storage.database_url import display_name

    if url.get_backend_name() != "sqlite":
        return DatabaseContents(display_name(url), exists=True, size_bytes=None)
    file = url.database or ""
    exists = os.path.exists(file)  # noqa: PTH110 - pathlib raises where a folder above it is closed
    return DatabaseContents(file, exists=exists, size_bytes=Path(file).stat().st_size if exists else 0)


async def _counted(project: Project, seen: DatabaseContents) -> DatabaseContents:
    from esper_agents.api.project import open_project
    from esper_agents.archive.store import CertificateOrigin
    from esper_agents.storage.schema_names import HEAD

    async with open_project(project.root) as opened:
        sessions = await opened.sessions.list(limit=_MOST_ROWS)
        certificates = await opened.certificates.list(limit=_MOST_ROWS)
        unknown = await opened.certificates.unknown_signers()
    return replace(
        seen,
        shape=HEAD,
        sessions=len(sessions),
        certificates=sum(each.origin is CertificateOrigin.LOCAL for each in certificates),
        interrupted=tuple(session.id for session in sessions if session.is_interrupted),
        waiting=tuple(session.id for session in sessions if session.state is SessionState.WAITING),
        unknown_signers=unknown,
    )


def _damage(url: DatabaseUrl) -> Sequence[HealthProblem]:
    """Run an integrity check over a whole SQLite database."""
    import sqlite3

    if url.get_backend_name() != "sqlite":
        return ()
    file = Path(url.database or "").resolve()
    try:
        connection = sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True)
        try:
            said = [str(row[0]) for row in connection.execute("PRAGMA quick_check(1)")]
        finally:
            connection.close()
    except sqlite3.Error as error:
        said = [str(error)]
    if said == ["ok"]:
        return ()
    quoted = shlex.quote(str(file))
    remedy = f"restore a backup, or start with a new database: mv {quoted} {quoted}.damaged"
    return (HealthProblem(f"the database {str(file)!r} is damaged: {' '.join(said)}", remedy),)
