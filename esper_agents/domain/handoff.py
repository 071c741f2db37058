"""Handoffs and consults between agents."""

from __future__ import annotations

from dataclasses import dataclass

from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.budget import Amount


@dataclass(frozen=True, slots=True)
class OpenPart:
    """A part of the task that still wants an owner.

    Attributes:
        agent: Who owns it.
        domain: What it is about, such as `graph break`.
        question: What that agent is asked.
        findings: Fingerprints of the findings it is about.
    """

    agent: str
    domain: str
    question: str
    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Handoff:
    """A typed transfer of the task to another agent; the frame of the sender ends.

    Attributes:
        sender: Who hands off.
        receiver: Who is to go on.
        domain: What the matter looks like, such as `graph break`.
        reason: Why the receiver would do better.
        context: What was found so far, in words.
        findings: Fingerprints of what was found so far.
        evidence: Identifiers of what was measured or read so far.
        open_parts: What still wants an owner, the receiver's own part first.
        do_not_repeat: What has been done and need not be done again.
        gaps: What the sender could not find out.
        hop: Which hop of the session this is, from 1.
        questions: What the sender leaves open and the receiver should answer.
        is_return: Whether the task goes back to whoever gave it to the sender.
        budget_left: What the session may still use, all its agents together; without a limit where it is not named.
        previous_sha256: Digest of the packet of the hop before in RFC 8785 bytes, as hex digits; empty for the first.
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
        """The handoff in the words of the protocol."""
        return (
            f"This looks like a {self.domain} problem that {self.receiver} would handle better. "
            f"Here's what I've found so far: {self.context}"
        )


@dataclass(frozen=True, slots=True)
class ConsultAnswer:
    """What a consulted agent answered.

    Attributes:
        agent: Who answered.
        answer: The answer, in words.
        findings: Fingerprints of the findings it rests on.
        evidence: Identifiers of the evidence it rests on.
        question: What was asked.
        refuted: Fingerprints of findings that its evidence refutes.
        gaps: What it could not find out.
        problem: Why there is no answer, else empty.
        budget_left: What the session could still use when the question was asked.
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
