"""Checks every certificate of a project and the whole log that they stand in; writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.cli.exhibits import exhibit_of, has_archive
from esper_agents.cli.verifying import VerificationResult, check
from esper_agents.errors import EsperError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.certificates.log.faults import Fault
    from esper_agents.certificates.log.note import SignedNote
    from esper_agents.orchestration.published_notices import NoticeFolders


@dataclass(frozen=True, slots=True)
class NamedVerification:
    """A certificate, checked.

    Attributes:
        id: Its identifier, as the archive lists it.
        verified: How its checks ended.
    """

    id: str
    verified: VerificationResult


@dataclass(frozen=True, slots=True)
class ArchiveVerification:
    """A project's archive, checked.

    Attributes:
        certificates: Every certificate of the project, newest first.
        entries: How many entries the log has.
        faults: What is wrong with the log, the index, and the events and notes that certificates sign.
        uncovered: How many certificates sign neither: version 0.1.0 issued them.
        is_pinned: Whether a checkpoint of it was seen here before, without which a loss of the newest may go unnoticed.
    """

    certificates: tuple[NamedVerification, ...]
    entries: int
    faults: tuple[Fault, ...]
    uncovered: int
    is_pinned: bool

    @property
    def is_published(self) -> bool:
        """Whether any published file of any certificate exists: a tree without any was checked out without them."""
        return any(each.verified.is_published for each in self.certificates)

    @property
    def missing(self) -> tuple[Path, ...]:
        """The published files that were deleted; none in a tree that has no published certificate at all."""
        if not self.is_published:
            return ()
        return tuple(path for each in self.certificates for path in each.verified.missing)


async def verify_all(where: Path) -> ArchiveVerification:
    """Return how the checks of a whole archive end; makes no database where there is none.

    Raises:
        NotFoundError: The project has no archive.
    """
    from esper_agents.api import open_project
    from esper_agents.tools.git import find_project

    project = find_project([where], Path.cwd())
    if not has_archive(project):
        raise NotFoundError("archive", project.name, (), listing="esper certificates list")
    async with open_project(project.root) as opened:
        names = [each.id for each in await opened.every_certificate()]
        folders: NoticeFolders = {}
        found = [NamedVerification(name, check(await exhibit_of(name, opened, folders=folders))) for name in names]
        audit = await opened.audit_log(tuple(_published_checkpoints(Path(project.root))))
        records = await opened.audit_records()
    faults = (*audit.faults, *records.faults.told)
    return ArchiveVerification(tuple(found), audit.size, faults, records.uncovered, audit.is_pinned)


def _published_checkpoints(root: Path) -> Iterator[tuple[str, SignedNote]]:
    from esper_agents.certificates.log.note import MOST_BYTES, read_proof
    from esper_agents.certificates.signing.regular_file import read_plain
    from esper_agents.tools.git import PUBLISHED

    for path in sorted((root / PUBLISHED).glob("*/certificates/*.tlog-proof")):
        try:
            file = read_plain(path, MOST_BYTES)
            if file is not None:
                yield str(path.relative_to(root)), read_proof(file.data).note
        except (EsperError, OSError):
            continue
