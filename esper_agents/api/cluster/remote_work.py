"""Parts of a large computation as Ray tasks; a lost part is done again, because it has no effect."""

from __future__ import annotations

import socket
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from esper_agents.errors import ClusterError, EsperError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from esper_agents.api.cluster.connection import Cluster

Part = TypeVar("Part")
Result = TypeVar("Result")

_LOOK_S, _ANSWER_S, _HEAD_PATIENCE_S = 2.0, 5.0, 20.0
# Losses of one part after which it is assumed to be the cause.
_MOST_LOSSES = 3


@dataclass(slots=True)
class _Task:
    """A part that the cluster works on.

    Attributes:
        number: Its place among the parts.
        part: The argument, kept for another attempt.
        losses: Number of processes and nodes that were lost with it.
    """

    number: int
    part: Any
    losses: int = 0


def run_parts(
    cluster: Cluster, work: Callable[[Part], Result], parts: Iterable[Part], *, within: int = 0
) -> Iterator[Result]:
    """Yield the results of a function for parts, in the order of the parts.

    Args:
        cluster: The cluster.
        work: Function of a module, without effects: it runs again if its process or node dies.
        parts: Arguments; the next ones are requested as soon as the cluster has room.
        within: Maximum number of parts at the same time; the number of CPUs of the cluster if 0.

    Raises:
        ClusterError: The head no longer answers, or a part was lost again and again.
        EsperError: The function raised it for the first part that failed.
    """
    import ray
    from ray.exceptions import RayError, RayTaskError

    require_placeable(cluster, {"CPU": 1.0})
    # Ray would repeat a task without counting; a part is repeated here, a limited number of times.
    remote: Any = ray.remote(work).options(num_cpus=1, max_retries=0)
    most = within or max(1, int(sum(node["Resources"].get("CPU", 0) for node in cluster.nodes())))
    left, again = enumerate(parts), deque[_Task]()
    running: dict[Any, _Task] = {}
    results: dict[int, Result] = {}
    following, heard_at = 0, time.monotonic()
    try:
        while True:
            while len(running) < most and (again or len(running) + len(results) < 2 * most):
                task = again.popleft() if again else next((_Task(number, part) for number, part in left), None)
                if task is None:
                    break
                running[remote.remote(task.part)] = task
            if not running:
                return
            done, _ = ray.wait(list(running), num_returns=1, timeout=_LOOK_S)
            heard_at = _require_head(cluster, heard_at) if not done else time.monotonic()
            for reference in done:
                task = running.pop(reference)
                try:
                    results[task.number] = ray.get(reference)
                except RayTaskError as error:
                    raise as_esper_error(error, "") from error
                except RayError as error:
                    again.append(_lost(task, error))
            while following in results:
                yield results.pop(following)
                following += 1
    finally:
        for reference in running:
            ray.cancel(reference, force=True)


def _lost(task: _Task, error: Exception) -> _Task:
    """Return a task for another attempt.

    Raises:
        ClusterError: It was lost too often.
    """
    task.losses += 1
    if task.losses >= _MOST_LOSSES:
        problem = f"a part of the work was lost {task.losses} times with its process ({type(error).__name__})"
        raise ClusterError(problem, remedy="look for the reason with `ray logs`: memory is the usual one") from error
    return task


def _require_head(cluster: Cluster, heard_at: float) -> float:
    """Return the time of the last answer of the head.

    Raises:
        ClusterError: It has not answered for some time.
    """
    host, _, port = cluster.address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S).close()
    except OSError as error:
        if time.monotonic() - heard_at > _HEAD_PATIENCE_S:
            raise lost_head(cluster, "the work starts from the beginning") from error
        return heard_at
    return time.monotonic()


def lost_head(cluster: Cluster, then: str) -> ClusterError:
    """Return the error for a head that no longer answers.

    Args:
        cluster: The cluster.
        then: What that means for the user.
    """
    return ClusterError(
        f"the head of the Ray cluster at {cluster.address} no longer answers; {then}",
        remedy="start the cluster again, then run the same command",
    )


def require_placeable(cluster: Cluster, wanted: Mapping[str, float]) -> None:
    """Check that a node has some resources, even if they are in use.

    Args:
        cluster: The cluster.
        wanted: Amounts by the names of the resources.

    Raises:
        UsageError: No node has them.
    """
    needed = {name: amount for name, amount in wanted.items() if amount}
    nodes = [node["Resources"] for node in cluster.nodes()]
    if not any(all(node.get(name, 0.0) >= amount for name, amount in needed.items()) for node in nodes):
        shown = ", ".join(f"{name} {amount:g}" for name, amount in needed.items())
        raise UsageError(
            f"no node of the Ray cluster has {shown}",
            remedy="start a node with `ray start --num-gpus N` or `--resources`, or ask for less",
        )


def as_esper_error(error: Any, node: str) -> EsperError:
    """Return the error of a process on a cluster as one of this program.

    Args:
        error: The error of Ray.
        node: Name of the node; empty if it is not known.
    """
    cause = getattr(error, "cause", None)
    if isinstance(cause, EsperError):
        return cause
    where = f"on {node}" if node else "on a node"
    if "ModuleNotFoundError" in str(error):
        problem = f"a worker {where} lacks a package: {str(error).strip().splitlines()[-1][:200]}"
        return ClusterError(problem, remedy="install the same esper-agents with its extras on every node")
    shown = f"{type(cause).__name__}: {cause}" if cause is not None else str(error).strip().splitlines()[-1]
    return ClusterError(f"a worker {where} failed: {shown[:300]}", remedy="ray logs")
