"""Collect the certificates of a project and compute the coverage of its files."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.archive import store as archive
from esper_agents.archive.publishing import RECORD_SUFFIX
from esper_agents.archive.verification.certificate_files import archived_certificate, published_certificate
from esper_agents.archive.verification.coverage import (
    CoverageState,
    CoveringCertificate,
    FileCoverage,
    coverage_of,
    exit_code,
    narrower_than_review,
)
from esper_agents.archive.verification.verify import verify
from esper_agents.domain.reproduction import REPRODUCE
from esper_agents.domain.status import Status
from esper_agents.errors import ExitCode, InputFileError
from esper_agents.paths import PUBLISHED
from esper_agents.review.discover import discover

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.archive.published_notices import NoticeFolders
    from esper_agents.archive.verification.verify import VerificationResult
    from esper_agents.certificates.signing.allowed_signers import Signer
    from esper_agents.domain.project import Project


@dataclass(frozen=True, slots=True)
class GateResult:
    """Coverage of files by certificates.

    Attributes:
        root: Project directory.
        coverage: Coverage of each file by each required agent.
        certificates: Number of certificates that were checked.
    """

    root: Path
    coverage: tuple[FileCoverage, ...]
    certificates: int

    @property
    def exit_code(self) -> ExitCode:
        """Exit code for the worst coverage state."""
        return exit_code(self.coverage)


# Statuses that pass, and the agent whose certificates count, unless the caller names others.
PASSING = frozenset((Status.APPROVED, Status.GO))
REVIEWERS = ("pytorch-code-reviewer",)


async def gate(
    project: Project,
    place: ProjectPlace | None,
    paths: Sequence[Path],
    *,
    required: frozenset[Status] = PASSING,
    agents: Sequence[str] = REVIEWERS,
    signers: Sequence[Signer] = (),
    accepts_overrides: bool = False,
) -> GateResult:
    """Return the coverage of the files under some paths; writes nothing and creates no database.

    Args:
        project: The project.
        place: Archive of the project; None if it has no database.
        paths: Files and directories; the whole project if empty.
        required: Accepted statuses.
        agents: Agents that must all have covered each file; empty if any agent suffices.
        signers: Additional trusted keys for this call.
        accepts_overrides: Whether an override may improve a status; one that worsens it always counts.

    Raises:
        InputFileError: A path does not exist or contains no files to cover.
    """
    root = Path(project.root)
    wanted = discover(root, [Path.cwd() / path for path in paths] or [root], notebooks=True)
    everything = await _verified(project, place, signers)
    judged = [
        CoveringCertificate(each.verified, _digests(each.verified), accepts_overrides, _narrower(each.verified))
        for each in everything
        if _is_of_code(each.verified)
    ]
    found = [_unreadable(each) for each in everything if each.verified.certificate is None]
    for candidate in wanted:
        digest = _digest(candidate.file, candidate.path)
        found += [coverage_of(candidate.path, digest, agent, judged, required) for agent in agents or ("",)]
    return GateResult(root, tuple(found), len(everything))


@dataclass(frozen=True, slots=True)
class _Named:
    """Verified certificate with its location."""

    where: str
    verified: VerificationResult


async def _verified(project: Project, place: ProjectPlace | None, signers: Sequence[Signer]) -> list[_Named]:
    """Return all certificates of the archive, and published ones that the archive lacks, newest first."""
    found = []
    if place is not None:
        folders: NoticeFolders = {}
        for entry in await place.store.run(archive.everything, project.key):
            files = await archived_certificate(entry.id, place, signers, folders)
            found.append(_Named(entry.id, verify(files)))
    known = {each.where for each in found}
    root = Path(project.root)
    for record in sorted((root / PUBLISHED).glob(f"*/certificates/*{RECORD_SUFFIX}")):
        verified = verify(await published_certificate(record, project, place, signers))
        if verified.certificate is None or verified.certificate.id not in known:
            found.append(_Named(record.relative_to(root).as_posix(), verified))
    return sorted(found, key=_issued_at, reverse=True)


def _is_of_code(verified: VerificationResult) -> bool:
    """Return whether a certificate is about code, or was modified after issuing.

    One that ran the evidence of another one again judges that evidence.
    """
    issued = verified.certificate
    is_sound = verified.soundness is not ExitCode.TAMPERED
    return issued is not None and not (is_sound and REPRODUCE in issued.task.options)


def _unreadable(found: _Named) -> FileCoverage:
    if found.verified.exit_code is ExitCode.UNDECIDED:
        return FileCoverage(found.where, "", CoverageState.UNDECIDED, "", "", "it cannot be read by this version")
    return FileCoverage(found.where, "", CoverageState.TAMPERED, "", "", "it is no certificate that can be read")


def _issued_at(found: _Named) -> str:
    return found.verified.certificate.issued_at if found.verified.certificate else ""


def _digests(verified: VerificationResult) -> dict[str, frozenset[str]]:
    read: dict[str, set[str]] = {}
    for file in verified.certificate.examined if verified.certificate else ():
        read.setdefault(file.path, set()).add(file.sha256)
    return {path: frozenset(digests) for path, digests in read.items()}


def _narrower(verified: VerificationResult) -> dict[str, str]:
    return narrower_than_review(verified.certificate) if verified.certificate else {}


def _digest(file: Path, shown: str) -> str:
    try:
        with file.open("rb") as stream:
            return file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        problem = (error.strerror or "cannot be read").lower()
        raise InputFileError(shown, problem, remedy="make the file readable") from error
