"""Format-independent view model: the parts of a certificate, grouped and bounded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from esper_agents.certificates.answer import answer_of
from esper_agents.certificates.statement import digest_of, parse
from esper_agents.domain.assumption import Assumption, AssumptionState
from esper_agents.domain.evidence import CallOutcome, Evidence, SourceFile
from esper_agents.domain.finding import UNCONFIRMED, Category, Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.domain.answer import Answer, AnswerLine
    from esper_agents.domain.certificate import Certificate

T = TypeVar("T")

MOST_ENTRIES = 50
_NO_LETTERS = re.compile(r"[^A-Za-z0-9]+")
_LONGEST_TITLE = 60
_FROM_BEST = tuple(Confidence)


@dataclass(frozen=True, slots=True)
class Truncated(Generic[T]):
    """First entries of a list that may be long.

    Attributes:
        shown: First fifty entries.
        more: Number of omitted entries.
    """

    shown: tuple[T, ...]
    more: int

    def __len__(self) -> int:
        return len(self.shown) + self.more


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings under one heading.

    Attributes:
        heading: The heading.
        findings: Findings of the group.
    """

    heading: str
    findings: Truncated[Finding]


@dataclass(frozen=True, slots=True)
class AssumptionCount:
    """Number of assumptions by outcome."""

    created: int
    confirmed: int
    refuted: int
    open: int

    @property
    def accuracy(self) -> str:
        """Share of settled assumptions that were confirmed, as text."""
        settled = self.confirmed + self.refuted
        if not settled:
            return "none settled"
        return f"{self.confirmed} of {settled} settled ones held ({100 * self.confirmed // settled} %)"


@dataclass(frozen=True, slots=True)
class CertificateView:
    """Certificate as shown by the views.

    Attributes:
        certificate: The certificate.
        answer: Answer that the view begins with.
        digest: Digest of its bytes, as `sha256:` and 64 hex digits.
        title: Descriptor in capitals, followed by the word certificate.
        issued: Time of issue, as `YYYY-MM-DD HH:MM:SS UTC`.
        examined: Files that were read.
        examined_lines: Number of their lines.
        performed: Tools with completed calls, with the number of calls.
        risk_level: Critical, Warning, Minor, or a note that nothing was examined.
        groups: Findings by severity.
        confidence: Overall confidence.
        confidence_basis: Reason for that confidence.
        confidence_counts: Number of findings per confidence level.
        assumption_count: Number of assumptions by outcome.
        evidence: All evidence.
        environment: Names and versions of the runtime environment.
    """

    certificate: Certificate
    answer: Answer
    digest: str
    title: str
    issued: str
    examined: Truncated[SourceFile]
    examined_lines: int
    performed: tuple[str, ...]
    risk_level: str
    groups: tuple[FindingGroup, ...]
    confidence: str
    confidence_basis: str
    confidence_counts: tuple[str, ...]
    assumption_count: AssumptionCount
    evidence: Truncated[Evidence]
    environment: tuple[str, ...]

    @property
    def reasons(self) -> tuple[AnswerLine, ...]:
        """Reasons of the verdict that no condition repeats."""
        conditions = self.certificate.verdict.conditions
        return tuple(line for line in self.answer.because if not any(each.endswith(line.text) for each in conditions))


def view_of(data: bytes) -> CertificateView:
    """Return the view model of a statement's bytes.

    Raises:
        IntegrityError: The bytes are not a certificate.
    """
    certificate = parse(data)
    confidence, basis = _confidence(certificate)
    return CertificateView(
        certificate=certificate,
        answer=answer_of(certificate),
        digest=digest_of(data),
        title=f"{_NO_LETTERS.sub(' ', certificate.descriptor)[:_LONGEST_TITLE]} certificate".strip().upper(),
        issued=f"{certificate.issued_at[:10]} {certificate.issued_at[11:19]} UTC",
        examined=some(certificate.examined),
        examined_lines=sum(file.lines for file in certificate.examined),
        performed=_performed(certificate.evidence),
        risk_level=_risk_level(certificate),
        groups=_groups(certificate.findings),
        confidence=confidence.value,
        confidence_basis=basis,
        confidence_counts=_confidence_counts(certificate.findings),
        assumption_count=_assumption_count(certificate.assumptions),
        evidence=some(certificate.evidence),
        environment=tuple(f"{name} {version}" for name, version in sorted(certificate.environment.items())),
    )


def some(entries: Iterable[T]) -> Truncated[T]:
    """Return the first fifty entries with the number of omitted ones."""
    kept = tuple(entries)
    return Truncated(kept[:MOST_ENTRIES], max(len(kept) - MOST_ENTRIES, 0))


def _performed(evidence: tuple[Evidence, ...]) -> tuple[str, ...]:
    completed = [each.tool for each in evidence if each.outcome is CallOutcome.COMPLETED]
    return tuple(f"{tool} ({completed.count(tool)})" for tool in dict.fromkeys(completed))


def _risk_level(certificate: Certificate) -> str:
    unconfirmed = any(
        finding.standing in UNCONFIRMED and finding.claim.severity is Severity.CRITICAL
        for finding in certificate.findings
    )
    return f"{_recorded_risk(certificate)}{'; a model reports critical issues, not confirmed' if unconfirmed else ''}"


def _recorded_risk(certificate: Certificate) -> str:
    severities = {finding.claim.severity for finding in certificate.findings if finding.standing not in UNCONFIRMED}
    if Severity.CRITICAL in severities:
        return "Critical"
    if Severity.WARNING in severities:
        return "Warning"
    return "Minor" if certificate.examined else "not known, because nothing was examined"


def _groups(found: tuple[Finding, ...]) -> tuple[FindingGroup, ...]:
    findings = [each for each in found if each.standing not in UNCONFIRMED]
    unconfirmed = [each for each in found if each.standing in UNCONFIRMED]
    suggestions = [finding for finding in findings if finding.claim.severity is Severity.SUGGESTION]
    by_heading = {
        "Critical issues (must fix)": [finding for finding in findings if finding.claim.severity is Severity.CRITICAL],
        "Warnings (should fix)": [finding for finding in findings if finding.claim.severity is Severity.WARNING],
        "Suggestions (optional)": [
            suggestion for suggestion in suggestions if suggestion.claim.category is not Category.COMPILE
        ],
        "Version opportunities": [
            suggestion for suggestion in suggestions if suggestion.claim.category is Category.COMPILE
        ],
    }
    if unconfirmed:
        by_heading["Said by a model, not confirmed (check first)"] = unconfirmed
    return tuple(FindingGroup(heading, some(group)) for heading, group in by_heading.items())


def _confidence(certificate: Certificate) -> tuple[Confidence, str]:
    completed = [each for each in certificate.evidence if each.outcome is CallOutcome.COMPLETED]
    if not certificate.examined or not completed:
        return Confidence.INSUFFICIENT_DATA, "nothing was examined"
    deciding = [
        finding.claim.confidence
        for finding in certificate.findings
        if finding.claim.severity is not Severity.SUGGESTION
    ]
    if not deciding:
        return Confidence.MODERATE, "what was looked for was not found, which is no proof that nothing is wrong"
    least = max(deciding, key=_FROM_BEST.index)
    return least, f"the least certain of {len(deciding)} critical findings and warnings"


def _confidence_counts(findings: tuple[Finding, ...]) -> tuple[str, ...]:
    levels = [finding.claim.confidence for finding in findings]
    return tuple(f"{level.value}: {levels.count(level)}" for level in Confidence if level in levels)


def _assumption_count(assumptions: tuple[Assumption, ...]) -> AssumptionCount:
    states = [assumption.state for assumption in assumptions]
    return AssumptionCount(
        created=len(states),
        confirmed=states.count(AssumptionState.CONFIRMED),
        refuted=states.count(AssumptionState.REFUTED),
        open=states.count(AssumptionState.OPEN),
    )
