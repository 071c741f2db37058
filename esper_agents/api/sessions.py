"""Session operations of an open project: find, watch, continue, fork, replay."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from esper_agents.api.current_user import person
from esper_agents.api.session import Session, event_of, outcome_of
from esper_agents.api.tasks import TaskService, files_named_in
from esper_agents.domain.ledger import RowKey, RowKind
from esper_agents.domain.origin import OriginKind, SessionOrigin
from esper_agents.domain.relation import Relation, RelationKind
from esper_agents.domain.session import SessionState
from esper_agents.errors import UsageError
from esper_agents.orchestration import drift, session_branches
from esper_agents.orchestration.frame_end import hand_off
from esper_agents.orchestration.session_projection import SessionProjection
from esper_agents.orchestration.session_run import hold_lease
from esper_agents.storage import lease, ledger, sessions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from esper_agents.api.session import SessionResult
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.origin import PredecessorResult
    from esper_agents.domain.session import Event, SessionSummary
    from esper_agents.domain.task import Task
    from esper_agents.orchestration.drift import Drift
    from esper_agents.orchestration.graph import Graph
    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.orchestration.replay import ReplayResult
    from esper_agents.storage.lease import Lease
    from esper_agents.storage.store import Store

# How long a watcher of another process's session waits before it looks again.
_LOOK_S = 0.2
_UNFINISHED = frozenset((SessionState.OPEN, SessionState.WAITING))


@dataclass(frozen=True, slots=True)
class _GoingOn:
    """By what a session goes on, and what is put on record before it does."""

    workshop: ProjectServices
    rows: tuple[tuple[RowKey, object], ...] = ()


class SessionService(TaskService):
    """The part of `OpenProject` that is about sessions and where they come from."""

    @cached_property
    def _graph(self) -> Graph:
        from esper_agents.orchestration.graph import build_graph

        return build_graph()

    def _session(self, held: Lease, workshop: ProjectServices | None = None) -> Session:
        return Session(workshop or self.workshop, self._graph, held)

    async def sessions(
        self, *, wanted: sessions.SessionFilter | None = None, limit: int = 50
    ) -> tuple[SessionSummary, ...]:
        """Return the project's sessions, newest first; those since some time by when something last happened.

        Args:
            wanted: Only these.
            limit: At most so many.
        """
        return await self._store.run(
            sessions.listing, self._key, wanted=wanted or sessions.SessionFilter(), limit=limit
        )

    async def search_sessions(self, words: str, *, limit: int = 20) -> tuple[SessionSummary, ...]:
        """Return the project's sessions that say all of some words in request, agent or conclusion, newest first.

        Raises:
            UsageError: There is no word in them.
        """
        return await self._store.run(sessions.search, self._key, words, limit=limit)

    async def session(self, session_id: str) -> SessionSummary:
        """Return one session, by identifier, an unmistakable part of it, or `latest`.

        Raises:
            NotFoundError: The project has no such session.
            UsageError: It has several, or another project has it.
        """
        return await self._store.run(sessions.find, self._key, session_id)

    async def history(self, session_id: str) -> SessionProjection:
        """Return what a session's ledger says."""
        return SessionProjection(session_id, await self._store.run(ledger.read, session_id))

    async def outcome(self, session_id: str) -> SessionResult:
        """Return how a session stands, as `Session.run` returns it."""
        return await outcome_of(self.workshop, await self.history(session_id))

    async def timeline(self, session_id: str) -> tuple[Event, ...]:
        """Return a session's rows, in order."""
        return tuple(event_of(row) for row in await self._store.run(ledger.read, session_id))

    async def watch(self, session_id: str, *, after: int = 0) -> AsyncIterator[Event]:
        """Yield a session's rows as whoever runs it writes them, until nobody does any more.

        Args:
            session_id: `ses_` identifier.
            after: Only rows with a greater number.
        """
        while True:
            # The state first: what was written before it is seen, too.
            found = await self.session(session_id)
            for row in await self._store.run(ledger.read, session_id, after):
                after = row.seq
                yield event_of(row)
            if not is_going_on(found):
                return
            await asyncio.sleep(_LOOK_S)

    async def drifts(self, session_id: str) -> tuple[Drift, ...]:
        """Return what an unfinished session goes by that has changed since it began."""
        return drift.find_drift(self.workshop, await self.history((await self.session(session_id)).id))

    async def resume(self, session_id: str, *, accept: bool = False, pinned: bool = False) -> Session:
        """Hold a session again; `Session.run` goes on at the first step without a result.

        Args:
            session_id: Which.
            accept: Go on by what there is now where agents, playbooks, skills or the policy have changed; on record.
            pinned: Go on by what there was when it began.

        Raises:
            NotFoundError: The project has no such session.
            BusyError: Another process works on it.
            ChangedError: Something has changed, and nothing is said about it.
        """
        found = await self.session(session_id)
        history = await self.history(found.id)
        going_on = self._going_on(history, f"esper resume {found.id}", accept=accept, pinned=pinned)
        held = await self._store.run(lease.claim, found.id)
        await self._store.run(_append, held, going_on.rows)
        return self._session(held, going_on.workshop)

    def _going_on(self, history: SessionProjection, command: str, *, accept: bool, pinned: bool) -> _GoingOn:
        """Return by what a session goes on, and what is put on record for that."""
        drifts = drift.find_drift(self.workshop, history)
        if drifts and pinned:
            return _GoingOn(drift.recorded_services(self.workshop, history, drifts))
        if drifts and accept:
            key = RowKey(0, 0, len(history.accepted), RowKind.DRIFT_ACCEPTED)
            return _GoingOn(self.workshop, ((key, drift.accepted(self.workshop, history, drifts, person())),))
        if drifts:
            raise drift.ChangedError(history.session, drifts, command)
        return _GoingOn(self.workshop)

    async def continuation(
        self, session_id: str, message: str, paths: Sequence[str | Path] = (), *, agent: str = ""
    ) -> tuple[Task, PredecessorResult]:
        """Return the task of going on from what a session came to, and what that was.

        Args:
            session_id: The session, which must be over.
            message: What is asked next.
            paths: What it is about; where left out, the files that the message names, else what the session was about.
            agent: Who is to have it; who concluded the session where left out.

        Raises:
            NotFoundError: The project has no such session, or that agent is not installed.
            UsageError: The session is not over.
            InputFileError: A path cannot be reviewed.
        """
        found = await self.session(session_id)
        history = await self.history(found.id)
        if history.state in _UNFINISHED:
            raise UsageError(
                f"session {found.id} has not ended; there is nothing to continue from",
                remedy=f"go on with it: esper resume {found.id}",
            )
        issued = await self.read(found.certificate) if found.certificate else None
        before = session_branches.predecessor_result(history, issued)
        about = paths or [self.root / each for each in files_named_in(self.root, message) or history.begun.task.paths]
        task = self.task(message, about, agent=agent or before.agent)
        return session_branches.continued(task, before), before

    async def fork(
        self, session_id: str, at: str, *, agent: str = "", accept: bool = False, pinned: bool = False
    ) -> Session:
        """Make and hold a session that goes on from a step of another one, whose rows up to there it has copies of.

        Args:
            session_id: The other session.
            at: `FRAME.STEP`, or `0` for the beginning.
            agent: Who goes on; who has the turn there where left out.
            accept: Go on by what there is now where something has changed; see `resume`.
            pinned: Go on by what there was.

        Raises:
            NotFoundError: The project has no such session, or that agent is not installed.
            UsageError: It cannot be forked there.
            ChangedError: What it goes by has changed, and nothing is said about it.
        """
        found = await self.session(session_id)
        rows = await self._store.run(ledger.read, found.id)
        name = self.workshop.agents.get(agent).name if agent else ""
        cut = session_branches.fork_rows(SessionProjection(found.id, rows), rows, at)
        copied = [row for row in rows if row.seq in set(cut.copied)]
        kept = SessionProjection(found.id, [rows[0], *copied])
        first = name if not cut.copied else ""
        if name and cut.copied:
            # Refused before anything is made.
            session_branches.taken_over(kept, name, person())
        going_on = self._going_on(kept, f"esper sessions fork {found.id} --at {at}", accept=accept, pinned=pinned)
        begun = session_branches.forked(kept.begun, found.id, cut, agent=first, person=person())
        origin = SessionOrigin(OriginKind.FORKED, found.id)
        held = await self._store.run(
            sessions.fork, self.workshop.project, begun, origin, cut.copied, agent=_last_agent(kept)
        )
        await self._store.run(_append, held, going_on.rows)
        if name and cut.copied:
            await self._give_to(going_on.workshop, held, name)
            held = await self._store.run(lease.claim, held.session)
        return self._session(held, going_on.workshop)

    async def _give_to(self, workshop: ProjectServices, held: Lease, name: str) -> None:
        """End the turn of who has it in a fork, and open another agent's, as a handoff that a person made."""
        async with hold_lease(workshop, held, lambda _: None) as run:
            await hand_off(run, *session_branches.taken_over(run.history, name, person()))

    async def replay(self, session_id: str, *, pinned: bool = False) -> ReplayResult:
        """Run a session again over its recorded rows, and return what comes out; nothing is called or written.

        Args:
            session_id: Which.
            pinned: By what there was when it ran, as far as that is kept.

        Raises:
            NotFoundError: The project has no such session.
            UsageError: What its agents did was removed.
        """
        from esper_agents.orchestration.replay import replay

        found = await self.session(session_id)
        rows = await self._store.run(ledger.read, found.id)
        history = SessionProjection(found.id, rows)
        if history.pruned:
            problem = f"session {found.id} was pruned: {history.pruned.rows} rows of what its agents did were removed"
            left = f"certificates verify {found.certificate}" if found.certificate else f"sessions show {found.id}"
            raise UsageError(f"{problem}, so it cannot be replayed", remedy=f"look at what is kept: esper {left}")
        workshop = self.workshop
        if pinned and (drifts := drift.differences(workshop, history)):
            workshop = drift.recorded_services(workshop, history, drifts)
        return await replay(workshop, found.id, rows)


def is_going_on(found: SessionSummary) -> bool:
    """Return whether a living process works on a session, or a worker is to take it."""
    return found.state is SessionState.OPEN and (found.is_owned or found.is_queued)


def superseding(task: Task, before: PredecessorResult, issued: Certificate, sha256: str) -> tuple[Relation, ...]:
    """Return how the certificate of a continuation stands to the one before: it replaces it if it is about the same."""
    same = session_branches.is_about_the_same(task, issued.task)
    return (Relation(RelationKind.SUPERSEDES, before.certificate, sha256),) if same else ()


def _last_agent(history: SessionProjection) -> str:
    return history.frames[-1].opened.agent.name if history.frames else ""


def _append(store: Store, held: Lease, entries: Sequence[tuple[RowKey, object]]) -> None:
    if entries:
        ledger.append(store, held, entries)
