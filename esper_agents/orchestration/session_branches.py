"""Fork a session at a step, or continue it from its certificate."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.domain.agent_action import HandOff
from esper_agents.domain.ledger import RowKind
from esper_agents.domain.origin import CONTINUES, FORKED_FROM, PredecessorFinding, PredecessorResult
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.ledger import LedgerRow
    from esper_agents.domain.session import Submission
    from esper_agents.domain.task import Task
    from esper_agents.orchestration.open_frame import FrameState
    from esper_agents.orchestration.session_projection import SessionProjection

_STEP = re.compile(r"(?:(\d{1,6})\.)?(\d{1,6})")
# Events that occur once per session: a fork has its own submission, and does not copy an end.
_NOT_COPIED = frozenset((RowKind.SUBMITTED, RowKind.CERTIFIED, RowKind.CANCELLED))


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """Point at which a session is forked.

    Attributes:
        where: Description, such as `step 1.3`.
        copied: Numbers of the events that the fork starts with.
    """

    where: str
    copied: tuple[int, ...]


def fork_rows(history: SessionProjection, rows: Sequence[LedgerRow], at: str) -> ForkPoint:
    """Return the events that a fork at a step starts with: everything up to the end of that step.

    Args:
        history: Ledger projection of the session.
        rows: Its events, in order.
        at: `FRAME.STEP`; the step alone if there is one frame; `0` for the task alone, before routing.

    Raises:
        UsageError: The step does not exist, or cannot be continued from.
    """
    if at == "0":
        return ForkPoint("the beginning", ())
    frame, step = _named(history, rows, at)
    where = f"step {frame.number}.{step}"
    decided = next((row.seq for row in rows if _is(row, frame, step, RowKind.MOVED)), None)
    after = next((row.seq for row in rows if decided and row.seq > decided and row.key.kind is RowKind.DECIDING), None)
    if after is None:
        is_last = frame is history.conclusion and step == len(frame.turns)
        why = "is where the session concluded" if is_last else "is not finished"
        raise UsageError(f"{where} of {history.session} {why}", remedy=f"fork at an earlier step: {_steps(rows)}")
    before = [row for row in rows if row.seq < after and row.key.kind not in _NOT_COPIED]
    answered = {(row.key.frame, row.key.step, row.key.call) for row in before if row.key.kind is RowKind.ANSWERED}
    # A question belongs to one session: open questions are asked again in the fork.
    open_questions = {
        row.seq
        for row in before
        if row.key.kind is RowKind.ASKED and (row.key.frame, row.key.step, row.key.call) not in answered
    }
    return ForkPoint(where, tuple(row.seq for row in before if row.seq not in open_questions))


def forked(begun: Submission, session_id: str, cut: ForkPoint, *, agent: str, person: str) -> Submission:
    """Return the submission of a fork: the same task, recorded as a fork.

    Args:
        begun: Submission of the original session.
        session_id: ID of the original session.
        cut: Point of the fork.
        agent: Agent for a fork from the beginning; empty for a later fork, or to keep the route.
        person: User who forks it.
    """
    options = {**begun.task.options, FORKED_FROM: f"{session_id} at {cut.where}"}
    return replace(begun, task=replace(begun.task, options=options, agent=agent or begun.task.agent), person=person)


def taken_over(history: SessionProjection, receiver: str, by: str) -> tuple[FrameState, HandOff]:
    """Return the frame that a user ends in a fork, and the handoff to another agent.

    Raises:
        UsageError: The current frame is a consult, or the agent has the task already.
    """
    frame = history.current
    if frame is None:
        raise AssertionError("a fork without an open frame")
    sender = frame.opened.agent.name
    if frame.opened.parent:
        raise UsageError(
            f"{sender} is only consulted at this step; a consult cannot be handed off",
            remedy="fork at a step of the agent that asked; see `esper sessions show`",
        )
    if sender == receiver:
        raise UsageError(f"{receiver} already has the task at this step", remedy="omit --agent, or name another agent")
    seen = "; ".join(each.summary for each in history.evidence())
    reason = f"{by} forked the session and gave it to {receiver}"
    return frame, HandOff(receiver, frame.opened.agent.domain, reason, seen or "nothing has been looked at yet")


def predecessor_result(history: SessionProjection, issued: Certificate | None) -> PredecessorResult:
    """Return the result of a session for its continuation.

    Args:
        history: Ledger projection of the finished session.
        issued: Its certificate; None if it ended without one.
    """
    last = history.conclusion or (history.frames[-1] if history.frames else None)
    # For a pruned session, everything comes from the certificate.
    kept = issued if history.pruned else None
    return PredecessorResult(
        session=history.session,
        certificate=issued.id if issued else "",
        request=history.begun.task.request,
        agent=last.opened.agent.name if last else kept.agent if kept else "",
        status=str(issued.verdict.status) if issued else "",
        summary=issued.summary if issued else "",
        findings=kept.findings if kept else history.findings(),
        evidence=tuple(
            PredecessorFinding(each.id, each.tool, each.summary, each.output_sha256, each.rerun)
            for each in (kept.evidence if kept else history.evidence())
        ),
        next_steps=issued.next_steps if issued else (),
    )


def continued(task: Task, before: PredecessorResult) -> Task:
    """Return a task recorded as the continuation of a session."""
    other = f"{before.session} ({before.certificate})" if before.certificate else before.session
    return replace(task, options={**task.options, CONTINUES: other})


def is_about_the_same(task: Task, other: Task) -> bool:
    """Return whether two tasks have the same question type and code: only then one answer supersedes the other."""
    return task.kind is other.kind and bool(task.paths) and set(task.paths) == set(other.paths)


def _is(row: LedgerRow, frame: FrameState, step: int, kind: RowKind) -> bool:
    return (row.key.frame, row.key.step, row.key.kind) == (frame.number, step, kind)


def _named(history: SessionProjection, rows: Sequence[LedgerRow], at: str) -> tuple[FrameState, int]:
    found = _STEP.fullmatch(at)
    if found is None or (found[1] is None and len(history.frames) > 1):
        raise UsageError(f"{at!r} is not a step", remedy=f"use FRAME.STEP, or 0: {_steps(rows)}")
    number, step = int(found[1] or 1), int(found[2])
    frame = history.frames[number - 1] if 1 <= number <= len(history.frames) else None
    if frame is None or not 1 <= step <= len(frame.turns):
        raise UsageError(f"{history.session} has no step {at}", remedy=f"name one of these: {_steps(rows)}")
    return frame, step


def _steps(rows: Sequence[LedgerRow]) -> str:
    """Return the steps at which a session can be forked as text: those followed by another decision."""
    newest = max((row.seq for row in rows if row.key.kind is RowKind.DECIDING), default=0)
    last = {row.key.frame: row.key.step for row in rows if row.key.kind is RowKind.MOVED and row.seq < newest}
    return ", ".join(("0", *(f"{frame}.1{f' to {frame}.{step}' * (step > 1)}" for frame, step in last.items())))
