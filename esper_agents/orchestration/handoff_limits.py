"""Limits of handoffs: known agent, remaining budget, no cycle without progress.

Since something new was last found or measured, nobody is handed the task twice, and nobody hands it back twice to the
same agent. So a loop of any length ends at its first hop that repeats or before, and whoever makes progress goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from esper_agents.domain.budget import Resource

if TYPE_CHECKING:
    from collections.abc import Collection

    from esper_agents.domain.handoff import Handoff
    from esper_agents.orchestration.session_projection import SessionProjection

# Where the person gives no budget of hops.
MOST_HOPS = 8


@dataclass(frozen=True, slots=True)
class HandoffRefusal:
    """Why a task may not go to an agent.

    Attributes:
        reason: In a sentence.
        is_going_round: Whether the hop would lead round in a circle or too far; another hop may be legal.
    """

    reason: str
    is_going_round: bool = False


def handoff_refusal(
    history: SessionProjection, receiver: str, known: Collection[str], *, claimed: Collection[str] = ()
) -> HandoffRefusal | None:
    """Return why the task may not go to an agent now, or None where it may. No reasoner is asked.

    Args:
        history: The session's ledger.
        receiver: Who is to have the task.
        known: The agents that there are.
        claimed: Fingerprints of what the sender claims with the hop: a new one is progress.
    """
    frame = history.current
    sender = frame.opened.agent.name if frame else ""
    if frame is not None and frame.opened.parent:
        return HandoffRefusal("a consulted agent answers; it does not hand off")
    if receiver not in known:
        close = get_close_matches(receiver, sorted(known), n=2)
        hint = "; did you mean " + " or ".join(close) + "?" if close else ""
        return HandoffRefusal(f"there is no agent named {receiver!r}{hint}")
    if receiver == sender:
        return HandoffRefusal(f"{receiver} cannot hand off to itself")
    if len(history.handoffs) >= (most := hop_limit(history)):
        return HandoffRefusal(f"the task has been handed off {most} times, which is the most", is_going_round=True)
    if _goes_round(history, sender, receiver, claimed):
        return HandoffRefusal(
            f"{receiver} has had the task, and nothing new was found or measured since", is_going_round=True
        )
    return None


def hop_limit(history: SessionProjection) -> int:
    """Return how often the session's task may be handed off."""
    return next((each.amount for each in history.begun.task.budget if each.resource is Resource.HOPS), MOST_HOPS)


def handoff_sender(history: SessionProjection) -> str:
    """Return who gave the task to the agent that has it, or an empty string where nobody did.

    Handing back undoes a hop: an agent that got the task back has it from whoever gave it the first time.
    """
    givers: list[str] = []
    for each in history.handoffs:
        if givers and givers[-1] == each.receiver:
            givers.pop()
        else:
            givers.append(each.sender)
    return givers[-1] if givers else ""


def _goes_round(history: SessionProjection, sender: str, receiver: str, claimed: Collection[str]) -> bool:
    given = [each for each in _since_progress(history, claimed) if each.receiver == receiver]
    if handoff_sender(history) == receiver:
        return any(each.sender == sender for each in given)
    return any(not each.is_return for each in given)


def _since_progress(history: SessionProjection, claimed: Collection[str]) -> list[Handoff]:
    """Return the hops after which nothing new was found or measured."""
    now = _marks(history, None) | {(each,) for each in claimed}
    without: list[Handoff] = []
    for frame in reversed(history.frames):
        if frame.opened.handoff is not None:
            # All that stands in earlier frames was there when this one was opened.
            if now - _marks(history, frame.number):
                break
            without.append(frame.opened.handoff)
    return without


def _marks(history: SessionProjection, before: int | None) -> set[tuple[str, ...]]:
    measured = {(each.tool, each.arguments_sha256, each.output_sha256) for each in history.evidence(before)}
    found = {(each.claim.fingerprint,) for each in history.findings(before)}
    return measured | found
