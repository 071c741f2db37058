"""Question operations of an open project: list and answer the questions of sessions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.api.current_user import person
from esper_agents.api.service import Service
from esper_agents.domain.approval_scope import ONE_QUESTION
from esper_agents.domain.codec import carried
from esper_agents.errors import BusyError, UsageError
from esper_agents.orchestration.answers import (
    client_name,
    find_question,
    needs_person,
    pending_questions,
    record_answer,
    session_question,
)
from esper_agents.orchestration.permissions import DENY
from esper_agents.orchestration.session_run import hold_lease
from esper_agents.storage import lease
from esper_agents.storage.session_lookup import LATEST

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.api.session import Session
    from esper_agents.domain.approval_scope import AnswerReach
    from esper_agents.domain.ledger import UserQuestion
    from esper_agents.orchestration.answers import PendingQuestion

_LOOKS, _LOOK_S = 20, 0.1


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """Recorded answer.

    Attributes:
        session: `ses_` identifier.
        questions: Questions that it answers.
    """

    session: str
    questions: tuple[UserQuestion, ...]


class ApprovalService(Service):
    """Questions of sessions to the user: approvals of tools, and requests for information."""

    async def answer(
        self,
        question_id: str,
        text: str,
        *,
        is_decision: bool = False,
        client: str = "",
        reach: AnswerReach = ONE_QUESTION,
    ) -> Session:
        """Answer a question, and take the lease of its session so that it can continue; see `record`.

        Raises:
            ChangedError: The answer is recorded, but definitions of the session have changed; use `resume`.
        """
        recorded = await self.record(question_id, text, is_decision=is_decision, client=client, reach=reach)
        return await self.resume(recorded.session)

    async def resume(self, session_id: str) -> Session:
        """Take the lease of a session whose questions were answered, so that it can continue.

        Raises:
            BusyError: Another process works on the session.
            ChangedError: Definitions of the session have changed; use `resume` of the tasks.
        """
        # A process that answers the same question later holds the lease for a moment and is then refused.
        for _ in range(_LOOKS):
            with suppress(BusyError):
                return await self._project.tasks.resume(session_id)
            await asyncio.sleep(_LOOK_S)
        return await self._project.tasks.resume(session_id)

    async def record(
        self,
        question_id: str,
        text: str,
        *,
        is_decision: bool = False,
        client: str = "",
        reach: AnswerReach = ONE_QUESTION,
    ) -> RecordedAnswer:
        """Record the answer to a question without resuming its session.

        Args:
            question_id: `qst_` identifier or a suffix of one, the identifier of a session with exactly one question, or
                `latest` for the newest open question.
            text: `approve` or `deny` for an approval, else the answer.
            is_decision: Whether the text approves or denies; a question that needs words does not accept that.
            client: Name of the program that answers; empty for the current user. The answer is recorded as the
                program's, and cannot approve what needs a person.
            reach: Whether it answers all approvals of the turn, and which further calls an approval covers.

        Raises:
            NotFoundError: There is no such question.
            UsageError: The question is answered or closed, or does not accept this answer, or needs a person.
            BusyError: Another process works on the session.
        """
        session_id, question = await self._asked(question_id, is_all=reach.is_all)
        held = await self._store.run(lease.claim, session_id)
        async with hold_lease(self._services, held, lambda _: None) as run:
            if client:
                self._refuse_client(question, text, run.history.questions, reach)
            by = client_name(client) if client else person()
            answered = await record_answer(run, question, carried(text), by, is_decision=is_decision, reach=reach)
        return RecordedAnswer(session_id, answered)

    def needs_person(self, question: UserQuestion) -> bool:
        """Return whether only a person can approve what a question asks."""
        return needs_person(self._services, question)

    def _refuse_client(
        self, wanted: str, text: str, open_questions: Iterable[UserQuestion], reach: AnswerReach
    ) -> None:
        """Raise an error if a program would decide what only a person can.

        Raises:
            UsageError: It would.
        """
        if reach != ONE_QUESTION:
            problem = f"question {wanted} needs a person: a program answers one question at a time"
            raise UsageError(problem, remedy=f"in a terminal: esper approve {wanted}")
        if text != DENY and any(
            open_question.id == wanted and self.needs_person(open_question) for open_question in open_questions
        ):
            raise UsageError(
                f"question {wanted} needs a person: its risk is above low",
                remedy=f"in a terminal: esper approve {wanted}",
            )

    async def _asked(self, wanted: str, *, is_all: bool) -> tuple[str, str]:
        if wanted.startswith("ses_") or wanted == LATEST:
            # The newest session may ask nothing while an older one does.
            newest = (await self.list())[-1:] if wanted == LATEST else ()
            found = await self._project.sessions.get(newest[0].session if newest else wanted)
            history = await self._project.sessions.history(found.id)
            return found.id, session_question(history, found, is_all=is_all)
        asked = await self._store.run(find_question, self._key, wanted)
        return asked.session, asked.question

    async def list(self) -> tuple[PendingQuestion, ...]:
        """Return the pending questions of the project's sessions, oldest first."""
        return await self._store.run(pending_questions, self._key)

    async def questions(self) -> tuple[tuple[str, UserQuestion], ...]:
        """Return the pending questions with their sessions."""
        return tuple((each.session, each.question) for each in await self.list())
