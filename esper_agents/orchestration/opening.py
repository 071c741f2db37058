"""How a frame begins: the agent as it is defined now, what decides for it, and what it remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.certificate import Definition
from esper_agents.domain.frame import Brief
from esper_agents.domain.ledger import Opened, RowKey, RowKind
from esper_agents.memory import notes

if TYPE_CHECKING:
    from esper_agents.domain.handoff import Handoff
    from esper_agents.orchestration.history import Frame
    from esper_agents.orchestration.run import Run
    from esper_agents.reasoning.reasoner import Reasoner


async def opening(
    run: Run, agent_name: str, *, handoff: Handoff | None = None, question: str = "", parent: tuple[int, int] = (0, 0)
) -> tuple[RowKey, Opened]:
    """Return the row that opens the next frame.

    Args:
        run: The run.
        agent_name: Who is to go on.
        handoff: What brings the task.
        question: What is asked, in a consult.
        parent: Frame and step that consult, or zeros.
    """
    agent = run.workshop.agents.get(agent_name)
    source = run.workshop.reasoner(agent_name)
    recalled = await run.workshop.store.run(
        notes.recall, run.workshop.project.key, agent_name, run.history.begun.task.paths
    )
    opened = Opened(
        agent=agent,
        definition=Definition(agent.name, agent.sha256, source.kind, source.sha256, source.provider),
        parent=parent[0],
        parent_step=parent[1],
        question=question,
        handoff=handoff,
        notes=recalled,
    )
    return RowKey(len(run.history.frames) + 1, 0, 0, RowKind.OPENED), opened


def reasoner_of(run: Run, frame: Frame) -> Reasoner:
    """Return what decides a frame's moves, given what the frame began with."""
    return run.workshop.reasoner(frame.opened.agent.name).build(brief_of(run, frame))


def brief_of(run: Run, frame: Frame) -> Brief:
    """Return what an agent begins a frame with; the same at every resume."""
    begun, opened = run.history.begun, frame.opened
    return Brief(
        agent=opened.agent,
        task=begun.task,
        project=begun.project,
        revision=begun.revision,
        handoff=opened.handoff,
        chain=run.history.handoffs_before(frame.number),
        question=opened.question,
        findings=run.history.findings(before=frame.number),
        evidence=run.history.evidence(before=frame.number),
        notes=opened.notes,
        tools=tuple(tool.use for tool in run.workshop.tools.named(opened.agent.tools)),
        agents=tuple(sorted(run.workshop.agents.agents)),
    )
