"""Whether a move can be carried out at all; what is wrong goes back to the reasoner, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Confidence
from esper_agents.domain.move import Ask, Conclude, Consult, HandOff, Move, UseTools
from esper_agents.errors import UsageError
from esper_agents.orchestration.hops import refused_hop

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.domain.assumption import Assumption
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.move import SupportedClaim, ToolCall
    from esper_agents.orchestration.history import Frame, History
    from esper_agents.orchestration.run import Run

MOST_DEPTH = 3
# Claims of measurements; what a rule read in the code is as sure as the rule says.
_MEASURED = "LAB"
_INDEPENDENT = 2
# Each is at most two visits of a graph node; see the recursion limit there.
MOST_FRAMES = 100


def refusals(run: Run, frame: Frame, move: Move) -> tuple[str, ...]:
    """Return every reason why a move cannot be carried out; none where it can."""
    agents = run.workshop.agents.agents
    match move:
        case UseTools():
            return tuple(_bad_calls(run, frame, move.calls))
        case HandOff():
            hop = refused_hop(run.history, move.agent, agents)
            if frame.opened.parent:
                hop = "a consulted agent answers; it does not hand off"
            return (*((hop,) if hop else ()), *_unsupported(run.history, move.claims, move.assumptions))
        case Consult():
            return tuple(_bad_consult(run, frame, move))
        case Ask():
            return () if move.question.strip() else ("the question is empty",)
        case Conclude():
            return tuple(_unsupported(run.history, move.claims, move.assumptions))


def _bad_calls(run: Run, frame: Frame, calls: Sequence[ToolCall]) -> Iterator[str]:
    offered = {tool.name for tool in run.workshop.tools.named(frame.opened.agent.tools)}
    if not calls:
        yield "no tool is called"
    for call in calls:
        if call.tool not in offered:
            yield f"{frame.opened.agent.name} has no tool {call.tool!r}; it has {', '.join(sorted(offered)) or 'none'}"
            continue
        try:
            run.workshop.tools.get(call.tool).validate(call.arguments)
        except UsageError as error:
            yield error.problem


def _bad_consult(run: Run, frame: Frame, move: Consult) -> Iterator[str]:
    if move.agent not in run.workshop.agents.agents or move.agent == frame.opened.agent.name:
        yield f"there is no other agent named {move.agent!r}"
    if len(run.history.frames) >= MOST_FRAMES:
        yield f"the session has opened {MOST_FRAMES} frames, which is the most"
    depth, each = 1, frame
    while each.opened.parent:
        depth, each = depth + 1, run.history.frames[each.opened.parent - 1]
    if depth >= MOST_DEPTH:
        yield f"consults are {MOST_DEPTH} deep, which is the most"


def _witnesses(evidence: Sequence[Evidence]) -> set[str]:
    """Return the independent ways in which something was seen: those that a tool names, else the tool."""
    return {str(way) for each in evidence for way in each.output.get("witnesses") or (each.tool,)}


def _unsupported(
    history: History, claims: Sequence[SupportedClaim], assumptions: Sequence[Assumption]
) -> Iterator[str]:
    """Yield claims and settled assumptions that name no evidence of this session."""
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
