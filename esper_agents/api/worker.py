"""The queue worker: claim waiting sessions and run many at once in one process."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.api.project_pool import ProjectPool
from esper_agents.api.session import Session
from esper_agents.api.worker_events import WorkerEvent, WorkerEventKind, ended
from esper_agents.api.worker_metrics import EventCounter, serve_metrics
from esper_agents.certificates.signing.signing_key import take_key_file
from esper_agents.domain.session import SessionState
from esper_agents.errors import BusyError, EsperError, NewerDatabaseError, StorageError
from esper_agents.extras import Extra, require_extra
from esper_agents.git.find_project import find_project
from esper_agents.orchestration import drift
from esper_agents.orchestration.project_services import ServiceOverrides
from esper_agents.orchestration.session_projection import SessionProjection
from esper_agents.orchestration.session_run import StoppedError
from esper_agents.paths import project_home
from esper_agents.storage import lease, ledger, queue
from esper_agents.storage.database_url import database_url
from esper_agents.storage.migrate import refuse_newer_schema
from esper_agents.storage.queue_metrics import queue_metrics
from esper_agents.storage.queue_notices import QueueNotices
from esper_agents.storage.store import AsyncStore, Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from esper_agents.api.session import SessionResult
    from esper_agents.domain.project import Project
    from esper_agents.orchestration.graph import Graph
    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.storage.lease import Lease
    from esper_agents.storage.queue import ClaimedSession, QueuedProject

# Delay before another attempt at a session that failed because of the database or its disk.
_REST_S = 30.0
# Polling intervals without and with notices of the database. Abandoned sessions are found by polling alone.
_POLL_S, _POLL_WITH_NOTICES_S = 2.0, 15.0
# Least time between two looks at the version of the schema.
_SCHEMA_S = 1.0


@asynccontextmanager
async def open_worker(
    path: Path | None = None,
    *,
    concurrency: int,
    tell: Callable[[WorkerEvent], None] = lambda _: None,
    publish: bool = True,
    additions: ServiceOverrides | None = None,
    metrics_port: int | None = None,
) -> AsyncIterator[QueueWorker]:
    """Yield a queue worker, which is fully stopped when the block ends.

    Args:
        path: Only sessions of the project that contains this path. If omitted: every project of a shared database that
            is on this machine, or the working folder's project if each project has its own database.
        concurrency: Maximum number of concurrent sessions.
        tell: Receives the worker's events.
        publish: Whether views may be published into projects, if the program owns the files there.
        additions: Additional tools, playbooks, agents and rules.
        metrics_port: Port of the loopback interface for `/metrics`; 0 for a free one, None for no metrics.

    Raises:
        StorageError: The database cannot be used.
        UsageError: The port cannot be used.
        MissingExtraError: The extra `agents` is not installed.
    """
    require_extra(Extra.AGENTS)
    take_key_file()
    found = find_project([path.expanduser()] if path else [], Path.cwd())
    url = database_url(project_home(found.key) / "esper.db")
    only = found if path or url.get_backend_name() == "sqlite" else None
    store = AsyncStore(Store(url))
    notices, counter = QueueNotices(url), EventCounter(tell)
    worker = QueueWorker(
        store, only, concurrency, counter, notices=notices, publish=publish, additions=additions or ServiceOverrides()
    )
    try:
        notices.start()
        async with AsyncExitStack() as stack:
            if metrics_port is not None:
                read = partial(store.run_aside, queue_metrics, only.key if only else "")
                worker.metrics_port = await stack.enter_async_context(serve_metrics(metrics_port, read, counter.counts))
            yield worker
    finally:
        await notices.close()
        await worker.close()
        store.close()


class QueueWorker:
    """Worker that runs the queued sessions it has claimed.

    Attributes:
        failed: Number of sessions that could not be continued.
        metrics_port: Port that serves the metrics; None if none does.
    """

    def __init__(
        self,
        store: AsyncStore,
        only: Project | None,
        concurrency: int,
        tell: Callable[[WorkerEvent], None],
        *,
        notices: QueueNotices,
        publish: bool,
        additions: ServiceOverrides,
    ) -> None:
        """Prepare a worker; use `open_worker`."""
        self.failed = 0
        self.metrics_port: int | None = None
        self._store, self._only, self._concurrency, self._tell = store, only, concurrency, tell
        self._desks = ProjectPool(store, publish=publish, additions=additions)
        self._notices = notices
        self._stopping = asyncio.Event()
        self._tasks: dict[asyncio.Task[SessionResult], ClaimedSession] = {}
        self._sessions: set[Session] = set()
        self._away: set[str] = set()
        self._passed_over: dict[str, float] = {}
        self._trouble = ""
        self._checked_at = float("-inf")

    @cached_property
    def _graph(self) -> Graph:
        from esper_agents.orchestration.graph import build_graph

        return build_graph()

    def stop(self) -> None:
        """Claim no more sessions, and stop every session at its next step boundary."""
        self._stopping.set()
        for session in self._sessions:
            session.stop()

    def stop_at_once(self) -> None:
        """Stop within steps; another process continues the sessions at the first step without a result."""
        self.stop()
        for task in self._tasks:
            task.cancel()

    async def run(self, *, once: bool, poll_s: float | None = None) -> None:
        """Work until `stop` is called.

        Args:
            once: Return when there are no more sessions to run.
            poll_s: Polling interval for new sessions, in seconds; if omitted 2, or 15 while the database sends notices.

        Raises:
            NewerDatabaseError: A newer esper-agents has migrated the database; every session has stopped at its next
                step, for a worker of the newer version.
            StorageError: The database cannot be used, and `once` is true.
        """
        stopped = asyncio.create_task(self._stopping.wait())
        noticed = asyncio.create_task(self._notices.wait())
        try:
            while not self._stopping.is_set():
                await self._fill(once=once)
                if once and not self._tasks:
                    return
                usual_s = _POLL_WITH_NOTICES_S if self._notices.is_listening else _POLL_S
                await asyncio.wait(
                    {stopped, noticed, *self._tasks}, timeout=poll_s or usual_s, return_when=asyncio.FIRST_COMPLETED
                )
                if noticed.done():
                    noticed = asyncio.create_task(self._notices.wait())
                await self._settle()
        except NewerDatabaseError:
            self.stop()
            raise
        finally:
            stopped.cancel()
            noticed.cancel()
            await self._finish()

    async def close(self) -> None:
        """Stop all running sessions immediately."""
        self.stop_at_once()
        await self._finish()
        await self._desks.leave(everything=True)

    async def _finish(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)
            await self._settle()

    async def _fill(self, *, once: bool) -> None:
        """Claim and start sessions up to the concurrency limit."""
        try:
            await self._check_schema()
            while len(self._tasks) < self._concurrency and not self._stopping.is_set():
                taken = await self._take()
                if taken is None:
                    break
                self._tell(WorkerEvent(WorkerEventKind.TAKEN, taken.lease.session, taken.request))
                self._tasks[asyncio.create_task(self._work(taken))] = taken
            self._trouble = ""
        except NewerDatabaseError:
            raise
        except StorageError as error:
            if once:
                raise
            # Reported once, because the database may be unavailable for a while.
            if self._trouble != error.problem:
                self._trouble = error.problem
                self._tell(WorkerEvent(WorkerEventKind.TROUBLE, "", error.problem, error.remedy))

    async def _check_schema(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._checked_at + _SCHEMA_S:
            self._checked_at = now
            await self._store.run(refuse_newer_schema)

    async def _take(self) -> ClaimedSession | None:
        now = asyncio.get_running_loop().time()
        # Includes running sessions: one that just failed or lost its lease is claimable before it is settled.
        passed_over = [task.lease.session for task in self._tasks.values()]
        passed_over += [name for name, until in self._passed_over.items() if until > now]
        places = await self._store.run(queue.queued_projects, passed_over=passed_over)
        places = tuple(place for place in places if self._only is None or place.key == self._only.key)
        here = [place.key for place in places if self._desks.is_here(place.key, place.root)]
        away = [place for place in places if place.key not in here]
        self._away -= set(here)
        if not places:
            return None
        try:
            keys = [place.key for place in away]
            taken = await self._store.run(queue.claim_next, here, passed_over=passed_over, away=keys)
        except BusyError:
            return None
        if taken is None:
            self._report_away(away)
        return taken

    def _report_away(self, places: Sequence[QueuedProject]) -> None:
        """Report once that sessions are left to other machines: all but those that read a snapshot."""
        for place in places:
            if place.key not in self._away:
                self._away.add(place.key)
                text = f"sessions of {place.root!r} are skipped: the project is not on this machine"
                self._tell(WorkerEvent(WorkerEventKind.AWAY, place.key, text))

    async def _work(self, taken: ClaimedSession) -> SessionResult:
        key = taken.project_key
        async with AsyncExitStack() as stack:
            try:
                services = await stack.enter_async_context(self._desks.at(key, taken.root, taken.snapshot))
                session = await self._session(services, taken.lease)
            except BaseException:
                await self._store.run(lease.release, taken.lease, SessionState.OPEN)
                raise
            self._sessions.add(session)
            stack.callback(self._sessions.discard, session)
            if self._stopping.is_set():
                session.stop()
            return await session.run()

    async def _session(self, services: ProjectServices, held: Lease) -> Session:
        """Return a claimed session.

        Raises:
            ChangedError: Its definitions have changed since it started.
        """
        history = SessionProjection(held.session, await self._store.run(ledger.read, held.session))
        if drifts := drift.find_drift(services, history):
            raise drift.ChangedError(held.session, drifts, f"esper resume {held.session}")
        return Session(services, self._graph, held)

    async def _settle(self) -> None:
        """Process the sessions that have ended, and close idle projects."""
        for task in [each for each in self._tasks if each.done()]:
            taken = self._tasks.pop(task)
            error = None if task.cancelled() else task.exception()
            if task.cancelled() or isinstance(error, StoppedError):
                self._tell(WorkerEvent(WorkerEventKind.GIVEN_BACK, taken.lease.session, "stopped before the next step"))
            elif error is None:
                self._tell(ended(task.result()))
            else:
                await self._failed(taken.lease.session, error)
        await self._desks.leave()

    async def _failed(self, name: str, error: BaseException) -> None:
        problem = error.problem if isinstance(error, EsperError) else f"internal error: {type(error).__name__}: {error}"
        remedy = error.remedy if isinstance(error, EsperError) else f"esper resume {name}"
        if isinstance(error, BusyError):
            self._tell(WorkerEvent(WorkerEventKind.LOST, name, problem))
            return
        self._tell(WorkerEvent(WorkerEventKind.FAILED, name, problem, remedy))
        self.failed += 1
        if isinstance(error, StorageError):
            self._passed_over[name] = asyncio.get_running_loop().time() + _REST_S
            return
        self._passed_over[name] = float("inf")
        # Remove it from the queue: the next worker would fail in the same way, and a user can resume it.
        try:
            await self._store.run(queue.dequeue, name)
        except StorageError as also:
            self._tell(WorkerEvent(WorkerEventKind.TROUBLE, "", also.problem, also.remedy))
