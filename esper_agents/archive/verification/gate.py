"""Collect the certificates of a project and compute the coverage of its files."""

from __future__ import annotations

import re
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
    reviewed_change,
)
from esper_agents.archive.verification.verify import verify
from esper_agents.domain.gate_level import GateLevel
from esper_agents.domain.reproduction import REPRODUCE
from esper_agents.domain.status import Status
from esper_agents.errors import EvidenceError, ExitCode, InputFileError, UsageError
from esper_agents.git.diffs import diff_since
from esper_agents.git.trees import entries
from esper_agents.paths import PUBLISHED
from esper_agents.review.discover import discover

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.archive.published_notices import NoticeFolders
    from esper_agents.archive.verification.verify import VerificationResult
    from esper_agents.certificates.signing.allowed_signers import Signer
    from esper_agents.domain.project import Project


_OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class GateResult:
    """Coverage of files by certificates.

    Attributes:
        root: Project directory.
        coverage: Coverage of each file by each required agent.
        certificates: Number of certificates that were checked.
        fail_on: Result at which the gate fails.
    """

    root: Path
    coverage: tuple[FileCoverage, ...]
    certificates: int
    fail_on: GateLevel = GateLevel.UNCOVERED

    @property
    def exit_code(self) -> ExitCode:
        """Exit code for the worst coverage state; 0 if the gate does not fail at it."""
        return exit_code(self.coverage, self.fail_on)


# Statuses that pass, and the agent whose certificates count, unless the caller names others.
PASSING = frozenset((Status.APPROVED, Status.GO))
REVIEWERS = ("pytorch-code-reviewer",)


async def gate(
    project: Project,
    place: ProjectPlace | None,
    paths: Sequence[Path],
    *,
    required: frozenset[Status] | None = None,
    agents: Sequence[str] | None = None,
    signers: Sequence[Signer] = (),
    accepts_overrides: bool = False,
    since: str = "",
) -> GateResult:
    """Return the coverage of the files under some paths; writes nothing and creates no database.

    Args:
        project: The project.
        place: Archive of the project; None if it has no database.
        paths: Files and directories; the whole project if empty.
        required: Accepted statuses; those of `PASSING` for None.
        agents: Agents that must all have covered each file; those of `REVIEWERS` for None; any agent if empty.
        signers: Additional trusted keys for this call.
        accepts_overrides: Whether an override may improve a status; one that worsens it always counts.
        since: Only files that differ from this revision; its content needs no certificate.

    Raises:
        InputFileError: A path does not exist or contains no files to cover.
        UsageError: The revision does not exist.
    """
    required = PASSING if required is None else required
    agents = REVIEWERS if agents is None else agents
    root = Path(project.root)
    wanted = discover(root, [Path.cwd() / path for path in paths] or [root], notebooks=True)
    accepted: dict[str, str] | None = None
    if since:
        diff = diff_since(root, since)
        accepted = {path: diff.before.get(path, "") for path in diff.paths}
        wanted = tuple(each for each in wanted if each.path in accepted)
    everything = await _verified(project, place, signers)
    trees = _BaseTrees(root)
    judged = [
        CoveringCertificate(
            each.verified,
            _read(each.verified, "sha256"),
            accepts_overrides,
            _narrower(each.verified),
            trees.bases(each.verified),
            _read(each.verified, "git_blob"),
        )
        for each in everything
        if _is_of_code(each.verified)
    ]
    found = [_unreadable(each) for each in everything if each.verified.certificate is None]
    for candidate in wanted:
        digest = _digest(candidate.file, candidate.path)
        base = accepted.get(candidate.path) if accepted is not None else None
        found += [
            coverage_of(candidate.path, digest, agent, judged, required, accepted=base) for agent in agents or ("",)
        ]
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


class _BaseTrees:
    """Content of files before the changes that certificates are about, from git; each commit is read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._trees: dict[str, dict[str, str] | None] = {}

    def bases(self, verified: VerificationResult) -> dict[str, str]:
        """Return the files that a certificate reviewed for a change, with the object IDs before the change.

        Without those of a commit that this clone does not have.
        """
        issued = verified.certificate
        change = issued.task.change if issued else None
        if issued is None or change is None:
            return {}
        if change.base not in self._trees:
            self._trees[change.base] = self._tree(change.base)
        tree = self._trees[change.base]
        return {} if tree is None else {path: tree.get(path, "") for path in reviewed_change(issued)}

    def _tree(self, commit: str) -> dict[str, str] | None:
        # The name comes from a certificate: only a full object id may reach git.
        if not _OBJECT_ID.fullmatch(commit):
            return None
        try:
            return {entry.path: entry.object_id for entry in entries(self._root, commit)}
        except (EvidenceError, UsageError):
            return None


def _read(verified: VerificationResult, digest: str) -> dict[str, frozenset[str]]:
    read: dict[str, set[str]] = {}
    for file in verified.certificate.examined if verified.certificate else ():
        read.setdefault(file.path, set()).add(getattr(file, digest))
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
