"""State of one turn of a frame, derived from its events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from esper_agents.domain.agent_action import Ask, CallTools, Conclude, Consult, HandOff, Panel, ToolReport, UserAnswer
from esper_agents.domain.codec import decode
from esper_agents.domain.ledger import ActionDecided, CallStarted, Refusal, RowKind, UserQuestion

if TYPE_CHECKING:
    from esper_agents.domain.agent_action import Move, TurnResult
    from esper_agents.domain.codec import JsonObject
    from esper_agents.orchestration.open_frame import FrameState

T = TypeVar("T")


class _Rows:
    """Events of a turn or call, parsed on first access because most are never read."""

    __slots__ = ("_found", "_texts")

    def __init__(self) -> None:
        self._texts: dict[RowKind, str] = {}
        self._found: dict[RowKind, Any] = {}

    def put(self, kind: RowKind, text: str) -> None:
        """Store the text of an event."""
        self._texts[kind] = text
        self._found.pop(kind, None)

    def has(self, kind: RowKind) -> bool:
        """Return whether there is an event of a kind."""
        return kind in self._texts

    def _body(self, kind: RowKind, shape: type[T]) -> T | None:
        if kind not in self._found:
            text = self._texts.get(kind)
            self._found[kind] = None if text is None else decode(shape, text)
        found: T | None = self._found[kind]
        return found


class PendingCall(_Rows):
    """Tool call, or question of an `Ask` action, in progress."""

    __slots__ = ()

    @property
    def question(self) -> UserQuestion | None:
        """Question to the user."""
        return self._body(RowKind.ASKED, UserQuestion)

    @property
    def answer(self) -> UserAnswer | None:
        """Answer of the user."""
        return self._body(RowKind.ANSWERED, UserAnswer)

    @property
    def calling(self) -> CallStarted | None:
        """Start event of the call."""
        return self._body(RowKind.CALLING, CallStarted)

    @property
    def report(self) -> ToolReport | None:
        """Result of the call."""
        return self._body(RowKind.CALLED, ToolReport)

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a user's answer."""
        return self.has(RowKind.ASKED) and not self.has(RowKind.ANSWERED)


class OpenTurn(_Rows):
    """Turn in progress or completed.

    Attributes:
        step: Step number, from 1.
        calls: Calls by number.
        children: Frames of a consult or panel, in order.
        lost: Usage of each decision that was discarded; see `reasoner.Decision`.
    """

    __slots__ = ("_result", "calls", "children", "lost", "step")

    def __init__(self, step: int) -> None:
        super().__init__()
        self._result: TurnResult | None = None
        self.step = step
        self.calls: dict[int, PendingCall] = {}
        self.children: list[FrameState] = []
        self.lost: list[JsonObject] = []

    @property
    def moved(self) -> ActionDecided | None:
        """Decided action; None while deciding."""
        return self._body(RowKind.MOVED, ActionDecided)

    @property
    def refusal(self) -> Refusal | None:
        """Reason why the action was refused, or None."""
        return self._body(RowKind.MOVE_REFUSED, Refusal)

    def lose(self, text: str) -> None:
        """Store the event of a discarded decision."""
        self.lost.append(json.loads(text).get("record", {}))

    def call(self, number: int) -> PendingCall:
        """Return a call, created at its first event."""
        return self.calls.setdefault(number, PendingCall())

    @property
    def result(self) -> TurnResult | Refusal | None:
        """Result of the action; None while it is in progress, and always after an action that ends the frame."""
        if self.moved is None or self.refusal is not None:
            return self.refusal
        # A result does not change.
        if self._result is None:
            self._result = _result(self.moved.move, self)
        return self._result

    @property
    def questions(self) -> tuple[UserQuestion, ...]:
        """Open questions to the user."""
        return tuple(call.question for call in self.calls.values() if call.question and call.answer is None)

    @property
    def is_waiting(self) -> bool:
        """Whether only an answer can continue this turn."""
        if not any(each.is_waiting for each in self.calls.values()) or self.moved is None or self.result is not None:
            return False
        wanted = len(self.moved.move.calls) if isinstance(self.moved.move, CallTools) else 1
        # Calls run in order, so the first one without a result decides.
        open_calls = (call for n in range(wanted) if not ((call := self.calls.get(n)) and call.report))
        first = next(open_calls, None)
        return first is not None and first.is_waiting


def _result(move: Move, turn: OpenTurn) -> TurnResult | None:
    match move:
        case CallTools():
            reports = tuple(turn.calls[n].report for n in sorted(turn.calls))
            done = tuple(report for report in reports if report)
            return done if done and len(done) == len(move.calls) else None
        case Ask():
            asked = turn.calls.get(0)
            return asked.answer if asked else None
        case Consult():
            return turn.children[0].answer if turn.children else None
        case Panel():
            answers = tuple(answer for child in turn.children if (answer := child.answer))
            return answers if answers and len(answers) == len(move.consults) else None
        case HandOff() | Conclude():
            return None
