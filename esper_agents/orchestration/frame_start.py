"""Start of a frame: current agent definition, reasoner and memory notes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.redaction import redacted
from esper_agents.domain.frame import Brief
from esper_agents.domain.ledger import FrameOpened, RowKey, RowKind
from esper_agents.domain.reasoner_names import PLAYBOOK, REASONER
from esper_agents.memory.recall import recall
from esper_agents.orchestration.budgets import remaining
from esper_agents.orchestration.definition_snapshots import definition_of, keep_definition
from esper_agents.orchestration.permissions import allowed_in

if TYPE_CHECKING:
    from esper_agents.domain.handoff import Handoff
    from esper_agents.domain.memory import MemoryNote
    from esper_agents.orchestration.open_frame import FrameState
    from esper_agents.orchestration.session_run import SessionRun
    from esper_agents.reasoning.reasoner import Reasoner

_LONGEST_PURPOSE = 100


async def opening(
    run: SessionRun,
    agent_name: str,
    *,
    handoff: Handoff | None = None,
    question: str = "",
    parent: tuple[int, int] = (0, 0),
    reasoner: str = "",
) -> tuple[RowKey, FrameOpened]:
    """Return the event that opens the next frame.

    Args:
        run: Current run.
        agent_name: Agent of the new frame.
        handoff: Handoff that transfers the task.
        question: Question of a consult.
        parent: Frame and step of the consult, or zeros.
        reasoner: Kind of reasoner; empty for the one that the task names.
    """
    agent = run.services.agents.get(agent_name)
    kind = reasoner or run.history.begun.task.options.get(REASONER, PLAYBOOK)
    keep_definition(run.services, agent, kind)
    asking = run.history.frames[parent[0] - 1].opened if parent[0] else None
    # An agent that consults itself, as for its guardrail, keeps the notes it already has.
    recalled = asking.notes if asking and asking.agent == agent else await _recalled(run, agent_name)
    opened = FrameOpened(
        agent=agent,
        definition=definition_of(run.services, agent, kind),
        parent=parent[0],
        parent_step=parent[1],
        question=question,
        handoff=handoff,
        notes=recalled,
        budget_left=handoff.budget_left if handoff else remaining(run.history),
    )
    return RowKey(len(run.history.frames) + 1, 0, 0, RowKind.OPENED), opened


async def _recalled(run: SessionRun, agent_name: str) -> tuple[MemoryNote, ...]:
    task, project = run.history.begun.task, run.services.project
    return await run.services.store.run(
        recall, project.key, agent_name, task.paths, request=task.request, root=Path(project.root)
    )


def reasoner_of(run: SessionRun, frame: FrameState) -> Reasoner:
    """Return the reasoner of a frame, built from the frame's recorded start."""
    opened = frame.opened
    return run.services.reasoner(opened.agent.name, opened.definition.reasoner).build(brief_of(run, frame))


def brief_of(run: SessionRun, frame: FrameState) -> Brief:
    """Return the brief that an agent starts a frame with; the same at every resume."""
    begun, opened = run.history.begun, frame.opened
    first = run.history.first_of_panel(frame)
    tools = run.services.tools.named(opened.agent.tools)
    brief = Brief(
        agent=opened.agent,
        task=begun.task,
        project=begun.project,
        revision=begun.revision,
        handoff=opened.handoff,
        chain=run.history.handoffs_before(frame.number),
        question=opened.question,
        findings=run.history.findings(before=first, floor=frame),
        evidence=run.history.evidence(before=first, floor=frame),
        notes=opened.notes,
        tools=tools,
        agents=tuple(sorted(run.services.agents.agents)),
        budget_left=opened.budget_left,
        before=begun.before,
        allowed=allowed_in(run, tools),
        request=begun.request,
    )
    return _with_surroundings(run, brief) if opened.definition.is_model else brief


def _with_surroundings(run: SessionRun, brief: Brief) -> Brief:
    """Return a brief with the context for a model: neighbours, project documents and available skills.

    Texts that no tool has read have not been redacted before, so they are redacted here.
    """
    from esper_agents.agents.agent_packs import packs_of

    agents = run.services.agents
    near = agents.neighbours_known(brief.agent.name)
    told: dict[str, Any] = {
        "agent": brief.agent,
        "notes": brief.notes,
        "documents": run.services.documents,
        "skills": run.services.skills.index_for(brief.agent),
        "neighbours": tuple((each, _purpose(agents.get(each).description)) for each in near),
        "packs": packs_of(brief.agent, run.services.plugins).lines,
    }
    return replace(brief, **redacted(told, known=run.secrets).value)


def _purpose(description: str) -> str:
    """Return the first sentence of an agent's description, cut at a word if it is long."""
    return shorten(" ".join(description.split()).partition(". ")[0], _LONGEST_PURPOSE, placeholder=" ...")
