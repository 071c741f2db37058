"""Collect the certificates of a project and compute the coverage of its files."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from hashlib import file_digest, sha256
from itertools import islice
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.archive import store as archive
from esper_agents.archive.inspection import keyring
from esper_agents.archive.published_notices import NoticeFolders
from esper_agents.archive.publishing import RECORD_SUFFIX
from esper_agents.archive.verification.certificate_files import archived_certificate, published_certificate
from esper_agents.archive.verification.coverage import (
    CoverageState,
    CoveringCertificate,
    FileCoverage,
    coverage_of,
    exit_code,
    leaves_older_without_effect,
    narrower_than_review,
    reviewed_change,
)
from esper_agents.archive.verification.published_records import PublishedFolder
from esper_agents.archive.verification.published_selection import FEW_ENVELOPES, NamingEnvelopes, read_index, select
from esper_agents.archive.verification.verify import RepositoryState, verify
from esper_agents.archive.verification.witnessed import NO_DEMAND, witness_demand
from esper_agents.domain.gate_level import GateLevel
from esper_agents.domain.reproduction import REPRODUCE
from esper_agents.domain.status import Status
from esper_agents.errors import EvidenceError, ExitCode, InputFileError, StorageError, UsageError
from esper_agents.git.commit_files import CommitFiles
from esper_agents.git.diffs import diff_since, new_side
from esper_agents.git.trees import entries
from esper_agents.paths import PUBLISHED, project_home
from esper_agents.review.changed_sources import is_source_in
from esper_agents.review.discover import discover

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.archive.store import CertificateSummary
    from esper_agents.archive.verification.verify import VerificationResult
    from esper_agents.archive.verification.witnessed import WitnessDemand
    from esper_agents.certificates.log.cosignature import Witness
    from esper_agents.certificates.signing.allowed_signers import Signer
    from esper_agents.domain.project import Project


_OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MOST_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class GateResult:
    """Coverage of files by certificates.

    Attributes:
        root: Project directory.
        coverage: Coverage of each file by each required agent.
        certificates: Number of certificates that were checked.
        fail_on: Result at which the gate fails.
        commit: Commit whose files were checked instead of those of the work tree; empty for the work tree.
    """

    root: Path
    coverage: tuple[FileCoverage, ...]
    certificates: int
    fail_on: GateLevel = GateLevel.UNCOVERED
    commit: str = ""

    @property
    def exit_code(self) -> ExitCode:
        """Exit code for the worst coverage state; 0 if the gate does not fail at it."""
        return exit_code(self.coverage, self.fail_on)


# Statuses that pass, and the agent whose certificates count, unless the caller names others.
PASSING = frozenset((Status.APPROVED, Status.GO))
REVIEWERS = ("pytorch-code-reviewer",)


async def gate(  # noqa: PLR0913 - the options of the command
    project: Project,
    place: ProjectPlace | None,
    paths: Sequence[Path],
    *,
    required: frozenset[Status] | None = None,
    agents: Sequence[str] | None = None,
    signers: Sequence[Signer] = (),
    accepts_overrides: bool = False,
    since: str = "",
    witnesses: Sequence[Witness] = (),
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
        since: Only files that differ from this revision; its content needs no certificate. With `A..B` or `A...B`, the
            files are those of B, read from git.
        witnesses: Witnesses that must have cosigned a checkpoint of the log with each certificate that covers a file.

    Raises:
        InputFileError: A path does not exist or contains no files to cover.
        UsageError: The revision does not exist.
    """
    required = PASSING if required is None else required
    agents = REVIEWERS if agents is None else agents
    root = Path(project.root)
    diff = diff_since(root, since) if since else None
    accepted = {path: diff.before.get(path, "") for path in diff.paths} if diff is not None else None
    commit = CommitFiles(root, new) if (new := new_side(since)) else None
    wanted = _digests(root, paths, accepted) if commit is None else _committed(root, paths, commit, accepted or {})
    collector = _Collector(project, place, signers, commit)
    collector.demand = witness_demand(witnesses, project, place)
    await collector.collect(wanted, accepts_overrides=accepts_overrides)
    everything, found = collector.found, collector.irregular
    judged = _covering(everything, root, accepts_overrides=accepts_overrides)
    found += [_unreadable(each) for each in everything if each.verified.certificate is None]
    for path, digest in wanted.items():
        base = accepted.get(path) if accepted is not None else None
        found += [coverage_of(path, digest, agent, judged, required, accepted=base) for agent in agents or ("",)]
    return GateResult(root, tuple(found), collector.total, commit=commit.commit if commit is not None else "")


async def coverage_by(
    entries: Sequence[CertificateSummary],
    published: Mapping[str, Path],
    place: ProjectPlace,
    paths: Sequence[Path],
    state: RepositoryState | None = None,
) -> GateResult:
    """Return the coverage of files by some certificates of a project, with the statuses and agents of the gate.

    Args:
        entries: The certificates to consider.
        published: Envelopes of those that exist only as published files, by ID.
        place: Archive of the project.
        paths: Files of the project.
        state: Git state of the project, for callers that ask often; None to read it.

    Raises:
        InputFileError: A path does not exist or contains no files to cover.
    """
    root = Path(place.project.root)
    state = state or RepositoryState(root)
    named = await _archived(place, [entry for entry in entries if entry.id not in published], (), state=state)
    for record in published.values():
        # A file that was removed meanwhile covers nothing.
        with suppress(InputFileError, EvidenceError):
            files = await published_certificate(record, place.project, place, beside=state.published)
            named.append(_Named(record.relative_to(root).as_posix(), verify(files, state=state)))
        await asyncio.sleep(0)
    named.sort(key=_issued_at, reverse=True)
    judged = _covering(named, root, accepts_overrides=False)
    found = [
        coverage_of(each.path, _digest(each.file, each.path), agent, judged, PASSING)
        for each in discover(root, paths, notebooks=True)
        for agent in REVIEWERS
    ]
    return GateResult(root, tuple(found), len(entries))


def _covering(everything: Sequence[_Named], root: Path, *, accepts_overrides: bool) -> list[CoveringCertificate]:
    trees = _BaseTrees(root)
    named = (each for each in everything if _is_of_code(each.verified))
    return [_covering_of(each, trees, accepts_overrides=accepts_overrides) for each in named]


def _covering_of(named: _Named, trees: _BaseTrees, *, accepts_overrides: bool) -> CoveringCertificate:
    return CoveringCertificate(
        named.verified,
        _read(named.verified, "sha256"),
        accepts_overrides,
        _narrower(named.verified),
        trees.bases(named.verified),
        _read(named.verified, "git_blob"),
    )


def _digests(root: Path, paths: Sequence[Path], accepted: Container[str] | None) -> dict[str, str]:
    """Return the digests of the files under some paths, by path; of a change, only those that it changes."""
    found = discover(root, [Path.cwd() / path for path in paths] or [root], notebooks=True)
    return {each.path: _digest(each.file, each.path) for each in found if accepted is None or each.path in accepted}


def _committed(root: Path, paths: Sequence[Path], commit: CommitFiles, changed: Container[str]) -> dict[str, str]:
    """Return the digests of the changed files of a commit under some paths, by path."""
    named = [Path(relpath(Path.cwd() / path, root)).as_posix() for path in paths] or ["."]
    for given, path in zip(paths, named, strict=False):
        if path not in commit and not commit.is_folder(path):
            problem = f"no such path at commit {commit.commit[:12]}"
            raise InputFileError(str(given), problem, remedy=f"run `git ls-tree -r --name-only {commit.commit[:12]}`")
    wanted = sorted(path for path in commit if path in changed and is_source_in(path, named))
    read = commit.read(wanted, _MOST_BYTES)
    for path, data in read.items():
        if data is None:
            raise InputFileError(path, "not in this clone, or too large", remedy="run `git fetch`")
    return {path: sha256(data or b"").hexdigest() for path, data in read.items()}


@dataclass(frozen=True, slots=True)
class _Named:
    """Verified certificate with its location."""

    where: str
    verified: VerificationResult


class _Collector:
    """Certificates of a project that may cover files: of its archive, and published ones."""

    def __init__(
        self, project: Project, place: ProjectPlace | None, signers: Sequence[Signer], commit: CommitFiles | None
    ) -> None:
        self.project, self.place, self.signers, self.commit = project, place, signers, commit
        self.root = Path(project.root)
        self.demand = NO_DEMAND
        self.found: list[_Named] = []
        self.irregular: list[FileCoverage] = []
        # Number of certificates, of which the index may have excluded some.
        self.total = 0
        self._state = RepositoryState(self.root)
        self._known: set[str] = set()

    async def collect(self, wanted: Mapping[str, str], *, accepts_overrides: bool) -> None:
        """Verify the certificates that can decide the coverage of files, given the digests of their content."""
        if self.place is not None:
            entries = await self.place.store.run(archive.everything, self.project.key)
            self.found = await _archived(self.place, entries, self.signers, self.commit, self.demand, state=self._state)
            self._known = {each.where for each in self.found}
        self.total = len(self.found)
        records = (self.root / PUBLISHED).glob(f"*/certificates/*{RECORD_SUFFIX}")
        first = list(islice(records, FEW_ENVELOPES + 1))
        if len(first) <= FEW_ENVELOPES or not await self._from_index(wanted, accepts_overrides=accepts_overrides):
            beside = PublishedFolder()
            for record in sorted((*first, *records)):
                await self._add(record, beside)
            self.total = len(self.found)
        self.found.sort(key=_issued_at, reverse=True)

    async def _from_index(self, wanted: Mapping[str, str], *, accepts_overrides: bool) -> bool:
        """Verify the published certificates that the index selects; return False if there can be no index."""
        home = project_home(self.project.key)
        try:
            if self.place is None:
                indexed = read_index(None, self.project, home, wanted.keys())
            else:
                indexed = await self.place.store.run(read_index, self.project, home, wanted.keys())
            naming = NamingEnvelopes(self.project, home, self.place)
        except StorageError:
            return False
        self.total += indexed.total
        named = {path for path, _ in indexed.irregular if path.endswith(RECORD_SUFFIX)}
        others = ((path, why) for path, why in indexed.irregular if path not in named)
        self.irregular += [FileCoverage(path, "", CoverageState.TAMPERED, "", "", why) for path, why in others]
        beside, trees = PublishedFolder(naming), _BaseTrees(self.root)

        async def verified(envelope: str) -> CoveringCertificate | None:
            named = await self._add(self.root / envelope, beside)
            if named is None or named.verified.certificate is None:
                return None
            return _covering_of(named, trees, accepts_overrides=accepts_overrides)

        self._state.verified_views = naming.verified_views()
        keys = keyring(self.project, given=self.signers).history.spans.keys()
        local = [_covering_of(each, trees, accepts_overrides=accepts_overrides) for each in self.found]
        changed = {path for each in local for path in each.bases}
        try:
            for path in (*sorted(named), *indexed.refused):
                await verified(path)
            await select(
                indexed.examinations,
                wanted,
                usable=lambda row: row.is_trusted or row.key_id in keys,
                closes=leaves_older_without_effect,
                verify=verified,
                whole=changed,
            )
            naming.keep_views(self._state.new_views)
        finally:
            naming.close()
        return True

    async def _add(self, record: Path, beside: PublishedFolder) -> _Named | None:
        """Verify a published certificate; None if the archive has it, or if it is a link, a FIFO or a folder."""
        shown = record.relative_to(self.root).as_posix()
        try:
            files = await published_certificate(
                record, self.project, self.place, self.signers, demand=self.demand, beside=beside
            )
        except (InputFileError, EvidenceError) as error:
            # It may replace a verdict against.
            why = error.problem.partition(": ")[0]
            self.irregular.append(FileCoverage(shown, "", CoverageState.TAMPERED, "", "", why))
            return None
        verified = verify(files, self.commit, self._state)
        if verified.certificate is not None and verified.certificate.id in self._known:
            return None
        named = _Named(shown, verified)
        self.found.append(named)
        # A server answers others in between.
        await asyncio.sleep(0)
        return named


async def _archived(
    place: ProjectPlace,
    entries: Sequence[CertificateSummary],
    signers: Sequence[Signer],
    commit: CommitFiles | None = None,
    demand: WitnessDemand = NO_DEMAND,
    *,
    state: RepositoryState,
) -> list[_Named]:
    """Return certificates of the archive, verified, in their order."""
    folders = state.published.notices if state.published else NoticeFolders()
    found = []
    for entry in entries:
        files = await archived_certificate(entry.id, place, signers, folders, demand)
        found.append(_Named(entry.id, verify(files, commit, state)))
        # A server answers others in between.
        await asyncio.sleep(0)
    return found


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
