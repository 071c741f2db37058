"""Close a poison session with an undecided certificate that names the failed step."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from esper_agents.domain.agent_action import Ask, CallTools, Conclude, Consult, HandOff, Panel
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.ledger import ActionDecided, FrameConcluded, RowKey, RowKind
from esper_agents.domain.route import Route, RouteOutcome
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import Stance
from esper_agents.orchestration.frame_end import conclude
from esper_agents.orchestration.session_run import session_row
from esper_agents.orchestration.tool_calls import interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.agent_action import Move
    from esper_agents.orchestration.open_frame import FrameState
    from esper_agents.orchestration.open_turn import OpenTurn
    from esper_agents.orchestration.session_projection import SessionProjection
    from esper_agents.orchestration.session_run import SessionRun

# Number of consecutive runs that may die before the next run closes the session.
MOST_ATTEMPTS = 5


def is_poisoned(run: SessionRun) -> bool:
    """Return whether the maximum number of consecutive runs died and the session is unfinished."""
    is_open = run.history.state is SessionState.OPEN and run.history.conclusion is None
    return is_open and run.lease.attempt > MOST_ATTEMPTS


async def conclude_poisoned(run: SessionRun) -> None:
    """Conclude a session for its current agent, or refuse it if no agent has been selected yet.

    Calls without a result are recorded as interrupted; no tool and no reasoner runs.
    """
    await run.boundary()
    if run.history.is_cancelled:
        return
    deaths = f"{run.lease.attempt - 1} consecutive processes crashed or stopped responding"
    if not run.history.frames:
        said = f"refused: {deaths} before an agent was selected"
        route = Route(RouteOutcome.REFUSED, "", (), said)
        await run.record((session_row(RowKind.REFUSED), route), state=SessionState.REFUSED)
        return
    why = f"{deaths}, the last one {_died_in(run.history)}"
    frame = next(each for each in run.history.frames if not each.is_closed and not each.opened.parent)
    step = len(frame.turns) + 1
    move = _conclusion(run.history, frame, why)
    deciding, moved = (RowKey(frame.number, step, 0, kind) for kind in (RowKind.DECIDING, RowKind.MOVED))
    await run.record(
        *_interrupted(run),
        *_unanswered(run.history, deaths),
        (deciding, {}),
        (moved, ActionDecided(move, {})),
        agent=frame.opened.agent.name,
    )
    # A session that was cancelled in the meantime gets no verdict.
    await run.boundary()
    if not run.history.is_cancelled:
        await conclude(run, frame, move)


def _conclusion(history: SessionProjection, frame: FrameState, why: str) -> Conclude:
    name, task = frame.opened.agent.name, history.begun.task
    command = shlex.join(("esper", "submit", "--agent", name, task.request, *task.paths))
    return Conclude(
        f"{name} could not finish: {why}. What was found until then is on record.",
        stance=Stance.UNDECIDED,
        rationale=f"{name} could not finish: {why}.",
        below_ceiling=why,
        gaps=(InformationGap(f"the judgement of {name}", why, command, blocks_approval=True),),
        caveats=("It covers only what was done before that.",),
        next_steps=(f"fix the crash, then run: {command}",),
    )


def _interrupted(run: SessionRun) -> Iterator[tuple[RowKey, object]]:
    """Yield a result for each call that started and has none."""
    for frame in run.history.frames:
        if frame.is_closed:
            continue
        for turn in frame.turns:
            move = turn.moved.move if turn.moved else None
            if not isinstance(move, CallTools):
                continue
            for number in _unfinished(turn):
                state, call = turn.calls[number], move.calls[number]
                if state.calling and call.tool in run.services.tools.tools:
                    report = interrupted(run.services.tools.get(call.tool), call, state.calling.evidence)
                    yield RowKey(frame.number, turn.step, number, RowKind.CALLED), report


def _unanswered(history: SessionProjection, deaths: str) -> Iterator[tuple[RowKey, object]]:
    """Yield an end for each consult without an answer."""
    for frame in reversed(history.frames):
        if frame.opened.parent and not frame.is_closed:
            said = f"{frame.opened.agent.name} could not answer: {deaths}"
            yield RowKey(frame.number, 0, 0, RowKind.CONCLUDED), FrameConcluded("", (), None, said)


def _unfinished(turn: OpenTurn) -> list[int]:
    return [number for number, call in sorted(turn.calls.items()) if call.calling and not call.report]


def _died_in(history: SessionProjection) -> str:
    """Return a description of the work in progress at the last event."""
    frame = history.current
    if frame is None:
        raise AssertionError("no open frame, and no conclusion")
    name, turn = frame.opened.agent.name, frame.turns[-1] if frame.turns else None
    if turn is None:
        return f"before {name} made its first move"
    where = f"step {frame.number}.{turn.step}"
    if turn.moved is None:
        return f"while {name} decided on {where}"
    if turn.result is not None:
        return f"after {where}, before {name} decided on the next"
    return f"{_doing(name, turn, turn.moved.move)} at {where}"


def _doing(name: str, turn: OpenTurn, move: Move) -> str:
    match move:
        case CallTools(calls):
            running = [calls[number].tool for number in _unfinished(turn)]
            return f"while {' and '.join(running)} ran" if running else "between two calls"
        case Ask():
            return f"while {name} asked a person"
        case Consult() | Panel():
            return f"while {name} consulted others"
        case HandOff(agent):
            return f"while {name} handed the task to {agent}"
        case Conclude():
            return f"while {name} concluded"
