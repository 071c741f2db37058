"""Validate a reasoner's action before it is executed; errors are returned to it."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from esper_agents.domain.agent_action import Ask, CallTools, Conclude, Consult, HandOff, Move, Panel
from esper_agents.domain.finding import Confidence
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.reasoner_names import PLAYBOOK, REASONER, SECOND_OPINION
from esper_agents.errors import UsageError
from esper_agents.orchestration.availability import can_act
from esper_agents.orchestration.handoff_limits import handoff_refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.domain.agent_action import SupportedClaim, ToolCall
    from esper_agents.domain.assumption import Assumption
    from esper_agents.domain.evidence import Evidence
    from esper_agents.orchestration.open_frame import FrameState
    from esper_agents.orchestration.session_projection import SessionProjection
    from esper_agents.orchestration.session_run import SessionRun

# Member of a model's record with the statements of its action that could not be grounded.
UNGROUNDED = "ungrounded"
MOST_DEPTH = 3
# Limit per panel.
MOST_ASKED = 8
# Rounds in which another model argues the opposite.
MOST_ROUNDS = 2
# For measured claims; the confidence of a static finding is set by its rule.
_MEASURED = "LAB"
_INDEPENDENT = 2
# Each takes at most two visits of a graph node; see the recursion limit there.
MOST_FRAMES = 100


def validate_action(run: SessionRun, frame: FrameState, move: Move) -> Refusal | None:
    """Return every reason why an action cannot be executed, or None if it can."""
    if missing := _unavailable(run, move):
        names = ", ".join(missing)
        return Refusal((f"{names} cannot act: no playbook, and no language model is used",), unavailable=missing)
    hop = None
    if isinstance(move, HandOff):
        claimed = [claim.claim.fingerprint for claim in move.claims]
        hop = handoff_refusal(run.history, move.agent, run.services.agents.agents, claimed=claimed)
    faults = tuple(_faults(run, frame, move))
    if hop is None:
        return Refusal(faults) if faults else None
    # If the action is invalid for another reason, the user need not be asked about the handoff yet.
    goes_round = hop.is_going_round and not faults
    return Refusal((hop.reason, *faults), going_round=move.agent if isinstance(move, HandOff) and goes_round else "")


def _unavailable(run: SessionRun, move: Move) -> tuple[str, ...]:
    """Return the known agents that an action addresses and that cannot act."""
    kind = run.history.begun.task.options.get(REASONER, PLAYBOOK)
    match move:
        case HandOff(agent=agent):
            addressed = {agent: kind}
        case Consult() | Panel():
            consults = (move,) if isinstance(move, Consult) else move.consults
            addressed = {consult.agent: consult.reasoner or kind for consult in consults}
        case _:
            return ()
    known = run.services.agents.agents
    return tuple(agent for agent, by in addressed.items() if agent in known and not can_act(run.services, agent, by))


def _faults(run: SessionRun, frame: FrameState, move: Move) -> Iterator[str]:
    match move:
        case CallTools():
            yield from _bad_calls(run, frame, move.calls)
        case HandOff() | Conclude():
            if not frame.opened.definition.is_model:
                yield from _unsupported(run.history, move.claims, move.assumptions)
            elif frame.turns[-1].moved:
                yield from frame.turns[-1].moved.record.get(UNGROUNDED, ())
        case Consult():
            yield from _bad_consults(run, frame, (move,))
        case Panel():
            yield from _bad_consults(run, frame, move.consults)
        case Ask():
            if not move.question.strip():
                yield "the question is empty"


def _bad_calls(run: SessionRun, frame: FrameState, calls: Sequence[ToolCall]) -> Iterator[str]:
    if not calls:
        yield "no tool is called: call one, or make another move"
    yield from (fault for call in calls if (fault := bad_call(run, frame, call)))


def bad_call(run: SessionRun, frame: FrameState, call: ToolCall) -> str:
    """Return why a call cannot be made, or an empty string."""
    offered = {tool.name for tool in run.services.tools.named(frame.opened.agent.tools)}
    if call.tool not in offered:
        close = get_close_matches(call.tool, sorted(offered), n=1)
        hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(sorted(offered)) or 'none'}"
        return f"{frame.opened.agent.name} has no tool {call.tool!r}; {hint}"
    try:
        run.services.tools.get(call.tool).validate(call.arguments)
    except UsageError as error:
        return error.problem
    return ""


def _bad_consults(run: SessionRun, frame: FrameState, consults: Sequence[Consult]) -> Iterator[str]:
    known = run.services.agents.agents
    if not 1 <= len(consults) <= MOST_ASKED:
        yield f"a panel asks 1 to {MOST_ASKED} questions"
    others = sorted(set(known) - {frame.opened.agent.name})
    for wanted in (consult.agent for consult in consults if not consult.reasoner):
        if wanted not in others:
            close = get_close_matches(wanted, others, n=2)
            hint = "; did you mean " + " or ".join(close) + "?" if close else ""
            yield f"there is no other agent named {wanted!r}{hint}"
    second = [each for each in run.history.frames if each.opened.definition.reasoner == SECOND_OPINION]
    asked = sum(each.opened.parent == frame.number for each in second)
    if asked >= MOST_ROUNDS and any(consult.reasoner == SECOND_OPINION for consult in consults):
        yield f"a second opinion was asked for {MOST_ROUNDS} times, which is the most: conclude"
    if len(run.history.frames) + len(consults) > MOST_FRAMES:
        yield f"the session has opened {MOST_FRAMES} frames, which is the most"
    depth, each = 1, frame
    while each.opened.parent:
        depth, each = depth + 1, run.history.frames[each.opened.parent - 1]
    if depth >= MOST_DEPTH:
        yield f"consults are {MOST_DEPTH} deep, which is the most"


def _witnesses(evidence: Sequence[Evidence]) -> set[str]:
    """Return the independent sources of an observation: those that the tools name, else the tools."""
    return {str(way) for each in evidence for way in each.output.get("witnesses") or (each.tool,)}


def _unsupported(
    history: SessionProjection, claims: Sequence[SupportedClaim], assumptions: Sequence[Assumption]
) -> Iterator[str]:
    """Yield claims and settled assumptions without evidence of this session."""
    known = {each.id for each in history.evidence()}
    examined = {file.path: file.lines for each in history.evidence() for file in each.examined}
    for supported in claims:
        claim, place = supported.claim, supported.claim.location
        if not supported.evidence or not known.issuperset(supported.evidence):
            yield f"the claim {claim.name!r} names no evidence of this session"
        elif not 1 <= place.line <= examined.get(place.path, 0):
            yield f"the claim {claim.name!r} cites {place}, which was not read"
        elif claim.rule.startswith(_MEASURED) and claim.confidence is Confidence.HIGH:
            seen = _witnesses([each for each in history.evidence() if each.id in supported.evidence])
            if len(seen) < _INDEPENDENT:
                yield f"the claim {claim.name!r} is High on {len(seen)} witness; that takes {_INDEPENDENT}, independent"
    for assumption in assumptions:
        if not known.issuperset(assumption.evidence):
            yield f"the assumption {assumption.text!r} names evidence that is not of this session"
