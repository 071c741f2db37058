"""State of the queue, its workers and devices, with the nodes of a Ray cluster if there is one."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.api.cluster.connection import NAMESPACE, connect
from esper_agents.git.find_project import find_project
from esper_agents.paths import project_home
from esper_agents.storage.database_url import database_url
from esper_agents.storage.device_lease import ClaimedDevice, claimed_devices
from esper_agents.storage.queue_metrics import QueueMetrics, queue_metrics
from esper_agents.storage.store import Store
from esper_agents.storage.working_sessions import WorkingSession, working_sessions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HERE = Path()
_MOST_SESSIONS, _ANSWER_S = 1_000, 10
# Ray describes a node and its memory as resources, too.
_SHOWN = ("CPU", "GPU")


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node of a Ray cluster that is alive.

    Attributes:
        name: Name of its machine.
        address: Its address.
        resources: What it offers: CPUs, GPUs and custom resources.
        workers: Number of queue workers on it.
    """

    name: str
    address: str
    resources: Mapping[str, float]
    workers: int


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """State of one moment.

    Attributes:
        database: Display name of the database.
        queue: Numbers of sessions.
        sessions: Open sessions with an owner, oldest first, at most 1,000.
        devices: Devices on which measurements run.
        cluster: Address of the Ray cluster; empty if none was asked.
        nodes: Its nodes.
    """

    database: str
    queue: QueueMetrics
    sessions: tuple[WorkingSession, ...]
    devices: tuple[ClaimedDevice, ...]
    cluster: str = ""
    nodes: tuple[ClusterNode, ...] = ()


def cluster_status(where: Path = _HERE, *, cluster: str = "", allow_open: bool = False) -> ClusterStatus:
    """Return the state of the database, and of a Ray cluster if its address is given.

    Args:
        where: A path in the project. On a shared database, all its projects are counted.
        cluster: `HOST:PORT` of the head, or `auto`; empty for none.
        allow_open: Whether the cluster may run code for clients without a token.

    Raises:
        StorageError: The database cannot be used.
        ClusterError: The cluster cannot be used.
        UsageError: The cluster requires no token.
        MissingExtraError: An address is given, and the extra `ray` is not installed.
    """
    found = find_project([where.expanduser()], Path.cwd())
    store = Store(database_url(project_home(found.key) / "esper.db"))
    try:
        queue, sessions = queue_metrics(store), working_sessions(store, _MOST_SESSIONS)
        devices, database = claimed_devices(store), str(store.where)
    finally:
        store.close()
    address, nodes = _cluster(cluster, allow_open=allow_open) if cluster else ("", ())
    return ClusterStatus(database, queue, sessions, devices, address, nodes)


def _cluster(address: str, *, allow_open: bool) -> tuple[str, tuple[ClusterNode, ...]]:
    with connect(address, allow_open=allow_open) as connected:
        workers = Counter(_nodes_of_workers())
        nodes = [
            ClusterNode(
                node["NodeManagerHostname"],
                node["NodeManagerAddress"],
                {name: amount for name, amount in sorted(node["Resources"].items()) if _is_shown(name)},
                workers[node["NodeID"]],
            )
            for node in connected.nodes()
        ]
        return connected.address, tuple(sorted(nodes, key=lambda node: (node.name, node.address)))


def _nodes_of_workers() -> Iterator[str]:
    """Yield the node of each worker that answers."""
    import ray
    from ray.exceptions import RayError

    for actor in ray.util.list_named_actors(all_namespaces=True):
        if actor["namespace"] == NAMESPACE:
            with suppress(RayError, ValueError):
                worker = ray.get_actor(actor["name"], namespace=NAMESPACE)
                yield str(ray.get(worker.node_id.remote(), timeout=_ANSWER_S))


def _is_shown(resource: str) -> bool:
    return resource in _SHOWN or not (resource.startswith("node:") or resource.endswith("memory"))
