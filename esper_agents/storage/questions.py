"""Questions in SQL: list the pending ones and find the session of a question."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from esper_agents.domain.ledger import RowKind
from esper_agents.domain.session import SessionState
from esper_agents.storage.tables import ledger, project, session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, Select

_UNFINISHED = (SessionState.OPEN, SessionState.WAITING)
_FEW = 10


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """Location of a question in the ledger.

    Attributes:
        question: `qst_` identifier.
        session: `ses_` identifier.
        frame: The frame that asked it.
        at: Time of the question.
    """

    question: str
    session: str
    frame: int
    at: str


def unanswered(connection: Connection, project_key: str) -> tuple[StoredQuestion, ...]:
    """Return the unanswered questions in a project's unfinished sessions, oldest first."""
    given = ledger.alias("given")
    answer = (
        select(given.c.seq)
        .where(
            given.c.session_id == ledger.c.session_id,
            given.c.frame == ledger.c.frame,
            given.c.step == ledger.c.step,
            given.c.call == ledger.c.call,
            given.c.kind == RowKind.ANSWERED,
        )
        .exists()
    )
    wanted = _of_project(project_key).where(session.c.state.in_(_UNFINISHED), ~answer)
    return tuple(_asked(connection, wanted.order_by(ledger.c.seq)))


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """Answered question of a session.

    Attributes:
        session: `ses_` identifier.
        at: Time of the answer.
        text: The answer.
        by: Name of the user or program that gave it.
        question: The question.
        tool: For an approval, the tool; else empty.
        preview: For an approval, the change or the command line; empty if there is none.
    """

    session: str
    at: str
    text: str
    by: str
    question: str
    tool: str
    preview: str


def answered(connection: Connection, sessions: Sequence[str]) -> tuple[StoredAnswer, ...]:
    """Return the answered questions of some sessions, newest first."""
    place = (ledger.c.session_id, ledger.c.frame, ledger.c.step, ledger.c.call)
    wanted = select(*place, ledger.c.kind, ledger.c.at, ledger.c.body).where(
        ledger.c.session_id.in_(sessions), ledger.c.kind.in_((RowKind.ASKED, RowKind.ANSWERED))
    )
    asked: dict[tuple[Any, ...], Any] = {}
    found = []
    for *where, kind, at, body in connection.execute(wanted.order_by(ledger.c.seq)):
        data = json.loads(body)
        if kind == RowKind.ASKED:
            asked[tuple(where)] = data
        elif question := asked.get(tuple(where)):
            of_question = (question["text"], question["tool"], question.get("preview", ""))
            found.append(StoredAnswer(str(where[0]), str(at), data["text"], data["by"], *of_question))
    return tuple(sorted(found, key=lambda each: each.at, reverse=True))


def ending(connection: Connection, project_key: str, end: str) -> tuple[StoredQuestion, ...]:
    """Return some questions of a project, answered or not, whose identifiers end with a suffix.

    Args:
        connection: The connection.
        project_key: Key of the project.
        end: The suffix; hexadecimal digits only.
    """
    wanted = _of_project(project_key).where(ledger.c.body.contains(f'{end}"'))
    found = (each for each in _asked(connection, wanted) if each.question.endswith(end))
    return tuple(each for each, _ in zip(found, range(_FEW), strict=False))


def project_of(connection: Connection, question: str) -> str | None:
    """Return the folder of the project that a question belongs to; None if there is no such question."""
    wanted = (
        select(project.c.root, ledger.c.body)
        .join(session, session.c.project_key == project.c.key)
        .join(ledger, ledger.c.session_id == session.c.id)
        .where(ledger.c.kind == RowKind.ASKED, ledger.c.body.contains(f'"{question}"'))
    )
    return next((root for root, body in connection.execute(wanted) if json.loads(body)["id"] == question), None)


def _of_project(project_key: str) -> Select[Any]:
    columns = select(ledger.c.session_id, ledger.c.frame, ledger.c.at, ledger.c.body)
    return columns.join(session, session.c.id == ledger.c.session_id).where(
        session.c.project_key == project_key, ledger.c.kind == RowKind.ASKED
    )


def _asked(connection: Connection, wanted: Select[Any]) -> Iterator[StoredQuestion]:
    for each in connection.execute(wanted):
        yield StoredQuestion(json.loads(each.body)["id"], each.session_id, each.frame, each.at)
