"""Connection to a Ray cluster, which must require a token unless the user says otherwise."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
import sys
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from esper_agents.errors import ClusterError, UsageError
from esper_agents.extras import Extra, require_extra

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NAMESPACE = "esper"
_PROBE_S = 60.0
_ADDRESS = re.compile(r"[A-Za-z0-9_.:\[\]-]{1,255}:[0-9]{1,5}")
_VERSIONS = re.compile(r"Ray: (\S+)\s+Python: (\S+)")
_TOKEN = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_START = "start one: RAY_AUTH_MODE=token ray start --head, or name another with --cluster HOST:PORT"
# Ray asks its own servers over the loopback; usage reports would leave the machine.
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Ray cluster to which this process is connected.

    Attributes:
        address: `HOST:PORT` of its head.
        is_open: Whether it runs code for clients without a token.
    """

    address: str
    is_open: bool

    def nodes(self) -> tuple[Mapping[str, Any], ...]:
        """Return the nodes that are alive, as Ray describes them."""
        import ray

        nodes = ray.nodes()  # type: ignore[no-untyped-call] # as Ray has it
        return tuple(node for node in nodes if node["Alive"])

    async def answers(self, within_s: float) -> bool:
        """Return whether the head accepts a connection within a time.

        Args:
            within_s: The time, in seconds.
        """
        host, _, port = self.address.rpartition(":")
        try:
            async with asyncio.timeout(within_s):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True


@contextmanager
def connect(address: str = "", *, allow_open: bool = False) -> Iterator[Cluster]:
    """Yield a connection to a running Ray cluster; a process has at most one.

    Args:
        address: `HOST:PORT` of the head; if empty or `auto`, `RAY_ADDRESS`, else this user's cluster here.
        allow_open: Whether the cluster may run code for clients without a token.

    Raises:
        MissingExtraError: The extra `ray` is not installed.
        UsageError: The address is not valid, the file that names the cluster belongs to another user, or the cluster
            requires no token.
        ClusterError: The cluster does not answer, refuses the token, or has another version of Ray or Python.
    """
    require_extra(Extra.RAY)
    os.environ.update({name: text for name, text in _QUIET.items() if name not in os.environ})
    named = "" if address == "auto" else address
    wanted = named or os.environ.get("RAY_ADDRESS") or "auto"
    if wanted != "auto" and not _ADDRESS.fullmatch(wanted):
        raise UsageError(f"{wanted!r} is not the address of a Ray cluster", remedy="use HOST:PORT of its head node")
    cluster = _checked(wanted, allow_open=allow_open)
    import ray

    try:
        # Ray lets its workers import modules from the current folder first: never from a project under review.
        with TemporaryDirectory(prefix="esper-ray-") as empty, chdir(empty):
            ray.init(
                address=cluster.address,
                namespace=NAMESPACE,
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=False,
            )
    except (RuntimeError, ConnectionError, ValueError) as error:
        raise _unusable(cluster.address, error) from error
    # Even without logs of workers, Ray prints the deaths of processes into the output of this one.
    ray._private.worker._worker_logs_enabled = False  # noqa: SLF001 - it has no setting
    try:
        yield cluster
    finally:
        ray.shutdown()


def _checked(wanted: str, *, allow_open: bool) -> Cluster:
    """Return a cluster that may be used, without connecting this process to it."""
    word, address = _probe(wanted, with_token=False)
    if word == "foreign":
        raise UsageError(
            f"{address} names the Ray cluster of this machine and is not a regular file of this user",
            remedy="name the head of your cluster: --cluster HOST:PORT",
        )
    if word == "silent":
        name = f"at {address or wanted}" if wanted != "auto" else "on this machine"
        raise ClusterError(f"no Ray cluster answers {name}", remedy=_START)
    if word == "answered":
        if not allow_open:
            problem = f"the Ray cluster at {address} requires no token: whoever reaches it can run code"
            raise UsageError(
                problem, remedy="start it with RAY_AUTH_MODE=token, or accept the risk with --allow-open-cluster"
            )
        return Cluster(address, is_open=True)
    if _probe(address, with_token=True)[0] != "answered":
        raise ClusterError(
            f"the Ray cluster at {address} refuses the token of this process",
            remedy="set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH to the file with the cluster's token",
        )
    return Cluster(address, is_open=False)


def _probe(address: str, *, with_token: bool) -> tuple[str, str]:
    env = {name: text for name, text in os.environ.items() if with_token or name not in _TOKEN}
    if not with_token:
        env["RAY_AUTH_MODE"] = "disabled"
    # Python puts the current folder first: a project under review could replace `esper_agents` and get the token.
    command = [sys.executable, "-P", "-m", "esper_agents.api.cluster.probe", address]
    try:
        with TemporaryDirectory(prefix="esper-ray-") as empty:
            done = subprocess.run(
                command, cwd=empty, env=env, capture_output=True, text=True, timeout=_PROBE_S, check=False
            )
    except subprocess.TimeoutExpired:
        return "silent", address
    word, _, found = done.stdout.strip().partition(" ")
    return (word, found) if word else ("silent", address)


def _unusable(address: str, error: Exception) -> ClusterError:
    versions = _VERSIONS.findall(str(error))
    if len(versions) == 2:  # noqa: PLR2004 - the cluster's and this process's
        (ray, python), (own_ray, own_python) = versions
        problem = (
            f"the Ray cluster at {address} has Ray {ray} on Python {python}, this process {own_ray} on {own_python}"
        )
        return ClusterError(problem, remedy=f"pip install 'ray=={ray}' under Python {python.rpartition('.')[0]}")
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ClusterError(f"the Ray cluster at {address} cannot be used: {first[:200]}", remedy="ray status")
