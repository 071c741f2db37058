"""Coverage of files by valid certificates, with the status that counts for each file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.archive.verification.published_records import NOTICE_SIGNATURE
from esper_agents.archive.verification.verify import FreshnessState
from esper_agents.archive.verification.witnessed import WITNESS
from esper_agents.certificates.check import CheckOutcome, combine_outcomes
from esper_agents.certificates.policy.verdict_ceiling import ceiling_of, load_policy, worst
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.gate_level import GateLevel
from esper_agents.domain.status import QuestionType, Status
from esper_agents.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.archive.verification.supersession import Override
    from esper_agents.archive.verification.verify import VerificationResult
    from esper_agents.certificates.check import Check
    from esper_agents.certificates.policy.verdict_ceiling import Policy
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.verdict import Ceiling

# Question types that the gate counts; advice and recommendations are ignored.
COUNTED = frozenset((QuestionType.APPROVAL, QuestionType.GO))
# Negative statuses of the counted question types.
AGAINST = frozenset((Status.REJECTED, Status.REQUIRES_REMEDIATION, Status.NO_GO, Status.EMERGENCY_STOP))
_REVIEW, _TESTS = "static-review", "run-tests"
_SHORT = 9
_MOST_CEILINGS = 64
_PASSED, _FAILED = "passed", "failed"
_TOLD_CHECKS = frozenset(("published notice", NOTICE_SIGNATURE, WITNESS))


class CoverageState(StrEnum):
    """Coverage state of a file, from worst to best."""

    TAMPERED = "tampered"
    AGAINST = "against"
    OTHER_STATUS = "other status"
    NOT_CURRENT = "not current"
    UNCOVERED = "uncovered"
    UNDECIDED = "undecided"
    COVERED = "covered"


@dataclass(frozen=True, slots=True)
class FileCoverage:
    """Coverage of one file by the certificates of one agent.

    Attributes:
        path: Path relative to the project.
        agent: Agent whose certificates count; empty for all agents.
        standing: Coverage state.
        certificate: ID of the decisive certificate; empty if there is none.
        status: Status of that certificate or of its override; empty if there is none.
        why: Reason in one line.
    """

    path: str
    agent: str
    standing: CoverageState
    certificate: str
    status: str
    why: str


@dataclass(frozen=True, slots=True)
class CoveringCertificate:
    """Verified certificate that may cover files; lists have the newest first.

    Attributes:
        verified: Verification result of the certificate.
        digests: Examined files by path, with the sha256 of every version that was read.
        accepts_overrides: Whether an override may improve the status.
        narrower: Files that were only partly reviewed, by path, with a description of the reviewed part.
        bases: Files that were reviewed for a change, by path, with git's object ID of the content before the change;
            empty if the change adds the file.
        blobs: Examined files by path, with git's object IDs of every version that was read.
    """

    verified: VerificationResult
    digests: dict[str, frozenset[str]]
    accepts_overrides: bool = False
    narrower: dict[str, str] = field(default_factory=dict)
    bases: dict[str, str] = field(default_factory=dict)
    blobs: dict[str, frozenset[str]] = field(default_factory=dict)

    @property
    def counts(self) -> bool:
        """Whether the gate counts the question type of the certificate."""
        issued = self.verified.certificate
        return issued is not None and issued.verdict.kind in COUNTED

    @property
    def override(self) -> Override | None:
        """Override that counts: one that worsens the status always, one that improves it only if accepted."""
        found = self.verified.overridden
        return found if found and (self.accepts_overrides or not found.is_better) else None

    @property
    def status(self) -> str:
        """Status that counts; empty if there is no certificate."""
        if self.override:
            return self.override.status
        return self.verified.certificate.verdict.status if self.verified.certificate else ""

    @property
    def conditions(self) -> tuple[str, ...]:
        """Open conditions of the verdict; an accepted override that improves the status waives them."""
        is_waived = self.override is not None and self.override.is_better
        return self.verified.certificate.verdict.conditions if self.verified.certificate and not is_waived else ()

    @property
    def said(self) -> str:
        """Text about the override; empty if there is none."""
        found = self.verified.overridden
        if found is None:
            return ""
        return str(found) if self.override else f"{found} (which counts only with --accept-overrides)"


def exit_code(coverage: Sequence[FileCoverage], level: GateLevel) -> ExitCode:
    """Return the exit code for the worst coverage state, if it is one at which the gate fails."""
    found = {each.standing for each in coverage} & _failing(level)
    return _code(next((each for each in CoverageState if each in found), CoverageState.COVERED))


def _failing(level: GateLevel) -> frozenset[CoverageState]:
    match level:
        case GateLevel.UNCOVERED:
            return frozenset(CoverageState)
        case GateLevel.AGAINST:
            return frozenset((CoverageState.TAMPERED, CoverageState.AGAINST))
        case GateLevel.NEVER:
            return frozenset()


def _code(standing: CoverageState) -> ExitCode:
    match standing:
        case CoverageState.TAMPERED:
            return ExitCode.TAMPERED
        case CoverageState.AGAINST | CoverageState.OTHER_STATUS:
            return ExitCode.AGAINST
        case CoverageState.NOT_CURRENT | CoverageState.UNCOVERED:
            return ExitCode.NOT_CURRENT
        case CoverageState.UNDECIDED:
            return ExitCode.UNDECIDED
        case CoverageState.COVERED:
            return ExitCode.DONE


def narrower_than_review(certificate: Certificate) -> dict[str, str]:
    """Return the files that a certificate reviewed only in part, by path, with a description of the reviewed part.

    A file was reviewed completely if a completed static review of the file, or of a parent directory, ran the rules of
    all categories on the recorded content and was not limited to a change.
    """
    partial: dict[tuple[str, str], str] = {}
    whole: set[tuple[str, str]] = set()
    for each in certificate.evidence:
        if each.tool != _REVIEW or each.outcome is not CallOutcome.COMPLETED:
            continue
        named = [PurePosixPath(str(path)) for path in each.arguments.get("paths") or ()]
        categories = ", ".join(str(one) for one in each.arguments.get("categories") or ())
        since = str(each.arguments.get("since") or "")
        for file in each.examined:
            key = (file.path, file.sha256)
            if not any(PurePosixPath(file.path).is_relative_to(path) for path in named):
                partial.setdefault(key, "read as context of another file")
            elif categories:
                partial[key] = f"reviewed for {categories} only"
            elif since:
                change = certificate.task.change
                about = change.label if change and change.since == since else f"what changed since {since}"
                partial[key] = f"reviewed for {about} only"
            else:
                whole.add(key)
    read = [(each.path, each.sha256) for each in certificate.examined]
    return {key[0]: partial.get(key, "read, not reviewed") for key in read if key not in whole}


def reviewed_change(certificate: Certificate) -> frozenset[str]:
    """Return the files whose part of a change a certificate reviewed with the rules of all categories."""
    change = certificate.task.change
    found: set[str] = set()
    for each in certificate.evidence if change else ():
        is_of_change = change is not None and each.arguments.get("since") == change.since
        is_complete = each.tool == _REVIEW and each.outcome is CallOutcome.COMPLETED
        if is_of_change and is_complete and not each.arguments.get("categories"):
            named = [PurePosixPath(str(path)) for path in each.arguments.get("paths") or ()]
            read = [PurePosixPath(file.path) for file in each.examined]
            found |= {str(file) for file in read if any(file.is_relative_to(path) for path in named)}
    return frozenset(found)


def coverage_of(
    path: str,
    sha256: str,
    agent: str,
    judged: Sequence[CoveringCertificate],
    required: frozenset[Status],
    *,
    accepted: str | None = None,
) -> FileCoverage:
    """Return the coverage of a file.

    The newest certificate about the current content decides, and only if it is valid as a whole: a verdict on several
    files is void once one of them has changed. A certificate that is not authentic always fails the gate, and so does a
    negative verdict on the current content that the same agent has not replaced since.

    Certificates of question types other than approval and go/no-go count neither for nor against the file. A
    certificate that is narrower than a review does not cover it.

    For tests, the newest certificate about the current content in which they ran decides: a failed run counts until a
    later run passes, regardless of verdicts without a test run.

    An override counts if it worsens the status; one that improves it counts only if that is accepted.
    A status that the current policy does not allow for the recorded evidence does not count.

    A certificate about a change covers the content that the change led to, if another one covered the content before
    it, if the change added the file, or if that content is accepted.

    Args:
        path: Path relative to the project.
        sha256: Digest of the current content.
        agent: Agent whose certificates count; empty for all agents.
        judged: Certificates, newest first.
        required: Accepted statuses.
        accepted: Git's object ID of content that needs no certificate, such as that of the target branch; empty if the
            file does not exist there; None for no such content.
    """
    about = [each for each in judged if path in each.digests]
    for each in about:
        if combine_outcomes(*_groups(each.verified)) is CheckOutcome.FAILS:
            return _told(path, agent, CoverageState.TAMPERED, each, _why_tampered(each.verified))
    whole = _Whole(path, agent, judged, required, accepted)
    aside = [each for each in about if not each.counts or not whole.includes(each)]
    about = [each for each in about if each.counts]
    same = [each for each in about if sha256 in each.digests[path]]
    # Neither a missing cosignature of a witness nor an objection voids a verdict against the file.
    valid_ones = [each for each in same if each.verified.own_exit_code is ExitCode.DONE]
    reviews = [each for each in valid_ones if whole.includes(each)]
    if against := _against(path, agent, same, valid_ones, reviews):
        return against
    named = [review for review in reviews if not agent or _agent(review) == agent]
    own = [each for each in named if not _excess(each)]
    if not own:
        about = [each for each in about if path not in each.narrower or path in each.bases]
        same = [each for each in same if whole.includes(each)]
        found = _uncovered(
            path, agent, [each for each in about if each in same or sha256 not in each.digests[path]], same, named
        )
        said = _not_counted(path, agent, aside)
        return replace(found, why=f"{found.why}; {said}") if said else found
    standing, why = _standing(own[0], required)
    return _told(path, agent, standing, own[0], why)


def _standing(review: CoveringCertificate, required: frozenset[Status]) -> tuple[CoverageState, str]:
    """Return the coverage state of a file that a valid certificate decides, and the reason."""
    if doubt := _doubt(review.verified):
        return CoverageState.UNDECIDED, doubt
    wanted = " or ".join(sorted(required))
    if review.status not in required:
        return CoverageState.OTHER_STATUS, f"{review.status}, and {wanted} is required"
    conditions = review.conditions
    if conditions and Status.CONDITIONALLY_APPROVED not in required:
        why = f"status {review.status} has an open condition, required is {wanted} without one: {conditions[0]}"
        return CoverageState.OTHER_STATUS, why
    return CoverageState.COVERED, ""


def leaves_older_without_effect(certificate: CoveringCertificate, path: str) -> bool:
    """Return whether older certificates by the same agent about the same content of a file decide nothing."""
    is_valid = certificate.verified.own_exit_code is ExitCode.DONE
    is_review = certificate.counts and path not in certificate.narrower
    return is_valid and is_review and not _excess(certificate)


@dataclass(frozen=True, slots=True)
class _Whole:
    """Certificates that are about the whole of a file: reviews of it, and changes to content that one covered."""

    path: str
    agent: str
    judged: Sequence[CoveringCertificate]
    required: frozenset[Status]
    accepted: str | None

    def includes(self, certificate: CoveringCertificate, known: frozenset[str] = frozenset()) -> bool:
        """Return whether a certificate, with those that it builds on, is about the whole file."""
        if self.path not in certificate.narrower:
            return True
        base = certificate.bases.get(self.path)
        if base is None or base in known:
            return False
        return base in {"", self.accepted} or any(self._covered(each, base, known | {base}) for each in self.judged)

    def _covered(self, certificate: CoveringCertificate, base: str, known: frozenset[str]) -> bool:
        """Return whether a certificate covered the content before a change; that it is stale since is the change."""
        verified = certificate.verified
        return (
            certificate.counts
            and base in certificate.blobs.get(self.path, ())
            and (not self.agent or _agent(certificate) == self.agent)
            and verified.soundness is ExitCode.DONE
            and verified.currency in {FreshnessState.VALID, FreshnessState.STALE, FreshnessState.SUPERSEDED}
            and certificate.status in self.required
            and (not certificate.conditions or Status.CONDITIONALLY_APPROVED in self.required)
            and not _excess(certificate)
            and self.includes(certificate, known)
        )


def _against(
    path: str,
    agent: str,
    same: Sequence[CoveringCertificate],
    valid_ones: Sequence[CoveringCertificate],
    reviews: Sequence[CoveringCertificate],
) -> FileCoverage | None:
    """Return the coverage of a file if a negative verdict or failed tests apply to its current content; else None."""
    # A later review of a part does not replace an earlier review of the whole file.
    for newest in ({_agent(each): each for each in reversed(found)} for found in (valid_ones, reviews)):
        for each in newest.values():
            if each.status in AGAINST:
                return _told(path, agent, CoverageState.AGAINST, each, f"{each.status} stands against it")
    if failing := _failing_tests(same):
        why = "the tests failed on these bytes, and no later run of them passed; submit again with --allow run-tests"
        return _told(path, agent, CoverageState.AGAINST, failing, why)
    return None


def _failing_tests(same: Sequence[CoveringCertificate]) -> CoveringCertificate | None:
    """Return the newest certificate with a test run, if the tests failed; None if an override covers it.

    One that a later certificate superseded still says how the tests came out; one that is revoked or stale does not.
    """
    for each in same:
        issued, verified = each.verified.certificate, each.verified
        if issued is None or verified.soundness is not ExitCode.DONE:
            continue
        if verified.currency not in {FreshnessState.VALID, FreshnessState.SUPERSEDED}:
            continue
        ran = {
            str(one.output.get("outcome", ""))
            for one in issued.evidence
            if one.tool == _TESTS and one.outcome is CallOutcome.COMPLETED
        }
        if _FAILED in ran:
            return None if each.override is not None and each.override.is_better else each
        if _PASSED in ran:
            return None
    return None


_ceilings: dict[int, tuple[Certificate, Ceiling]] = {}


@cache
def _policy_today() -> Policy:
    return load_policy()


def _excess(judged: CoveringCertificate) -> str:
    """Return why the status of a certificate exceeds the current policy for its evidence; empty if it does not.

    An accepted override is not subject to the policy.
    """
    issued = judged.verified.certificate
    if issued is None or judged.status is not issued.verdict.status or issued.verdict.kind not in COUNTED:
        return ""
    kind, stance, today = issued.verdict.kind, issued.verdict.stance, _ceiling_today(issued)
    if worst(kind, stance, today.stance) is stance:
        return ""
    reason = "; ".join(line.because for line in today.lines if line.stance is today.stance)
    return f"it does not count: {judged.status}, and today's policy allows {today.status} at most, because {reason}"


def _ceiling_today(issued: Certificate) -> Ceiling:
    """Return the ceiling of a certificate under the current policy; the newest are kept, for other files of it."""
    kept = _ceilings.get(id(issued))
    if kept is None or kept[0] is not issued:
        if len(_ceilings) >= _MOST_CEILINGS:
            _ceilings.clear()
        kept = _ceilings[id(issued)] = issued, ceiling_of(_policy_today(), issued)
    return kept[1]


def _uncovered(
    path: str,
    agent: str,
    about: Sequence[CoveringCertificate],
    same: Sequence[CoveringCertificate],
    uncounted: Sequence[CoveringCertificate],
) -> FileCoverage:
    if uncounted:
        return _told(path, agent, CoverageState.NOT_CURRENT, uncounted[0], _excess(uncounted[0]))

    def newest(found: Sequence[CoveringCertificate]) -> CoveringCertificate | None:
        return next((each for each in found if not agent or _agent(each) == agent), None)

    unsure = newest([each for each in same if each.verified.exit_code is ExitCode.UNDECIDED])
    if unsure is not None:
        why = "not signed by a trusted key, or verification is incomplete"
        return _told(path, agent, CoverageState.UNDECIDED, unsure, why)
    if ended := newest(same):
        what = (
            "another file in the same certificate has changed"
            if ended.verified.currency is FreshnessState.STALE
            else "it has ended"
        )
        return _told(path, agent, CoverageState.NOT_CURRENT, ended, f"it is {ended.verified.currency}: {what}")
    if older := newest(about):
        issued = older.verified.certificate
        change = issued.task.change if issued and path in older.bases else None
        since = f"the file has changed since {change.label} was judged" if change else "the file has changed since"
        if change and not change.is_checked_out:
            since = f"{change.label} is not checked out: use --diff {change.base[:_SHORT]}..{change.head[:_SHORT]}"
        return _told(path, agent, CoverageState.NOT_CURRENT, older, since)
    by = f" by {agent}" if agent else ""
    return FileCoverage(path, agent, CoverageState.UNCOVERED, "", "", f"no certificate{by} covers it")


def _not_counted(path: str, agent: str, aside: Sequence[CoveringCertificate]) -> str:
    """Return why the newest certificate about a file does not count; empty if there is none."""
    found = next((each for each in aside if not agent or _agent(each) == agent), next(iter(aside), None))
    issued = found.verified.certificate if found is not None else None
    if found is None or issued is None:
        return ""
    if not found.counts:
        kind = "advice" if issued.verdict.kind is QuestionType.ADVICE else f"a {issued.verdict.kind}"
        return f"{issued.id} by {issued.agent} is {kind}, which does not count"
    return f"{issued.id} by {issued.agent} does not cover it: the file was {found.narrower[path]}"


def _groups(verified: VerificationResult) -> tuple[Check, ...]:
    return (*verified.genuine, *verified.complete, *verified.verdict, *verified.citations, *verified.witnessed)


def _doubt(verified: VerificationResult) -> str:
    """Return why a demanded cosignature is missing, or a colleague's objection; empty if there is neither."""
    doubts = (*verified.objections, *verified.witnessed)
    return next((each.detail for each in doubts if each.outcome is not CheckOutcome.HOLDS), "")


def _why_tampered(verified: VerificationResult) -> str:
    """Return why a certificate is not authentic; for a notice or a log that lost entries, what is missing."""
    failed = (
        group for group in _groups(verified) if group.outcome is CheckOutcome.FAILS and group.name in _TOLD_CHECKS
    )
    return next((each.detail for each in failed), "it is not what was issued")


def _told(path: str, agent: str, standing: CoverageState, by: CoveringCertificate, why: str) -> FileCoverage:
    issued = by.verified.certificate
    told = "; ".join(each for each in (why, by.said) if each)
    return FileCoverage(path, agent, standing, issued.id if issued else "", by.status, told)


def _agent(judged: CoveringCertificate) -> str:
    issued = judged.verified.certificate
    return issued.agent if issued else ""
