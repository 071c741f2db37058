"""Question operations of an open project: list and answer questions, cancel sessions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from esper_agents.api.current_user import person
from esper_agents.api.session import cancel_held
from esper_agents.api.sessions import SessionService
from esper_agents.domain.codec import carried
from esper_agents.domain.session import SessionState
from esper_agents.errors import BusyError, UsageError
from esper_agents.orchestration.answers import find_question, only_question, pending_questions, record_answer
from esper_agents.orchestration.session_run import hold_lease
from esper_agents.storage import lease, sessions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.api.session import Session
    from esper_agents.domain.ledger import UserQuestion
    from esper_agents.domain.session import SessionSummary
    from esper_agents.orchestration.answers import PendingQuestion

_LOOKS, _LOOK_S = 20, 0.1
_ALL = 1_000_000


class QuestionService(SessionService):
    """Question operations of an open project."""

    async def answer(self, question_id: str, text: str, *, is_decision: bool = False) -> Session:
        """Answer a question, and take the lease of its session so that it can continue.

        Args:
            question_id: `qst_` identifier or a suffix of one, or the identifier of a session with exactly one question.
            text: `approve` or `deny` for an approval, else the answer.
            is_decision: Whether the text approves or denies; a question that needs words does not accept that.

        Raises:
            NotFoundError: There is no such question.
            UsageError: The question is answered or closed, or does not accept this answer.
            BusyError: Another process works on the session.
            ChangedError: The answer is recorded, but definitions of the session have changed; use `resume`.
        """
        session_id, question = await self._asked(question_id)
        held = await self._store.run(lease.claim, session_id)
        async with hold_lease(self.services, held, lambda _: None) as run:
            await record_answer(run, question, carried(text), person(), is_decision=is_decision)
        # A process that answers the same question later holds the lease for a moment and is then refused.
        for _ in range(_LOOKS):
            with suppress(BusyError):
                return await self.resume(session_id)
            await asyncio.sleep(_LOOK_S)
        return await self.resume(session_id)

    async def _asked(self, wanted: str) -> tuple[str, str]:
        if wanted.startswith("ses_") or wanted == "latest":
            found = await self.session(wanted)
            return found.id, only_question(await self.history(found.id), found)
        asked = await self._store.run(find_question, self._key, wanted)
        return asked.session, asked.question

    async def approvals(self) -> tuple[PendingQuestion, ...]:
        """Return the pending questions of the project's sessions, oldest first."""
        return await self._store.run(pending_questions, self._key)

    async def questions(self) -> tuple[tuple[str, UserQuestion], ...]:
        """Return the pending questions with their sessions."""
        return tuple((each.session, each.question) for each in await self.approvals())

    async def cancel(self, session_id: str) -> SessionSummary:
        """Cancel a session without a verdict; one that runs elsewhere stops at its next step boundary.

        Raises:
            NotFoundError: The project has no such session.
            UsageError: The session has already ended.
        """
        found = await self.session(session_id)
        if found.state not in {SessionState.OPEN, SessionState.WAITING}:
            raise UsageError(f"session {found.id} is {found.state} already", remedy="nothing is left to cancel")
        try:
            held = await self._store.run(lease.claim, found.id)
        except BusyError:
            await self._store.run(sessions.request_cancel, found.id)
        else:
            await cancel_held(self.services, held, person())
        return await self.session(found.id)

    async def interrupted(self) -> tuple[SessionSummary, ...]:
        """Return the interrupted sessions of the project, newest first."""
        listed = await self.sessions(wanted=sessions.SessionFilter((SessionState.OPEN,)), limit=_ALL)
        return tuple(each for each in listed if each.is_interrupted)

    async def cancel_interrupted(self, found: Iterable[SessionSummary]) -> tuple[SessionSummary, ...]:
        """Cancel interrupted sessions without a verdict, and return the cancelled ones.

        Args:
            found: Result of `interrupted`; a session that was resumed in the meantime is skipped.
        """
        ended = []
        for each in found:
            with suppress(BusyError):
                held = await self._store.run(lease.claim, each.id)
                await cancel_held(self.services, held, person())
                ended.append(await self.session(each.id))
        return tuple(ended)
