"""Verification of all certificates of a project and of its transparency log; writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.archive import store as archive
from esper_agents.archive.inspection import audit_log_faults
from esper_agents.archive.published_notices import NoticeFolders
from esper_agents.archive.record_audit import audit_records
from esper_agents.archive.verification.certificate_files import archived_certificate, shown_within
from esper_agents.archive.verification.verify import VerificationResult, verify
from esper_agents.archive.verification.witnessed import witness_demand
from esper_agents.archive.witnessing import logs_folder, published_checkpoints
from esper_agents.certificates.log.note import MOST_BYTES, read_proof
from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.errors import EsperError, ExitCode
from esper_agents.paths import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.certificates.log.cosignature import Witness
    from esper_agents.certificates.log.faults import Fault
    from esper_agents.certificates.log.note import SignedNote


_WORST_FIRST = (ExitCode.TAMPERED, ExitCode.NOT_CURRENT, ExitCode.UNDECIDED, ExitCode.DONE)


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
    def exit_code(self) -> ExitCode:
        """Exit code of the worst result.

        Certificates that are no longer current do not count; deleted published files count as not current.
        """
        exits = [certificate.verified.soundness for certificate in self.certificates]
        exits.append(ExitCode.TAMPERED if self.faults else ExitCode.DONE)
        exits.append(ExitCode.NOT_CURRENT if self.missing else ExitCode.DONE)
        return min(exits, key=_WORST_FIRST.index)

    @property
    def is_published(self) -> bool:
        """Whether any published file of any certificate exists; a checkout may omit all of them."""
        return any(certificate.verified.is_published for certificate in self.certificates)

    @property
    def missing(self) -> tuple[Path, ...]:
        """Published files that were deleted; none if the project has no published certificate."""
        if not self.is_published:
            return ()
        return tuple(path for certificate in self.certificates for path in certificate.verified.missing)


@dataclass(frozen=True, slots=True)
class ArchiveAudit:
    """Audit of everything in an archive but single certificates.

    Attributes:
        entries: Number of log entries.
        faults: Faults of the log, the index, and the signed events and notes.
        uncovered: Number of certificates that signed neither events nor notes.
        is_pinned: Whether a pinned checkpoint exists.
    """

    entries: int
    faults: tuple[Fault, ...]
    uncovered: int
    is_pinned: bool


async def verify_all(place: ProjectPlace, witnesses: Sequence[Witness] = ()) -> ArchiveVerification:
    """Verify all certificates of an archive, its log, and the events and notes that the certificates sign.

    Published checkpoints that the log signed are compared with it, cosigned or not.

    Args:
        place: The archive.
        witnesses: Witnesses that must have cosigned a checkpoint of the log with each certificate.
    """
    found = await verify_named(place, await certificate_ids(place), witnesses)
    return combined(found, await audit_archive(place))


async def certificate_ids(place: ProjectPlace) -> tuple[str, ...]:
    """Return the IDs of all certificates of an archive, newest first."""
    return tuple([each.id for each in await place.store.run(archive.everything, place.project.key)])


async def verify_named(
    place: ProjectPlace, names: Sequence[str], witnesses: Sequence[Witness] = ()
) -> tuple[NamedVerification, ...]:
    """Verify some certificates of an archive; see `verify_all`.

    Args:
        place: The archive.
        names: IDs of the certificates.
        witnesses: Witnesses that must have cosigned.
    """
    folders = NoticeFolders()
    demand = witness_demand(witnesses, place.project, place)
    return tuple(
        [
            NamedVerification(name, verify(await archived_certificate(name, place, folders=folders, demand=demand)))
            for name in names
        ]
    )


async def audit_archive(place: ProjectPlace) -> ArchiveAudit:
    """Audit the log of an archive, its index, and the events and notes that the certificates sign."""
    run, project = place.store.run, place.project
    audit = await run(audit_log_faults, project, tuple(_published_checkpoints(Path(project.root), logs_folder(place))))
    records = await run(audit_records, project.key)
    return ArchiveAudit(audit.size, (*audit.faults, *records.faults.listed), records.uncovered, audit.is_pinned)


def combined(certificates: Iterable[NamedVerification], audit: ArchiveAudit) -> ArchiveVerification:
    """Return the verification of an archive from those of its parts.

    Args:
        certificates: Results of all certificates, newest first.
        audit: Audit of everything else.
    """
    return ArchiveVerification(tuple(certificates), audit.entries, audit.faults, audit.uncovered, audit.is_pinned)


def _published_checkpoints(root: Path, folder: Path) -> Iterator[tuple[str, SignedNote]]:
    for each in published_checkpoints(folder):
        yield shown_within(root, each.path), each.note
    for path in sorted((root / PUBLISHED).glob("*/certificates/*.tlog-proof")):
        try:
            file = read_plain(path, MOST_BYTES)
            if file is not None:
                yield str(path.relative_to(root)), read_proof(file.data).note
        except (EsperError, OSError):
            continue
