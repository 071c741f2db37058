"""Answers of users: bound to one question, type-checked and written once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.agent_action import Conclude, ToolCall, UserAnswer
from esper_agents.domain.answer_type import AnswerType
from esper_agents.domain.approval_scope import ONE_QUESTION, AnswerReach, ScopeKind
from esper_agents.domain.evidence import Risk
from esper_agents.domain.ledger import RowKey, RowKind
from esper_agents.domain.plain_text import plain
from esper_agents.domain.session import SessionState
from esper_agents.errors import NotFoundError, UsageError
from esper_agents.orchestration.approval_scopes import approval_scope, covers
from esper_agents.orchestration.permissions import APPROVE, DENY
from esper_agents.orchestration.session_projection import SessionProjection
from esper_agents.storage import ledger, questions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.approval_scope import ApprovalScope
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
        known = [open_one.question for open_one in open_ones]
        found = [open_one for open_one in open_ones if is_name and open_one.question.endswith(bare)]
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


def session_question(history: SessionProjection, found: SessionSummary, *, is_all: bool = False) -> str:
    """Return the ID of the only open question of a session; of the first one if all are answered together.

    Raises:
        UsageError: The session has none, or more than one and they are not answered together.
    """
    asked = history.questions
    if not asked:
        raise UsageError(
            f"session {found.id} has no pending question", remedy=f"list the pending questions: {_LISTING}"
        )
    if len(asked) > 1 and not is_all:
        problem = f"session {found.id} asks {len(asked)} questions"
        raise UsageError(problem, remedy=f"name one of them (`{_LISTING}`), or answer all: --all")
    return asked[0].id


async def record_answer(
    run: SessionRun,
    question_id: str,
    text: str,
    by: str,
    *,
    is_decision: bool = False,
    reach: AnswerReach = ONE_QUESTION,
) -> tuple[UserQuestion, ...]:
    """Record the answer to a question of the session, and return the questions that it answers.

    Args:
        run: Run that writes the events.
        question_id: `qst_` identifier.
        text: Text of the answer.
        by: Name of the user who answers.
        is_decision: Whether it is an approval or a denial instead of a text answer.
        reach: What else it answers or approves.

    Raises:
        NotFoundError: The session has no such question.
        UsageError: It was answered before, it is closed, or the answer is not valid.
    """
    question = _open_question(run, question_id, by)
    said = _fitting(question, text, is_decision=is_decision)
    asked = _questions_by_id(run.history)
    wanted = [question]
    if reach.is_all:
        wanted = [each for each in run.history.questions if each.options == question.options]
    answers: dict[str, UserAnswer] = {}
    for each in wanted:
        scope = _scope(run, each, said, reach)
        answers[each.id] = UserAnswer(each.id, said, by, scope)
        if scope is not None:
            answers = _covered(run, each, answers[each.id]) | answers
    entries = [(asked[name][0], answer) for name, answer in answers.items()]
    await run.record(*entries, state=SessionState.OPEN)
    return tuple(told for name in answers if (told := asked[name][2].question))


def _open_question(run: SessionRun, question_id: str, by: str) -> UserQuestion:
    """Return a question that can be answered now by a user."""
    if question_id not in (asked := _questions_by_id(run.history)):
        raise NotFoundError("question", question_id, asked, listing=_LISTING)
    _, turn, call = asked[question_id]
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
    return question


def _scope(run: SessionRun, question: UserQuestion, said: str, reach: AnswerReach) -> ApprovalScope | None:
    if reach.kind is not ScopeKind.ONCE and said != APPROVE:
        raise UsageError(f"{said!r} has no scope: only an approval has one", remedy=f"esper approve {question.id}")
    if reach.kind is ScopeKind.PREFIX and reach.is_all:
        problem = "a command prefix belongs to one question"
        raise UsageError(problem, remedy=f"esper approve {question.id} --prefix WORDS")
    return approval_scope(run.services, run.session, question, reach.kind, reach.prefix)


def _covered(run: SessionRun, question: UserQuestion, answer: UserAnswer) -> dict[str, UserAnswer]:
    """Return the answers to the other open questions that an approval with a scope covers."""
    tools = run.services.tools.tools
    others = (each for each in run.history.questions if each.tool in tools and each != question)
    return {
        each.id: UserAnswer(each.id, answer.text, answer.by)
        for each in others
        if covers(run.session, question, answer, tools[each.tool], ToolCall(each.tool, each.arguments))
    }


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


def _questions_by_id(history: SessionProjection) -> dict[str, tuple[RowKey, OpenTurn, PendingCall]]:
    return {call.question.id: (key, turn, call) for key, turn, call in _questions(history) if call.question}


def _questions(history: SessionProjection) -> Iterator[tuple[RowKey, OpenTurn, PendingCall]]:
    for frame in history.frames:
        for turn in frame.turns:
            for number, call in turn.calls.items():
                if call.question is not None:
                    yield RowKey(frame.number, turn.step, number, RowKind.ANSWERED), turn, call
