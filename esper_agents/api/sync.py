"""Synchronous API: the project on an event loop in its own thread, notebooks included."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from esper_agents.api.project import open_project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from anyio.from_thread import BlockingPortal

    from esper_agents.api.project import OpenProject, TaskPlan
    from esper_agents.api.session import Session, SessionResult
    from esper_agents.certificates.archive import CertificateSummary
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.memory import MemoryNote
    from esper_agents.domain.session import Event, SessionSummary
    from esper_agents.domain.task import Task


@contextmanager
def open_project_sync(*paths: str | Path, **options: Any) -> Iterator[SyncProject]:
    """Yield the project that contains all paths, open until the block ends; see `open_project` for the options."""
    from anyio.from_thread import start_blocking_portal

    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(open_project(*paths, **options)) as opened,
    ):
        yield SyncProject(portal, opened)


class SyncSession:
    """Synchronous wrapper of a session held by this process; see `Session`."""

    def __init__(self, portal: BlockingPortal, session: Session) -> None:
        """Wrap a session; use the methods of `SyncProject`."""
        self.id = session.id
        self._portal = portal
        self._session = session

    def run(self, watch: Callable[[Event], None] | None = None) -> SessionResult:
        """Run the session until it ends or needs a user's answer; call `watch` with each event as it is written."""
        return self._portal.call(self._watched, watch)

    async def _watched(self, watch: Callable[[Event], None] | None) -> SessionResult:
        import asyncio

        running = asyncio.create_task(self._session.run())
        try:
            async for event in self._session.events():
                if watch is not None:
                    watch(event)
        except BaseException:
            self._session.stop()
            await asyncio.gather(running, return_exceptions=True)
            raise
        return await running

    def stop(self) -> None:
        """Ask the run to stop at the next step boundary; may be called from a signal handler."""
        self._portal.start_task_soon(self._session.stop)


class SyncProject:
    """Synchronous wrapper of an open project; see `OpenProject`."""

    def __init__(self, portal: BlockingPortal, opened: OpenProject) -> None:
        """Wrap an open project; use `open_project_sync`."""
        self._portal = portal
        self.opened = opened

    def task(self, request: str, paths: Sequence[str | Path] = (), **options: Any) -> Task:
        """Return a validated task; see `OpenProject.task`."""
        return self.opened.task(request, paths, **options)

    def plan(self, task: Task) -> TaskPlan:
        """Return the plan of a task without running it."""
        return self._portal.call(self.opened.plan, task)

    def submit(self, task: Task) -> SyncSession:
        """Create a session for a task and take its lease."""
        return SyncSession(self._portal, self._portal.call(self.opened.submit, task))

    def resume(self, session_id: str) -> SyncSession:
        """Take the lease of a session again."""
        return SyncSession(self._portal, self._portal.call(self.opened.resume, session_id))

    def answer(self, question_id: str, text: str) -> SyncSession:
        """Answer a question, and take the lease of its session so that it can continue."""
        return SyncSession(self._portal, self._portal.call(self.opened.answer, question_id, text))

    def sessions(self) -> tuple[SessionSummary, ...]:
        """Return the project's sessions, newest first."""
        return self._portal.call(self.opened.sessions)

    def certificates(self) -> tuple[CertificateSummary, ...]:
        """Return the project's certificates, newest first."""
        return self._portal.call(self.opened.certificates)

    def read(self, certificate_id: str) -> Certificate:
        """Return a certificate as typed data."""
        return self._portal.call(self.opened.read, certificate_id)

    def markdown(self, certificate_id: str) -> str:
        """Return a certificate's Markdown view."""
        return self._portal.call(self.opened.markdown, certificate_id)

    def memory(self) -> tuple[MemoryNote, ...]:
        """Return the project's memory notes, newest first."""
        return self._portal.call(self.opened.memory)
