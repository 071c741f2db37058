"""Ledger events: their kinds, keys and contents."""

from __future__ import annotations

from dataclasses import dataclass
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
from esper_agents.domain.stored_kinds import RowKind as RowKind  # noqa: PLC0414 - exported
from esper_agents.domain.verdict import Verdict


class RowKey(NamedTuple):
    """Unique key of an event within its session.

    Attributes:
        frame: Number of the frame, from 1; 0 for events of the session itself.
        step: Number of the turn in the frame, from 1; 0 for events of the frame itself.
        call: Number of the call in the turn, from 0.
        kind: Kind of the event.
    """

    frame: int
    step: int
    call: int
    kind: RowKind


class LedgerRow(NamedTuple):
    """An event as stored; a tuple, because a long session has thousands.

    Attributes:
        seq: Sequence number; later events have greater ones, over all sessions.
        key: Key of the event.
        at: Time of writing, as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
        body: Content, as JSON text.
    """

    seq: int
    key: RowKey
    at: str
    body: str


@dataclass(frozen=True, slots=True)
class FrameOpened:
    """Event: a frame began, either for an agent that received the task or for a consult.

    Attributes:
        agent: The agent as it was defined at that time.
        definition: Digests of the definition and of its reasoner.
        parent: The frame that consults, or 0.
        parent_step: The turn of that frame that consults, or 0.
        question: The question of a consult, or empty.
        handoff: The handoff that transferred the task here, or None.
        notes: The agent's notes about the project.
        budget_left: Remaining budget of the session.
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
    """Event: a reasoner decided on an action.

    Attributes:
        move: The action.
        record: Data that the reasoner stores with its history; only `spent` is read here, see `reasoner.Decision`.
        took_ms: Duration of the decision.
        stopped_by: The exhausted budget that ends the frame; None if the reasoner decided.
    """

    move: Move
    record: JsonObject
    took_ms: int = 0
    stopped_by: Resource | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Event: an action could not be carried out; the reasoner receives the reasons and decides again.

    Attributes:
        reasons: Reasons, one sentence each.
        stopped_by: The exhausted budget that prevents it, or None; no other agent of the session continues then.
        going_round: The receiver of a handoff that would form a cycle or exceed the handoff limit, else empty.
        unavailable: Agents that have neither a playbook nor a model, so that the action would be empty.
    """

    reasons: tuple[str, ...]
    stopped_by: Resource | None = None
    going_round: str = ""
    unavailable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """A question that a user must answer before the turn can continue.

    Attributes:
        id: `qst_` identifier.
        text: The question.
        options: The answers to choose from; empty if any answer of the type `wants` is accepted.
        tool: For an approval, the tool; else empty.
        arguments: For an approval, the tool's arguments; for a risk acknowledgement, the facts that it is bound to.
        arguments_sha256: Digest of `arguments` for either of the two; else empty.
        wants: Type of the answer if there are no options.
        preview: For an approval, the change as a unified diff, or the command line; empty if the text says it all.
    """

    id: str
    text: str
    options: tuple[str, ...]
    tool: str
    arguments: JsonObject
    arguments_sha256: str
    wants: AnswerType = AnswerType.TEXT
    preview: str = ""


@dataclass(frozen=True, slots=True)
class CallStarted:
    """Event: a tool call is about to start.

    Attributes:
        evidence: The identifier that the call's evidence will have.
        tool: The tool.
        arguments_sha256: Digest of the arguments.
    """

    evidence: str
    tool: str
    arguments_sha256: str


@dataclass(frozen=True, slots=True)
class TaskHandedOff:
    """Event: the task was handed off to another agent.

    Attributes:
        handoff: The handoff.
        findings: The sender's claims beyond the findings of its tools, recorded as findings.
        redactions: Number of secrets removed from the handoff before its digest was computed.
    """

    handoff: Handoff
    findings: tuple[Finding, ...]
    redactions: int = 0


@dataclass(frozen=True, slots=True)
class FrameConcluded:
    """Event: a frame ended with a verdict or, in a consult, with an answer.

    Attributes:
        certificate: The identifier of the future certificate; empty in a consult.
        findings: The agent's claims beyond the findings of its tools, recorded as findings.
        verdict: The verdict; None in a consult.
        problem: In a consult, why there is no answer; else empty.
    """

    certificate: str
    findings: tuple[Finding, ...]
    verdict: Verdict | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CertificateIssued:
    """Event: the certificate is in the archive.

    Attributes:
        certificate: Its identifier.
        sha256: Digest of its bytes.
    """

    certificate: str
    sha256: str


@dataclass(frozen=True, slots=True)
class SessionCancelled:
    """Event: a user ended the session without a verdict.

    Attributes:
        by: Name of the user.
    """

    by: str


@dataclass(frozen=True, slots=True)
class RowsPruned:
    """Event: the agent events of a finished session were pruned; its session events and its certificate remain.

    Attributes:
        rows: Number of removed rows.
        by: Name of the user who requested it.
        sha256: Digest of the removed rows; empty if version 0.1.0 pruned them.
    """

    rows: int
    by: str
    sha256: str = ""
