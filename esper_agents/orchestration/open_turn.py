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
    """What the rows of a turn or a call hold, each read when it is first looked at: most are never."""

    __slots__ = ("_found", "_texts")

    def __init__(self) -> None:
        self._texts: dict[RowKind, str] = {}
        self._found: dict[RowKind, Any] = {}

    def put(self, kind: RowKind, text: str) -> None:
        """Take the text of a row."""
        self._texts[kind] = text
        self._found.pop(kind, None)

    def has(self, kind: RowKind) -> bool:
        """Return whether there is a row of a kind."""
        return kind in self._texts

    def _body(self, kind: RowKind, shape: type[T]) -> T | None:
        if kind not in self._found:
            text = self._texts.get(kind)
            self._found[kind] = None if text is None else decode(shape, text)
        found: T | None = self._found[kind]
        return found


class PendingCall(_Rows):
    """One tool call, or the one question of an `Ask`, as far as it has come."""

    __slots__ = ()

    @property
    def question(self) -> UserQuestion | None:
        """What a person was asked."""
        return self._body(RowKind.ASKED, UserQuestion)

    @property
    def answer(self) -> UserAnswer | None:
        """What they answered."""
        return self._body(RowKind.ANSWERED, UserAnswer)

    @property
    def calling(self) -> CallStarted | None:
        """What was begun."""
        return self._body(RowKind.CALLING, CallStarted)

    @property
    def report(self) -> ToolReport | None:
        """What came of it."""
        return self._body(RowKind.CALLED, ToolReport)

    @property
    def is_waiting(self) -> bool:
        """Whether a person must answer first."""
        return self.has(RowKind.ASKED) and not self.has(RowKind.ANSWERED)


class OpenTurn(_Rows):
    """One turn, as far as it has come.

    Attributes:
        step: From 1.
        calls: By number.
        children: The frames of a consult or a panel, in order.
        lost: What each decision that came to nothing has used; see `reasoner.Decision`.
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
        """What was decided; None while deciding."""
        return self._body(RowKind.MOVED, ActionDecided)

    @property
    def refusal(self) -> Refusal | None:
        """Why the move could not be carried out, or None."""
        return self._body(RowKind.MOVE_REFUSED, Refusal)

    def lose(self, text: str) -> None:
        """Take the text of a row of a decision that came to nothing."""
        self.lost.append(json.loads(text).get("record", {}))

    def call(self, number: int) -> PendingCall:
        """Return one call, made at its first row."""
        return self.calls.setdefault(number, PendingCall())

    @property
    def result(self) -> TurnResult | Refusal | None:
        """What came of the move; None while it is being carried out, and always after a move that ends the frame."""
        if self.moved is None or self.refusal is not None:
            return self.refusal
        # Once it is there it stays as it is.
        if self._result is None:
            self._result = _result(self.moved.move, self)
        return self._result

    @property
    def questions(self) -> tuple[UserQuestion, ...]:
        """What a person must answer."""
        return tuple(each.question for each in self.calls.values() if each.question and each.answer is None)

    @property
    def is_waiting(self) -> bool:
        """Whether nothing but an answer can take this turn further."""
        if not any(each.is_waiting for each in self.calls.values()) or self.moved is None or self.result is not None:
            return False
        wanted = len(self.moved.move.calls) if isinstance(self.moved.move, CallTools) else 1
        return all((call := self.calls.get(n)) and (call.report or call.is_waiting) for n in range(wanted))


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
            answers = tuple(answer for each in turn.children if (answer := each.answer))
            return answers if answers and len(answers) == len(move.consults) else None
        case HandOff() | Conclude():
            return None
