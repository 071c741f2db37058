"""Limits of handoffs: known agent, remaining budget, no cycle without progress.

Without new findings or measurements, no agent receives the task twice, and no agent returns it twice to the same agent.
A cycle of any length therefore ends at its first repeated handoff, while agents that make progress can continue.
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

# Used if the user gives no handoff limit.
MOST_HOPS = 8


@dataclass(frozen=True, slots=True)
class HandoffRefusal:
    """Reason why a handoff is refused.

    Attributes:
        reason: Reason as a sentence.
        is_going_round: Whether the handoff would be circular or exceed the limit; another handoff may be allowed.
    """

    reason: str
    is_going_round: bool = False


def handoff_refusal(
    history: SessionProjection, receiver: str, known: Collection[str], *, claimed: Collection[str] = ()
) -> HandoffRefusal | None:
    """Return the reason why a handoff is refused, or None if it is allowed. Does not call the reasoner.

    Args:
        history: Ledger projection of the session.
        receiver: Receiving agent.
        known: Names of the available agents.
        claimed: Fingerprints of the claims sent with the handoff: a new one is progress.
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
    """Return the handoff limit of the session."""
    return next((each.amount for each in history.begun.task.budget if each.resource is Resource.HOPS), MOST_HOPS)


def handoff_sender(history: SessionProjection) -> str:
    """Return the agent that handed the task to the current agent, or an empty string.

    Returning the task undoes a handoff: an agent that got it back still has it from its first sender.
    """
    givers: list[str] = []
    for handoff in history.handoffs:
        if givers and givers[-1] == handoff.receiver:
            givers.pop()
        else:
            givers.append(handoff.sender)
    return givers[-1] if givers else ""


def _goes_round(history: SessionProjection, sender: str, receiver: str, claimed: Collection[str]) -> bool:
    given = [each for each in _since_progress(history, claimed) if each.receiver == receiver]
    if handoff_sender(history) == receiver:
        return any(each.sender == sender for each in given)
    return any(not each.is_return for each in given)


def _since_progress(history: SessionProjection, claimed: Collection[str]) -> list[Handoff]:
    """Return the handoffs since the last new finding or measurement."""
    now = _marks(history, None) | {(each,) for each in claimed}
    without: list[Handoff] = []
    for frame in reversed(history.frames):
        if frame.opened.handoff is not None:
            # Everything in earlier frames existed when this one was opened.
            if now - _marks(history, frame.number):
                break
            without.append(frame.opened.handoff)
    return without


def _marks(history: SessionProjection, before: int | None) -> set[tuple[str, ...]]:
    measured = {(each.tool, each.arguments_sha256, each.output_sha256) for each in history.evidence(before)}
    found = {(finding.claim.fingerprint,) for finding in history.findings(before)}
    return measured | found
