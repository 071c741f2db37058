"""Conformance checks for any reasoner; they need no test framework.

`await check(Trial(source, brief, tools))` runs all checks; `docs/testing.md` has an example. A check plays frames
against scripted tools and raises `AssertionError` if the reasoner violates `esper_agents.reasoning.reasoner.Reasoner`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.domain.agent_action import (
    Ask,
    CallTools,
    Conclude,
    Consult,
    HandOff,
    Move,
    Panel,
    ToolCall,
    ToolReport,
    UserAnswer,
)
from esper_agents.domain.certificate import DETERMINISTIC
from esper_agents.domain.codec import canonical, checked, encode
from esper_agents.domain.evidence import CallOutcome, Evidence, Risk
from esper_agents.domain.frame import Turn
from esper_agents.domain.handoff import ConsultAnswer
from esper_agents.domain.ledger import ActionDecided, Refusal
from esper_agents.errors import DriftError
from esper_agents.testing.effects import effects_seen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from esper_agents.domain.agent_action import TurnResult
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.finding import Finding
    from esper_agents.domain.frame import Brief
    from esper_agents.reasoning.reasoner import Decision, Reasoner, ReasonerSource

    Tools: TypeAlias = Callable[[ToolCall], ToolReport]
    Agents: TypeAlias = Callable[[Consult], ConsultAnswer]
    Check: TypeAlias = Callable[["Trial"], Awaitable[None]]

_REFUSED = Refusal(("it cannot be carried out here",))
_SAID_BY = "a person"


def report(
    call: ToolCall,
    summary: str = "done",
    output: JsonObject | None = None,
    findings: Sequence[Finding] = (),
    outcome: CallOutcome = CallOutcome.COMPLETED,
) -> ToolReport:
    """Return a report of a call as a scripted tool would; equal calls give equal reports.

    Args:
        call: The call.
        summary: The result, in one line.
        output: The output.
        findings: The recorded findings of the call.
        outcome: Outcome of the call.
    """
    digest = sha256(canonical({"tool": call.tool, "arguments": dict(call.arguments)})).hexdigest()
    given = output or {}
    evidence = Evidence(
        id=f"ev_{digest[:32]}",
        tool=call.tool,
        provider="scripted",
        risk=Risk.LOW,
        is_repeatable=True,
        arguments=call.arguments,
        arguments_sha256=sha256(canonical(call.arguments)).hexdigest(),
        outcome=outcome,
        summary=summary,
        output=given,
        output_sha256=sha256(canonical(given)).hexdigest(),
        examined=(),
        artifacts=(),
        started_at="2026-01-01T00:00:00.000Z",
        duration_ns=1,
        rerun=f"true {call.tool}",
    )
    return ToolReport(evidence, tuple(findings))


def answer(consult: Consult, words: str = "as far as can be seen, yes", problem: str = "") -> ConsultAnswer:
    """Return the answer of a consulted agent.

    Args:
        consult: The question.
        words: The answer.
        problem: Why there is no answer.
    """
    return ConsultAnswer(consult.agent, "" if problem else words, (), (), consult.question, problem=problem)


@dataclass(frozen=True, slots=True)
class Trial:
    """Input of the conformance checks.

    Attributes:
        source: Factory of the reasoner.
        brief: Input of every frame.
        tools: Function that answers the tool calls; equal calls must have equal answers.
        agents: Function that answers for consulted agents.
        most_turns: Maximum number of turns of a frame.
    """

    source: ReasonerSource
    brief: Brief
    tools: Tools = report
    agents: Agents = answer
    most_turns: int = 100


@dataclass(frozen=True, slots=True)
class PlayedFrame:
    """A frame that was played to its end.

    Attributes:
        turns: The turns before the last action.
        decisions: All decisions, including the last one.
        said: The text that was generated.
        effects: Side effects on the machine during the decisions.
    """

    turns: tuple[Turn, ...]
    decisions: tuple[Decision, ...]
    said: tuple[object, ...]
    effects: tuple[str, ...]


async def check(trial: Trial) -> None:
    """Run all checks.

    Raises:
        AssertionError: A check failed; the message names the check and the turn.
    """
    for each in CHECKS:
        await each(trial)


async def play(trial: Trial, refused_at: int | None = None) -> PlayedFrame:
    """Play a frame to its end; the user approves every question, and consulted agents answer.

    Args:
        trial: The input.
        refused_at: The turn whose action is refused, from 0.
    """
    player = _Player(trial)
    turns: list[Turn] = []
    decisions: list[Decision] = []
    while len(turns) < trial.most_turns:
        decision = await player.decide(turns)
        decisions.append(decision)
        if len(turns) == refused_at:
            turns.append(Turn(decision.move, decision.record, _REFUSED))
        elif isinstance(decision.move, HandOff | Conclude):
            return PlayedFrame(tuple(turns), tuple(decisions), tuple(player.said), tuple(player.effects))
        else:
            turns.append(Turn(decision.move, decision.record, _result(trial, decision.move)))
    raise AssertionError(f"it has not ended after {trial.most_turns} turns")


async def concludes(trial: Trial) -> None:
    """Check that the frame ends, that actions can be encoded as JSON, and that only text is generated."""
    played = await play(trial)
    for at, text in enumerate(played.said):
        _holds(isinstance(text, str), f"generated output {at} is not text: {text!r}")


async def goes_on_from_the_record(trial: Trial) -> None:
    """Check that a new instance, built at any turn, decides the same action as the first one at that turn."""
    played = await play(trial)
    for at, decision in enumerate(played.decisions):
        again = await _Player(trial).decide(played.turns[:at])
        _holds(
            encode(again.move, Move) == encode(decision.move, Move),
            f"rebuilt at turn {at}, it decides another action: {again.move!r} instead of {decision.move!r}",
        )


async def touches_nothing(trial: Trial) -> None:
    """Check that the reasoner writes no file and starts no program: only the loop records, and only tools act."""
    effects = (await play(trial)).effects
    _holds(not effects, f"it has side effects: {', '.join(effects)}")


async def survives_calls_that_fail(trial: Trial) -> None:
    """Check that the frame ends if every call fails, is denied or interrupted, and if consults are not answered."""
    for outcome in (CallOutcome.FAILED, CallOutcome.DENIED, CallOutcome.INTERRUPTED):

        def tools(call: ToolCall, outcome: CallOutcome = outcome) -> ToolReport:
            return report(call, f"{call.tool} {outcome}", outcome=outcome)

        await play(replace(trial, tools=tools, agents=lambda asked: answer(asked, problem="no agent is available")))


async def survives_refusals(trial: Trial) -> None:
    """Check that the frame ends if any one of its actions is refused."""
    for at in range(len((await play(trial)).decisions)):
        await play(trial, refused_at=at)


async def notices_turns_that_are_not_its_own(trial: Trial) -> None:
    """Check that a reasoner bound to its record rejects a foreign one; others may continue from it."""
    foreign = Turn(Ask("is this a question of yours?"), {}, UserAnswer("qst_0", "no", _SAID_BY))
    try:
        await _Player(trial).decide([foreign])
    except DriftError:
        return
    _holds(trial.source.kind not in DETERMINISTIC, "it continues from turns that it would not have decided")


async def says_what_it_costs(trial: Trial) -> None:
    """Check that a reasoner that is not deterministic reports the cost of every decision, in whole numbers."""
    for at, decision in enumerate((await play(trial)).decisions):
        spent = decision.record.get("spent", {})
        counted = all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in spent.values())
        _holds(counted, f"the usage of turn {at} is not in whole numbers: {spent!r}")
        is_said = trial.source.kind in DETERMINISTIC or spent.get("tokens", 0) > 0
        _holds(is_said, f"turn {at} does not report its tokens under `spent`")


async def is_what_its_source_says(trial: Trial) -> None:
    """Check that the digest matches the source, and that the reasoner can be rebuilt from it if it claims so."""
    source = trial.source
    digest = sha256(source.source).hexdigest() if source.source else source.sha256
    _holds(digest == source.sha256, "its digest does not match its source")
    _holds(bool(source.kind and source.provider), "its kind or its provider is empty")
    if source.rebuild is not None:
        kept = replace(source, build=source.rebuild(source.source))
        made = [encode((await play(each)).decisions[0].move, Move) for each in (trial, replace(trial, source=kept))]
        _holds(made[0] == made[1], "rebuilt from its own source, it decides another action")


CHECKS: tuple[Check, ...] = (
    concludes,
    goes_on_from_the_record,
    touches_nothing,
    survives_calls_that_fail,
    survives_refusals,
    notices_turns_that_are_not_its_own,
    says_what_it_costs,
    is_what_its_source_says,
)


def _holds(claim: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not claim:
        raise AssertionError(otherwise)


class _Player:
    """Driver that requests decisions of one reasoner, with the history decoded from JSON, and records side effects."""

    def __init__(self, trial: Trial) -> None:
        self.said: list[object] = []
        self.effects: list[str] = []
        with effects_seen() as seen:
            self._reasoner: Reasoner = trial.source.build(trial.brief)
        self.effects += seen

    async def decide(self, turns: Sequence[Turn]) -> Decision:
        with effects_seen() as seen:
            decision = await self._reasoner.next_move(tuple(turns), self.said.append)
        self.effects += seen
        kept = checked(ActionDecided, ActionDecided(decision.move, json.loads(json.dumps(dict(decision.record)))))
        return replace(decision, move=kept.move, record=kept.record)


def _result(trial: Trial, move: Move) -> TurnResult:
    match move:
        case CallTools(calls):
            return tuple(trial.tools(call) for call in calls)
        case Consult():
            return trial.agents(move)
        case Panel(consults):
            return tuple(trial.agents(consult) for consult in consults)
        case Ask():
            return UserAnswer("qst_0", move.options[0] if move.options else "1", _SAID_BY)
        case HandOff() | Conclude():
            raise AssertionError("a frame continues after its end")
