"""Ledger events: their kinds, keys and contents."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from esper_agents.domain.agent import Agent
from esper_agents.domain.agent_action import Move
from esper_agents.domain.answer_type import AnswerType
from esper_agents.domain.budget import Amount, Resource
from esper_agents.domain.certificate import Definition
from esper_agents.domain.codec import JsonObject
from esper_agents.domain.finding import Finding
from esper_agents.domain.handoff import Handoff
from esper_agents.domain.memory import MemoryNote
from esper_agents.domain.verdict import Verdict


class RowKind(StrEnum):
    """What a row says has happened."""

    SUBMITTED = "submitted"
    ROUTED = "routed"
    REFUSED = "refused"
    OPENED = "opened"
    DECIDING = "deciding"
    MOVED = "moved"
    MOVE_REFUSED = "move-refused"
    ASKED = "asked"
    ANSWERED = "answered"
    CALLING = "calling"
    CALLED = "called"
    HANDED_OFF = "handed-off"
    CONCLUDED = "concluded"
    CERTIFIED = "certified"
    CANCELLED = "cancelled"
    DRIFT_ACCEPTED = "drift-accepted"
    PRUNED = "pruned"


class RowKey(NamedTuple):
    """What names a row within its session; no two rows share it.

    Attributes:
        frame: Whose turn, from 1; 0 for rows of the session itself.
        step: Which turn of the frame, from 1; 0 for rows of the frame itself.
        call: Which call of the turn, from 0.
        kind: What has happened.
    """

    frame: int
    step: int
    call: int
    kind: RowKind


class LedgerRow(NamedTuple):
    """A row of the ledger: a tuple, as a long session has thousands.

    Attributes:
        seq: Its number; later rows have greater ones, over all sessions.
        key: What names it.
        at: When it was written, as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
        body: What it holds, as JSON text.
    """

    seq: int
    key: RowKey
    at: str
    body: str


@dataclass(frozen=True, slots=True)
class FrameOpened:
    """A frame began: one agent's turn at the task, or a consult inside one.

    Attributes:
        agent: The agent as it was defined at that time.
        definition: Digests of the definition and of what decides its moves.
        parent: The frame that consults, or 0.
        parent_step: Its turn that consults, or 0.
        question: What is asked in a consult, or empty.
        handoff: What brought the task here, or None.
        notes: What the agent remembers of the project.
        budget_left: What the session may still use, all its agents together.
    """

    agent: Agent
    definition: Definition
    parent: int
    parent_step: int
    question: str
    handoff: Handoff | None
    notes: tuple[MemoryNote, ...]
    budget_left: tuple[Amount, ...] = ()


@dataclass(frozen=True, slots=True)
class ActionDecided:
    """A reasoner decided.

    Attributes:
        move: What it decided.
        record: What the reasoner wants back with its history. Of it only `spent` is read: see `reasoner.Decision`.
        took_ms: How long it took.
        stopped_by: The budget whose end ends the frame; None where the reasoner decided.
    """

    move: Move
    record: JsonObject
    took_ms: int = 0
    stopped_by: Resource | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A move could not be carried out; the reasoner is told and decides again.

    Attributes:
        reasons: Why, one sentence each.
        stopped_by: The budget that does not allow it, or None; no agent of the session goes on then.
        going_round: Whom a hop was to reach that would have led round in a circle or too far, else empty.
    """

    reasons: tuple[str, ...]
    stopped_by: Resource | None = None
    going_round: str = ""


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """Something that a person must answer before the turn can go on.

    Attributes:
        id: `qst_` identifier.
        text: What is asked.
        options: The answers to choose from; empty where any of the wanted type will do.
        tool: For an approval, the tool; else empty.
        arguments: For an approval, what the tool would be called with; for an agreement to advice, what it is bound to.
        arguments_sha256: For either, digest of the arguments; else empty.
        wants: Of which type the answer must be where there are no options.
    """

    id: str
    text: str
    options: tuple[str, ...]
    tool: str
    arguments: JsonObject
    arguments_sha256: str
    wants: AnswerType = AnswerType.TEXT


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A tool call is about to start.

    Attributes:
        evidence: The identifier that its evidence will have.
        tool: The tool.
        arguments_sha256: Digest of the arguments.
    """

    evidence: str
    tool: str
    arguments_sha256: str


@dataclass(frozen=True, slots=True)
class TaskHandedOff:
    """The task went to another agent.

    Attributes:
        handoff: The packet.
        findings: What the sender claimed beyond what its tools found, recorded.
        redactions: How many secrets were struck out of the packet before it was digested.
    """

    handoff: Handoff
    findings: tuple[Finding, ...]
    redactions: int = 0


@dataclass(frozen=True, slots=True)
class FrameConcluded:
    """A frame ended with a judgement or, in a consult, an answer.

    Attributes:
        certificate: The identifier of the certificate to come; empty in a consult.
        findings: What the agent claimed beyond what its tools found, recorded.
        verdict: What is concluded; None in a consult.
        problem: In a consult, why there is no answer; else empty.
    """

    certificate: str
    findings: tuple[Finding, ...]
    verdict: Verdict | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CertificateIssued:
    """The certificate is in the archive.

    Attributes:
        certificate: Its identifier.
        sha256: Digest of its bytes.
    """

    certificate: str
    sha256: str


@dataclass(frozen=True, slots=True)
class SessionCancelled:
    """A person ended the session without a verdict.

    Attributes:
        by: Who.
    """

    by: str


@dataclass(frozen=True, slots=True)
class RowsPruned:
    """What the agents of a finished session did was removed; the session's own rows and its certificate stay.

    Attributes:
        rows: How many rows were removed.
        by: Who asked for it.
        sha256: Digest of the rows that were removed; empty where version 0.1.0 did it.
    """

    rows: int
    by: str
    sha256: str = ""
