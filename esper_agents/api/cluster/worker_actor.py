"""A queue worker inside a process that Ray started."""

from __future__ import annotations

import asyncio
import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.api.cluster.device_reservation import RayDevices
from esper_agents.api.worker import open_worker
from esper_agents.errors import StorageError
from esper_agents.git.find_project import find_project
from esper_agents.paths import project_home
from esper_agents.storage.database_url import database_url, display_name
from esper_agents.storage.owner import machine_name
from esper_agents.tools.device_turn import use_reservation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from esper_agents.api.worker import QueueWorker
    from esper_agents.api.worker_events import WorkerEvent

# Event, session, text, remedy: plain text, because other processes read it.
EventRow = tuple[str, str, str, str]
FAILED_COUNT = "failed count"


@dataclass(frozen=True, slots=True)
class WorkerHost:
    """Process that a worker runs in.

    Attributes:
        node: Name of its machine.
        machine: The machine and its process namespace, as leases name it.
        version: Version of esper-agents.
        database: Display name of its database.
    """

    node: str
    machine: str
    version: str
    database: str


def describe_process(project: Path | None) -> WorkerHost:
    """Return where this process is and which database it uses.

    Args:
        project: A path in the project; the current folder if None.
    """
    found = find_project([project] if project else [], Path.cwd())
    url = database_url(project_home(found.key) / "esper.db")
    return WorkerHost(platform.node(), machine_name(), version("esper-agents"), str(display_name(url)))


class WorkerActor:
    """Ray actor that runs one queue worker; it keeps nothing that the database does not have."""

    def __init__(
        self, project: str, jobs: int, *, publish: bool, measure_gpus: int, measure_resources: Mapping[str, float]
    ) -> None:
        """Prepare the worker.

        Args:
            project: A path in the project whose sessions it runs; empty for every project on its machine.
            jobs: Maximum number of concurrent sessions.
            publish: Whether views may be published into projects.
            measure_gpus: GPUs that each measurement on a device asks Ray for.
            measure_resources: Amounts of custom resources that it asks for.
        """
        self._project = Path(project) if project else None
        self._jobs, self._publish = jobs, publish
        self._worker: QueueWorker | None = None
        self._is_stopping = self._is_stopping_at_once = False
        # A GPU is measured only if Ray reserved it for this worker; without one, Ray leaves all of them visible.
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
        if measure_gpus or measure_resources:
            use_reservation(RayDevices(measure_gpus, measure_resources).reserve)

    async def host(self) -> tuple[str, str, str, str]:
        """Return the fields of `WorkerHost`."""
        found = describe_process(self._project)
        return found.node, found.machine, found.version, found.database

    async def node_id(self) -> str:
        """Return Ray's identifier of the node."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    async def stop(self, *, at_once: bool) -> None:
        """Stop after the running steps, or within them."""
        self._is_stopping, self._is_stopping_at_once = True, at_once
        self._pass_on()

    async def run(self, *, once: bool, poll_s: float | None) -> AsyncIterator[EventRow]:
        """Run the worker, and yield its events; the last one has the number of failed sessions.

        Args:
            once: End when there are no more sessions to run.
            poll_s: Polling interval for new sessions, in seconds.
        """
        events: asyncio.Queue[WorkerEvent | None] = asyncio.Queue()
        async with open_worker(
            self._project, concurrency=self._jobs, tell=events.put_nowait, publish=self._publish
        ) as worker:
            self._worker = worker
            self._pass_on()
            running = asyncio.create_task(worker.run(once=once, poll_s=poll_s))
            running.add_done_callback(lambda _: events.put_nowait(None))
            while (event := await events.get()) is not None:
                yield str(event.what), event.name, event.text, event.remedy
            await running
            yield FAILED_COUNT, "", str(worker.failed), ""

    def _pass_on(self) -> None:
        if self._worker is None or not self._is_stopping:
            return
        if self._is_stopping_at_once:
            self._worker.stop_at_once()
        else:
            self._worker.stop()


def refuse_other_database(host: WorkerHost, own: WorkerHost, *, is_sqlite: bool) -> None:
    """Raise an error if a worker does not use the database of this process.

    Raises:
        StorageError: It uses another one, or an SQLite database on another machine.
    """
    if is_sqlite and host.machine != own.machine:
        raise StorageError(
            f"the worker on {host.node} cannot use the SQLite database of this machine",
            remedy="set ESPER_DATABASE_URL to a PostgreSQL database on every node, before `ray start`",
        )
    if host.database != own.database:
        raise StorageError(
            f"the worker on {host.node} uses the database {host.database!r}, this process {own.database!r}",
            remedy="set the same ESPER_DATABASE_URL and ESPER_HOME on every node before `ray start`",
        )
