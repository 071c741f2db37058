"""One run of a session: its lease, its ledger, and the only writer of events."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.certificates.redaction import secrets_of
from esper_agents.domain.codec import encode
from esper_agents.domain.ledger import LedgerRow, RowKey, RowKind, SessionCancelled
from esper_agents.domain.session import SessionState
from esper_agents.errors import EsperError, ExitCode, LeaseLostError, StorageError
from esper_agents.orchestration.session_projection import SessionProjection
from esper_agents.storage import lease, ledger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from esper_agents.domain.ledger import ActionDecided
    from esper_agents.orchestration.open_frame import FrameState
    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.reasoning.reasoner import Say
    from esper_agents.storage.lease import Lease
    from esper_agents.storage.ledger import Appended
    from esper_agents.storage.store import Store
    from esper_agents.tools.tool import ToolContext


Entries: TypeAlias = "Sequence[tuple[RowKey, object]]"


class StoppedError(EsperError):
    """The run stopped between two steps on request; everything so far is recorded."""

    exit_code = ExitCode.INTERRUPTED

    def __init__(self, session_id: str) -> None:
        super().__init__("stopped before the next step", remedy=f"go on with `esper resume {session_id}`")


class SessionRun:
    """Run of a session, from acquiring its lease to releasing it.

    Attributes:
        services: Services of the project.
        lease: Lease of the session.
        history: Ledger projection, updated with every write.
        say: Receives the streamed text of a model.
        is_attended: Whether a user is present who can be asked.
    """

    def __init__(self, services: ProjectServices, held: Lease, history: SessionProjection, say: Say) -> None:
        """Prepare a run under an acquired lease."""
        self.services = services
        self.lease = held
        self.history = history
        self.say = say
        self.is_attended = False
        self._tree: ToolContext | None = None
        self._stop = asyncio.Event()
        self._stop_at_once = asyncio.Event()
        self._lost: LeaseLostError | None = None
        self._is_cancel_requested = False
        self._is_unpublished = False
        self._watchers: list[Callable[[], None]] = []
        self._writing = asyncio.Lock()
        self._noted: list[tuple[RowKey, object]] = []
        self._copies: dict[str, object] = {}

    @property
    def session(self) -> str:
        """ID of the session."""
        return self.lease.session

    @property
    def context(self) -> ToolContext:
        """Resources that tools may access; of a change that is not checked out, a copy of its head commit."""
        return self._tree or self.services.context

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Provide the tree that the session's task is about while the block runs.

        Raises:
            EvidenceError: The commit of a change cannot be read any more.
        """
        change = self.history.begun.task.change
        if change is None or change.is_checked_out or self.history.certified is not None:
            yield
            return
        from esper_agents.orchestration.commit_tree import context_for

        async with context_for(self.history.begun.task, self.services.context) as self._tree:
            yield

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """Secrets of this machine, which are never recorded."""
        return secrets_of(os.environ)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Keep the session open for the next run if this one is cancelled before the block ends."""
        try:
            yield
        except asyncio.CancelledError:
            self._is_unpublished = True
            raise

    def stop(self, *, at_once: bool = False) -> None:
        """Request a stop at the next step boundary; `at_once` also ends a call that may be stopped."""
        self._stop.set()
        if at_once:
            self._stop_at_once.set()

    async def stopping(self) -> None:
        """Return once a stop at once was requested."""
        await self._stop_at_once.wait()

    def watch(self, tell: Callable[[], None]) -> None:
        """Register a callback for every write."""
        self._watchers.append(tell)

    async def boundary(self) -> None:
        """Handle external requests between two steps.

        Raises:
            StoppedError: A stop was requested.
            LeaseLostError: Another process has acquired the session.
        """
        if self._lost is not None:
            raise self._lost
        if self._is_cancel_requested:
            await self.record(
                (session_row(RowKind.CANCELLED), SessionCancelled("request")), state=SessionState.CANCELLED
            )
        elif self._stop.is_set():
            raise StoppedError(self.session)

    def note(self, *entries: tuple[RowKey, object], **index: object) -> None:
        """Buffer events that are written with the next ones, in one transaction; the projection has them at once.

        For events that are followed by another one before anything outside depends on them.

        Args:
            entries: Key and body of each event.
            index: New values of the session's indexed columns.
        """
        self._noted += entries
        self._copies |= index
        self.history.add(LedgerRow(self.history.seq, key, "", encode(body)) for key, body in entries)

    async def record(self, *entries: tuple[RowKey, object], **index: object) -> None:
        """Append buffered and further events atomically; they are durable when this returns.

        Args:
            entries: Key and body of each event.
            index: New values of the session's indexed columns.

        Raises:
            LeaseLostError: Another process has acquired the session.
        """
        await self._append(entries, (), index)

    async def begin(self, *entries: tuple[RowKey, object]) -> bool:
        """Append the events before a step, and return whether the step may run: see `record`.

        It may not if cancellation was requested; then only buffered events are appended.
        """
        await self._append((), entries, {})
        return not self._is_cancel_requested

    async def _append(self, entries: Entries, beginning: Entries, index: Mapping[str, object], /) -> None:
        # Members of a panel decide at the same time: each buffered event is written once.
        async with self._writing:
            before, copies = (*self._noted, *entries), {**self._copies, **index}
            await self.transact(lambda store: ledger.append(store, self.lease, before, beginning=beginning, **copies))

    def recorded(self, frame: FrameState, step: int) -> ActionDecided | None:  # noqa: ARG002 - a replay has a record
        """Return the recorded decision of a model for a turn; None if the model must be asked."""
        return None

    async def transact(self, work: Callable[[Store], Appended]) -> None:
        """Run one transaction that appends events and other rows; see `record`."""
        appended = await self.services.store.run(work)
        self._take(appended.rows)
        self._is_cancel_requested = appended.is_cancel_requested
        for tell in self._watchers:
            tell()

    def _take(self, rows: Sequence[LedgerRow]) -> None:
        """Apply events of the ledger, except buffered ones that are applied already."""
        noted, written = {key for key, _ in self._noted}, {row.key for row in rows}
        self.history.add(row for row in rows if row.key not in noted)
        # Buffered events were applied before they had a number and a time.
        self.history.note_events(row for row in rows if row.key in noted)
        self._noted = [each for each in self._noted if each[0] not in written]
        self._copies = self._copies if self._noted else {}

    def _end(self, store: Store) -> None:
        """Write buffered events and release the lease.

        The ledger is read first: a run that was cancelled during a write does not know whether it succeeded.
        """
        self._take(ledger.read(store, self.session, self.history.seq))
        if self._noted:
            written = ledger.append(store, self.lease, tuple(self._noted), beginning=(), **self._copies)
            self._take(written.rows)
        state = SessionState.OPEN if self._is_unpublished and self.history.certified else self.history.state
        lease.release(store, self.lease, state)

    async def _beat(self) -> None:
        """Renew the lease in its own thread, so that long writes or busy tool threads cannot delay it."""
        while True:
            await asyncio.sleep(lease.LEASE_MS / 4000)
            try:
                await self.services.store.run_aside(lease.beat, self.lease)
            except LeaseLostError as error:
                self._lost = error
                return
            except StorageError:
                # The next renewal may succeed; if none does, the lease expires and a write reports it.
                continue


@asynccontextmanager
async def hold_lease(services: ProjectServices, held: Lease, say: Say) -> AsyncIterator[SessionRun]:
    """Yield a run under a lease, renew the lease while the block runs, and release it afterwards."""
    rows = await services.store.run(ledger.read, held.session)
    run = SessionRun(services, held, SessionProjection(held.session, rows), say)
    heart = asyncio.create_task(run._beat())  # noqa: SLF001 - the run's other half
    try:
        yield run
    finally:
        heart.cancel()
        await services.store.run(run._end)  # noqa: SLF001 - likewise


def session_row(kind: RowKind) -> RowKey:
    """Return the key of an event of the session itself."""
    return RowKey(0, 0, 0, kind)
