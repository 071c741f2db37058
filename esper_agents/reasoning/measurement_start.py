"""Common beginning of measuring playbooks: read the code, and choose the target to run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esper_agents.domain.assumption import InformationGap
from esper_agents.reasoning.investigation import (
    has_returned,
    overall_conclusion,
    reads_only,
    speed_claim,
    unmeasured,
)
from esper_agents.reasoning.static_specialist import look, work
from esper_agents.reasoning.target_choice import choose, looking
from esper_agents.requests.measurement_options import measurement_options

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from esper_agents.domain.agent_action import Conclude, Move
    from esper_agents.domain.frame import Brief
    from esper_agents.reasoning.static_specialist import ReviewSummary, SpecialistProfile
    from esper_agents.reasoning.target_choice import ChosenTarget
    from esper_agents.requests.measurement_options import MeasurementRequest


@dataclass(frozen=True, slots=True)
class MeasurementStart:
    """Beginning of a measurement.

    Attributes:
        asked: What the request says about the measurement.
        seen: Result of reading the code.
        target: The target to run.
    """

    asked: MeasurementRequest
    seen: ReviewSummary
    target: ChosenTarget


def start_measurement(
    brief: Brief, specialism: SpecialistProfile, order: Sequence[str]
) -> Generator[Move, Any, MeasurementStart | Conclude]:
    """Read the code and return the target to run; the conclusion if nothing can or should run.

    Args:
        brief: Brief of the frame.
        specialism: Profile of the agent.
        order: Kinds of targets, the preferred one first.
    """
    if reads_only(brief, specialism.topics):
        return (yield from work(brief, specialism))
    if has_returned(brief):
        return overall_conclusion(brief)
    asked = measurement_options(brief.task.request)
    if move := speed_claim(brief, asked):
        yield move
    seen = yield from look(brief, specialism, looking(brief, asked))
    target = yield from choose(brief, asked, seen.others[0], order)
    if isinstance(target, InformationGap):
        return (yield from unmeasured(brief, seen, (target,)))
    return MeasurementStart(asked, seen, target)
