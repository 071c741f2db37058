"""Session operations of an open project: find, watch, fork, replay, cancel."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from esper_agents.api.service import Service
from esper_agents.domain.session import SessionState
from esper_agents.errors import BusyError, UsageError
from esper_agents.extras import Extra, require_extra
from esper_agents.storage import sessions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from esper_agents.api.session import Session, SessionResult
    from esper_agents.api.traces import SessionTrace
    from esper_agents.domain.ledger import RowKey
    from esper_agents.domain.session import Event, SessionSummary
    from esper_agents.orchestration.drift import Drift
    from esper_agents.orchestration.graph import Graph
    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.orchestration.replay import ReplayResult
    from esper_agents.orchestration.session_projection import SessionProjection
    from esper_agents.storage.lease import Lease
    from esper_agents.storage.store import Store

# Polling interval for a session that another process runs.
_LOOK_S = 0.2
_ALL = 1_000_000


@dataclass(frozen=True, slots=True)
class SessionDefinitions:
    """Definitions for the rest of a session, and the change to record before it continues."""

    services: ProjectServices
    rows: tuple[tuple[RowKey, object], ...] = ()


class SessionService(Service):
    """Session operations of an open project."""

    @cached_property
    def _graph(self) -> Graph:
        from esper_agents.orchestration.graph import build_graph

        return build_graph()

    def load_graph(self) -> None:
        """Import what runs sessions: it takes a second, in which a lease that is held already is not renewed."""
        _ = self._graph

    async def open_held(self, held: Lease, definitions: SessionDefinitions | None = None) -> Session:
        """Return the session whose lease this process has just taken.

        Args:
            held: The lease.
            definitions: The definitions to run it with; those of the project if omitted.
        """
        from esper_agents.api.session import Session

        used = definitions or SessionDefinitions(self._services)
        if used.rows:
            await self._store.run(_append, held, used.rows)
        return Session(used.services, self._graph, held)

    async def list(
        self, *, wanted: sessions.SessionFilter | None = None, before: str = "", limit: int = 50
    ) -> tuple[SessionSummary, ...]:
        """Return the project's sessions, newest first; with a start time, those with an event since then.

        Args:
            wanted: Only sessions that match this filter.
            before: Only sessions submitted before the one with this identifier.
            limit: Maximum number of sessions.
        """
        asked = wanted or sessions.SessionFilter()
        return await self._store.run(sessions.listing, self._key, wanted=asked, before=before, limit=limit)

    async def search(self, words: str, *, limit: int = 20) -> tuple[SessionSummary, ...]:
        """Return the sessions that contain all words in request, agent or conclusion, newest first.

        Raises:
            UsageError: The text contains no word.
        """
        return await self._store.run(sessions.search, self._key, words, limit=limit)

    async def get(self, session_id: str) -> SessionSummary:
        """Return one session by identifier, unique part of it, or `latest`.

        Raises:
            NotFoundError: The project has no such session.
            UsageError: The reference is ambiguous, or the session belongs to another project.
        """
        return await self._store.run(sessions.find, self._key, session_id)

    async def history(self, session_id: str) -> SessionProjection:
        """Return the state of a session, projected from its ledger."""
        from esper_agents.orchestration.session_projection import SessionProjection
        from esper_agents.storage import ledger

        return SessionProjection(session_id, await self._store.run(ledger.read, session_id))

    async def result(self, session_id: str) -> SessionResult:
        """Return the result of a session in its current state, as `Session.run` returns it."""
        from esper_agents.api.session import outcome_of

        return await outcome_of(self._services, await self.history(session_id))

    async def timeline(self, session_id: str) -> tuple[Event, ...]:
        """Return a session's events, in order."""
        from esper_agents.api.session import event_of
        from esper_agents.storage import ledger

        return tuple(event_of(row) for row in await self._store.run(ledger.read, session_id))

    async def trace(self, session_id: str, *, with_content: bool = False) -> SessionTrace:
        """Return the OpenTelemetry spans of a session up to its latest event.

        Args:
            session_id: The session.
            with_content: Include requests, messages, tool arguments and results, without secrets.

        Raises:
            NotFoundError: The project has no such session.
        """
        from esper_agents.api.traces import SessionTrace
        from esper_agents.observing.ledger_spans import spans_of

        found = await self.get(session_id)
        return SessionTrace(found.id, spans_of(found, await self.timeline(found.id), with_content=with_content))

    async def watch(self, session_id: str, *, after: int = 0) -> AsyncIterator[Event]:
        """Yield a session's events while a process runs it.

        Args:
            session_id: `ses_` identifier.
            after: Only events with a greater sequence number.
        """
        from esper_agents.api.session import event_of
        from esper_agents.storage import ledger

        while True:
            # Read the state first, so that events written before it are not missed.
            found = await self.get(session_id)
            for row in await self._store.run(ledger.read, session_id, after):
                after = row.seq
                yield event_of(row)
            if not is_definitions(found):
                return
            await asyncio.sleep(_LOOK_S)

    async def drifts(self, session_id: str) -> tuple[Drift, ...]:
        """Return the drift of an unfinished session: definitions that have changed since it started."""
        from esper_agents.orchestration import drift

        return drift.find_drift(self._services, await self.history((await self.get(session_id)).id))

    def definitions_for(
        self, history: SessionProjection, command: str, *, accept: bool, pinned: bool
    ) -> SessionDefinitions:
        """Return the definitions that a session continues with, and the event to record for them."""
        from esper_agents.api.current_user import person
        from esper_agents.domain.ledger import RowKey, RowKind
        from esper_agents.orchestration import drift

        drifts = drift.find_drift(self._services, history)
        if drifts and pinned:
            return SessionDefinitions(drift.recorded_services(self._services, history, drifts))
        if drifts and accept:
            key = RowKey(0, 0, len(history.accepted), RowKind.DRIFT_ACCEPTED)
            return SessionDefinitions(
                self._services, ((key, drift.accepted(self._services, history, drifts, person())),)
            )
        if drifts:
            raise drift.ChangedError(history.session, drifts, command)
        return SessionDefinitions(self._services)

    async def fork(
        self, session_id: str, at: str, *, agent: str = "", accept: bool = False, pinned: bool = False
    ) -> Session:
        """Create a session that continues from a step of another one, with copies of its events up to there.

        Args:
            session_id: The other session.
            at: `FRAME.STEP`, or `0` for the start of the session.
            agent: The agent that continues; if omitted, the agent of that frame.
            accept: Continue with the current definitions if they have changed; see `resume`.
            pinned: Continue with the recorded definitions.

        Raises:
            NotFoundError: The project has no such session, or that agent is not installed.
            UsageError: The session cannot be forked there.
            ChangedError: Definitions have changed, and neither option is given.
            MissingExtraError: The extra `agents` is not installed.
        """
        from esper_agents.api.current_user import person
        from esper_agents.api.session import Session
        from esper_agents.domain.origin import OriginKind, SessionOrigin
        from esper_agents.orchestration import session_branches
        from esper_agents.orchestration.session_projection import SessionProjection
        from esper_agents.storage import lease, ledger

        require_extra(Extra.AGENTS)
        found = await self.get(session_id)
        rows = await self._store.run(ledger.read, found.id)
        name = self._services.agents.get(agent).name if agent else ""
        cut = session_branches.fork_rows(SessionProjection(found.id, rows), rows, at)
        copied = [row for row in rows if row.seq in set(cut.copied)]
        kept = SessionProjection(found.id, [rows[0], *copied])
        first = name if not cut.copied else ""
        if name and cut.copied:
            # Rejected before anything is created.
            session_branches.taken_over(kept, name, person())
        definitions = self.definitions_for(
            kept, f"esper sessions fork {found.id} --from-step {at}", accept=accept, pinned=pinned
        )
        begun = session_branches.forked(kept.begun, found.id, cut, agent=first, person=person())
        origin = SessionOrigin(OriginKind.FORKED, found.id)
        self.load_graph()
        held = await self._store.run(
            sessions.fork, self._services.project, begun, origin, cut.copied, agent=_last_agent(kept)
        )
        if name and cut.copied:
            await self._store.run(_append, held, definitions.rows)
            await self._give_to(definitions.services, held, name)
            held = await self._store.run(lease.claim, held.session)
            return Session(definitions.services, self._graph, held)
        return await self.open_held(held, definitions)

    async def _give_to(self, services: ProjectServices, held: Lease, name: str) -> None:
        """End the current frame of a fork, and open one for another agent, as a handoff by the user."""
        from esper_agents.api.current_user import person
        from esper_agents.orchestration import session_branches
        from esper_agents.orchestration.frame_end import hand_off
        from esper_agents.orchestration.session_run import hold_lease

        async with hold_lease(services, held, lambda _: None) as run:
            await hand_off(run, *session_branches.taken_over(run.history, name, person()))

    async def replay(self, session_id: str, *, pinned: bool = False) -> ReplayResult:
        """Replay a session from its recorded events and return the comparison; nothing is called or written.

        Args:
            session_id: The session.
            pinned: Use the recorded definitions, as far as they are stored.

        Raises:
            NotFoundError: The project has no such session.
            UsageError: The session's agent events were pruned.
            MissingExtraError: The extra `agents` is not installed.
        """
        from esper_agents.orchestration import drift

        require_extra(Extra.AGENTS)
        from esper_agents.orchestration.replay import replay
        from esper_agents.orchestration.session_projection import SessionProjection
        from esper_agents.storage import ledger

        found = await self.get(session_id)
        rows = await self._store.run(ledger.read, found.id)
        history = SessionProjection(found.id, rows)
        if history.pruned:
            problem = f"session {found.id} was pruned: {history.pruned.rows} events of its agents were removed"
            left = f"certificates verify {found.certificate}" if found.certificate else f"sessions show {found.id}"
            raise UsageError(f"{problem}, so it cannot be replayed", remedy=f"read the remaining data: esper {left}")
        services = self._services
        if pinned and (drifts := drift.differences(services, history)):
            services = drift.recorded_services(services, history, drifts)
        return await replay(services, found.id, rows)

    async def cancel(self, session_id: str) -> SessionSummary:
        """Cancel a session without a verdict; one that runs elsewhere stops at its next step boundary.

        Raises:
            NotFoundError: The project has no such session.
            UsageError: The session has already ended.
        """
        from esper_agents.api.current_user import person
        from esper_agents.api.session import cancel_held
        from esper_agents.storage import lease

        found = await self.get(session_id)
        if found.state not in {SessionState.OPEN, SessionState.WAITING}:
            raise UsageError(f"session {found.id} is {found.state} already", remedy="nothing is left to cancel")
        try:
            held = await self._store.run(lease.claim, found.id)
        except BusyError:
            await self._store.run(sessions.request_cancel, found.id)
        else:
            await cancel_held(self._services, held, person())
        return await self.get(found.id)

    async def interrupted(self) -> tuple[SessionSummary, ...]:
        """Return the interrupted sessions of the project, newest first."""
        listed = await self.list(wanted=sessions.SessionFilter((SessionState.OPEN,)), limit=_ALL)
        return tuple(each for each in listed if each.is_interrupted)

    async def cancel_interrupted(self, found: Iterable[SessionSummary]) -> tuple[SessionSummary, ...]:
        """Cancel interrupted sessions without a verdict, and return the cancelled ones.

        Args:
            found: Result of `interrupted`; a session that was resumed in the meantime is skipped.
        """
        from esper_agents.api.current_user import person
        from esper_agents.api.session import cancel_held
        from esper_agents.storage import lease

        ended = []
        for each in found:
            with suppress(BusyError):
                held = await self._store.run(lease.claim, each.id)
                await cancel_held(self._services, held, person())
                ended.append(await self.get(each.id))
        return tuple(ended)


def is_definitions(found: SessionSummary) -> bool:
    """Return whether a live process works on a session, or it is queued for a worker."""
    return found.state is SessionState.OPEN and (found.is_owned or found.is_queued)


def _last_agent(history: SessionProjection) -> str:
    return history.frames[-1].opened.agent.name if history.frames else ""


def _append(store: Store, held: Lease, entries: Sequence[tuple[RowKey, object]]) -> None:
    from esper_agents.storage import ledger

    if entries:
        ledger.append(store, held, entries)
