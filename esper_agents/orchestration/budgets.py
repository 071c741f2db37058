"""Budget of a session and its usage over all agents, as a pure function of the ledger."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from esper_agents.domain.agent_action import Ask, CallTools, Conclude, Consult, HandOff, Move, Panel
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.budget import Amount, Resource
from esper_agents.domain.status import Stance
from esper_agents.orchestration.handoff_limits import hop_limit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from esper_agents.orchestration.open_frame import FrameState
    from esper_agents.orchestration.open_turn import OpenTurn
    from esper_agents.orchestration.session_projection import SessionProjection

# Member of a turn record with the cost reported by the reasoner: see `reasoner.Decision`.
SPENT = "spent"
# Checked before every step; the other budgets are checked before the steps that use them.
_ALWAYS = (Resource.TOKENS, Resource.MONEY, Resource.SECONDS)
_WORDS = {
    Resource.TOKENS: ("token", "tokens"),
    Resource.MONEY: ("US dollar", "US dollars"),
    Resource.SECONDS: ("second of work", "seconds of work"),
    Resource.HOPS: ("hop", "hops"),
    Resource.TOOL_CALLS: ("tool call", "tool calls"),
}
_NS_IN_MS = 1_000_000


def usage(history: SessionProjection) -> Mapping[Resource, int]:
    """Return the resources that the session has used.

    Seconds are working time of reasoners and tools: waiting for a user or for recovery after a crash uses none.
    """
    turns = list(_turns(history))
    moves = [turn.moved for turn in turns if turn.moved]
    records = [*(move.record for move in moves), *(each for turn in turns for each in turn.lost)]
    work_ns = sum(each.duration_ns for each in history.evidence())
    return {
        Resource.TOKENS: sum(_told(record, Resource.TOKENS) for record in records),
        Resource.MONEY: sum(_told(record, Resource.MONEY) for record in records),
        Resource.SECONDS: sum(move.took_ms for move in moves) + work_ns // _NS_IN_MS,
        Resource.HOPS: len(history.handoffs),
        Resource.TOOL_CALLS: sum(call.calling is not None for turn in turns for call in turn.calls.values()),
    }


def _turns(history: SessionProjection) -> Iterator[OpenTurn]:
    for frame in history.frames:
        yield from frame.turns


def _told(record: Mapping[str, object], resource: Resource) -> int:
    """Return the usage that a reasoner reports; an invalid number counts as zero."""
    said = record.get(SPENT)
    amount = said.get(str(resource)) if isinstance(said, dict) else None
    return amount if type(amount) is int and amount > 0 else 0


def remaining(history: SessionProjection, *, hops: int = 0) -> tuple[Amount, ...]:
    """Return the remaining budget of the session; handoffs are always included.

    Args:
        history: Ledger projection of the session.
        hops: Number of handoffs in progress that are not recorded yet.
    """
    limits = {each.resource: each.amount for each in history.begun.task.budget}
    limits[Resource.HOPS] = hop_limit(history)
    used = usage(history)
    taken = {limit: used[limit] + (hops if limit is Resource.HOPS else 0) for limit in limits}
    return tuple(Amount(each, max(0, limits[each] - taken[each])) for each in Resource if each in limits)


def stopped_by(history: SessionProjection) -> Resource | None:
    """Return the exhausted budget that has stopped the session, or None; no agent of a stopped session continues."""
    if not history.begun.task.budget:
        return None
    for turn in _turns(history):
        if turn.moved and turn.moved.stopped_by:
            return turn.moved.stopped_by
        if turn.refusal and turn.refusal.stopped_by:
            return turn.refusal.stopped_by
    return None


def ends_decision(history: SessionProjection, frame: FrameState) -> Resource | None:
    """Return the budget that does not allow another decision, or None."""
    return stopped_by(history) or _used_up(history, frame, _ALWAYS)


def ends_move(history: SessionProjection, frame: FrameState, move: Move) -> Resource | None:
    """Return the budget that does not allow the next step of an action, or None.

    Decided actions are already paid for: a conclusion is always allowed.
    """
    match move:
        case CallTools():
            return _used_up(history, frame, (*_ALWAYS, Resource.TOOL_CALLS))
        case HandOff():
            return _used_up(history, frame, (*_ALWAYS, Resource.HOPS))
        case Consult() | Panel() | Ask():
            return _used_up(history, frame, _ALWAYS)
        case Conclude():
            return None


def _used_up(history: SessionProjection, frame: FrameState, resources: tuple[Resource, ...]) -> Resource | None:
    limits = {each.resource: each.amount for each in history.begun.task.budget if each.resource in resources}
    if not limits:
        return None
    used = usage(history)
    is_free = not frame.opened.definition.is_model
    for resource, limit in limits.items():
        # A budget of zero cost does not stop reasoners that cost nothing.
        costs_nothing = is_free and resource in {Resource.TOKENS, Resource.MONEY} and not used[resource]
        if used[resource] >= limit and not costs_nothing:
            return resource
    return None


def reason(history: SessionProjection, resource: Resource) -> str:
    """Return a sentence that a budget is exhausted or insufficient."""
    limit = _limit(history, resource)
    used = Amount(resource, usage(history)[resource])
    if used.amount < limit.amount:
        return f"the budget of {_in_words(limit)} is too small to ask once more (used so far: {_in_words(used)})"
    over = f" ({_in_words(used)})" if used.amount > limit.amount else ""
    return f"the budget of {_in_words(limit)} is used up{over}"


def _in_words(amount: Amount) -> str:
    one, several = _WORDS[amount.resource]
    return f"{amount} {one if str(amount) == '1' else several}"


def stopping(history: SessionProjection, frame: FrameState, resource: Resource, least: int = 0) -> Conclude:
    """Return the conclusion of a frame that a budget ends: known findings are kept, missing work is listed.

    Args:
        history: Ledger projection of the session.
        frame: Frame that ends.
        resource: Resource of the budget.
        least: Minimum additional usage of the next decision.
    """
    name, why, task = frame.opened.agent.name, reason(history, resource), history.begun.task
    limit = _limit(history, resource)
    more = Amount(resource, max(2 * limit.amount, 2 * (usage(history)[resource] + least), 1))
    budget = ",".join((more if each is limit else each).option for each in task.budget)
    command = shlex.join(("esper", "submit", "--budget", budget, task.request, *task.paths))
    what = f"the answer of {name} to: {frame.opened.question}" if frame.opened.parent else "what was still to be done"
    return Conclude(
        f"{name} was stopped before it had finished: {why}. What was found until then is on record.",
        stance=Stance.UNDECIDED,
        below_ceiling=why,
        gaps=(InformationGap(what, why, command, blocks_approval=True),),
        caveats=("It covers only what was done before the budget was used up.",),
        next_steps=(command,),
    )


def _limit(history: SessionProjection, resource: Resource) -> Amount:
    return next(each for each in history.begun.task.budget if each.resource is resource)
