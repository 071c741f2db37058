"""Verification of one certificate against its envelope, log, evidence and files; writes nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.archive.verification.files import SubjectState
from esper_agents.archive.verification.signature import proof_check, read_sealed, signature_check
from esper_agents.archive.verification.statement import verify_page, verify_statement, verify_subjects, verify_view
from esper_agents.archive.verification.supersession import EndingKind
from esper_agents.certificates.check import Check, CheckOutcome, combine_outcomes
from esper_agents.certificates.policy.rulebook import rulebook_of
from esper_agents.certificates.statement import parse
from esper_agents.certificates.views.html import html_layout
from esper_agents.certificates.views.markdown import layout
from esper_agents.errors import EvidenceError, ExitCode, IntegrityError, NewerRecordError, UsageError
from esper_agents.git.commit_files import CommitFiles
from esper_agents.git.project_state import revision
from esper_agents.git.repository import is_shallow, known_commits, repository_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from esper_agents.archive.verification.certificate_files import CertificateFiles
    from esper_agents.archive.verification.files import SubjectCheck
    from esper_agents.archive.verification.published_records import PublishedFolder
    from esper_agents.archive.verification.supersession import Override, SupersedingEntry
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.project import GitRevision

_OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MOST_DERIVED = 4_000
# Name of the check that compares a published file with the local archive.
ARCHIVE_CHECK = "archive"
_VERDICT_CHECKS = frozenset(("kind", "policy", "ceiling", "verdict", "evidence"))
# Checks of files that can be rewritten from the archive.
_PUBLISHED_CHECKS = frozenset(
    ("view", "hash in the view", "published file", "published record", "published proof", "published notice")
)


class FreshnessState(StrEnum):
    """Freshness of a certificate relative to the current files."""

    VALID = "valid"
    STALE = "stale"
    SUPERSEDED = "superseded"
    REVOKED = "revoked"
    CANNOT_DECIDE = "cannot decide"


_ENDED = frozenset((FreshnessState.STALE, FreshnessState.SUPERSEDED, FreshnessState.REVOKED))


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """Result of the verification of a certificate.

    Attributes:
        certificate: Content of the certificate; None if the statement is missing or not valid.
        genuine: Checks of signature, log entry and views.
        complete: Checks for missing log entries, artifacts and published files.
        verdict: Checks that the verdict follows from the recorded evidence.
        citations: Checks that citations match the files that were read.
        currency: Freshness relative to the current files.
        place: Check that the project is the certified repository.
        later: Log entries that revoke or supersede the certificate.
        files: Checks of the certified files.
        root: Project directory that was compared.
        commit: Commit whose files were compared instead of the work tree; empty for the work tree.
        unchanged_at: Judged commit that is not checked out, if the certified files are unchanged there; else empty.
        countersigned: Checks of countersignatures; reported, but not counted.
        overridden: Override of the status; reported, but not counted.
        missing: Published files that do not exist.
        is_published: Whether any published file exists.
        is_restorable: Whether `esper certificates repair` can rewrite the published files.
        witnessed: Checks of the demanded cosignatures; none if no witness is demanded.
        objections: Checks for revocations by other keys than the signer's, each undecided.
    """

    certificate: Certificate | None
    genuine: tuple[Check, ...]
    complete: tuple[Check, ...]
    verdict: tuple[Check, ...]
    citations: tuple[Check, ...]
    currency: FreshnessState
    place: Check | None
    later: tuple[SupersedingEntry, ...]
    files: tuple[SubjectCheck, ...]
    root: Path
    commit: str = ""
    unchanged_at: str = ""
    countersigned: tuple[Check, ...] = ()
    overridden: Override | None = None
    missing: tuple[Path, ...] = ()
    is_published: bool = True
    is_restorable: bool = False
    witnessed: tuple[Check, ...] = ()
    objections: tuple[Check, ...] = ()

    @property
    def is_repairable(self) -> bool:
        """Whether only published files fail, and `esper certificates repair` can rewrite them."""
        failed = {each.name for each in self._all if each.outcome is CheckOutcome.FAILS}
        archived = any(each.name == ARCHIVE_CHECK and each.outcome is CheckOutcome.HOLDS for each in self.genuine)
        return self.is_restorable and archived and bool(failed) and failed <= _PUBLISHED_CHECKS

    @property
    def is_in_archive(self) -> bool:
        """Whether the local archive issued the certificate."""
        return any(each.name == ARCHIVE_CHECK for each in self.genuine)

    @property
    def exit_code(self) -> ExitCode:
        """Exit code: modified takes precedence over not current, and that over undecided."""
        return self._with_currency(self.soundness)

    @property
    def own_exit_code(self) -> ExitCode:
        """Exit code without witnesses and objections: neither must void a verdict against a file."""
        return self._with_currency(_soundness(self._own))

    @property
    def soundness(self) -> ExitCode:
        """Exit code without regard to freshness."""
        return _soundness(self._all)

    @property
    def _all(self) -> tuple[Check, ...]:
        return (*self._own, *self.witnessed, *self.objections)

    @property
    def _own(self) -> tuple[Check, ...]:
        return (*self.genuine, *self.complete, *self.verdict, *self.citations)

    def _with_currency(self, soundness: ExitCode) -> ExitCode:
        if soundness is ExitCode.TAMPERED:
            return ExitCode.TAMPERED
        if self.currency in _ENDED:
            return ExitCode.NOT_CURRENT
        return ExitCode.UNDECIDED if self.currency is FreshnessState.CANNOT_DECIDE else soundness


def _soundness(checks: tuple[Check, ...]) -> ExitCode:
    match combine_outcomes(*checks):
        case CheckOutcome.FAILS:
            return ExitCode.TAMPERED
        case CheckOutcome.CANNOT_DECIDE:
            return ExitCode.UNDECIDED
        case CheckOutcome.HOLDS:
            return ExitCode.DONE


@dataclass(frozen=True, slots=True)
class DerivedChecks:
    """Results of checks that depend on nothing but bytes, for programs that verify the same certificates often.

    Attributes:
        views: Digests of views that match their statements; see `RepositoryState.view_digest`.
        statements: Checks of statements by the digest of statement, policy and trigger table.
    """

    views: set[str] = field(default_factory=set)
    statements: dict[bytes, tuple[Check, ...]] = field(default_factory=dict)


class RepositoryState:
    """Git repository and published files of a project; each question about them is asked once.

    Attributes:
        root: Project directory.
        verified_views: Digests of views that were found to match their statements, by digest.
        new_views: Those that were found since.
        published: Published files that were listed before; None if there are none.
    """

    def __init__(
        self, root: Path, published: PublishedFolder | None = None, derived: DerivedChecks | None = None
    ) -> None:
        """Ask nothing yet.

        Args:
            root: Project directory.
            published: Published files that were listed before.
            derived: Checks that were derived before.
        """
        self.root, self.published = root, published
        self._derived = derived or DerivedChecks()
        self.verified_views: frozenset[str] = frozenset()
        self.new_views = self._derived.views
        self._layouts = f"{layout()}\0{html_layout()}".encode()
        self._commits: dict[str, bool] = {}

    def view_digest(self, data: bytes, page: bytes) -> str:
        """Return the digest of a statement, a view of it and the layouts of this version.

        Args:
            data: Bytes of the statement.
            page: Bytes of the view.
        """
        return sha256(sha256(data).digest() + sha256(page).digest() + self._layouts).hexdigest()

    def statement_checks(self, data: bytes, policy: str, kinds: str) -> tuple[Check, ...]:
        """Return the checks of a statement; see `verify_statement`."""
        texts = (text.encode("utf-8", "surrogatepass") for text in (policy, kinds))
        key = b"".join(sha256(each).digest() for each in (data, *texts))
        known = self._derived.statements
        if key not in known:
            if len(known) >= _MOST_DERIVED:
                known.clear()
            known[key] = verify_statement(data, policy, kinds)
        return known[key]

    @cached_property
    def here(self) -> GitRevision:
        """State of the work tree."""
        return revision(self.root)

    @cached_property
    def is_shallow(self) -> bool:
        """Whether it is a shallow clone."""
        return is_shallow(self.root)

    def knows(self, commit: str) -> bool:
        """Return whether the repository contains a commit."""
        if commit not in self._commits:
            self._commits[commit] = bool(known_commits(self.root, [commit]))
        return self._commits[commit]


def verify(
    exhibit: CertificateFiles, commit: CommitFiles | None = None, state: RepositoryState | None = None
) -> VerificationResult:
    """Verify the files of a certificate and return the result.

    Args:
        exhibit: The files.
        commit: Files to compare with instead of the work tree.
        state: Repository of the project, for callers that verify many certificates.
    """
    signed = tuple(_sealed_checks(exhibit))
    if exhibit.data is None:
        return _unreadable(exhibit, (*exhibit.known, *signed))
    try:
        certificate = parse(exhibit.data)
    except IntegrityError as error:
        outcome = CheckOutcome.CANNOT_DECIDE if isinstance(error, NewerRecordError) else CheckOutcome.FAILS
        return _unreadable(exhibit, (*exhibit.known, *signed, Check("record", outcome, error.problem)))
    book = rulebook_of(certificate, exhibit.artifacts)
    state = state or RepositoryState(exhibit.root)
    made = {each.name: each for each in state.statement_checks(exhibit.data, book.policy, book.kinds)}
    files = verify_subjects(exhibit.data, exhibit.root, commit)
    place = _place_check(certificate, state)
    return VerificationResult(
        certificate=certificate,
        genuine=(*exhibit.known, *signed, made["record"], *_view_checks(exhibit, exhibit.data, state)),
        complete=exhibit.complete or tuple(_published_checks(exhibit)),
        verdict=tuple(each for name, each in made.items() if name in _VERDICT_CHECKS),
        citations=(made["citations"], *_misquoted(files)),
        currency=_currency(exhibit, certificate.project, files, place),
        place=place,
        later=exhibit.later,
        files=files,
        root=exhibit.root,
        commit=commit.commit if commit is not None else "",
        countersigned=exhibit.countersigned,
        overridden=exhibit.overridden,
        missing=exhibit.missing,
        is_published=exhibit.is_published,
        is_restorable=exhibit.is_restorable,
        witnessed=exhibit.witnessed,
        objections=exhibit.objections,
    )


def with_judged_commit(result: VerificationResult, exhibit: CertificateFiles) -> VerificationResult:
    """Return a result with the judged commit if the work tree differs from it and the certified files match it.

    An agent that judges a commit which is not checked out reads its files from git, so that the work tree says nothing
    about them.
    """
    issued = result.certificate
    change = issued.task.change if issued else None
    if exhibit.data is None or change is None or change.is_checked_out or result.currency is not FreshnessState.STALE:
        return result
    # The name comes from a certificate: only a full object id may reach git.
    if result.commit or not _OBJECT_ID.fullmatch(change.head):
        return result
    try:
        judged = CommitFiles(result.root, change.head)
        files = verify_subjects(exhibit.data, result.root, judged)
    except (EvidenceError, UsageError):
        return result
    is_unchanged = all(file.state is SubjectState.VALID for file in files)
    return replace(result, unchanged_at=judged.commit) if is_unchanged else result


def _unreadable(exhibit: CertificateFiles, genuine: tuple[Check, ...]) -> VerificationResult:
    return VerificationResult(
        certificate=None,
        genuine=genuine,
        complete=(),
        verdict=(),
        citations=(),
        currency=FreshnessState.CANNOT_DECIDE,
        place=None,
        later=(),
        files=(),
        root=exhibit.root,
    )


def _sealed_checks(exhibit: CertificateFiles) -> Iterator[Check]:
    if exhibit.envelope is None:
        return
    sealed = read_sealed(exhibit.envelope)
    if isinstance(sealed, Check):
        yield sealed
        return
    yield signature_check(sealed, exhibit.keyring, exhibit.index)
    yield proof_check(exhibit.envelope, exhibit.proof, exhibit.keyring)


def _published_checks(exhibit: CertificateFiles) -> Iterator[Check]:
    """Check that the published files of a certificate without local archive are complete."""
    is_viewed = any(path.suffix == ".md" for path, _ in exhibit.views)
    missing = [name for name, there in (("its view", is_viewed), ("its proof", exhibit.proof)) if not there]
    detail = f"{' and '.join(missing)} is not next to it" if missing else "its view and its proof are next to it"
    yield Check("published", CheckOutcome.CANNOT_DECIDE if missing else CheckOutcome.HOLDS, detail)


def _view_checks(exhibit: CertificateFiles, data: bytes, state: RepositoryState) -> Iterator[Check]:
    for path, page in exhibit.views:
        digest = state.view_digest(data, page)
        if digest in state.verified_views or digest in state.new_views:
            yield Check("view", CheckOutcome.HOLDS, f"{exhibit.shown(path)}: view matches the statement, as before")
            continue
        verify_form = verify_page if path.suffix == ".html" else verify_view
        checks = [each for each in verify_form(data, page.decode("utf-8", "replace")) if each.name != "record"]
        if combine_outcomes(*checks) is CheckOutcome.HOLDS:
            state.new_views.add(digest)
        yield from (replace(each, detail=f"{exhibit.shown(path)}: {each.detail}") for each in checks)


def _misquoted(files: Iterable[SubjectCheck]) -> tuple[Check, ...]:
    """Return the citations that an unchanged file contradicts: the excerpts were never in it."""
    return tuple(
        Check(citation.name, CheckOutcome.FAILS, f"{citation.detail}, though the file is what it was")
        for file in files
        for citation in file.citations
        if file.state is SubjectState.VALID and citation.outcome is CheckOutcome.FAILS
    )


def _place_check(certificate: Certificate, state: RepositoryState) -> Check:
    """Check that a project is the certified repository; another repository may contain the same files."""
    issued, here = certificate.revision, state.here
    if issued.remote and here.remote:
        same = repository_address(issued.remote) == repository_address(here.remote)
        detail = f"it was issued for {issued.remote}, and this is of {here.remote}"
        return Check(
            "repository", CheckOutcome.HOLDS if same else CheckOutcome.CANNOT_DECIDE, here.remote if same else detail
        )
    if not issued.commit or not here.is_git:
        return Check("repository", CheckOutcome.HOLDS, "repository unknown; only file digests were compared")
    if state.knows(issued.commit):
        return Check("repository", CheckOutcome.HOLDS, f"commit {issued.commit[:12]} is known here")
    if state.is_shallow:
        return Check("repository", CheckOutcome.HOLDS, f"commit {issued.commit[:12]} lies before this shallow clone")
    detail = f"commit {issued.commit[:12]}, for which it was issued, is not known here"
    return Check("repository", CheckOutcome.CANNOT_DECIDE, detail)


def _currency(exhibit: CertificateFiles, project: str, files: Iterable[SubjectCheck], place: Check) -> FreshnessState:
    endings, states = {each.ending for each in exhibit.later}, {file.state for file in files}
    if EndingKind.REVOKED in endings:
        return FreshnessState.REVOKED
    if EndingKind.SUPERSEDED in endings:
        return FreshnessState.SUPERSEDED
    # Another project: missing files prove nothing.
    is_elsewhere = states == {SubjectState.MISSING} and exhibit.root.name != project
    if place.outcome is not CheckOutcome.HOLDS or is_elsewhere:
        return FreshnessState.CANNOT_DECIDE
    if states & {SubjectState.STALE, SubjectState.MISSING}:
        return FreshnessState.STALE
    return FreshnessState.CANNOT_DECIDE if SubjectState.UNREADABLE in states else FreshnessState.VALID
