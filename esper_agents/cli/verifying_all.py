"""Verification of all certificates of a project and of its transparency log; writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.cli.exhibits import exhibit_of, has_archive
from esper_agents.cli.verifying import VerificationResult, check
from esper_agents.errors import EsperError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.archive.published_notices import NoticeFolders
    from esper_agents.certificates.log.faults import Fault
    from esper_agents.certificates.log.note import SignedNote


@dataclass(frozen=True, slots=True)
class NamedVerification:
    """Verification result of a certificate with its ID.

    Attributes:
        id: Certificate ID in the archive.
        verified: Verification result.
    """

    id: str
    verified: VerificationResult


@dataclass(frozen=True, slots=True)
class ArchiveVerification:
    """Verification result of the archive of a project.

    Attributes:
        certificates: Results of all certificates of the project, newest first.
        entries: Number of log entries.
        faults: Faults of the log, the index, and the signed events and notes.
        uncovered: Number of certificates of version 0.1.0, which signed neither events nor notes.
        is_pinned: Whether a pinned checkpoint exists; without it, the loss of the newest entries is not detectable.
    """

    certificates: tuple[NamedVerification, ...]
    entries: int
    faults: tuple[Fault, ...]
    uncovered: int
    is_pinned: bool

    @property
    def is_published(self) -> bool:
        """Whether any published file of any certificate exists; a checkout may omit all of them."""
        return any(each.verified.is_published for each in self.certificates)

    @property
    def missing(self) -> tuple[Path, ...]:
        """Published files that were deleted; none if the project has no published certificate."""
        if not self.is_published:
            return ()
        return tuple(path for each in self.certificates for path in each.verified.missing)


async def verify_all(where: Path) -> ArchiveVerification:
    """Verify the whole archive of a project; does not create a database.

    Raises:
        NotFoundError: The project has no archive.
    """
    from esper_agents.api import open_project
    from esper_agents.git.find_project import find_project

    project = find_project([where], Path.cwd())
    if not has_archive(project):
        raise NotFoundError("archive", project.name, (), listing="esper certificates list")
    async with open_project(project.root) as opened:
        names = [each.id for each in await opened.certificates.list_all()]
        folders: NoticeFolders = {}
        found = [NamedVerification(name, check(await exhibit_of(name, opened, folders=folders))) for name in names]
        audit = await opened.certificates.audit_log(tuple(_published_checkpoints(Path(project.root))))
        records = await opened.certificates.audit_records()
    faults = (*audit.faults, *records.faults.listed)
    return ArchiveVerification(tuple(found), audit.size, faults, records.uncovered, audit.is_pinned)


def _published_checkpoints(root: Path) -> Iterator[tuple[str, SignedNote]]:
    from esper_agents.certificates.log.note import MOST_BYTES, read_proof
    from esper_agents.certificates.signing.regular_file import read_plain
    from esper_agents.paths import PUBLISHED

    for path in sorted((root / PUBLISHED).glob("*/certificates/*.tlog-proof")):
        try:
            file = read_plain(path, MOST_BYTES)
            if file is not None:
                yield str(path.relative_to(root)), read_proof(file.data).note
        except (EsperError, OSError):
            continue
