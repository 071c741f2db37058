"""How a frame begins: the agent as it is defined now, what decides for it, and what it remembers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.domain.frame import Brief
from esper_agents.domain.ledger import Opened, RowKey, RowKind
from esper_agents.memory.recall import recall
from esper_agents.orchestration.budgets import left
from esper_agents.orchestration.keeping import definition_of, keep_definition

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
    keep_definition(run.workshop, agent)
    task, root = run.history.begun.task, Path(run.workshop.project.root)
    recalled = await run.workshop.store.run(
        recall, run.workshop.project.key, agent_name, task.paths, request=task.request, root=root
    )
    opened = Opened(
        agent=agent,
        definition=definition_of(run.workshop, agent),
        parent=parent[0],
        parent_step=parent[1],
        question=question,
        handoff=handoff,
        notes=recalled,
        budget_left=handoff.budget_left if handoff else left(run.history),
    )
    return RowKey(len(run.history.frames) + 1, 0, 0, RowKind.OPENED), opened


def reasoner_of(run: Run, frame: Frame) -> Reasoner:
    """Return what decides a frame's moves, given what the frame began with."""
    return run.workshop.reasoner(frame.opened.agent.name).build(brief_of(run, frame))


def brief_of(run: Run, frame: Frame) -> Brief:
    """Return what an agent begins a frame with; the same at every resume."""
    begun, opened = run.history.begun, frame.opened
    first = run.history.first_of_panel(frame)
    return Brief(
        agent=opened.agent,
        task=begun.task,
        project=begun.project,
        revision=begun.revision,
        handoff=opened.handoff,
        chain=run.history.handoffs_before(frame.number),
        question=opened.question,
        findings=run.history.findings(before=first),
        evidence=run.history.evidence(before=first),
        notes=opened.notes,
        tools=tuple(tool.use for tool in run.workshop.tools.named(opened.agent.tools)),
        agents=tuple(sorted(run.workshop.agents.agents)),
        budget_left=opened.budget_left,
        before=begun.before,
    )
