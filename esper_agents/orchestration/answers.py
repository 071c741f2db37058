"""Answers of users: bound to one question, type-checked and written once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.agent_action import Conclude, UserAnswer
from esper_agents.domain.answer_type import AnswerType
from esper_agents.domain.evidence import Risk
from esper_agents.domain.ledger import RowKey, RowKind
from esper_agents.domain.plain_text import plain
from esper_agents.domain.session import SessionState
from esper_agents.errors import NotFoundError, UsageError
from esper_agents.orchestration.permissions import APPROVE, DENY
from esper_agents.orchestration.session_projection import SessionProjection
from esper_agents.storage import ledger, questions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.ledger import UserQuestion
    from esper_agents.domain.session import SessionSummary
    from esper_agents.orchestration.open_turn import OpenTurn, PendingCall
    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.orchestration.session_run import SessionRun
    from esper_agents.storage.store import Store

_LISTING = "esper approvals list"
_SHORTEST, _WHOLE = 6, 32
_LONGEST = 20_000
_BARE = re.compile(r"[0-9a-f]+")
_FORMS = {
    AnswerType.INTEGER: re.compile(r"-?[0-9]{1,18}"),
    AnswerType.NUMBER: re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?"),
}
_EXAMPLES = {AnswerType.INTEGER: "a whole number such as 8", AnswerType.NUMBER: "a number such as 0.5"}
# Measurements of a model count only if a person agreed to its inputs.
_LAB = "torch-"
_LONGEST_CLIENT = 60
# Name used if the system does not know the user.
_NOBODY = frozenset(("", "unknown"))


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """Question that waits for an answer.

    Attributes:
        session: `ses_` identifier.
        agent: Agent that asks.
        since: Time of the question.
        question: The question.
    """

    session: str
    agent: str
    since: str
    question: UserQuestion

    @property
    def is_decision(self) -> bool:
        """Whether the question is an approval."""
        return self.question.options == (APPROVE, DENY)


def needs_person(services: ProjectServices, question: UserQuestion) -> bool:
    """Return whether only a person can approve what a question asks: a program may answer for its user.

    A program can answer a request for information, decline anything, and approve a call of a tool of low risk that is
    no measurement.
    """
    if not question.options or (not question.tool and APPROVE not in question.options):
        return False
    if question.tool.startswith(_LAB):
        return True
    try:
        return services.tools.get(question.tool).risk is not Risk.LOW
    except NotFoundError:
        return True


def client_name(name: str) -> str:
    """Return how an answer by a program is recorded: `client NAME`, which is no name of a person."""
    return f"client {' '.join(plain(name).split())[:_LONGEST_CLIENT] or 'unknown'}"


def pending_questions(store: Store, project_key: str) -> tuple[PendingQuestion, ...]:
    """Return the open questions of a project, oldest first."""
    with store.reading() as connection:
        asked = questions.unanswered(connection, project_key)
        told = {each.session: SessionProjection(each.session, ledger.rows(connection, each.session)) for each in asked}
    found: list[PendingQuestion] = []
    for each in asked:
        history = told[each.session]
        # A frame may end with an open question, for example if a budget stops it; then no answer is needed.
        open_here = {question.id: question for question in history.questions}
        agent = history.frames[each.frame - 1].opened.agent.name
        if question := open_here.get(each.question):
            found.append(PendingQuestion(each.session, agent, each.at, question))
    return tuple(found)


def find_question(store: Store, project_key: str, wanted: str) -> questions.StoredQuestion:
    """Return one question, answered or not, by its ID or the end of it.

    Raises:
        NotFoundError: The project has no such question.
        UsageError: More than one question matches, or the question belongs to another project.
    """
    bare = wanted.removeprefix("qst_")
    is_name = _BARE.fullmatch(bare) is not None and len(bare) >= _SHORTEST
    with store.reading() as connection:
        # Open questions are few and indexed.
        open_ones = questions.unanswered(connection, project_key)
        known = [each.question for each in open_ones]
        found = [each for each in open_ones if is_name and each.question.endswith(bare)]
        if is_name and not found:
            found = list(questions.ending(connection, project_key, bare))
        if len(found) == 1:
            return found[0]
        if found:
            some = " or ".join(sorted(each.question for each in found)[:3])
            raise UsageError(f"{wanted!r} matches {len(found)} questions", remedy=f"use a longer ID: {some}")
        root = questions.project_of(connection, f"qst_{bare}") if is_name and len(bare) == _WHOLE else None
    if root is not None:
        problem = f"question {wanted} belongs to the project in {root!r}"
        raise UsageError(problem, remedy=f"use --project {root}")
    raise NotFoundError("question", wanted, known, listing=_LISTING)


def only_question(history: SessionProjection, found: SessionSummary) -> str:
    """Return the ID of the only open question of a session.

    Raises:
        UsageError: The session has none or more than one.
    """
    asked = history.questions
    if not asked:
        raise UsageError(
            f"session {found.id} has no pending question", remedy=f"list the pending questions: {_LISTING}"
        )
    if len(asked) > 1:
        problem = f"session {found.id} asks {len(asked)} questions"
        raise UsageError(problem, remedy=f"name one of them: run `{_LISTING}`")
    return asked[0].id


async def record_answer(run: SessionRun, question_id: str, text: str, by: str, *, is_decision: bool = False) -> None:
    """Record the answer to a question of the session.

    Args:
        run: Run that writes the events.
        question_id: `qst_` identifier.
        text: Text of the answer.
        by: Name of the user who answers.
        is_decision: Whether it is an approval or a denial instead of a text answer.

    Raises:
        NotFoundError: The session has no such question.
        UsageError: It was answered before, it is closed, or the answer is not valid.
    """
    key, turn, call = _asked(run.history, question_id)
    if call.answer is not None:
        raise UsageError(
            f"question {question_id} is already answered: {call.answer.text!r}",
            remedy=f"run `esper sessions show {run.session}`; the first answer applies",
        )
    if run.history.state not in {SessionState.OPEN, SessionState.WAITING}:
        raise UsageError(
            f"session {run.session} is {run.history.state}; its questions are closed",
            remedy="submit the task again",
        )
    question = call.question
    if question is None or question not in run.history.questions:
        problem = f"question {question_id} is closed: the session continued without an answer"
        raise UsageError(problem, remedy=f"list the pending questions: {_LISTING}")
    is_agreement = turn.moved is not None and isinstance(turn.moved.move, Conclude)
    if is_agreement and by in _NOBODY:
        problem = "advice must be approved by a named user, but the system does not provide your name"
        raise UsageError(problem, remedy="set LOGNAME to your name")
    said = _fitting(question, text, is_decision=is_decision)
    await run.record((key, UserAnswer(question_id, said, by)), state=SessionState.OPEN)


def _fitting(question: UserQuestion, text: str, *, is_decision: bool) -> str:
    """Return an answer in its recorded form, or raise if it is not valid."""
    if is_decision and question.options != (APPROVE, DENY):
        raise UsageError(
            f"question {question.id} needs an answer, not an approval",
            remedy=f"esper answer {question.id} ANSWER",
        )
    if question.options:
        if text not in question.options:
            raise UsageError(
                f"{text!r} is not a valid answer to this question",
                remedy="answer one of " + ", ".join(question.options),
            )
        return text
    said = text.strip()
    form = _FORMS.get(question.wants)
    if form is not None and not form.fullmatch(said, endpos=_LONGEST):
        raise UsageError(f"{said[:60]!r} is not a valid {question.wants}", remedy=f"answer {_EXAMPLES[question.wants]}")
    if not said:
        raise UsageError(
            "the answer is empty", remedy="enter an answer, or end the session with `esper sessions cancel`"
        )
    if len(said) > _LONGEST:
        problem = f"the answer has {len(said)} characters; the maximum is {_LONGEST}"
        raise UsageError(problem, remedy="put it in a file of the project and name the file")
    return said


def _asked(history: SessionProjection, question_id: str) -> tuple[RowKey, OpenTurn, PendingCall]:
    asked = {call.question.id: (key, turn, call) for key, turn, call in _questions(history) if call.question}
    if question_id in asked:
        return asked[question_id]
    raise NotFoundError("question", question_id, asked, listing=_LISTING)


def _questions(history: SessionProjection) -> Iterator[tuple[RowKey, OpenTurn, PendingCall]]:
    for frame in history.frames:
        for turn in frame.turns:
            for number, call in turn.calls.items():
                if call.question is not None:
                    yield RowKey(frame.number, turn.step, number, RowKind.ANSWERED), turn, call
