"""Nodes of a Ray cluster on this machine, as processes that can be killed one by one."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PATIENCE_S = 240.0
_OBJECT_STORE_BYTES = 80 * 2**20


class RayNodes:
    """A head and more nodes.

    Attributes:
        address: `HOST:PORT` of the head.
        env: Environment of clients: with the token, if the cluster has one.
    """

    def __init__(self, env: Mapping[str, str], *, with_token: bool = True) -> None:
        """Prepare; nothing starts yet.

        Args:
            env: Environment of the nodes, and so of the workers on them.
            with_token: Whether the cluster requires a token.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="er-", dir="/tmp"))
        auth = {"RAY_AUTH_MODE": "disabled"}
        if with_token:
            auth = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self.env = {**env, **auth, "RAY_USAGE_STATS_ENABLED": "0"}
        self.env.pop("RAY_ADDRESS", None)
        self._port = _free_port()
        self.address = f"{_own_address()}:{self._port}"
        self.nodes: list[subprocess.Popen[bytes]] = []

    def start(self, *options: str, cpus: int = 2, env: Mapping[str, str] | None = None) -> int:
        """Start the head, or one more node, and return its number.

        Args:
            options: More options of `ray start`.
            cpus: Number of CPUs that it offers.
            env: Additions to its environment.
        """
        role: tuple[str, ...] = (
            "--head",
            f"--port={self._port}",
            "--include-dashboard=false",
            f"--temp-dir={self._folder}",
        )
        if self.nodes:
            role = ("--address", self.address)
        command = [str(Path(sys.executable).with_name("ray")), "start", "--block", *role, f"--num-cpus={cpus}"]
        command += [f"--object-store-memory={_OBJECT_STORE_BYTES}", "--disable-usage-stats", *options]
        log = (self._folder / f"node-{len(self.nodes)}.txt").open("wb")
        with log:
            started = subprocess.Popen(
                command, env={**self.env, **(env or {})}, stdout=log, stderr=subprocess.STDOUT, cwd=self._folder
            )
        self.nodes.append(started)
        self._wait(len(self.nodes) - 1)
        return len(self.nodes) - 1

    def _wait(self, number: int) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        log = self._folder / f"node-{number}.txt"
        while b"--block" not in log.read_bytes():
            if self.nodes[number].poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"node {number} did not start: {log.read_text()[-1000:]}")
            time.sleep(0.1)

    def processes(self, number: int) -> list[psutil.Process]:
        """Return the processes of a node."""
        if self.nodes[number].poll() is not None:
            return []
        first = psutil.Process(self.nodes[number].pid)
        return [*first.children(recursive=True), first]

    def workers(self) -> list[psutil.Process]:
        """Return the processes that run queue workers."""
        found = []
        for number in range(len(self.nodes)):
            for process in self.processes(number):
                with suppress(psutil.Error):
                    if "WorkerActor" in " ".join(process.cmdline()):
                        found.append(process)
        return found

    def kill(self, number: int) -> None:
        """Kill all processes of a node at once."""
        found = self.processes(number)
        for process in found:
            with suppress(psutil.Error):
                process.suspend()
        # Those that were started meanwhile are of stopped parents.
        for process in {*found, *self.processes(number)}:
            with suppress(psutil.Error):
                process.kill()
        self.nodes[number].wait()

    def close(self) -> None:
        """Leave no process and no folder."""
        for number in reversed(range(len(self.nodes))):
            self.kill(number)
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def ray_nodes(env: Mapping[str, str], *, with_token: bool = True) -> Iterator[RayNodes]:
    """Yield a cluster without nodes; in the end none of its processes is left."""
    nodes = RayNodes(env, with_token=with_token)
    try:
        yield nodes
    finally:
        nodes.close()


def _free_port() -> int:
    # Ray's own processes use 10002 to 19999; the kernel gives ports above.
    with socket.socket() as listener:
        listener.bind(("", 0))
        return int(listener.getsockname()[1])


def _own_address() -> str:
    from ray.util import get_node_ip_address

    return str(get_node_ip_address())  # type: ignore[no-untyped-call] # as Ray has it


def clean_environment() -> dict[str, str]:
    """Return the environment of this process without settings of Ray."""
    return {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
