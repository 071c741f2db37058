"""Handoffs and consults between agents."""

from __future__ import annotations

from dataclasses import dataclass, field

from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.budget import Amount
from esper_agents.domain.finding import ABSENT, Finding


@dataclass(frozen=True, slots=True)
class OpenPart:
    """A part of the task that has no owner yet.

    Attributes:
        agent: The agent that should own it.
        domain: Its subject, such as `graph break`.
        question: The question for that agent.
        findings: Fingerprints of the findings concerned.
    """

    agent: str
    domain: str
    question: str
    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Handoff:
    """A transfer of the task to another agent, which ends the sender's frame.

    Attributes:
        sender: The agent that hands off.
        receiver: The agent that receives the task.
        domain: The subject of the problem, such as `graph break`.
        reason: Why the receiver is better suited.
        context: The results so far, in words.
        findings: Fingerprints of the findings so far.
        evidence: Identifiers of the evidence so far.
        open_parts: Parts of the task without an owner, the receiver's own part first.
        do_not_repeat: Work that is done and need not be repeated.
        gaps: Information that the sender could not obtain.
        hop: Number of this handoff in the session, from 1.
        questions: Questions that the sender leaves open for the receiver.
        is_return: Whether the task returns to the agent that handed it to the sender.
        budget_left: Remaining budget of the session; a resource that is not listed has no limit.
        previous_sha256: Digest of the previous handoff in RFC 8785 bytes, as hex digits; empty for the first.
    """

    sender: str
    receiver: str
    domain: str
    reason: str
    context: str
    findings: tuple[str, ...]
    evidence: tuple[str, ...]
    open_parts: tuple[OpenPart, ...]
    do_not_repeat: tuple[str, ...]
    gaps: tuple[InformationGap, ...]
    hop: int
    questions: tuple[str, ...] = ()
    is_return: bool = False
    budget_left: tuple[Amount, ...] = ()
    previous_sha256: str = ""

    @property
    def sentence(self) -> str:
        """The handoff in the wording of the protocol."""
        return (
            f"This looks like a {self.domain} problem that {self.receiver} would handle better. "
            f"Here's what I've found so far: {self.context}"
        )


@dataclass(frozen=True, slots=True)
class ConsultAnswer:
    """The answer of a consulted agent.

    Attributes:
        agent: The agent that answered.
        answer: The answer, in words.
        findings: Fingerprints of the supporting findings.
        evidence: Identifiers of the supporting evidence.
        question: The question.
        refuted: Fingerprints of findings that the agent's evidence refutes.
        gaps: Information that the agent could not obtain.
        problem: Why there is no answer, else empty.
        budget_left: Remaining budget of the session when the question was asked.
        reported: The supporting findings in full, for the agent that asked; a certificate lists them once.
    """

    agent: str
    answer: str
    findings: tuple[str, ...]
    evidence: tuple[str, ...]
    question: str = ""
    refuted: tuple[str, ...] = ()
    gaps: tuple[InformationGap, ...] = ()
    problem: str = ""
    budget_left: tuple[Amount, ...] = ()
    reported: tuple[Finding, ...] = field(default=(), metadata=ABSENT)
