"""Guardrail: playbook findings, gaps and risks that bind a model's verdict.

Before an agent's model decides, a playbook runs in a frame of its own: the agent's playbook, or the reviewer's if the
agent has none. Its findings, gaps, risks and reasons for a lower stance then bind the model, which can add to them,
explain them and take a lower stance. If the playbook could not run, the verdict is undecided.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.certificates.answer import MODELS_REASON, contradicts
from esper_agents.certificates.policy.verdict_ceiling import verdict_levels, worst
from esper_agents.domain.agent_action import CallTools, Conclude, Consult, RiskAssessment, ToolCall
from esper_agents.domain.certificate import FLOOR_QUESTION
from esper_agents.domain.reasoner_names import PLAYBOOK, REASONER
from esper_agents.domain.status import Stance
from esper_agents.reasoning.finding_ownership import REVIEWER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.change import TaskChange
    from esper_agents.domain.status import QuestionType
    from esper_agents.domain.verdict import Ceiling
    from esper_agents.orchestration.open_frame import FrameState
    from esper_agents.orchestration.session_projection import SessionProjection
    from esper_agents.orchestration.session_run import SessionRun

SHOW_CHANGE = "git-show"
_UNFIT = "the model's own stance, with a reason that contradicts it"
_CHOSEN = "a model chose what was measured, and nobody agreed to it"
_LEVELS = ("Low", "Medium", "High", "Critical")
_WAYS_BACK = ("Easy", "Moderate", "Difficult", "Irreversible")


def guardrail_question(run: SessionRun, frame: FrameState) -> Consult | None:
    """Return the consult that runs before a frame's model, or None if there is none.

    Runs once per agent. A consulted agent answers a question without a verdict and has no guardrail of its own.
    """
    is_by_model = run.history.begun.task.options.get(REASONER, PLAYBOOK) != PLAYBOOK
    if frame.turns[:-1] or frame.opened.parent or not is_by_model:
        return None
    own = frame.opened.agent.name
    name = own if own in run.services.playbooks else REVIEWER
    is_known = any(each.floor and each.floor.opened.agent.name == name for each in run.history.frames)
    return None if is_known else Consult(name, FLOOR_QUESTION, PLAYBOOK)


def change_call(run: SessionRun, frame: FrameState) -> CallTools | None:
    """Return the call that shows a frame's model the change that the task is about, before its first turn.

    None if the task is about no change, if the session has shown it, or if the agent may not call the tool.
    """
    change = run.history.begun.task.change
    is_first = all("content" not in turn.moved.record for turn in frame.turns[:-1] if turn.moved)
    if change is None or not is_first or not frame.opened.definition.is_model:
        return None
    if SHOW_CHANGE not in {each.name for each in run.services.tools.named(frame.opened.agent.tools)}:
        return None
    trees = {"revision": change.since} if change.head else {"since": change.base}
    call = ToolCall(SHOW_CHANGE, {**trees, "paths": [*_files(change)]})
    shown = (turn.moved.move for each in run.history.frames for turn in each.turns if turn.moved)
    is_shown = any(isinstance(move, CallTools) and call in move.calls for move in shown)
    return None if is_shown else CallTools((call,))


def _files(change: TaskChange) -> tuple[str, ...]:
    return tuple(sorted({*change.paths, *change.deleted, *change.others}))


def cap_by_guardrail(
    history: SessionProjection,
    kind: QuestionType,
    move: Conclude,
    best: Ceiling,
    least: Ceiling,
    *,
    is_model: bool = False,
) -> tuple[Stance | None, str]:
    """Return the maximum stance of a conclusion, and the reason for that limit.

    Args:
        history: Ledger projection of the session.
        kind: Question type.
        move: The conclusion.
        best: Ceiling over all recorded evidence.
        least: Ceiling over the evidence that no model chose or that the user agreed to.
        is_model: Whether a language model concludes.
    """
    limits = [(floor.stance, floor.below_ceiling) for floor in _floors(history) if floor.stance is not None]
    limits += [(Stance.UNDECIDED, why) for why in _unheard(history)]
    if worst(kind, best.stance, least.stance) is not best.stance:
        limits.append((least.stance, _CHOSEN))
    if is_model and move.below_ceiling:
        is_fitting = move.stance is None or not contradicts(move.below_ceiling, move.stance)
        move = replace(move, below_ceiling=f"{MODELS_REASON}{move.below_ceiling}" if is_fitting else _UNFIT)
    own, confirmed = move.stance, worst(kind, best.stance, *(stance for stance, _ in limits), Stance.UNDECIDED)
    if is_model and own is not None and worst(kind, own, confirmed) is not confirmed:
        # Only findings of a rule, a run or a test decide against.
        why = f"the model's own stance was {own}, which no rule, run or test confirms"
        move = replace(move, stance=confirmed, below_ceiling=why)
    lowest = worst(kind, *(stance for stance, _ in limits))
    is_lower = move.stance is None or verdict_levels(kind).index(move.stance) < verdict_levels(kind).index(lowest)
    if not limits or not is_lower:
        return move.stance, move.below_ceiling
    return lowest, next(reason for stance, reason in limits if stance is lowest)


def risks_of(history: SessionProjection, frame: FrameState, move: Conclude) -> RiskAssessment:
    """Return the risk section of a conclusion: the worse of the model's and the playbooks' assessments."""
    if not frame.opened.definition.is_model:
        return move.risks
    said = [move.risks, *(floor.risks for floor in _floors(history))]
    return RiskAssessment(
        max((each.implementation_risk for each in said), key=_LEVELS.index),
        max((each.reversibility for each in said), key=_WAYS_BACK.index),
        tuple(dict.fromkeys(one for each in said for one in each.rows)),
    )


def _unheard(history: SessionProjection) -> Iterator[str]:
    """Yield the reasons why guardrail playbooks did not complete."""
    for frame in history.frames:
        first = frame.turns[0] if frame.turns else None
        if first and frame.is_floored and first.refusal:
            yield first.refusal.reasons[0]
        elif frame.floor and frame.floor.concluded and frame.floor.concluded.problem:
            yield frame.floor.concluded.problem


def _floors(history: SessionProjection) -> Iterator[Conclude]:
    """Yield the conclusions of the guardrail playbooks."""
    for frame in history.frames:
        last = frame.floor.turns[-1].moved if frame.floor and frame.floor.turns else None
        if last and isinstance(last.move, Conclude):
            yield last.move
