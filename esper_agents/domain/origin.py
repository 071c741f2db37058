"""Session origins: submitted, forked or continued; and the result of the predecessor session."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from esper_agents.domain.finding import Finding

# Options of a task, which its certificate has on record, under which the other session is named.
FORKED_FROM, CONTINUES = "forked-from", "continues"


class OriginKind(StrEnum):
    """How a session began."""

    SUBMITTED = "submitted"
    FORKED = "forked"
    CONTINUED = "continued"


@dataclass(frozen=True, slots=True)
class SessionOrigin:
    """Where a session comes from.

    Attributes:
        kind: How it began.
        session: The `ses_` identifier of the other session; empty where there is none.
    """

    kind: OriginKind = OriginKind.SUBMITTED
    session: str = ""


SUBMITTED = SessionOrigin()


@dataclass(frozen=True, slots=True)
class PredecessorFinding:
    """A piece of evidence of another session, as little of it as it takes to know what was done.

    Attributes:
        id: `ev_` identifier.
        tool: What was called.
        summary: What came of it.
        output_sha256: Digest of what it returned.
        rerun: How to run it again.
    """

    id: str
    tool: str
    summary: str
    output_sha256: str
    rerun: str


@dataclass(frozen=True, slots=True)
class PredecessorResult:
    """What the session came to that another one continues. A brief and no evidence: that has to be seen again.

    Attributes:
        session: `ses_` identifier.
        certificate: What it ended with, or empty.
        request: What was asked then.
        agent: Who concluded, or had the task last.
        status: The verdict, or empty.
        summary: The agent's words.
        findings: What was found.
        evidence: What was measured or read.
        next_steps: What was to be done next.
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
