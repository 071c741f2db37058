"""Client side of the fork server: the warm process that forks and reaps measurement processes."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from esper_agents.errors import EvidenceError, UsageError
from esper_agents.torchlab import sandbox
from esper_agents.torchlab.supervisor import descendants
from esper_agents.torchlab.worker.process.channel import Channel, ChannelError
from esper_agents.torchlab.worker.process.process_tree import children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from esper_agents.domain.codec import JsonObject

_BOOTSTRAP = (
    "import importlib.util as u, sys; p = sys.argv[1]; "
    "s = u.spec_from_file_location('esper_worker', p + '/__init__.py', submodule_search_locations=[p]); "
    "m = u.module_from_spec(s); sys.modules['esper_worker'] = m; s.loader.exec_module(m); "
    "from esper_worker.process.fork_server import main; main(int(sys.argv[2]))"
)
_WORKER = Path(__file__).parent / "worker"
_START_S = 120.0
_OLDEST_TORCH = (2, 4)

# Takes a folder that workers may read, and the environments of the interpreter; returns what of it they may not.
Withhold: TypeAlias = "Callable[[Path, Sequence[Path]], Iterable[Path]]"


class ForkServerClient:
    """The process that forks workers.

    Attributes:
        choice: What confines the workers.
        grants: What they may read.
        interpreter: What the process says of its interpreter and its torch.
        is_alive: Whether it answered the last time that it was asked.
    """

    def __init__(
        self,
        python: str | None,
        roots: Sequence[Path],
        hidden: Sequence[Path],
        scratch: Path,
        *,
        withhold: Withhold | None,
        is_unconfined: bool,
    ) -> None:
        """Start it and wait until it has imported torch.

        Args:
            python: The interpreter; ours where None.
            roots: Folders that workers may read.
            hidden: Folders that they must not see, wherever they lie.
            scratch: The folder in which each gets one to write.
            withhold: Names the files in the roots that workers cannot read; none if left out.
            is_unconfined: Whether a person said that no sandbox is needed.

        Raises:
            EvidenceError: No sandbox holds here, or the interpreter started no worker.
            UsageError: It has no torch that can be used.
        """
        found = sandbox.interpreter(python or sys.executable)
        self._withhold = None if is_unconfined else withhold
        view = sandbox.SandboxMounts(found, tuple(roots), _WORKER, scratch, tuple(hidden))
        self._view = view = replace(view, withheld=self._withheld(view))
        self.choice = sandbox.choose(view, is_waived=is_unconfined)
        self.grants = sandbox.grants(view)
        self.is_alive = True
        self._ended: dict[int, int] = {}
        self._warmed: set[str] = set()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._channel = Channel(ours)
        with ExitStack() as failed, theirs:
            failed.callback(self._channel.close)
            self._complaint = failed.enter_context(tempfile.TemporaryFile())
            self._process = subprocess.Popen(
                sandbox.command(self.choice, view, ["-I", "-c", _BOOTSTRAP, str(_WORKER), str(theirs.fileno())]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._complaint,
                # A pool of threads that an import opens would make every fork of the parent hang.
                env=sandbox.environment(scratch)
                | {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                cwd=scratch,
            )
            theirs.close()
            failed.callback(self.close)
            self.interpreter = self._hello(found.executable)
            self._send({"do": "prepare", **self.confinement(), "scratch": str(scratch)})
            failed.pop_all()

    def _withheld(self, view: sandbox.SandboxMounts) -> tuple[Path, ...]:
        if self._withhold is None:
            return ()
        python = view.interpreter
        environments = [each for each in python.places if Path(python.executable).is_relative_to(each)]
        return tuple(path for root in view.roots for path in self._withhold(root, environments))

    def look_again(self) -> None:
        """Find out anew which files the workers to come may read: some may have been added since."""
        if self._withhold is not None:
            self._view = replace(self._view, withheld=self._withheld(self._view))
            self.grants = sandbox.grants(self._view)

    def withheld_at(self, path: Path) -> Path | None:
        """Return the file or folder at a path, or around it, that workers cannot read; None if they can."""
        found = path.resolve()
        return next((each for each in self._view.withheld if found.is_relative_to(each)), None)

    def confinement(self) -> JsonObject:
        """Return what a worker is told of its confinement."""
        return {
            "confined": self.choice.sandbox is not sandbox.Sandbox.NONE,
            "own_network": self.choice.has_own_network,
        }

    def descendants(self, most: int) -> list[int]:
        """Return the processes that its workers are and started, as this process sees them; little more than `most`."""
        return descendants(self._channel.peer_pid, most)

    def workers(self) -> list[int]:
        """Return its workers, and the first process of the namespaces of each that has some."""
        return children(self._channel.peer_pid)

    def close(self) -> None:
        """End it, and with it every worker."""
        self._channel.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._complaint.close()

    def fork(self, message: JsonObject, files: tuple[int, ...]) -> int:
        """Have it fork a worker; return its process id as the parent sees it.

        Raises:
            EvidenceError: It is gone.
        """
        self._send({"do": "fork", **message}, files)
        return int(self._wait_for("forked")["forked"])

    def status(self, pid: int, timeout_s: float) -> int | None:
        """Return how a worker's process ended, negative for a signal; None if it lives on or nobody knows."""
        deadline = time.monotonic() + timeout_s
        while pid not in self._ended and self.is_alive:
            try:
                self._receive(max(deadline - time.monotonic(), 0.001))
            except (TimeoutError, EvidenceError):
                break
        return self._ended.get(pid)

    def kill(self, pid: int) -> None:
        """Kill a worker with everything that it started.

        Raises:
            EvidenceError: The parent is gone; its workers are, too.
        """
        self._send({"do": "kill", "pid": pid})
        self._wait_for("killed")
        self._ended.pop(pid, None)

    def warm(self, job: str) -> None:
        """Have it load what a job needs, once, so that its workers start with it.

        Raises:
            EvidenceError: It is gone, or has threads now: what it forked would hang.
        """
        if job in self._warmed:
            return
        self._send({"do": "warm", "job": job})
        if self._wait_for("warmed")["threads"] > 1:
            raise EvidenceError(f"the process that forks workers has threads after loading {job!r}", remedy="report it")
        self._warmed.add(job)

    def _hello(self, python: str) -> JsonObject:
        try:
            hello, _ = self._channel.receive(_START_S)
        except (EOFError, TimeoutError, ChannelError) as error:
            raise EvidenceError(
                f"the interpreter {python!r} started no worker{self._why()}", remedy="try it: python -c 'import torch'"
            ) from error
        _check_torch(hello)
        return hello

    def _why(self) -> str:
        self._complaint.seek(0)
        said = self._complaint.read().decode("utf-8", "replace").strip().splitlines()
        return f" ({said[-1][:300]})" if said else ""

    def _send(self, message: dict[str, Any], files: tuple[int, ...] = ()) -> None:
        try:
            self._channel.send(message, files)
        except OSError as error:
            raise self._gone() from error

    def _wait_for(self, what: str) -> dict[str, Any]:
        while True:
            try:
                message = self._receive(_START_S)
            except TimeoutError as error:
                raise self._gone() from error
            if what in message:
                return message

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        try:
            message, _ = self._channel.receive(timeout_s)
        except TimeoutError:
            raise
        except (OSError, EOFError, ChannelError) as error:
            raise self._gone() from error
        if "ended" in message:
            self._ended[int(message["ended"])] = int(message["status"])
        return message

    def _gone(self) -> EvidenceError:
        self.is_alive = False
        return EvidenceError(f"the process that forks workers is gone{self._why()}", remedy="measure again")


def _check_torch(hello: JsonObject) -> None:
    python = hello["executable"]
    if "missing" in hello:
        raise UsageError(
            f"{python} has no torch ({hello['missing']})",
            remedy="pip install 'esper-agents[torch]', or name an interpreter that has it with --python",
        )
    version = str(hello["torch"])
    numbers = tuple(int(each) for each in version.partition("+")[0].split(".")[:2])
    if numbers < _OLDEST_TORCH:
        oldest = ".".join(map(str, _OLDEST_TORCH))
        raise UsageError(f"torch {version} of {python} is too old", remedy=f"use torch {oldest} or newer")
