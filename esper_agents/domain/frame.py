"""Frames as a reasoner sees them: the input and the turns so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from esper_agents.domain.agent import Agent
    from esper_agents.domain.agent_action import Move, ToolUse, TurnResult
    from esper_agents.domain.budget import Amount
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import Finding
    from esper_agents.domain.handoff import Handoff
    from esper_agents.domain.ledger import Refusal
    from esper_agents.domain.memory import MemoryNote
    from esper_agents.domain.origin import PredecessorResult
    from esper_agents.domain.project import GitRevision
    from esper_agents.domain.task import Task


@dataclass(frozen=True, slots=True)
class ContextDocument:
    """A text of the project that every agent is shown, as data: it permits nothing.

    Attributes:
        path: Relative to the project.
        sha256: Digest of its bytes.
        text: What stands in it, cut where it is long.
    """

    path: str
    sha256: str
    text: str


@dataclass(frozen=True, slots=True)
class Brief:
    """What an agent begins a frame with.

    Attributes:
        agent: The agent itself.
        task: What was submitted.
        project: The project's name.
        revision: What git knew at the start.
        handoff: What brought the task here, or None for the first agent and for consults.
        chain: Every handoff so far, in order; the last one is `handoff`.
        question: What is asked in a consult, else empty.
        findings: What the session has found so far.
        evidence: What the session has measured or read so far.
        notes: What the agent remembers of the project, the likeliest to matter first; what is stale says so and is
            not to be relied on.
        tools: What it may call.
        agents: The names of all agents that a task can go to.
        neighbours: Those among them that the agent's definition names; empty for a playbook, which knows them itself.
        budget_left: What the session could still use when the frame began; without a limit where it is not named.
        before: What the session came to that this one continues, or None; nothing of it is evidence here.
        catalogue: Every tool there is, whoever may call it; the same for all agents of a session.
        documents: What the project says of itself to agents.
        skills: What the agent can load, by name, with what each is for.
        packs: What plugins offer beside, and which the agent's definition names that are not there; a line each.
        allowed: Tools that would be asked about, and exceptions such as `run-tests:network`, that the user's rules let
            run unasked.
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
    tools: tuple[ToolUse, ...]
    agents: tuple[str, ...]
    budget_left: tuple[Amount, ...] = ()
    before: PredecessorResult | None = None
    catalogue: tuple[ToolUse, ...] = ()
    documents: tuple[ContextDocument, ...] = ()
    skills: tuple[tuple[str, str], ...] = ()
    packs: tuple[str, ...] = ()
    neighbours: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """One settled turn.

    Attributes:
        move: What the reasoner decided.
        record: What the reasoner wanted back with its history.
        result: What came of it.
    """

    move: Move
    record: JsonObject
    result: TurnResult | Refusal
