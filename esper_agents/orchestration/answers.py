"""A person's answer: bound to one question, written once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.ledger import RowKey, RowKind
from esper_agents.domain.move import Answer
from esper_agents.domain.session import SessionState
from esper_agents.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.orchestration.history import Call, History
    from esper_agents.orchestration.run import Run


async def record_answer(run: Run, question_id: str, text: str, by: str) -> None:
    """Write the answer to one question of the session.

    Raises:
        NotFoundError: The session never asked that.
        UsageError: It was answered before, the session is over, or the answer is not one of the options.
    """
    key, call = _asked(run.history, question_id)
    if call.answer is not None:
        raise UsageError(
            f"question {question_id} was answered before, with {call.answer.text!r}",
            remedy=f"run `esper sessions show {run.session}`; the first answer stands",
        )
    if run.history.state not in {SessionState.OPEN, SessionState.WAITING}:
        raise UsageError(
            f"session {run.session} is {run.history.state}; nothing can be answered any more",
            remedy="submit the task again",
        )
    options = call.question.options if call.question else ()
    if options and text not in options:
        raise UsageError(f"{text!r} is no answer to this question", remedy="answer one of " + ", ".join(options))
    await run.record((key, Answer(question_id, text, by)), state=SessionState.OPEN)


def _asked(history: History, question_id: str) -> tuple[RowKey, Call]:
    asked = {call.question.id: (key, call) for key, call in _questions(history) if call.question}
    if question_id in asked:
        return asked[question_id]
    raise NotFoundError("question", question_id, asked, listing=f"esper sessions show {history.session}")


def _questions(history: History) -> Iterator[tuple[RowKey, Call]]:
    for frame in history.frames:
        for turn in frame.turns:
            for number, call in turn.calls.items():
                if call.question is not None:
                    yield RowKey(frame.number, turn.step, number, RowKind.ANSWERED), call
