"""Summary of one session's result, as input for a retrospect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.agent_action import HandOff
from esper_agents.domain.assumption import AssumptionState, Tier
from esper_agents.domain.evidence import CallOutcome
from esper_agents.orchestration.build_certificate import assumptions, gaps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.assumption import Assumption, InformationGap
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.evidence import Evidence, SourceFile
    from esper_agents.domain.finding import Diagnostic
    from esper_agents.orchestration.session_projection import SessionProjection


@dataclass(frozen=True, slots=True)
class SourceRef:
    """Source of a statement in a report.

    Attributes:
        session: `ses_` identifier.
        certificate: `crt_` identifier, or empty if the session has none.
        request: The request of the session.
        forked_from: The session whose first steps it shares, or empty; both count as one.
    """

    session: str
    certificate: str
    request: str
    forked_from: str = ""

    @property
    def counted_as(self) -> str:
        """The session that it counts as when sessions are counted."""
        return self.forked_from or self.session


@dataclass(frozen=True, slots=True)
class RefusedHop:
    """A refused handoff: sender, receiver and reason."""

    sender: str
    receiver: str
    reason: str


@dataclass(frozen=True, slots=True)
class RefutedClaim:
    """A claim or an assumption that evidence refuted.

    Attributes:
        rule: The claim's rule, or empty for an assumption.
        text: The text of the claim.
        tool: The tool that produced the evidence.
    """

    rule: str
    text: str
    tool: str


@dataclass(frozen=True, slots=True)
class DeniedCall:
    """A denied tool call, with the reason."""

    tool: str
    reason: str


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """Facts about one session.

    Attributes:
        source: The session.
        claims: Findings that were not refuted.
        refused_hops: Refused handoffs.
        refuted: Refuted claims and assumptions.
        gaps: Information gaps.
        denied: Denied tool calls.
        examined: The files that were read, with their digests.
    """

    source: SourceRef
    claims: tuple[Diagnostic, ...] = ()
    refused_hops: tuple[RefusedHop, ...] = ()
    refuted: tuple[RefutedClaim, ...] = ()
    gaps: tuple[InformationGap, ...] = ()
    denied: tuple[DeniedCall, ...] = ()
    examined: tuple[SourceFile, ...] = ()


def seen_in_ledger(history: SessionProjection, forked_from: str = "") -> SessionFacts:
    """Return the facts about a session from its ledger.

    Args:
        history: The ledger.
        forked_from: See `SourceRef`.
    """
    evidence = history.evidence()
    certificate = history.certified.certificate if history.certified else ""
    return SessionFacts(
        source=SourceRef(history.session, certificate, history.begun.task.request, forked_from),
        claims=tuple(finding.claim for finding in history.findings()),
        refused_hops=tuple(dict.fromkeys(_refused_hops(history))),
        refuted=tuple(dict.fromkeys((*_refuted_claims(history), *_false(assumptions(history), evidence)))),
        gaps=gaps(history),
        denied=_denied(evidence),
        examined=_examined(evidence),
    )


def seen_in_certificate(certificate: Certificate, forked_from: str = "") -> SessionFacts:
    """Return the facts about a session from its certificate, for a session whose agent events were pruned.

    Args:
        certificate: The certificate.
        forked_from: See `SourceRef`.
    """
    return SessionFacts(
        source=SourceRef(certificate.session, certificate.id, certificate.task.request, forked_from),
        claims=tuple(finding.claim for finding in certificate.findings),
        refuted=tuple(dict.fromkeys(_false(certificate.assumptions, certificate.evidence))),
        gaps=certificate.gaps,
        denied=_denied(certificate.evidence),
        examined=_examined(certificate.evidence),
    )


def _refused_hops(history: SessionProjection) -> Iterator[RefusedHop]:
    for frame in history.frames:
        for turn in frame.turns:
            if turn.refusal and turn.moved and isinstance(turn.moved.move, HandOff):
                yield RefusedHop(frame.opened.agent.name, turn.moved.move.agent, turn.refusal.reasons[0])


def _refuted_claims(history: SessionProjection) -> Iterator[RefutedClaim]:
    claims = {
        finding.claim.fingerprint: finding.claim for _, report in history.reports() for finding in report.findings
    }
    standing = {finding.claim.fingerprint for finding in history.findings()}
    for each in history.evidence():
        for mark in each.refutes:
            if mark in claims and mark not in standing:
                yield RefutedClaim(claims[mark].rule, claims[mark].message, each.tool)


def _false(taken: tuple[Assumption, ...], evidence: tuple[Evidence, ...]) -> Iterator[RefutedClaim]:
    tools = {each.id: each.tool for each in evidence}
    for each in taken:
        # A plan's attempt to refute a claim was a question, and its answer is a result.
        is_question = each.tier is Tier.PLAN and not each.is_critical
        if each.state is AssumptionState.REFUTED and not is_question:
            yield RefutedClaim("", each.text, next((tools[one] for one in each.evidence if one in tools), ""))


def _denied(evidence: tuple[Evidence, ...]) -> tuple[DeniedCall, ...]:
    calls = (DeniedCall(each.tool, each.summary) for each in evidence if each.outcome is CallOutcome.DENIED)
    return tuple(dict.fromkeys(calls))


def _examined(evidence: tuple[Evidence, ...]) -> tuple[SourceFile, ...]:
    return tuple(dict.fromkeys(file for each in evidence for file in each.examined))
