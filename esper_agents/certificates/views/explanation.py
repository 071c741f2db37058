"""Explanation of a verdict, from its status down to the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.certificates.statement import parse
from esper_agents.certificates.views.escaping import shortened, visible
from esper_agents.certificates.views.view_model import Truncated, some
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import Standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import Finding
    from esper_agents.domain.verdict import AppliedPolicyRule, Verdict

_LONGEST = 300


@dataclass(frozen=True, slots=True)
class WhyFinding:
    """Finding with its evidence.

    Attributes:
        finding: The finding.
        evidence: Evidence of the finding, in order.
    """

    finding: Finding
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class WhyLine:
    """Policy rule that applied, with the findings that triggered it.

    Attributes:
        line: Applied rule, with its reason.
        findings: Triggering findings; empty if something else triggered it, as its reason states.
    """

    line: AppliedPolicyRule
    findings: tuple[WhyFinding, ...]


@dataclass(frozen=True, slots=True)
class VerdictExplanation:
    """Explanation tree of a status.

    Attributes:
        verdict: Verdict with its ceiling.
        kind_because: Words that decided the question type.
        lines: Policy rules that applied, the deciding ones first.
        evidence: Calls that read code; the basis of a verdict if no rule applies.
    """

    verdict: Verdict
    kind_because: str
    lines: tuple[WhyLine, ...]
    evidence: tuple[Evidence, ...]

    def outline(self) -> tuple[tuple[int, str], ...]:
        """Return the tree as depths and lines of plain text; long lists are cut, control characters escaped."""
        return tuple((depth, shortened(visible(text), _LONGEST)) for depth, text in _walk(self))


def why(data: bytes) -> VerdictExplanation:
    """Return the explanation of a certificate's verdict.

    Raises:
        IntegrityError: The bytes are not a certificate.
    """
    certificate = parse(data)
    return VerdictExplanation(
        verdict=certificate.verdict,
        kind_because=certificate.task.kind_because,
        lines=tuple(WhyLine(line, _findings(certificate, line)) for line in certificate.verdict.ceiling.lines),
        evidence=tuple(
            each for each in certificate.evidence if each.outcome is CallOutcome.COMPLETED and each.examined
        ),
    )


def _walk(tree: VerdictExplanation) -> Iterator[tuple[int, str]]:
    verdict = tree.verdict
    yield 0, f"{verdict.status} ({verdict.stance}): {verdict.rationale}"
    yield 1, f"{verdict.kind} was asked, because of: {tree.kind_because or 'no words'}"
    if verdict.below_ceiling:
        yield 1, f"below the ceiling: {verdict.below_ceiling}"
    yield 1, f"ceiling {verdict.ceiling.status} ({verdict.ceiling.stance})"
    for line in tree.lines:
        yield 2, f"{line.line.name} allows at most {line.line.stance}: {line.line.because}"
        yield from _bounded(3, some(each for found in line.findings for each in _of_finding(found)))
    if not tree.lines:
        yield 2, "no line of the policy applies"
    if not any(line.findings for line in tree.lines):
        yield from _bounded(3, some(each for found in tree.evidence for each in _of_evidence(found)))


def _bounded(depth: int, entries: Truncated[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    for deeper, text in entries.shown:
        yield depth + deeper, text
    if entries.more:
        yield depth, f"and {entries.more} more lines, see the record"


def _of_finding(found: WhyFinding) -> Iterator[tuple[int, str]]:
    claim = found.finding.claim
    yield (
        0,
        f"{claim.rule} at {claim.location}: {claim.message} ({claim.confidence}, {claim.basis or 'no basis given'})",
    )
    if found.finding.standing is not Standing.RECORDED:
        yield 1, "; ".join((f"{found.finding.standing} finding of a model", *found.finding.checks))
    for evidence in found.evidence:
        yield from ((deeper + 1, text) for deeper, text in _of_evidence(evidence))


def _of_evidence(evidence: Evidence) -> Iterator[tuple[int, str]]:
    yield 0, f"{evidence.id} {evidence.tool} {evidence.outcome}: {evidence.summary}"
    if evidence.rerun:
        yield 1, f"again: {evidence.rerun}"


def _findings(certificate: Certificate, line: AppliedPolicyRule) -> tuple[WhyFinding, ...]:
    known = {each.id: each for each in certificate.evidence}
    by_fingerprint = {finding.claim.fingerprint: finding for finding in certificate.findings}
    named = [by_fingerprint[finding] for finding in line.findings if finding in by_fingerprint]
    return tuple(WhyFinding(each, tuple(known[id_] for id_ in each.evidence if id_ in known)) for each in named)
