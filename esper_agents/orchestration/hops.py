"""Whether a task may go to another agent: known, within the budget, and not round in a circle without progress."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from esper_agents.orchestration.history import History

MOST_HOPS = 8


def refused_hop(history: History, receiver: str, known: Collection[str]) -> str:
    """Return why the task may not go to an agent now, or an empty string where it may.

    An agent that has had the task gets it back only if something new was found or measured since.
    """
    frame = history.current
    sender = frame.opened.agent.name if frame else ""
    if receiver not in known:
        close = get_close_matches(receiver, sorted(known), n=2)
        hint = "; did you mean " + " or ".join(close) + "?" if close else ""
        return f"there is no agent named {receiver!r}{hint}"
    if receiver == sender:
        return f"{receiver} cannot hand off to itself"
    if len(history.handoffs) >= MOST_HOPS:
        return f"the task has been handed off {MOST_HOPS} times, which is the most"
    had = [each.number for each in history.frames if each.opened.agent.name == receiver and not each.opened.parent]
    last = max(had, default=0)
    if last and not _has_progressed(history, since=last):
        return f"{receiver} has had the task, and nothing new was found or measured since"
    return ""


def _has_progressed(history: History, *, since: int) -> bool:
    """Return whether frames after `since` hold a finding or a piece of evidence that no frame up to it has."""
    return bool(_marks(history, None) - _marks(history, since + 1))


def _marks(history: History, before: int | None) -> set[tuple[str, ...]]:
    measured = {(each.tool, each.arguments_sha256, each.output_sha256) for each in history.evidence(before)}
    found = {(each.claim.fingerprint,) for each in history.findings(before)}
    return measured | found
