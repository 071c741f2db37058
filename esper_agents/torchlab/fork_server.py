"""Client side of the fork server: the warm process that forks and reaps measurement processes."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from esper_agents.errors import EvidenceError, UsageError
from esper_agents.extras import Extra
from esper_agents.torchlab import sandbox
from esper_agents.torchlab.fork_server_process import WORKER, OwnProcess, warm_parent_plan
from esper_agents.torchlab.interpreter_choice import OLDEST_TORCH
from esper_agents.torchlab.supervisor import descendants
from esper_agents.torchlab.warm_parent import attached
from esper_agents.torchlab.worker.process.channel import ChannelError
from esper_agents.torchlab.worker.process.process_tree import children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.interpreter import PythonInterpreter
    from esper_agents.torchlab.sandbox import SandboxMounts
    from esper_agents.torchlab.warm_parent import AttachedProcess

_START_S = 120.0

# Takes a readable folder and the interpreter's environments; returns the paths in it that are withheld.
Withhold: TypeAlias = "Callable[[Path, Sequence[Path]], Iterable[Path]]"


class ForkServerClient:
    """Fork server as seen from this process.

    Attributes:
        choice: Sandbox of the measurement processes.
        grants: Files they may read.
        interpreter: Interpreter and torch as reported by the process.
        is_alive: Whether it answered the latest request.
    """

    def __init__(
        self,
        python: PythonInterpreter,
        roots: Sequence[Path],
        hidden: Sequence[Path],
        scratch: Path,
        *,
        withhold: Withhold | None,
        is_unconfined: bool,
        keep_warm_s: float = 0.0,
    ) -> None:
        """Start the process and wait until it has imported torch.

        Args:
            python: The interpreter.
            roots: Folders that measurement processes may read.
            hidden: Folders that they must not see, anywhere.
            scratch: Folder in which each process gets a writable folder.
            withhold: Lists the files in the roots to withhold; none if omitted.
            is_unconfined: Whether the user waived the sandbox.
            keep_warm_s: Seconds for which a parent stays for the next command; 0 for a process of this command alone.

        Raises:
            EvidenceError: No sandbox works here, or the interpreter started no process.
            UsageError: It has no usable torch.
        """
        self._withhold, self._is_unconfined = None if is_unconfined else withhold, is_unconfined
        view = sandbox.SandboxMounts(python, tuple(roots), WORKER, scratch, tuple(hidden))
        self._view = view = replace(view, withheld=self._withheld(view))
        self.is_alive = True
        self._ended: dict[int, int] = {}
        self._warmed: set[str] = set()
        self._server: OwnProcess | AttachedProcess = self._warm_or_own(view, keep_warm_s)
        with ExitStack() as failed:
            failed.callback(self.close)
            self._channel, self.choice = self._server.channel, self._server.choice
            self._view = view = replace(view, scratch=self._server.covered)
            self.grants = sandbox.grants(view)
            self.interpreter = self._hello(python.executable)
            self._send({"do": "prepare", **self.confinement(), "scratch": str(view.scratch)})
            failed.pop_all()

    def _warm_or_own(self, view: SandboxMounts, keep_warm_s: float) -> OwnProcess | AttachedProcess:
        plan = warm_parent_plan(view) if keep_warm_s and not self._is_unconfined else None
        found = attached(plan, keep_warm_s) if plan is not None else None
        return found or OwnProcess(view, sandbox.choose(view, is_waived=self._is_unconfined))

    @property
    def scratch(self) -> Path:
        """Folder in which each process gets a writable folder."""
        return self._server.scratch

    def _withheld(self, view: SandboxMounts) -> tuple[Path, ...]:
        if self._withhold is None:
            return ()
        python = view.interpreter
        environments = [place for place in python.places if Path(python.executable).is_relative_to(place)]
        return tuple(path for root in view.roots for path in self._withhold(root, environments))

    def look_again(self) -> None:
        """Recompute the files that new measurement processes may read: some may have been added."""
        if self._withhold is not None:
            self._view = replace(self._view, withheld=self._withheld(self._view))
            self.grants = sandbox.grants(self._view)

    def withheld_at(self, path: Path) -> Path | None:
        """Return the withheld file or folder at a path, or around it; None if the path is readable."""
        found = path.resolve()
        return next((each for each in self._view.withheld if found.is_relative_to(each)), None)

    def confinement(self) -> JsonObject:
        """Return the confinement settings for a measurement process."""
        return {
            "confined": self.choice.sandbox is not sandbox.Sandbox.NONE,
            "own_network": self.choice.has_own_network,
        }

    def descendants(self, most: int) -> list[int]:
        """Return its measurement processes and their descendants, by process id here; not many more than `most`."""
        return descendants(self._channel.peer_pid, most)

    def workers(self) -> list[int]:
        """Return its measurement processes, and the first process of the namespaces of each that has its own."""
        return children(self._channel.peer_pid)

    def close(self) -> None:
        """End it, and every measurement process with it."""
        self._server.close()

    def fork(self, message: JsonObject, files: tuple[int, ...]) -> int:
        """Fork a measurement process; return its process id as seen from the fork server.

        Raises:
            EvidenceError: The fork server has ended.
        """
        self._send({"do": "fork", **message}, files)
        return int(self._wait_for("forked")["forked"])

    def status(self, pid: int, timeout_s: float) -> int | None:
        """Return the exit status of a measurement process, negative for a signal; None if it runs or is unknown."""
        deadline = time.monotonic() + timeout_s
        while pid not in self._ended and self.is_alive:
            try:
                self._receive(max(deadline - time.monotonic(), 0.001))
            except (TimeoutError, EvidenceError):
                break
        return self._ended.get(pid)

    def kill(self, pid: int) -> None:
        """Kill a measurement process with everything it started.

        Raises:
            EvidenceError: The fork server has ended, and its processes with it.
        """
        self._send({"do": "kill", "pid": pid})
        self._wait_for("killed")
        self._ended.pop(pid, None)

    def warm(self, job: str) -> None:
        """Import the modules of a job once, so that new measurement processes start with them.

        Raises:
            EvidenceError: The fork server has ended, or now has threads, so that its forks would hang.
        """
        if job in self._warmed:
            return
        self._send({"do": "warm", "job": job})
        if self._wait_for("warmed")["threads"] > 1:
            raise EvidenceError(f"the fork server has threads after loading {job!r}", remedy="report it")
        self._warmed.add(job)
        self._server.remember(job)

    def _hello(self, python: str) -> JsonObject:
        try:
            hello, _ = self._channel.receive(_START_S)
        except (EOFError, TimeoutError, ChannelError) as error:
            raise EvidenceError(
                f"the interpreter {python!r} started no measurement process{self._server.why()}",
                remedy="check it with: python -c 'import torch'",
            ) from error
        _check_torch(hello)
        return hello

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
        return EvidenceError(f"the fork server has ended{self._server.why()}", remedy="measure again")


def _check_torch(hello: JsonObject) -> None:
    python = hello["executable"]
    if "missing" in hello:
        raise UsageError(
            f"{python} has no torch ({hello['missing']})",
            remedy=f"{Extra.TORCH.install_command}, or name an interpreter that has it with --python",
        )
    version = str(hello["torch"])
    numbers = tuple(int(each) for each in version.partition("+")[0].split(".")[:2])
    if numbers < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise UsageError(f"torch {version} of {python} is too old", remedy=f"use torch {oldest} or newer")
