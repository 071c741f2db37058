"""Well-formed parts of a malformed conclusion that a model does not correct."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from esper_agents.domain.agent_action import Conclude
from esper_agents.domain.ledger import Refusal
from esper_agents.reasoning.action_schema import CONCLUDE, InvalidActionError, parse_action
from esper_agents.reasoning.reasoner import MOST_FRUITLESS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.frame import Turn
    from esper_agents.reasoning.action_schema import ActionContext

_MOST_IDENTICAL = 3


class SalvagedConclusion(NamedTuple):
    """Well-formed parts of a malformed conclusion.

    Attributes:
        move: The parts.
        why: Reason why only these are kept, as a sentence.
    """

    move: Conclude
    why: str


def salvage(turns: Sequence[Turn], content: Sequence[JsonObject], speaker: ActionContext) -> SalvagedConclusion | None:
    """Return the well-formed parts of a conclusion that was refused for its form, or None while it may be corrected.

    It is kept if it was made three times over without a change, or in the last turn before the frame would end.

    Args:
        turns: Completed turns.
        content: Content of the model's new message, in which nothing can be carried out.
        speaker: Context of the agent.
    """
    refused: list[Turn] = []
    for turn in reversed(turns):
        if not isinstance(turn.result, Refusal):
            break
        refused.append(turn)
    made = [_conclusion(content), *(_conclusion(turn.record.get("content", ())) for turn in refused)]
    same = [json.dumps(each, sort_keys=True) for each in made[:_MOST_IDENTICAL] if each is not None]
    if len(same) == _MOST_IDENTICAL and len(set(same)) == 1:
        times = f"{_MOST_IDENTICAL} times over without a change"
    elif len(refused) >= MOST_FRUITLESS - 1:
        times = f"until {MOST_FRUITLESS} turns had passed"
    else:
        return None
    given = next((each for each in made if each is not None), None)
    if given is None:
        return None
    try:
        move = parse_action(CONCLUDE, given, speaker, is_salvage=True)
    except InvalidActionError:
        return None
    why = f"its conclusion was made {times} in a form that does not fit; this part of it was kept"
    return SalvagedConclusion(move, why) if isinstance(move, Conclude) else None


def _conclusion(content: Sequence[JsonObject]) -> JsonObject | None:
    """Return the arguments of the conclusion in a message; None if it has none that can be read."""
    calls = (each for each in content if each.get("type") == "tool_use" and each.get("name") == CONCLUDE)
    return next((call["input"] for call in calls if isinstance(call.get("input"), dict) and call["input"]), None)
