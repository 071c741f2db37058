"""Replay a session from its ledger without tool calls, questions or writes."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.statement import normal, statement
from esper_agents.domain.agent_action import CallTools, Move
from esper_agents.domain.codec import decode, encode
from esper_agents.domain.ledger import ActionDecided, FrameConcluded, FrameOpened, RowKey, RowKind, TaskHandedOff
from esper_agents.domain.route import Route
from esper_agents.errors import EsperError, ReasonerError
from esper_agents.orchestration.build_certificate import certificate
from esper_agents.orchestration.graph import build_graph, drive
from esper_agents.orchestration.session_projection import SessionProjection
from esper_agents.orchestration.session_run import SessionRun
from esper_agents.storage.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from esper_agents.domain.finding import Finding
    from esper_agents.domain.ledger import LedgerRow
    from esper_agents.orchestration.open_frame import FrameState
    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.storage.ledger import Appended
    from esper_agents.storage.store import Store

_LONGEST = 300
# Events that the program itself writes; all others of a turn come from tools and users.
_OURS = frozenset((RowKind.DECIDING, RowKind.MOVED, RowKind.MOVE_REFUSED))


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Result of a replay.

    Attributes:
        session: `ses_` identifier.
        rows: Number of recorded events.
        replayed: Number of events that the program reproduced.
        ending: Description of the end.
        certificate: ID of the certificate; empty if the session has none.
        sha256: Digest of the reproduced certificate; empty if there is none.
        recorded_sha256: Digest of the issued certificate.
        differences: Differences in the order in which they were found.
    """

    session: str
    rows: int
    replayed: int
    ending: str
    certificate: str
    sha256: str
    recorded_sha256: str
    differences: tuple[str, ...]

    @property
    def is_identical(self) -> bool:
        """Whether the reproduced certificate equals the issued one byte by byte; true if there is none."""
        return self.sha256 == self.recorded_sha256


class _EndOfReplayError(EsperError):
    """The replay cannot continue."""


class ReplayRun(SessionRun):
    """Run that takes every event from the record, and notes differences from what the program would write.

    Attributes:
        differences: Differences found.
        replayed: Number of reproduced events.
    """

    def __init__(self, services: ProjectServices, session_id: str, rows: Sequence[LedgerRow]) -> None:
        """Start with the first event only."""
        super().__init__(services, Lease(session_id, 0, ""), SessionProjection(session_id, rows[:1]), lambda _: None)
        # The digest covers the recorded order of all events, whatever the order of the replay.
        self.history.note_events(row for row in rows if row.key.kind is not RowKind.CERTIFIED)
        self.differences: list[str] = []
        self.replayed = 1
        self._left = {row.key: row for row in rows[1:] if row.key.kind is not RowKind.CERTIFIED}

    async def boundary(self) -> None:
        """Raise before a call without a recorded result."""
        if self._left and next(iter(self._left)).kind is RowKind.CANCELLED:
            self._fold(next(iter(self._left.values())))
        elif any(map(self._is_within_call, self.history.frames)):
            raise _end("the ledger ends within a tool call")

    def _is_within_call(self, frame: FrameState) -> bool:
        """Return whether the record has no result of a call that an open frame decided to make."""
        turn = frame.turns[-1] if frame.turns and not frame.is_closed else None
        if turn is None or turn.moved is None or turn.refusal or not isinstance(turn.moved.move, CallTools):
            return False
        reports = sum(call.report is not None for call in turn.calls.values())
        is_refused = RowKey(frame.number, turn.step, 0, RowKind.MOVE_REFUSED) in self._left
        return reports < len(turn.moved.move.calls) and not is_refused

    def note(self, *entries: tuple[RowKey, object], **index: object) -> None:  # noqa: ARG002 - as it was
        """Take the recorded events in place of these, and note the differences."""
        for key, body in entries:
            row = self._left.get(key)
            if row is None:
                raise self._astray(key, body)
            self.differences.extend(_differences(row, body))
            if key.kind is RowKind.MOVED and not _is_same_move(row, body):
                raise _end(f"{_place(key)} is decided otherwise")
            self._fold(row)
            if key.kind is RowKind.MOVED:
                self._take_results(key)
        while self._left and next(iter(self._left)).kind is RowKind.DRIFT_ACCEPTED:
            self._fold(next(iter(self._left.values())))

    async def record(self, *entries: tuple[RowKey, object], **index: object) -> None:
        """Take the recorded events in place of these; see `note`."""
        self.note(*entries, **index)

    async def begin(self, *entries: tuple[RowKey, object]) -> bool:
        """Take the recorded events in place of these; see `note`."""
        self.note(*entries)
        return True

    def recorded(self, frame: FrameState, step: int) -> ActionDecided | None:
        """Return the recorded decision of a model, which would otherwise be asked again, at a cost.

        Raises:
            ReasonerError: The record says that the consulted model failed.
            _EndOfReplayError: The record has no decision.
        """
        if not frame.opened.definition.is_model:
            return None
        name = frame.opened.agent.name
        if row := self._left.get(RowKey(frame.number, step, 0, RowKind.MOVED)):
            return decode(ActionDecided, row.body)
        if RowKey(frame.number, 0, 0, RowKind.CONCLUDED) in self._left:
            raise ReasonerError(f"{name} failed, as recorded", remedy="see the record: esper sessions show")
        raise _end(f"the ledger ends while {name} decides")

    async def transact(self, work: Callable[[Store], Appended]) -> None:  # noqa: ARG002 - it is never done
        """Raise an error, because a replay writes nothing."""
        raise AssertionError("a replay writes nothing")

    def _take_results(self, moved: RowKey) -> None:
        """Take the recorded results of tools and users for an action."""
        for row in list(self._left.values()):
            key = row.key
            is_said = key.kind not in _OURS or key.call
            if (key.frame, key.step) == (moved.frame, moved.step) and is_said:
                self._fold(row)

    def _fold(self, row: LedgerRow) -> None:
        del self._left[row.key]
        self.replayed += 1
        self.history.add((row,))

    def _astray(self, key: RowKey, body: object) -> _EndOfReplayError:
        """Return the error of a replay that reaches an event which the record does not contain."""
        later = next(iter(self._left.values()), None)
        if later is None or (later.key.frame, later.key.step) == (key.frame, key.step):
            return _end(f"the record ends before {key.kind} at {_place(key)}")
        self.differences.append(
            f"{_place(key)}: {key.kind} now ({_said(body)}), where the record goes on with {later.key.kind}"
        )
        return _end(f"{_place(key)} goes another way")


async def replay(services: ProjectServices, session_id: str, rows: Sequence[LedgerRow]) -> ReplayResult:
    """Replay the recorded events of a session.

    Args:
        services: Current services of the project; its store is only read.
        session_id: `ses_` identifier.
        rows: All events of the session, in order.
    """
    recorded = SessionProjection(session_id, rows)
    with TemporaryDirectory(prefix="esper-replay-") as scratch:
        elsewhere = copy(services)
        # Nothing is stored among the project's artifacts.
        object.__setattr__(elsewhere, "place", replace(services.place, home=Path(scratch)))
        run = ReplayRun(elsewhere, session_id, rows)
        try:
            await drive(build_graph(end=_nothing), run)
            ending = _ending(run.history)
        except EsperError as error:
            if not isinstance(error, _EndOfReplayError):
                run.differences.append(error.problem)
            ending = error.problem
    # If the replay diverges, only the record contains the issued certificate.
    history = run.history if run.history.conclusion else recorded
    frame, data = history.conclusion, b""
    if frame is not None and recorded.certified is not None:
        data = statement(normal(certificate(history, frame)))
    certified = recorded.certified
    return ReplayResult(
        session=session_id,
        rows=len(rows),
        replayed=run.replayed + (run.history.conclusion is not None and certified is not None),
        ending=ending,
        certificate=certified.certificate if certified else "",
        sha256=sha256(data).hexdigest() if data else "",
        recorded_sha256=certified.sha256 if certified else "",
        differences=tuple(dict.fromkeys(run.differences)),
    )


async def _nothing(_: SessionRun) -> None:
    return


def _end(problem: str) -> _EndOfReplayError:
    return _EndOfReplayError(problem, remedy="see the record: esper sessions show")


def _ending(history: SessionProjection) -> str:
    if history.conclusion:
        return "it concludes"
    return f"it is {history.state}"


def _is_same_move(row: LedgerRow, body: object) -> bool:
    then = decode(ActionDecided, row.body)
    return isinstance(body, ActionDecided) and encode(then.move, Move) == encode(body.move, Move)


def _differences(row: LedgerRow, body: object) -> Iterator[str]:
    """Yield the differences between a new and the recorded event, ignoring identifiers and times."""
    place = _place(row.key)
    match body:
        case ActionDecided():
            then = decode(ActionDecided, row.body)
            if not _is_same_move(row, body):
                yield f"{place} decided {_said(then.move)}; it would decide {_said(body.move)} now"
        case Route():
            was = decode(Route, row.body)
            if was.agent != body.agent:
                yield f"routed to {was.agent or 'no agent'} then; it would go to {body.agent or 'no agent'} now"
        case FrameOpened():
            yield from _other_definition(decode(FrameOpened, row.body), body)
        case TaskHandedOff():
            other = decode(TaskHandedOff, row.body)
            if (other.handoff, _claims(other.findings)) != (body.handoff, _claims(body.findings)):
                yield f"{place} handed {_said(other.handoff)} on; it would be {_said(body.handoff)} now"
        case FrameConcluded():
            before = decode(FrameConcluded, row.body)
            if (before.verdict, _claims(before.findings)) != (body.verdict, _claims(body.findings)):
                yield f"{place} concluded {_said(before.verdict)}; it would be {_said(body.verdict)} now"
        case _:
            return


def _other_definition(then: FrameOpened, now: FrameOpened) -> Iterator[str]:
    for field in fields(then.definition):
        was, is_now = (getattr(opened.definition, field.name) for opened in (then, now))
        if was != is_now:
            yield f"{field.name} of {then.agent.name} was {_said(was)}; it is {_said(is_now)} now"


def _claims(found: Sequence[Finding]) -> list[Any]:
    return [(each.claim, each.agent, each.evidence) for each in found]


def _place(key: RowKey) -> str:
    if not key.frame:
        return "the session"
    return f"step {key.frame}.{key.step}" if key.step else f"frame {key.frame}"


def _said(thing: object) -> str:
    """Return a value as text, short enough for a line."""
    text = thing if isinstance(thing, str) else encode(thing) if thing else "nothing"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
