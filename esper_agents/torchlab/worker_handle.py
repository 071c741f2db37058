"""One measurement process as the lab sees it: requests over its channel, and killing its process tree."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from esper_agents.errors import EvidenceError, UsageError
from esper_agents.torchlab.remove_tree import remove
from esper_agents.torchlab.worker.process.channel import Channel, ChannelError
from esper_agents.torchlab.worker_failure import WorkerError, WorkerFailureKind, exit_error, raised

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.fork_server import ForkServerClient
    from esper_agents.torchlab.supervisor import Supervisor
    from esper_agents.torchlab.target import TargetSpec, Tell

_START_S = 120.0
_MOST_SAID = 4_000


@dataclass(frozen=True, slots=True)
class WorkerReply:
    """What a worker answered.

    Attributes:
        result: The answer itself.
        files: Open descriptors that came with it; whoever asked closes them.
    """

    result: JsonObject
    files: tuple[int, ...] = ()


class WorkerHandle:
    """A forked process that runs user code; a context manager that kills it.

    Attributes:
        scratch: The only folder it may write.
        held: What its confinement is, as it says itself.
    """

    def __init__(  # noqa: PLR0917 - made in one place
        self,
        forks: ForkServerClient,
        channel: Channel,
        pid: int,
        scratch: Path,
        said: int,
        label: str,
        timeout_s: float,
        supervisor: Supervisor,
    ) -> None:
        """Take over a process that was forked for the lab."""
        self._label = label
        self._forks = forks
        self._supervisor = supervisor
        self._timeout_s = timeout_s
        self._channel = channel
        self._pid = pid
        self._said = said
        self._name = "the target"
        self.scratch = scratch
        self.held: JsonObject = {}
        self._tail = ""
        self._is_dead = False

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it with everything that it started."""
        self.kill()

    @property
    def pid(self) -> int:
        """Its process id as this process sees it."""
        return self._channel.peer_pid

    def hello(self) -> None:
        """Wait until it is confined and ready.

        Raises:
            WorkerError: It did not start.
        """
        message, _ = self._receive(_START_S)
        if "refused" in message:
            self.kill()
            raise EvidenceError(
                f"a worker could not be confined: {message['refused']}",
                remedy="run it on another machine, or say --no-sandbox if you trust the code",
            )
        self.held = message["ready"]

    def load(self, target: TargetSpec) -> JsonObject:
        """Have it import a target; return what it is.

        Raises:
            UsageError: There is no such thing, or it cannot be used so.
            WorkerError: Importing it ended otherwise.
        """
        self._name = target.name
        self._send({"do": "load", "target": target.request()})
        return self._answer(self._timeout_s, None).result

    def ask(
        self,
        job: str,
        request: JsonObject,
        *,
        files: tuple[int, ...] = (),
        timeout_s: float | None = None,
        tell: Tell | None = None,
    ) -> WorkerReply:
        """Have it do a job and return the answer.

        Raises:
            UsageError: The target or its inputs cannot be used so.
            WorkerError: It hung, crashed, raised, or otherwise did not answer; a worker that did not answer is killed.
        """
        self._send({"do": job, "request": dict(request)}, files)
        return self._answer(timeout_s or self._timeout_s, tell)

    def _send(self, message: JsonObject, files: tuple[int, ...] = ()) -> None:
        try:
            self._channel.send(dict(message), files)
        except OSError as error:
            raise self._gone() from error

    def _answer(self, timeout_s: float, tell: Tell | None) -> WorkerReply:
        try:
            return self._awaited(timeout_s, tell)
        except WorkerError as error:
            error.label = self._label
            raise

    def _awaited(self, timeout_s: float, tell: Tell | None) -> WorkerReply:
        deadline = time.monotonic() + timeout_s
        while True:
            message, files = self._receive(max(deadline - time.monotonic(), 0.001))
            match message:
                case {"tell": str(what), "fraction": float() | int() as fraction}:
                    if tell is not None:
                        tell(what[:200], min(max(float(fraction), 0.0), 1.0))
                case {"raised": {"problem": str(problem), "remedy": str(remedy)}}:
                    raise UsageError(problem[:500], remedy=remedy[:500])
                case {"raised": dict(described)}:
                    raise self._raised(described)
                case {"result": dict(result)}:
                    return WorkerReply(result, tuple(files))
                case _:
                    raise self._garbled()

    def _raised(self, described: JsonObject) -> WorkerError:
        # What the kernel refused at its own limit ends here.
        if over := self._over():
            return over
        refused = described.get("refused")
        place = self._forks.withheld_at(Path(refused)) if isinstance(refused, str) and "\0" not in refused else None
        return raised(self._name, described, self.said(), withheld="" if place is None else str(place))

    def _receive(self, timeout_s: float) -> tuple[dict[str, Any], list[int]]:
        try:
            return self._channel.receive(timeout_s)
        except TimeoutError as error:
            if over := self._over():
                self.kill()
                raise over from error
            self.kill()
            what = f"{self._name} gave no answer within {timeout_s:.3g} s"
            raise WorkerError(WorkerFailureKind.HANG, what, said=self.said()) from error
        except EOFError as error:
            raise self._gone() from error
        except ChannelError as error:
            raise self._garbled() from error

    def _gone(self) -> WorkerError:
        status = self._forks.status(self._pid, 1.0)
        error = self._over() or exit_error(self._name, status, self.said())
        self.kill()
        return error

    def _over(self) -> WorkerError | None:
        """Return the error for a limit of all processes together; None if the workers stayed within them."""
        if not (why := self._supervisor.look()):
            return None
        return WorkerError(WorkerFailureKind.LIMIT, f"{self._name} was stopped: it used {why}", said=self.said())

    def _garbled(self) -> WorkerError:
        error = self._over()
        self.kill()
        return error or WorkerError(
            WorkerFailureKind.GARBLED, f"{self._name} wrote into the channel it answers on", said=self.said()
        )

    def said(self) -> str:
        """Return the end of what user code printed."""
        if not self._is_dead:
            size = os.fstat(self._said).st_size
            self._tail = os.pread(self._said, _MOST_SAID, max(0, size - _MOST_SAID)).decode("utf-8", "replace")
        return self._tail

    def kill(self) -> None:
        """Kill it with everything that it started and delete its scratch; a second call does nothing."""
        if self._is_dead:
            return
        self.said()
        self._is_dead = True
        self._channel.close()
        try:
            # Where the process that forked it is gone, it is gone as well.
            with suppress(EvidenceError):
                self._forks.kill(self._pid)
        finally:
            os.close(self._said)
            remove(self.scratch)
