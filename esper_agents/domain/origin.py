"""Session origins: submitted, forked or continued; and the result of the predecessor session."""

from __future__ import annotations

from dataclasses import dataclass

from esper_agents.domain.finding import Finding
from esper_agents.domain.stored_kinds import OriginKind as OriginKind  # noqa: PLC0414 - exported

# Task options, recorded in the certificate, that name the predecessor session.
FORKED_FROM, CONTINUES = "forked-from", "continues"


@dataclass(frozen=True, slots=True)
class SessionOrigin:
    """Origin of a session.

    Attributes:
        kind: Kind of origin.
        session: The `ses_` identifier of the other session; empty for a submitted session.
    """

    kind: OriginKind = OriginKind.SUBMITTED
    session: str = ""


SUBMITTED = SessionOrigin()


@dataclass(frozen=True, slots=True)
class PredecessorFinding:
    """A short description of one piece of evidence of another session.

    Attributes:
        id: `ev_` identifier.
        tool: The tool's name.
        summary: The result, in one line.
        output_sha256: Digest of the output.
        rerun: A command line that repeats the call.
    """

    id: str
    tool: str
    summary: str
    output_sha256: str
    rerun: str


@dataclass(frozen=True, slots=True)
class PredecessorResult:
    """Result of the predecessor session of a continuation: context, not evidence; the evidence must be obtained again.

    Attributes:
        session: `ses_` identifier.
        certificate: Its certificate, or empty.
        request: Its request.
        agent: The agent that concluded, or that had the task last.
        status: Status of its verdict, or empty.
        summary: Summary by that agent.
        findings: Its findings.
        evidence: Its evidence.
        next_steps: Its recommended next steps.
    """

    session: str
    certificate: str
    request: str
    agent: str
    status: str
    summary: str
    findings: tuple[Finding, ...] = ()
    evidence: tuple[PredecessorFinding, ...] = ()
    next_steps: tuple[str, ...] = ()
