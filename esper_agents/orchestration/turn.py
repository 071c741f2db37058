"""Turn loop: decide, execute, repeat, with an event before and after every step."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.domain.agent_action import Ask, CallTools, Conclude, Consult, HandOff, Panel
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.budget import Resource
from esper_agents.domain.certificate import DETERMINISTIC
from esper_agents.domain.codec import checked
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.ledger import ActionDecided, Refusal, RowKey, RowKind, UserQuestion
from esper_agents.domain.reasoner_names import PLAYBOOK, REASONER
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import Stance
from esper_agents.errors import DriftError, EsperError, ModelError, ReasonerError, UsageError
from esper_agents.orchestration import budgets
from esper_agents.orchestration.action_validation import UNGROUNDED, bad_call, validate_action
from esper_agents.orchestration.citations import CitedSources
from esper_agents.orchestration.frame_end import conclude, fail, hand_off, read_cited
from esper_agents.orchestration.frame_start import opening, reasoner_of
from esper_agents.orchestration.grounding import ground, kept_unverified, retries_exhausted
from esper_agents.orchestration.guardrail import change_call, guardrail_question
from esper_agents.orchestration.tool_calls import concurrent_calls, make_call, make_concurrent_calls, turn_questions
from esper_agents.reasoning.reasoner import MOST_FRUITLESS, SALVAGED, CostAwareReasoner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from esper_agents.domain.agent_action import Move
    from esper_agents.domain.budget import Amount
    from esper_agents.domain.codec import JsonObject
    from esper_agents.orchestration.open_frame import FrameState
    from esper_agents.orchestration.open_turn import OpenTurn
    from esper_agents.orchestration.session_run import SessionRun
    from esper_agents.reasoning.reasoner import Decision, Reasoner, Say

# Returns the reasoner of a frame, by its number.
_Reasoners: TypeAlias = "Callable[[int], Reasoner]"

MOST_TURNS = 100
# Refused actions of a playbook are returned twice; after the third refusal the frame ends undecided.
_MOST_REFUSALS = 3
# The user's options for a circular handoff.
GO_ON, DO_NOT = "hand off", "do not"


async def take_turns(run: SessionRun) -> None:
    """Continue the current frame and its consults until it ends or waits for a user."""
    first = run.history.current
    # Each reasoner is built once, before its first decision.
    reasoners = cache(lambda number: reasoner_of(run, run.history.frames[number - 1]))
    while (frame := run.history.current) and run.history.state is SessionState.OPEN:
        if frame is not first and not frame.opened.parent:
            return
        if len(members := run.history.open_members(frame)) > 1:
            await _turn_of_each(run, members, reasoners)
            continue
        try:
            await _turns(run, frame, reasoners)
        except (DriftError, ReasonerError) as error:
            if not frame.opened.parent:
                raise
            # The caller receives the reason and continues.
            await fail(run, frame, error.problem)


async def _turn_of_each(run: SessionRun, members: Sequence[FrameState], reasoners: _Reasoners) -> None:
    """Take one turn of each member of a panel that has taken the fewest: they decide at the same time, act in order.

    Who acts next follows from the record alone, so that a resumed or replayed panel goes the same way.
    """
    await run.boundary()
    if run.history.is_cancelled:
        return
    behind = run.history.next_members(members)
    await _decide_together(run, [member for member in behind if _is_undecided(member)], reasoners)
    for member in behind:
        if run.history.state is SessionState.CANCELLED or run.history.current not in members:
            # An agent that a member consults acts first.
            return
        if not member.is_closed and not member.is_waiting and not _is_undecided(member):
            await _carry_out(run, member, member.turns[-1])


async def _decide_together(run: SessionRun, members: Sequence[FrameState], reasoners: _Reasoners) -> None:
    texts: list[list[str]] = [[] for _ in members]

    async def decide(member: FrameState, say: Say) -> None:
        await _decide(run, member, reasoners, say)
        # On record before slower members have decided.
        await run.record()

    decisions = (decide(member, text.append) for member, text in zip(members, texts, strict=True))
    ends = await asyncio.gather(*decisions, return_exceptions=True)
    for member, text, end in zip(members, texts, ends, strict=True):
        run.say("".join(text))
        if isinstance(end, DriftError | ReasonerError):
            await fail(run, member, end.problem)
        elif end is not None:
            raise end


def _is_undecided(frame: FrameState) -> bool:
    turn = frame.turns[-1] if frame.turns else None
    return turn is None or turn.moved is None or turn.result is not None


async def _turns(run: SessionRun, frame: FrameState, reasoners: _Reasoners) -> None:
    while run.history.current is frame and run.history.state is SessionState.OPEN:
        await run.boundary()
        if run.history.is_cancelled:
            return
        if _is_undecided(frame):
            await _decide(run, frame, reasoners, run.say)
        else:
            await _carry_out(run, frame, frame.turns[-1])


async def _decide(run: SessionRun, frame: FrameState, reasoners: _Reasoners, say: Say) -> None:
    is_begun = bool(frame.turns) and frame.turns[-1].moved is None
    step = len(frame.turns) + (not is_begun)
    if not is_begun:
        run.note((RowKey(frame.number, step, 0, RowKind.DECIDING), {}))
    if stopped := budgets.ends_decision(run.history, frame):
        moved = ActionDecided(budgets.stopping(run.history, frame, stopped), {}, stopped_by=stopped)
    elif stuck := _stuck(frame):
        moved = ActionDecided(stuck, {})
    elif first := guardrail_question(run, frame):
        moved = ActionDecided(first, {})
    elif recorded := run.recorded(frame, step):
        moved = recorded
    elif shown := change_call(run, frame):
        moved = ActionDecided(shown, {})
    elif short := _short(run, frame, reasoner := reasoners(frame.number)):
        stop = budgets.stopping(run.history, frame, short.resource, short.amount)
        moved = ActionDecided(stop, {}, stopped_by=short.resource)
    elif is_begun or await _begin(run, frame):
        moved = await _moved(frame, reasoner, run, say)
    else:
        return
    run.note((RowKey(frame.number, step, 0, RowKind.MOVED), moved))


async def _begin(run: SessionRun, frame: FrameState) -> bool:
    """Write the event before a model's decision, and return whether the decision may be made.

    Decisions of the program and of playbooks are fast and repeatable after a crash: their events are written with the
    next ones.
    """
    return not frame.opened.definition.is_model or await run.begin()


def _short(run: SessionRun, frame: FrameState, reasoner: Reasoner) -> Amount | None:
    """Return the minimum usage of the next decision that exceeds a remaining budget; None if it fits."""
    if not run.history.begun.task.budget or not isinstance(reasoner, CostAwareReasoner):
        return None
    return reasoner.within(frame.settled, budgets.remaining(run.history))


async def _moved(frame: FrameState, reasoner: Reasoner, run: SessionRun, say: Say) -> ActionDecided:
    began_ns = time.perf_counter_ns()
    decision = await _decision(frame, reasoner, run, say)
    took_ms = (time.perf_counter_ns() - began_ns) // 1_000_000
    try:
        move, record = _prepared(run, frame, decision)
        return checked(ActionDecided, ActionDecided(move, record, took_ms))
    except ValueError as error:
        name = frame.opened.agent.name
        raise ReasonerError(
            f"{name} made a move that is none of those there are: {str(error).splitlines()[0]}",
            remedy="make its playbook yield what `esper_agents.api` names: UseTools, Consult, Panel and so on",
        ) from error


def _prepared(run: SessionRun, frame: FrameState, decision: Decision) -> tuple[Move, JsonObject]:
    """Return a model's action as it is judged: findings located, and calls that cannot run answered one by one."""
    move, record = decision.move, decision.record
    if isinstance(move, CallTools) and frame.opened.definition.is_model and move.calls:
        return _without_bad_calls(run, frame, move, record)
    context = replace(run.context, named=run.history.begun.task.paths)
    grounding = ground(run.history, frame, move, CitedSources(context))
    if grounding is None:
        return move, record
    if salvaged := record.get(SALVAGED):
        return kept_unverified(grounding, str(salvaged)), record
    if grounding.problems and not retries_exhausted(frame, grounding.move):
        # Recorded, because the files that the reasons follow from may change.
        return grounding.move, {**record, UNGROUNDED: list(grounding.problems)}
    return grounding.marked, record


def _without_bad_calls(
    run: SessionRun, frame: FrameState, move: CallTools, record: JsonObject
) -> tuple[CallTools, JsonObject]:
    """Return the calls of a turn that can run; each of the others is answered with the one thing to change."""
    faults, kept = dict(record.get("faults") or {}), []
    uses = record.get("uses", ())
    if len(uses) != len(move.calls):
        return move, record
    for use, call in zip(uses, move.calls, strict=True):
        if fault := bad_call(run, frame, call):
            faults[use] = fault
        else:
            kept.append((use, call))
    if len(kept) == len(move.calls):
        return move, record
    left = CallTools(tuple(call for _, call in kept))
    return left, {**record, "uses": [use for use, _ in kept], "faults": faults}


async def _decision(frame: FrameState, reasoner: Reasoner, run: SessionRun, say: Say) -> Decision:
    try:
        return await reasoner.next_move(frame.settled, say)
    except Exception as error:
        if isinstance(error, ModelError) and error.used:
            turn = frame.turns[-1]
            key = RowKey(frame.number, turn.step, len(turn.lost) + 1, RowKind.DECIDING)
            await run.record((key, {"record": dict(error.used)}))
        if not frame.opened.parent:
            raise
        # Any failure of a consulted agent becomes an answer to the caller.
        said = error.problem if isinstance(error, EsperError) else f"{type(error).__name__}: {error}"
        raise ReasonerError(said, remedy="ask another agent") from error


def _stuck(frame: FrameState) -> Conclude | None:
    """Return the conclusion that ends a frame without progress, or None while it may continue."""
    name, most = frame.opened.agent.name, MOST_FRUITLESS if frame.opened.definition.is_model else _MOST_REFUSALS
    last = frame.settled[-most:]
    refused = [turn.result for turn in last if isinstance(turn.result, Refusal)]
    if len(refused) == most:
        why = f"{name} made {most} moves in a row that could not be carried out: {refused[-1].reasons[0]}"
    elif len(frame.settled) >= MOST_TURNS:
        why = f"{name} has taken {MOST_TURNS} turns, which is the most"
    else:
        return None
    gap = InformationGap(f"the judgement of {name}", why, "esper agents list", True)
    return Conclude(f"{name} could not come to a judgement.", stance=Stance.UNDECIDED, below_ceiling=why, gaps=(gap,))


async def _carry_out(run: SessionRun, frame: FrameState, turn: OpenTurn) -> None:
    move = turn.moved.move if turn.moved else None
    if move is None:
        return
    if _is_stopped(run, frame, turn) or await _is_refused(run, frame, turn, move):
        return
    match move:
        case CallTools():
            await _call(run, frame, turn, move)
        case Ask():
            question = UserQuestion(new_id(Prefix.QUESTION), move.question, move.options, "", {}, "", move.wants)
            await run.record((RowKey(frame.number, turn.step, 0, RowKind.ASKED), question), state=SessionState.WAITING)
        case Consult():
            await _open(run, frame, turn, move)
        case Panel(consults):
            # One after the other, or all at once where that saves time.
            together = consults if _is_together(run, consults) and not turn.children else ()
            await _open(run, frame, turn, *(together or (consults[len(turn.children)],)))
        case HandOff():
            await _hop(run, frame, turn, move)
        case Conclude():
            await read_cited(run, frame, turn, move)
            await conclude(run, frame, move)


async def _is_refused(run: SessionRun, frame: FrameState, turn: OpenTurn, move: Move) -> bool:
    """Refuse an action that cannot be executed, before any part of it runs; return whether the turn stops here.

    A circular handoff is put to the user if one is present.
    """
    if turn.calls or turn.children or _is_ours(frame, turn):
        return False
    refused = validate_action(run, frame, move)
    if refused is None:
        return False
    if refused.going_round and run.is_attended:
        await _ask_whether(run, frame, turn, refused)
    else:
        _refuse(run, frame, turn, refused)
    return True


def _is_ours(frame: FrameState, turn: OpenTurn) -> bool:
    """Return whether the loop itself ends the frame, so that no reasoner can be asked to correct its action."""
    move = turn.moved
    return (
        move is not None and isinstance(move.move, Conclude) and (bool(move.stopped_by) or move.move == _stuck(frame))
    )


def _is_stopped(run: SessionRun, frame: FrameState, turn: OpenTurn, *, before_call: bool = False) -> bool:
    """Refuse the rest of an action if a budget does not allow it, and return whether it was refused."""
    move = turn.moved.move if turn.moved else None
    if move is None or (isinstance(move, CallTools) and not before_call):
        return False
    stopped = budgets.ends_move(run.history, frame, move)
    if stopped is not None:
        why = budgets.reason(run.history, stopped)
        _refuse(run, frame, turn, Refusal((why,), stopped_by=stopped))
    return stopped is not None


def _refuse(run: SessionRun, frame: FrameState, turn: OpenTurn, refused: Refusal) -> None:
    # The next decision follows at once, and the event before it is written with this one.
    run.note((RowKey(frame.number, turn.step, 0, RowKind.MOVE_REFUSED), refused))


async def _ask_whether(run: SessionRun, frame: FrameState, turn: OpenTurn, refused: Refusal) -> None:
    """Ask the present user whether a circular handoff should proceed."""
    sender, receiver = frame.opened.agent.name, refused.going_round
    text = f"{sender} would hand the task to {receiver}, but {refused.reasons[0]}. Shall it?"
    question = UserQuestion(new_id(Prefix.QUESTION), text, (GO_ON, DO_NOT), "", {}, "")
    await run.record((RowKey(frame.number, turn.step, 0, RowKind.ASKED), question), state=SessionState.WAITING)


async def _hop(run: SessionRun, frame: FrameState, turn: OpenTurn, move: HandOff) -> None:
    """Hand off, unless the user declined when asked."""
    answer = turn.calls[0].answer if 0 in turn.calls else None
    if answer is not None and answer.text != GO_ON:
        said = f"{answer.by} was asked, and the task stays where it is: do what can be done here, and conclude"
        _refuse(run, frame, turn, Refusal((said,)))
    else:
        await read_cited(run, frame, turn, move)
        await hand_off(run, frame, move)


async def _call(run: SessionRun, frame: FrameState, turn: OpenTurn, move: CallTools) -> None:
    """Ask about all calls that need approval, then run the calls in order up to one that waits for an answer."""
    if questions := turn_questions(run, frame, turn, move.calls):
        if not _is_stopped(run, frame, turn, before_call=True):
            await run.record(*questions, state=SessionState.WAITING)
        return
    number = 0
    while number < len(move.calls):
        await run.boundary()
        if run.history.is_cancelled:
            return
        state = turn.calls.get(number)
        is_begun = state is not None and (state.calling is not None or state.report is not None)
        if not is_begun and _is_stopped(run, frame, turn, before_call=True):
            return
        if state is not None and state.is_waiting:
            return
        if together := concurrent_calls(run, turn, move.calls, first=number):
            await make_concurrent_calls(run, frame, turn, {each: move.calls[each] for each in together})
            number = together[-1]
        else:
            await make_call(run, frame, turn, number, move.calls[number])
        number += 1


def _is_together(run: SessionRun, consults: Sequence[Consult]) -> bool:
    """Return whether the members of a panel take their turns together.

    Only models do: playbooks take no time to decide. Under a budget one asks after the other, because each may use all
    that the others left.
    """
    task = run.history.begun.task
    kind = task.options.get(REASONER, PLAYBOOK)
    is_bounded = any(each.resource is not Resource.HOPS for each in task.budget)
    return not is_bounded and all((each.reasoner or kind) not in DETERMINISTIC for each in consults)


async def _open(run: SessionRun, frame: FrameState, turn: OpenTurn, *asked: Consult) -> None:
    """Open the frames of consults at once; if an agent is unavailable, the caller receives the reason."""
    parent, opened = (frame.number, turn.step), []
    try:
        for each in asked:
            _, start = await opening(run, each.agent, question=each.question, parent=parent, reasoner=each.reasoner)
            opened.append(start)
    except UsageError as error:
        _refuse(run, frame, turn, Refusal((error.problem,)))
    else:
        first = len(run.history.frames) + 1
        run.note(*((RowKey(number, 0, 0, RowKind.OPENED), start) for number, start in enumerate(opened, first)))
