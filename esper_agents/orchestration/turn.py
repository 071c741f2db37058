"""The turn loop: decide, carry out, again, each step a row before and a row after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.codec import checked
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.ledger import Moved, Question, Refusal, RowKey, RowKind
from esper_agents.domain.move import Ask, Conclude, Consult, HandOff, UseTools
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import Stance
from esper_agents.errors import ReasonerError
from esper_agents.orchestration.calls import make_call
from esper_agents.orchestration.checks import refusals
from esper_agents.orchestration.ending import conclude, hand_off
from esper_agents.orchestration.opening import opening, reasoner_of

if TYPE_CHECKING:
    from esper_agents.orchestration.history import Frame, OpenTurn
    from esper_agents.orchestration.run import Run
    from esper_agents.reasoning.reasoner import Reasoner

MOST_TURNS = 100
# A reasoner is told twice why its move cannot be carried out; after the third time the frame ends undecided.
_MOST_REFUSALS = 3


async def take_turns(run: Run) -> None:
    """Go on with the current frame until it ends, consults, or waits for a person."""
    frame = run.history.current
    if frame is None:
        return
    reasoner = reasoner_of(run, frame)
    while run.history.current is frame and run.history.state is SessionState.OPEN:
        await run.boundary()
        if run.history.is_cancelled:
            return
        turn = frame.turns[-1] if frame.turns else None
        if turn is None or turn.moved is None or turn.result is not None:
            await _decide(run, frame, reasoner)
        else:
            await _carry_out(run, frame, turn)


async def _decide(run: Run, frame: Frame, reasoner: Reasoner) -> None:
    is_begun = bool(frame.turns) and frame.turns[-1].moved is None
    step = len(frame.turns) + (not is_begun)
    if not is_begun:
        await run.record((RowKey(frame.number, step, 0, RowKind.DECIDING), {}))
    if stuck := _stuck(frame):
        moved = Moved(stuck, {})
    else:
        moved = await _moved(frame, reasoner, run)
    await run.record((RowKey(frame.number, step, 0, RowKind.MOVED), moved))


async def _moved(frame: Frame, reasoner: Reasoner, run: Run) -> Moved:
    decision = await reasoner.next_move(frame.settled, run.say)
    try:
        return checked(Moved, Moved(decision.move, decision.record))
    except ValueError as error:
        name = frame.opened.agent.name
        raise ReasonerError(
            f"{name} made a move that is none of those there are: {str(error).splitlines()[0]}",
            remedy="make its playbook yield what `esper_agents.api` names: UseTools, Consult, Ask, HandOff or Conclude",
        ) from error


def _stuck(frame: Frame) -> Conclude | None:
    """Return the conclusion that ends a frame which does not get anywhere, or None while it may go on."""
    last = frame.settled[-_MOST_REFUSALS:]
    refused = [turn.result for turn in last if isinstance(turn.result, Refusal)]
    name = frame.opened.agent.name
    if len(refused) == _MOST_REFUSALS:
        why = f"{name} made {_MOST_REFUSALS} moves in a row that could not be carried out: {refused[-1].reasons[0]}"
    elif len(frame.settled) >= MOST_TURNS:
        why = f"{name} has taken {MOST_TURNS} turns, which is the most"
    else:
        return None
    gap = InformationGap(f"the judgement of {name}", why, "esper submit --agent NAME, naming who should act", True)
    return Conclude(f"{name} could not come to a judgement.", stance=Stance.UNDECIDED, below_ceiling=why, gaps=(gap,))


async def _carry_out(run: Run, frame: Frame, turn: OpenTurn) -> None:
    move = turn.moved.move if turn.moved else None
    is_fresh = not turn.calls and turn.child is None
    if move is not None and is_fresh and (reasons := refusals(run, frame, move)):
        await run.record((RowKey(frame.number, turn.step, 0, RowKind.MOVE_REFUSED), Refusal(reasons)))
        return
    match move:
        case UseTools(calls):
            for number, call in enumerate(calls):
                await run.boundary()
                if run.history.is_cancelled:
                    return
                await make_call(run, frame, turn, number, call)
        case Ask():
            question = Question(new_id(Prefix.QUESTION), move.question, move.options, "", {}, "")
            await run.record((RowKey(frame.number, turn.step, 0, RowKind.ASKED), question), state=SessionState.WAITING)
        case Consult():
            parent = (frame.number, turn.step)
            await run.record(await opening(run, move.agent, question=move.question, parent=parent))
        case HandOff():
            await hand_off(run, frame, move)
        case Conclude():
            await conclude(run, frame, move)
        case None:
            return
