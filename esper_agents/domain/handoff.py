"""Handoffs and consults: what one agent tells another."""

from __future__ import annotations

from dataclasses import dataclass

from esper_agents.domain.assumption import InformationGap


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
    """

    agent: str
    answer: str
    findings: tuple[str, ...]
    evidence: tuple[str, ...]
