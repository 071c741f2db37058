"""Whole archives: export to a file, import into another database or machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from esper_agents.archive.transfer.archive_file import ArchiveCounts

_HERE = Path()


async def export_archive(file: str | Path, where: str | Path = _HERE) -> ArchiveCounts:
    """Write sessions, certificates, log, memory and artifacts of a project to a new file.

    Args:
        file: File to write; must not exist.
        where: A path in the project.

    Raises:
        UsageError: The file exists.
        StorageError: The file cannot be written, or the database cannot be read.
    """
    from esper_agents.api.project import open_project
    from esper_agents.archive.transfer.archive_file import write_archive

    async with open_project(where) as project:
        place = project.services.place
        return await place.store.run(write_archive, place, Path(file).expanduser())


async def import_archive(file: str | Path, where: str | Path = _HERE) -> ArchiveCounts:
    """Import the archive in a file into a project without one, after its verification.

    Args:
        file: File of `export_archive`.
        where: A path in the project.

    Raises:
        InputFileError: The file cannot be read.
        IntegrityError: The archive was changed, or is older than the log that was seen here.
        EvidenceError: A key that is not trusted signed the archive.
        UsageError: The project has an archive, or the file has another format.
    """
    from esper_agents.api.project import open_project
    from esper_agents.archive.transfer.import_archive import import_archive as read

    async with open_project(where) as project:
        place = project.services.place
        return await place.store.run(read, place, Path(file).expanduser())
