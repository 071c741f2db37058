"""A fixed number of queue workers on a Ray cluster: one that dies is replaced."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from esper_agents.api.cluster.connection import Cluster, connect
from esper_agents.api.cluster.remote_work import as_esper_error, lost_head, require_placeable
from esper_agents.api.cluster.worker_actor import (
    FAILED_COUNT,
    WorkerActor,
    WorkerHost,
    describe_process,
    refuse_other_database,
)
from esper_agents.api.worker_events import WorkerEvent, WorkerEventKind
from esper_agents.api.worker_metrics import EventCounter, serve_metrics
from esper_agents.errors import ClusterError
from esper_agents.extras import Extra, require_extra
from esper_agents.git.find_project import find_project
from esper_agents.paths import project_home
from esper_agents.storage.database_url import database_url
from esper_agents.storage.lease import LEASE_MS
from esper_agents.storage.queue_metrics import queue_metrics
from esper_agents.storage.store import AsyncStore, Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

_HEAD_PAUSE_S, _HEAD_PATIENCE_S = 5.0, 20.0
_PLACE_S = 10.0
_FIRST_REST_S, _LONGEST_REST_S = 1.0, 30.0
# After the lease of a dead worker has expired, another worker can claim its sessions.
_ABANDONED_S = LEASE_MS / 1000 + 1


@dataclass(frozen=True, slots=True)
class WorkerGroupSettings:
    """Workers to keep alive.

    Attributes:
        workers: Number of workers; one for each node if None.
        jobs: Maximum number of concurrent sessions of a worker.
        gpus: GPUs that Ray reserves for each worker.
        resources: Amounts of Ray's custom resources that it reserves for each worker.
        publish: Whether views may be published into projects.
        measure_gpus: GPUs that each measurement on a device asks Ray for, while it runs.
        measure_resources: Amounts of custom resources that it asks for.
    """

    workers: int | None = None
    jobs: int = 4
    gpus: int = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    publish: bool = True
    measure_gpus: int = 0
    measure_resources: Mapping[str, float] = field(default_factory=dict)

    def work(self) -> dict[str, Any]:
        """Return the options of `WorkerActor`."""
        return {
            "publish": self.publish,
            "measure_gpus": self.measure_gpus,
            "measure_resources": dict(self.measure_resources),
        }

    def placement(self) -> dict[str, Any]:
        """Return Ray's options of a worker; nothing that has an effect is ever repeated by Ray."""
        return {
            "num_cpus": 1,
            "num_gpus": self.gpus,
            "resources": dict(self.resources),
            "max_restarts": 0,
            "max_task_retries": 0,
        }


@asynccontextmanager
async def open_worker_group(
    path: Path | None = None,
    settings: WorkerGroupSettings | None = None,
    *,
    cluster: str = "",
    allow_open: bool = False,
    tell: Callable[[WorkerEvent], None] = lambda _: None,
    metrics_port: int | None = None,
) -> AsyncIterator[WorkerGroup]:
    """Yield a group of queue workers on a Ray cluster; none is left when the block ends.

    Args:
        path: Only sessions of the project that contains this path; as for `open_worker` if omitted.
        settings: The workers.
        cluster: `HOST:PORT` of the head; `RAY_ADDRESS`, else the cluster of this machine if empty.
        allow_open: Whether the cluster may run code for clients without a token.
        tell: Receives the events of the workers.
        metrics_port: Port of the loopback interface for `/metrics`; 0 for a free one, None for no metrics.

    Raises:
        ClusterError: The cluster cannot be used.
        StorageError: The database cannot be used.
        UsageError: The cluster requires no token, has no node with what a worker needs, or the port cannot be used.
        MissingExtraError: The extra `agents` or `ray` is not installed.
    """
    require_extra(Extra.AGENTS)
    found = find_project([path.expanduser()] if path else [], Path.cwd())
    url = database_url(project_home(found.key) / "esper.db")
    is_sqlite = url.get_backend_name() == "sqlite"
    only = found if path or is_sqlite else None
    wanted = settings or WorkerGroupSettings()
    counter = EventCounter(tell)
    with connect(cluster, allow_open=allow_open) as connected:
        require_placeable(connected, {"CPU": 1.0, "GPU": float(wanted.gpus), **wanted.resources})
        require_placeable(connected, {"GPU": float(wanted.measure_gpus), **wanted.measure_resources})
        own = describe_process(Path(only.root) if only else None)
        group = WorkerGroup(connected, wanted, counter, own, only.root if only else "", is_sqlite=is_sqlite)
        async with AsyncExitStack() as stack:
            if metrics_port is not None:
                store = AsyncStore(Store(url))
                stack.callback(store.close)
                read = partial(store.run_aside, queue_metrics, only.key if only else "")
                group.metrics_port = await stack.enter_async_context(serve_metrics(metrics_port, read, counter.counts))
            yield group


class WorkerGroup:
    """Queue workers on a cluster.

    Attributes:
        failed: Number of sessions that could not be continued.
        metrics_port: Port that serves the metrics; None if none does.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: WorkerGroupSettings,
        tell: Callable[[WorkerEvent], None],
        own: WorkerHost,
        root: str,
        *,
        is_sqlite: bool,
    ) -> None:
        """Prepare a group; use `open_worker_group`."""
        self.failed = 0
        self.metrics_port: int | None = None
        self._cluster, self._settings, self._tell = cluster, settings, tell
        self._own, self._root, self._is_sqlite = own, root, is_sqlite
        self._actors: set[Any] = set()
        self._stopping, self._is_stopping_at_once = asyncio.Event(), False
        self._died_at = float("-inf")

    def stop(self) -> None:
        """Let every worker stop at the next step of each session."""
        self._stopping.set()
        self._pass_on()

    def stop_at_once(self) -> None:
        """Let every worker stop within steps."""
        self._is_stopping_at_once = True
        self.stop()

    async def run(self, *, once: bool, poll_s: float | None = None) -> None:
        """Keep the workers alive until `stop` is called.

        Args:
            once: Return when there are no more sessions to run.
            poll_s: Polling interval of the workers for new sessions, in seconds.

        Raises:
            ClusterError: The head no longer answers, or a worker cannot be started.
            StorageError: A worker uses another database.
        """
        count = self._settings.workers or len(self._cluster.nodes())
        slots = [asyncio.create_task(self._keep(once=once, poll_s=poll_s)) for _ in range(count)]
        head = asyncio.create_task(self._watch_head())
        work = asyncio.gather(*slots)
        try:
            # The head is watched for as long as the workers work; the first error ends both.
            watched = asyncio.ensure_future(work)
            waits: set[asyncio.Future[Any]] = {watched, head}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if head.done():
                head.result()
            await watched
        finally:
            head.cancel()
            work.cancel()
            for slot in slots:
                slot.cancel()
            await asyncio.gather(*slots, head, return_exceptions=True)

    async def _keep(self, *, once: bool, poll_s: float | None) -> None:
        """Run one worker after another, until one ends without having died."""
        rest_s = _FIRST_REST_S
        while not self._stopping.is_set():
            began = asyncio.get_running_loop().time()
            if await self._run_one(once=once, poll_s=poll_s):
                waits_s = self._died_at + _ABANDONED_S - began
                if not once or waits_s <= 0:
                    return
                # The sessions of a worker that died on another machine become claimable only now.
                await self._pause(waits_s)
                continue
            self._died_at = asyncio.get_running_loop().time()
            if self._died_at - began > _LONGEST_REST_S:
                rest_s = _FIRST_REST_S
            await self._pause(rest_s)
            rest_s = min(rest_s * 2, _LONGEST_REST_S)
            # Without a head, starting a worker would block this process until Ray ends it.
            while not self._stopping.is_set() and not await self._cluster.answers(_HEAD_PAUSE_S):
                await self._pause(_FIRST_REST_S)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def _run_one(self, *, once: bool, poll_s: float | None) -> bool:
        """Run a worker until it ends; return False if it died."""
        import ray
        from ray.exceptions import ActorDiedError, RayActorError, RayError, RayTaskError

        actor: Any = ray.remote(WorkerActor).options(name=f"esper-worker-{uuid4().hex}", **self._settings.placement())
        actor = actor.remote(self._root, self._settings.jobs, **self._settings.work())
        self._actors.add(actor)
        node = ""
        try:
            host = await self._placed(actor)
            if host is None:
                return True
            node = host.node
            self._tell(WorkerEvent(WorkerEventKind.STARTED, "", f"on {node}"))
            self._pass_on()
            async for reference in actor.run.options(num_returns="streaming").remote(once=once, poll_s=poll_s):
                self._pass_event(await reference)
        except RayTaskError as error:
            raise as_esper_error(error, node) from error
        except ActorDiedError as error:
            if _creation_error(error):
                raise as_esper_error(error, node) from error
            self._died(node)
            return False
        except RayActorError:
            self._died(node)
            return False
        except RayError as error:
            # The owner of a result that was on its way is gone, as is its process.
            self._died(node, type(error).__name__)
            return False
        else:
            return True
        finally:
            self._actors.discard(actor)
            with suppress(RayError):
                ray.kill(actor)

    async def _placed(self, actor: Any) -> WorkerHost | None:
        """Return where a worker runs, once the cluster has room for it; None if the group stops before."""
        waiting = asyncio.ensure_future(_result(actor.host.remote()))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            first: set[asyncio.Future[Any]] = {waiting, stopping}
            done, _ = await asyncio.wait(first, timeout=_PLACE_S, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                text = "a worker waits until the cluster has room for it"
                self._tell(WorkerEvent(WorkerEventKind.TROUBLE, "", text, "ray status"))
                await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                waiting.cancel()
                return None
        finally:
            stopping.cancel()
        host = WorkerHost(*await waiting)
        if host.version != self._own.version:
            problem = f"the worker on {host.node} has esper-agents {host.version}, this process {self._own.version}"
            raise ClusterError(problem, remedy=f"pip install esper-agents=={self._own.version} on every node")
        refuse_other_database(host, self._own, is_sqlite=self._is_sqlite)
        return host

    def _pass_event(self, row: tuple[str, str, str, str]) -> None:
        kind, name, text, remedy = row
        if kind == FAILED_COUNT:
            self.failed += int(text)
        else:
            self._tell(WorkerEvent(WorkerEventKind(kind), name, text, remedy))

    def _died(self, node: str, why: str = "") -> None:
        if not self._stopping.is_set():
            text = f"on {node}" if node else "before it started"
            remedy = "" if node else "ray status"
            self._tell(WorkerEvent(WorkerEventKind.DIED, "", f"{text} ({why})" if why else text, remedy))

    def _pass_on(self) -> None:
        if self._stopping.is_set():
            for actor in self._actors:
                actor.stop.remote(at_once=self._is_stopping_at_once)

    async def _watch_head(self) -> None:
        """Raise an error when the head has not answered for some time; Ray itself would end this process later."""
        silent_s = 0.0
        while silent_s < _HEAD_PATIENCE_S:
            await asyncio.sleep(_HEAD_PAUSE_S)
            silent_s = 0.0 if await self._cluster.answers(_HEAD_PAUSE_S) else silent_s + _HEAD_PAUSE_S
        raise lost_head(self._cluster, "no session is lost")


async def _result(reference: Any) -> Any:
    return await reference


def _creation_error(error: Any) -> bool:
    return "The actor died because of an error raised in its creation task" in str(error)
