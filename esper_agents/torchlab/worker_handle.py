"""One measurement process as the lab sees it: requests over its channel, and killing its process tree."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from esper_agents.domain.codec import parsed
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.torchlab.remove_tree import remove
from esper_agents.torchlab.worker.process.channel import Channel, ChannelError
from esper_agents.torchlab.worker.target.result import LoadedSummary, PackageNotRun, RaisedDescription
from esper_agents.torchlab.worker_failure import WorkerError, WorkerFailureKind, exit_error, raised, read_result

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.fork_server import ForkServerClient
    from esper_agents.torchlab.supervisor import Supervisor
    from esper_agents.torchlab.target import TargetSpec, Tell

T = TypeVar("T")

_START_S = 120.0
_MOST_SAID = 4_000
_MOST_PACKAGES, _MOST_PACKAGE_TEXT = 16, 300


@dataclass(frozen=True, slots=True)
class WorkerReply:
    """Reply of a measurement process.

    Attributes:
        result: The result.
        files: Open descriptors received with it; the caller closes them.
    """

    result: JsonObject
    files: tuple[int, ...] = ()

    def read(self, shape: type[T]) -> T:
        """Return the result as its data class.

        Raises:
            EvidenceError: It is not one; the error names the member.
        """
        return read_result(shape, self.result)


class WorkerHandle:
    """Measurement process that runs user code; a context manager that kills it.

    Attributes:
        scratch: The only folder it may write.
        held: Its confinement, as reported by the process.
        cpu: Processor to which it is pinned; None if to none.
        packages_not_run: Packages that it imported without their `__init__.py`.
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
        """Take ownership of a process that was forked for the lab."""
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
        self.cpu: int | None = None
        self.packages_not_run: dict[str, PackageNotRun] = {}
        self._tail = ""
        self._is_dead = False

    def __enter__(self) -> Self:
        """Return the handle."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the process with everything it started."""
        self.kill()

    @property
    def pid(self) -> int:
        """The process id as seen from this process."""
        return self._channel.peer_pid

    def hello(self) -> None:
        """Wait until the process is confined and ready.

        Raises:
            WorkerError: The process did not start.
        """
        message, _ = self._receive(_START_S, _START_S)
        if "refused" in message:
            self.kill()
            raise EvidenceError(
                f"a measurement process could not be confined: {message['refused']}",
                remedy="run it on another machine, or use --no-sandbox if you trust the code",
            )
        self.held = message["ready"]

    def load(self, target: TargetSpec, *, timeout_s: float | None = None) -> LoadedSummary:
        """Import a target; return its description.

        Args:
            target: The target.
            timeout_s: Time limit; the lab's if omitted.

        Raises:
            UsageError: There is no such target, or it cannot be used this way.
            WorkerError: Its import failed in another way.
        """
        self._name = target.name
        self._send({"do": "load", "target": target.request()})
        return self._answer(timeout_s or self._timeout_s, None).read(LoadedSummary)

    def ask(
        self,
        job: str,
        request: JsonObject,
        *,
        files: tuple[int, ...] = (),
        timeout_s: float | None = None,
        silence_s: float | None = None,
        tell: Tell | None = None,
        name: str = "",
    ) -> WorkerReply:
        """Run a job and return the reply.

        Args:
            job: Name of the job.
            request: Its options.
            files: Open descriptors to pass.
            timeout_s: Time limit; the lab's if omitted.
            silence_s: Time limit between two messages of progress; none besides `timeout_s` if omitted.
            tell: Progress callback.
            name: Subject of error messages for a job that loads its own target.

        Raises:
            UsageError: The target or its inputs cannot be used this way.
            WorkerError: The process hung, crashed, raised, or otherwise gave no reply; without a reply it is killed.
        """
        self._name = name or self._name
        self.begin(job, request, files=files)
        return self.answer(timeout_s=timeout_s, silence_s=silence_s, tell=tell)

    def begin(self, job: str, request: JsonObject, *, files: tuple[int, ...] = ()) -> None:
        """Begin a job, whose reply `answer` returns; the arguments are those of `ask`.

        Raises:
            WorkerError: The process has ended.
        """
        self._send({"do": job, "request": dict(request)}, files)

    def answer(
        self, *, timeout_s: float | None = None, silence_s: float | None = None, tell: Tell | None = None
    ) -> WorkerReply:
        """Return the reply to the job that was begun; the arguments and errors are those of `ask`."""
        return self._answer(timeout_s or self._timeout_s, tell, silence_s)

    def peak_bytes(self) -> int:
        """Return the largest resident memory of the process so far, by the kernel; 0 if it does not report it."""
        with suppress(OSError, ValueError, IndexError):
            text = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii", errors="replace")
            return int(text.partition("VmHWM:")[2].split()[0]) << 10
        return 0

    def _send(self, message: JsonObject, files: tuple[int, ...] = ()) -> None:
        try:
            self._channel.send(dict(message), files)
        except OSError as error:
            raise self._gone() from error

    def _answer(self, timeout_s: float, tell: Tell | None, silence_s: float | None = None) -> WorkerReply:
        try:
            return self._awaited(timeout_s, tell, timeout_s if silence_s is None else min(silence_s, timeout_s))
        except WorkerError as error:
            error.label = self._label
            raise

    def _awaited(self, timeout_s: float, tell: Tell | None, silence_s: float) -> WorkerReply:
        deadline = time.monotonic() + timeout_s
        while True:
            left = max(deadline - time.monotonic(), 0.001)
            message, files = self._receive(min(left, silence_s), silence_s if silence_s < left else timeout_s)
            match message:
                case {"tell": str(what), "fraction": float() | int() as fraction}:
                    if tell is not None:
                        tell(what[:200], min(max(float(fraction), 0.0), 1.0))
                case {"raised": dict(described)}:
                    raise self._raised(described)
                case {"result": dict(result)}:
                    self._note_packages(message.get("packages_not_run"))
                    return WorkerReply(result, tuple(files))
                case _:
                    raise self._garbled()

    def _note_packages(self, reported: object) -> None:
        """Note the packages in a reply; the process that sends them runs the user's code."""
        if isinstance(reported, list):
            for each in reported[:_MOST_PACKAGES]:
                found = read_result(PackageNotRun, each)
                file, error = (" ".join(text.split())[:_MOST_PACKAGE_TEXT] for text in (found.file, found.error))
                self.packages_not_run[file] = PackageNotRun(file, error)

    def _raised(self, described: JsonObject) -> WorkerError | UsageError:
        try:
            error = parsed(RaisedDescription, described)
        except ValueError:
            return self._garbled()
        if error.problem:
            return UsageError(error.problem[:500], remedy=error.remedy[:500])
        # An exception that an exceeded total limit caused is reported as that limit.
        if over := self._over():
            return over
        place = self._forks.withheld_at(Path(error.refused)) if error.refused and "\0" not in error.refused else None
        return raised(self._name, error, self.said(), withheld="" if place is None else str(place))

    def _receive(self, wait_s: float, limit_s: float) -> tuple[dict[str, Any], list[int]]:
        try:
            return self._channel.receive(wait_s)
        except TimeoutError as error:
            if over := self._over():
                self.kill()
                raise over from error
            self.kill()
            what = f"{self._name} gave no answer within {limit_s:.3g} s"
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
        """Return the error for an exceeded total limit; None if no limit was exceeded."""
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
        """Return the end of the output of user code."""
        if not self._is_dead:
            size = os.fstat(self._said).st_size
            self._tail = os.pread(self._said, _MOST_SAID, max(0, size - _MOST_SAID)).decode("utf-8", "replace")
        return self._tail

    def kill(self) -> None:
        """Kill the process with everything it started and delete its scratch folder; a second call does nothing."""
        if self._is_dead:
            return
        self.said()
        self._is_dead = True
        self._channel.close()
        try:
            # If the fork server has ended, its processes have ended as well.
            with suppress(EvidenceError):
                self._forks.kill(self._pid)
        finally:
            os.close(self._said)
            remove(self.scratch)
