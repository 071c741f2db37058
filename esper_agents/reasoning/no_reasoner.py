"""Reasoner of an agent without a playbook or model: undecided, with its inputs."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.agent_action import Conclude
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.status import Stance

if TYPE_CHECKING:
    from collections.abc import Generator

    from esper_agents.domain.agent_action import Move
    from esper_agents.domain.frame import Brief


def play(brief: Brief) -> Generator[Move, None, Conclude]:
    """Conclude undecided, with the inputs of the task and the agent that should act."""
    yield from ()
    name = brief.agent.name
    return Conclude(
        summary=f"{name} was given {_given(brief)} and has no offline playbook, so it formed no judgement.",
        stance=Stance.UNDECIDED,
        below_ceiling=f"{name} needs a language model to judge this, and none was used",
        gaps=(
            InformationGap(
                what=f"the judgement of {name} on: {_question(brief)}",
                why=f"{name} owns {brief.agent.domain or 'this part'}; no rule stands in for its judgement",
                command=f"esper agents show {quote(name)}",
                blocks_approval=True,
            ),
        ),
        next_steps=(f"a person who knows {brief.agent.domain or 'the subject'} answers: {_question(brief)}",),
    )


def _given(brief: Brief) -> str:
    parts = [f"the request {brief.task.request!r}"]
    if brief.task.paths:
        parts.append("the paths " + ", ".join(brief.task.paths))
    if brief.handoff:
        parts.append(f"a handoff from {brief.handoff.sender}")
    parts.append(f"{len(brief.findings)} findings and {len(brief.evidence)} pieces of evidence")
    return ", ".join(parts[:-1]) + " and " + parts[-1]


def _question(brief: Brief) -> str:
    if brief.question:
        return brief.question
    if brief.handoff and brief.handoff.open_parts:
        return brief.handoff.open_parts[0].question
    return brief.task.request
