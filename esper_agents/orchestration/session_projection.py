"""Projection of the ledger for the turn loop: frames, turns, open and closed items."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.domain.codec import decode
from esper_agents.domain.drift import Accepted
from esper_agents.domain.finding import Confidence, Standing
from esper_agents.domain.ledger import (
    CertificateIssued,
    FrameConcluded,
    FrameOpened,
    RowKey,
    RowKind,
    RowsPruned,
    TaskHandedOff,
    UserQuestion,
)
from esper_agents.domain.route import Route
from esper_agents.domain.session import SessionState, Submission
from esper_agents.orchestration.open_frame import FrameState
from esper_agents.storage.ledger import event_digest, events_digest, part_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from esper_agents.domain.agent_action import ToolReport
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import Finding
    from esper_agents.domain.handoff import Handoff
    from esper_agents.domain.ledger import LedgerRow


class SessionProjection:
    """State of a session derived from its ledger, updated event by event."""

    def __init__(self, session: str, rows: Iterable[LedgerRow] = ()) -> None:
        """Apply events in order."""
        self.session = session
        self.frames: list[FrameState] = []
        self.submission: Submission | None = None
        self.route: Route | None = None
        self.certified: CertificateIssued | None = None
        self.is_refused = False
        self.is_cancelled = False
        self.accepted: list[Accepted] = []
        self.pruned: RowsPruned | None = None
        self.seq = 0
        self._events: dict[RowKey, tuple[int, bytes]] = {}
        self.add(rows)

    def add(self, rows: Iterable[LedgerRow]) -> None:
        """Apply further events in order."""
        for row in rows:
            self._fold(row)
            self.note_events((row,))
            self.seq = row.seq

    def note_events(self, rows: Iterable[LedgerRow]) -> None:
        """Add stored events to `events_sha256`; events after the certificate are excluded."""
        for row in rows:
            if self.certified is None:
                key = row.key
                digest = event_digest(key.frame, key.step, key.call, key.kind.value, row.at, row.body)
                self._events[key] = (row.seq, digest)

    @property
    def events_sha256(self) -> str:
        """Digest of all events before the one that records the certificate; see `ledger.events_digest`."""
        events = sorted((seq, key.frame, digest) for key, (seq, digest) in self._events.items())
        of_session = part_digest(digest for _, frame, digest in events if not frame)
        return events_digest(of_session, part_digest(digest for _, frame, digest in events if frame))

    def _fold(self, row: LedgerRow) -> None:
        key = row.key
        match key.kind:
            # Nearly all events belong to turns.
            case RowKind.DECIDING if key.call:
                self.frames[key.frame - 1].turn(key.step).lose(row.body)
            case RowKind.DECIDING | RowKind.MOVED | RowKind.MOVE_REFUSED:
                self.frames[key.frame - 1].turn(key.step).put(key.kind, row.body)
            case RowKind.CALLING | RowKind.CALLED | RowKind.ASKED | RowKind.ANSWERED:
                self.frames[key.frame - 1].turn(key.step).call(key.call).put(key.kind, row.body)
            case RowKind.OPENED:
                self._open(FrameState(key.frame, decode(FrameOpened, row.body)))
            case RowKind.HANDED_OFF:
                self.frames[key.frame - 1].handed_off = decode(TaskHandedOff, row.body)
            case RowKind.CONCLUDED:
                frame = self.frames[key.frame - 1]
                frame.concluded, frame.concluded_at = decode(FrameConcluded, row.body), row.at
            case (
                RowKind.SUBMITTED
                | RowKind.ROUTED
                | RowKind.REFUSED
                | RowKind.CERTIFIED
                | RowKind.CANCELLED
                | RowKind.DRIFT_ACCEPTED
                | RowKind.PRUNED
            ):
                self._fold_session(row)

    def _fold_session(self, row: LedgerRow) -> None:
        match row.key.kind:
            case RowKind.SUBMITTED:
                self.submission = decode(Submission, row.body)
            case RowKind.ROUTED | RowKind.REFUSED:
                self.route = decode(Route, row.body)
                self.is_refused = row.key.kind is RowKind.REFUSED
            case RowKind.CERTIFIED:
                self.certified = decode(CertificateIssued, row.body)
            case RowKind.CANCELLED:
                self.is_cancelled = True
            case RowKind.DRIFT_ACCEPTED:
                self.accepted.append(decode(Accepted, row.body))
            case RowKind.PRUNED:
                self.pruned = decode(RowsPruned, row.body)
            case _:
                return

    def _open(self, frame: FrameState) -> None:
        self.frames.append(frame)
        if frame.opened.parent:
            self.frames[frame.opened.parent - 1].turn(frame.opened.parent_step).children.append(frame)

    @property
    def begun(self) -> Submission:
        """Submission of the session, which is recorded in its first transaction."""
        if self.submission is None:
            raise AssertionError("a session without its first row")
        return self.submission

    def first_of_panel(self, frame: FrameState) -> int:
        """Return the number of the first frame of a frame's panel; its own number if it is in no panel.

        All frames of a panel see the same state as the first one.
        """
        if not frame.opened.parent:
            return frame.number
        asked = self.frames[frame.opened.parent - 1].turn(frame.opened.parent_step)
        return min((child.number for child in asked.children), default=frame.number)

    @property
    def current(self) -> FrameState | None:
        """Current frame: the last one opened that has not ended."""
        return next((frame for frame in reversed(self.frames) if not frame.is_closed), None)

    @property
    def conclusion(self) -> FrameState | None:
        """Frame that concluded the task, or None."""
        return next((frame for frame in self.frames if frame.concluded and frame.concluded.verdict), None)

    @property
    def handoffs(self) -> tuple[Handoff, ...]:
        """Handoffs in order."""
        return self.handoffs_before(len(self.frames) + 1)

    def handoffs_before(self, number: int) -> tuple[Handoff, ...]:
        """Return the handoffs before a frame was opened."""
        return tuple(frame.handed_off.handoff for frame in self.frames[: number - 1] if frame.handed_off)

    @property
    def questions(self) -> tuple[UserQuestion, ...]:
        """Questions that users must answer before the session can continue."""
        return tuple(
            question
            for frame in self.frames
            if not frame.is_closed
            for turn in frame.turns
            if turn.result is None
            for question in turn.questions
        )

    @property
    def state(self) -> SessionState:
        """State of the session."""
        if self.is_cancelled:
            return SessionState.CANCELLED
        if self.is_refused:
            return SessionState.REFUSED
        if self.certified:
            return SessionState.DONE
        frame = self.current
        is_waiting = frame is not None and all(each.is_waiting for each in self.next_members(self.open_members(frame)))
        return SessionState.WAITING if is_waiting else SessionState.OPEN

    def open_members(self, frame: FrameState) -> tuple[FrameState, ...]:
        """Return the open members of a frame's panel, in order; the frame alone if it is in none."""
        if not frame.opened.parent:
            return (frame,)
        asked = self.frames[frame.opened.parent - 1].turn(frame.opened.parent_step)
        return tuple(each for each in asked.children if not each.is_closed)

    @staticmethod
    def next_members(members: Sequence[FrameState]) -> tuple[FrameState, ...]:
        """Return the members of a panel that have taken the fewest turns: they take the next ones."""
        least = min(each.next_step for each in members)
        return tuple(each for each in members if each.next_step == least)

    def _frames(self, before: int | None, floor: FrameState | None) -> list[FrameState]:
        """Return frames in order.

        Args:
            before: Only frames with a smaller number; all if None.
            floor: Frame whose guardrail is included as well, with its consults.
        """
        if before is None:
            return self.frames
        within = {floor.floor.number} if floor and floor.floor else set()
        for frame in self.frames[before - 1 :]:
            if frame.opened.parent in within:
                within.add(frame.number)
        return [frame for frame in self.frames if frame.number < before or frame.number in within]

    def reports(
        self, before: int | None = None, floor: FrameState | None = None
    ) -> Iterator[tuple[FrameState, ToolReport]]:
        """Yield each finished tool call with its frame, in order of frames and turns; see `_frames`."""
        for frame in self._frames(before, floor):
            for turn in frame.turns:
                for number in sorted(turn.calls):
                    if report := turn.calls[number].report:
                        yield frame, report

    def evidence(self, before: int | None = None, floor: FrameState | None = None) -> tuple[Evidence, ...]:
        """Return the evidence of the session, in order."""
        return tuple(report.evidence for _, report in self.reports(before, floor))

    def findings(
        self, before: int | None = None, *, floor: FrameState | None = None, more: tuple[Finding, ...] = ()
    ) -> tuple[Finding, ...]:
        """Return the findings that no evidence refuted, merged as by `merge_findings`.

        A model chooses what to run and with which arguments, so a run of its choice cannot refute a finding.

        Args:
            before: Only frames with a smaller number; all if omitted.
            floor: Frame whose guardrail is included as well.
            more: Findings that are not recorded yet.
        """
        reports = tuple(self.reports(before, floor))
        tools = {report.evidence.id: report.evidence.tool for _, report in reports}
        refuted = {
            (mark, report.evidence.tool)
            for frame, report in reports
            if not frame.opened.definition.is_model
            for mark in report.evidence.refutes
        }
        found = merge_findings((*self._all_findings(before, floor), *more))
        # A run that does not reproduce a confirmed finding does not refute it.
        return tuple(
            each
            for each in found
            if not any(
                mark == each.claim.fingerprint and tool not in {tools.get(one) for one in each.evidence}
                for mark, tool in refuted
            )
        )

    def _all_findings(self, before: int | None, floor: FrameState | None) -> Iterator[Finding]:
        for frame in self._frames(before, floor):
            for turn in frame.turns:
                for number in sorted(turn.calls):
                    if report := turn.calls[number].report:
                        yield from report.findings
            if frame.handed_off:
                yield from frame.handed_off.findings
            if frame.concluded:
                yield from frame.concluded.findings


def merge_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return each claim once: its first finder, the highest confidence, and the evidence of all findings."""
    known: dict[str, Finding] = {}
    for finding in findings:
        first = known.get(finding.claim.fingerprint, finding)
        claim = min(first.claim, finding.claim, key=lambda said: _FROM_SUREST.index(said.confidence))
        evidence = tuple(dict.fromkeys((*first.evidence, *finding.evidence)))
        best = min(first, finding, key=lambda said: _FROM_BEST.index(said.standing))
        known[finding.claim.fingerprint] = replace(
            first,
            claim=claim,
            evidence=evidence,
            standing=best.standing,
            checks=best.checks,
            patch=first.patch or finding.patch,
        )
    return tuple(known.values())


_FROM_SUREST, _FROM_BEST = tuple(Confidence), tuple(Standing)
