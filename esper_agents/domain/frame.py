"""Frames as a reasoner sees them: the input and the turns so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from esper_agents.domain.agent import Agent
    from esper_agents.domain.agent_action import Move, OfferedTool, TurnResult
    from esper_agents.domain.budget import Amount
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import Finding
    from esper_agents.domain.handoff import Handoff
    from esper_agents.domain.ledger import Refusal
    from esper_agents.domain.memory import MemoryNote
    from esper_agents.domain.origin import PredecessorResult
    from esper_agents.domain.project import GitRevision
    from esper_agents.domain.request import ParsedRequest
    from esper_agents.domain.task import Task


@dataclass(frozen=True, slots=True)
class ContextDocument:
    """A project text shown to every agent as data; it grants no permissions.

    Attributes:
        path: Relative to the project.
        sha256: Digest of its bytes.
        text: Its content, truncated if long.
    """

    path: str
    sha256: str
    text: str


@dataclass(frozen=True, slots=True)
class Brief:
    """Input of a reasoner at the start of a frame.

    Attributes:
        agent: The agent itself.
        task: The submitted task.
        project: The project's name.
        revision: Git revision at the start of the session.
        handoff: The handoff that transferred the task here; None for the first agent and for consults.
        chain: All handoffs so far, in order; the last one is `handoff`.
        question: The question of a consult, else empty.
        findings: Findings of the session so far.
        evidence: Evidence of the session so far.
        notes: The agent's notes about the project, the most relevant first; stale notes are marked and not reliable.
        tools: Tools that the agent may call.
        agents: Names of all agents that can receive the task.
        neighbours: Names and purposes of the agents that the definition names as neighbours; empty for a playbook.
        budget_left: Remaining budget of the session when the frame began; a resource that is not listed has no limit.
        before: Result of the predecessor session, or None; it does not count as evidence here.
        documents: Project context files for agents.
        skills: Names and descriptions of the skills that the agent can load.
        packs: One line per plugin pack: those installed, and those that the definition names but are missing.
        allowed: Tools and exceptions, such as `run-tests:network`, that need no approval because of the user's
            permission rules.
        request: Content of the user's request; None for sessions of version 0.1.0.
    """

    agent: Agent
    task: Task
    project: str
    revision: GitRevision
    handoff: Handoff | None
    chain: tuple[Handoff, ...]
    question: str
    findings: tuple[Finding, ...]
    evidence: tuple[Evidence, ...]
    notes: tuple[MemoryNote, ...]
    tools: tuple[OfferedTool, ...]
    agents: tuple[str, ...]
    budget_left: tuple[Amount, ...] = ()
    before: PredecessorResult | None = None
    documents: tuple[ContextDocument, ...] = ()
    skills: tuple[tuple[str, str], ...] = ()
    packs: tuple[str, ...] = ()
    neighbours: tuple[tuple[str, str], ...] = ()
    allowed: tuple[str, ...] = ()
    request: ParsedRequest | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One completed turn.

    Attributes:
        move: The action that the reasoner decided.
        record: Data that the reasoner stores with its history.
        result: The result of the action, or its refusal.
    """

    move: Move
    record: JsonObject
    result: TurnResult | Refusal
