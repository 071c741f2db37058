"""A session held by this process: run, watch and stop it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.archive import store as archive
from esper_agents.archive.publishing import find_published
from esper_agents.domain.ledger import RowKind, SessionCancelled
from esper_agents.domain.session import Event, SessionState
from esper_agents.domain.status import exit_code
from esper_agents.errors import ExitCode
from esper_agents.orchestration.budgets import stopped_by
from esper_agents.orchestration.session_run import hold_lease, session_row
from esper_agents.storage import ledger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from esper_agents.archive.store import CertificateSummary
    from esper_agents.domain.budget import Resource
    from esper_agents.domain.finding import Finding
    from esper_agents.domain.ledger import LedgerRow, UserQuestion
    from esper_agents.domain.route import Route
    from esper_agents.orchestration.graph import Graph
    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.orchestration.session_projection import SessionProjection
    from esper_agents.orchestration.session_run import SessionRun
    from esper_agents.reasoning.reasoner import Say
    from esper_agents.storage.lease import Lease
    from esper_agents.storage.store import Store


@dataclass(frozen=True, slots=True)
class SessionResult:
    """Result of a session, or its state if it cannot continue at present.

    Attributes:
        session: `ses_` identifier.
        state: Current state of the session.
        route: The selection of the agent; None before routing.
        certificate: The session's certificate, or None.
        view: The certificate's Markdown view, or None.
        findings: The findings, worst first.
        questions: Questions that a user must answer before the session continues.
        stopped_by: The exhausted budget, or None.
    """

    session: str
    state: SessionState
    route: Route | None
    certificate: CertificateSummary | None
    view: Path | None
    findings: tuple[Finding, ...]
    questions: tuple[UserQuestion, ...]
    stopped_by: Resource | None = None

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of the command line."""
        match self.state:
            case SessionState.DONE:
                code = exit_code(self.certificate.status) if self.certificate else ExitCode.FAILED
                return ExitCode.BUDGET if self.stopped_by and code is not ExitCode.EMERGENCY_STOP else code
            case SessionState.WAITING:
                return ExitCode.WAITING
            case SessionState.REFUSED:
                return ExitCode.USAGE
            case SessionState.CANCELLED:
                return ExitCode.CANCELLED
            case SessionState.OPEN:
                return ExitCode.INTERRUPTED


def _silent(_: str) -> None:
    return


class Session:
    """A session whose lease this process holds until `run` returns.

    Attributes:
        id: `ses_` identifier.
    """

    def __init__(self, services: ProjectServices, graph: Graph, held: Lease) -> None:
        """Wrap a session whose lease is held; use the methods of `OpenProject`."""
        self.id = held.session
        self._services = services
        self._graph = graph
        self._lease = held
        self._run: SessionRun | None = None
        self._is_stopped = False
        self._is_stopped_at_once = False
        self._changed = asyncio.Event()
        self._is_over = False

    async def run(self, say: Say = _silent, *, is_attended: bool = False) -> SessionResult:
        """Run the session from its last recorded step until it ends or needs a user's answer.

        Args:
            say: Receives a model's text as it is generated.
            is_attended: Whether a user is present who can answer questions.

        Raises:
            StoppedError: `stop` was called; all steps so far are recorded.
            LeaseLostError: Another process has taken over the session.
        """
        from esper_agents.orchestration.graph import drive

        try:
            async with hold_lease(self._services, self._lease, say) as run:
                self._run = run
                run.is_attended = is_attended
                run.watch(self._tell)
                if self._is_stopped:
                    run.stop(at_once=self._is_stopped_at_once)
                async with run.reading():
                    await drive(self._graph, run)
                return await outcome_of(self._services, run.history)
        finally:
            self._is_over = True
            self._tell()

    def _tell(self) -> None:
        """Wake all watchers; each waits for the next change on an event of its own."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def stop(self, *, at_once: bool = False) -> None:
        """Ask the run to stop at the next step boundary; the session can be resumed.

        Args:
            at_once: Also end a running call that works on a copy of the project, such as a run of tests.
        """
        self._is_stopped = True
        self._is_stopped_at_once = at_once
        if self._run is not None:
            self._run.stop(at_once=at_once)

    async def events(self, after: int = 0) -> AsyncIterator[Event]:
        """Yield the session's events as they are written, until the run ends.

        Args:
            after: Only events with a greater sequence number.
        """
        while True:
            changed, is_last_look = self._changed, self._is_over
            for row in await self._services.store.run(ledger.read, self.id, after):
                after = row.seq
                yield event_of(row)
            if is_last_look:
                return
            await changed.wait()


def _issued(store: Store, services: ProjectServices, certificate: str) -> tuple[CertificateSummary, Path]:
    """Return the archive's entry of a certificate and its view, in one visit of the store's thread."""
    entry = archive.find(store, services.project.key, certificate)
    return entry, find_published(store, services.place, entry.id).view


async def outcome_of(services: ProjectServices, history: SessionProjection) -> SessionResult:
    """Return the result of a session from its ledger."""
    entry, view = None, None
    if history.certified is not None:
        entry, view = await services.store.run(_issued, services, history.certified.certificate)
    return SessionResult(
        session=history.session,
        state=history.state,
        route=history.route,
        certificate=entry,
        view=view,
        findings=history.findings(),
        questions=history.questions,
        stopped_by=stopped_by(history),
    )


async def cancel_held(services: ProjectServices, held: Lease, by: str) -> None:
    """Cancel a session whose lease is held, without a verdict."""
    async with hold_lease(services, held, _silent) as run:
        if run.history.state in {SessionState.OPEN, SessionState.WAITING}:
            await run.record((session_row(RowKind.CANCELLED), SessionCancelled(by)), state=SessionState.CANCELLED)


def event_of(row: LedgerRow) -> Event:
    """Return a ledger row as an event."""
    key = row.key
    return Event(row.seq, row.at, key.frame, key.step, key.call, str(key.kind), json.loads(row.body))
