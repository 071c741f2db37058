"""Service that forks confined measurement processes and collects their results."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Self

from esper_agents.errors import EvidenceError, UsageError
from esper_agents.torchlab import environment
from esper_agents.torchlab.fork_server import ForkServerClient
from esper_agents.torchlab.interpreter import described_interpreter, interpreter
from esper_agents.torchlab.interpreter_choice import InterpreterSource, project_candidates
from esper_agents.torchlab.remove_tree import remove
from esper_agents.torchlab.report import SCHEMA, MeasurementReport, OutputFile, now
from esper_agents.torchlab.supervisor import Supervisor, TotalLimits, memory_at_most, tasks_of_user
from esper_agents.torchlab.timing_turn import timing_turn
from esper_agents.torchlab.worker.process.channel import Channel
from esper_agents.torchlab.worker.results import WrittenFiles, shallow
from esper_agents.torchlab.worker_failure import WorkerError, WorkerFailureKind
from esper_agents.torchlab.worker_handle import WorkerHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.fork_server import Withhold
    from esper_agents.torchlab.interpreter import PythonInterpreter
    from esper_agents.torchlab.sandbox import SandboxChoice
    from esper_agents.torchlab.target import TargetSpec, Tell
    from esper_agents.torchlab.worker.results import WrittenFile
    from esper_agents.torchlab.worker.target.result import PackageNotRun

    # Of a device, the time to wait for it in seconds, and whether to stop waiting.
    DeviceTurn = Callable[[str, float, Callable[[], bool]], AbstractContextManager[str | None]]

_MOST_WORKERS = 3


@dataclass(frozen=True, slots=True)
class LabSettings:
    """Settings for running user code.

    Attributes:
        python: Interpreter whose torch is measured; None for the first of `project_candidates` that can measure, else
            this process's own.
        is_unconfined: Whether the user passed `--no-sandbox`.
        memory_bytes: Limit on allocations of a process beyond its start, and on its device memory.
        timeout_s: Time limit for one reply.
        threads: Number of threads inside a torch operation.
        queue_s: Time to wait for other timings of this user; 0 for not at all.
        tasks: Limit on concurrent processes and threads of a measurement, in total.
        disk_bytes: Limit on bytes written to disk by a measurement, in total.
        keep_warm_s: Seconds for which a process with torch stays for the next lab of this user and project; 0 for none.
    """

    python: str | None = None
    is_unconfined: bool = False
    memory_bytes: int = 16 << 30
    timeout_s: float = 120.0
    threads: int = 1
    queue_s: float = 3_600.0
    tasks: int = 2_048
    disk_bytes: int = 8 << 30
    keep_warm_s: float = 0.0


class Lab:
    """Service that measures user code in separate processes; a context manager that leaves no process behind."""

    def __init__(
        self,
        project: Path,
        settings: LabSettings | None = None,
        *,
        roots: Sequence[Path] = (),
        hidden: Sequence[Path] = (),
        withhold: Withhold | None = None,
        keep: Path | None = None,
        tell: Tell | None = None,
        waiting: Callable[[str], None] | None = None,
    ) -> None:
        """Prepare the lab; entering it starts the fork server.

        Args:
            project: Folder of the measured code.
            settings: Settings for running it.
            roots: Further readable folders, such as another revision of the project.
            hidden: Folders that user code must not see, anywhere.
            withhold: Lists the files in the project and the roots to withhold; none if omitted.
            keep: Folder for the output files of measurements; a temporary folder if omitted.
            tell: Progress callback.
            waiting: Called with the position in the queue of timings; the progress callback if omitted.
        """
        self.project = project.resolve()
        self.settings = settings or LabSettings()
        self.tell: Tell = tell or (lambda _what, _fraction: None)
        self._waiting = waiting
        self._roots = [self.project, *(root.resolve() for root in roots)]
        self._hidden = list(hidden)
        self._withhold = withhold
        self._keep = keep
        self._count = 0
        self._measurement = 0
        self._not_run: dict[str, PackageNotRun] = {}
        self._source = InterpreterSource()
        self._opened = ExitStack()
        self._closing = Lock()
        self._is_closed = Event()
        # Context in which no other measurement runs on a device; None for no such check.
        self.device_turn: DeviceTurn | None = None
        # Time that entering it took.
        self.start_ns = 0
        # Devices of the running measurement, from its first process on them to its end, with the GPUs that processes
        # on them may see; None for those of the fork server.
        self._devices: dict[str, str | None] = {}
        self._turns = ExitStack()

    def __enter__(self) -> Self:
        """Start the fork server.

        Raises:
            EvidenceError: No sandbox works here, or the interpreter has no usable torch.
        """
        begun_ns = time.monotonic_ns()
        try:
            self._scratch = Path(tempfile.mkdtemp(prefix="esper-lab-"))
            self._opened.callback(remove, self._scratch)
            self.keep = self._keep or self._scratch / "kept"
            self.keep.mkdir(parents=True, exist_ok=True)
            self._forks = self._started()
            if self._forks.scratch != self._scratch:
                self._scratch = self._forks.scratch
                self._opened.callback(remove, self._scratch)
            self._opened.callback(self._forks.close)
            total = TotalLimits(self._total_memory(), self.settings.tasks, self.settings.disk_bytes)
            self._supervisor = Supervisor(self._forks.descendants, [self._scratch], total, self._forks.workers)
            self._tasks_of_user = tasks_of_user()
            self._opened.enter_context(self._supervisor)
        except BaseException:
            self.close()
            raise
        self.start_ns = time.monotonic_ns() - begun_ns
        return self

    def _started(self) -> ForkServerClient:
        """Return the fork server under the first interpreter that can measure."""
        if self.settings.python is not None:
            return self._start(interpreter(self.settings.python))
        passed_over: list[str] = []
        for project_candidate in project_candidates(self.project):
            if project_candidate.is_own:
                break
            problem = project_candidate.problem
            try:
                if not problem:
                    forks = self._start(described_interpreter(project_candidate.python, self.project))
                    self._source = InterpreterSource(project_candidate.name, tuple(passed_over))
                    return forks
            except (UsageError, EvidenceError) as error:
                problem = error.problem
            passed_over.append(problem)
        self._source = InterpreterSource("", tuple(passed_over))
        return self._start(interpreter(sys.executable))

    def _start(self, python: PythonInterpreter) -> ForkServerClient:
        return ForkServerClient(
            python,
            self._roots,
            self._hidden,
            self._scratch,
            withhold=self._withhold,
            is_unconfined=self.settings.is_unconfined,
            keep_warm_s=self.settings.keep_warm_s,
        )

    def __exit__(self, *_: object) -> None:
        """Leave no process, descriptor or scratch folder behind."""
        self.close()

    def _total_memory(self) -> int:
        """Return the memory limit of all processes together: two arms and the referee run at once."""
        return memory_at_most(_MOST_WORKERS * self.settings.memory_bytes)

    @property
    def is_alive(self) -> bool:
        """Whether the fork server is alive; without it, the lab cannot measure."""
        return self._forks.is_alive

    @property
    def choice(self) -> SandboxChoice:
        """The sandbox in use."""
        return self._forks.choice

    @property
    def interpreter(self) -> JsonObject:
        """The interpreter and torch, as reported by the fork server."""
        return self._forks.interpreter

    def close(self) -> None:
        """Leave no process, descriptor or scratch folder behind; a second call, from any thread, does nothing."""
        self._is_closed.set()
        with self._closing:
            opened, self._opened = self._opened, ExitStack()
        opened.close()
        with suppress(EvidenceError):
            self.end_measurement()

    def timing_turn(self, tell: Tell | None, *devices: str) -> AbstractContextManager[None]:
        """Return a context in which no other timing of this user runs on this machine.

        Args:
            tell: Progress callback, for the position in the queue.
            devices: Devices that are timed. Their turn comes first: who has the turn of timings waits for nothing else.

        Raises:
            BusyError: The turn did not come within `queue_s`.
            EvidenceError: The lab was closed while it waited.
        """
        for device in sorted(set(devices)):
            self._take_device(device)
        say = tell or self.tell
        waiting = self._waiting or (lambda what: say(what, 0.0))
        return timing_turn(waiting, timeout_s=self.settings.queue_s, is_cancelled=self._is_closed.is_set)

    def begin_measurement(self) -> None:
        """Give new processes empty compile caches, and refresh the list of withheld files."""
        self.end_measurement()
        self._measurement += 1
        self._not_run.clear()
        self._forks.look_again()

    def end_measurement(self) -> None:
        """Let other measurements use the devices of this one.

        Raises:
            EvidenceError: Another measurement may have used one of them at the same time.
        """
        turns, self._turns = self._turns, ExitStack()
        self._devices.clear()
        turns.close()

    def _take_device(self, device: str) -> None:
        if self.device_turn is not None and device != "cpu" and device not in self._devices:
            turn = self.device_turn(device, self.settings.queue_s, self._is_closed.is_set)
            self._devices[device] = self._turns.enter_context(turn)

    def worker(
        self,
        *,
        root: Path | None = None,
        device: str = "cpu",
        label: str = "",
        cpu: int | None = None,
        padding: int = 0,
        memory_bytes: int | None = None,
    ) -> WorkerHandle:
        """Fork a measurement process.

        Args:
            root: Folder for resolving its target's name; the project if omitted.
            device: Device of its target, which decides how memory is limited.
            label: Name in errors, such as `candidate`.
            cpu: Processor to pin the process to.
            padding: Bytes by which to shift its memory layout.
            memory_bytes: Memory limit, if it is less than that of the settings.

        Raises:
            BusyError: Another measurement has the device, and did not end within `queue_s`.
            EvidenceError: The fork server has ended.
            WorkerError: The process did not start.
        """
        self._take_device(device)
        self._count += 1
        # A number would tell the process how many came before it.
        scratch = Path(tempfile.mkdtemp(prefix="worker-", dir=self._scratch))
        # Processes of one arm share a compile cache; other arms and other measurements do not see it.
        cache = self._scratch / f"compiled-{self._measurement}-{label or self._count}"
        cache.mkdir(exist_ok=True)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        said = os.open(scratch / "said.txt", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        message = {
            "root": str(root or self.project),
            "grants": {**self._forks.grants, "writable": [str(scratch), str(cache)]},
            "scratch": str(scratch),
            "cache": str(cache),
            "device": device,
            "memory_bytes": min(memory_bytes or self.settings.memory_bytes, self.settings.memory_bytes),
            "tasks": self.settings.tasks,
            "tasks_of_user": self._tasks_of_user,
            "cpu": cpu,
            "threads": self.settings.threads,
            "padding": padding,
            "visible_gpus": self._devices.get(device),
            **self._forks.confinement(),
        }
        self._supervisor.exceeded = ""
        with ExitStack() as failed:
            failed.callback(ours.close)
            failed.callback(os.close, said)
            with theirs:
                pid = self._forks.fork(message, (theirs.fileno(), said))
            failed.pop_all()
        worker = WorkerHandle(
            self._forks, Channel(ours), pid, scratch, said, label, self.settings.timeout_s, self._supervisor
        )
        worker.packages_not_run, worker.cpu = self._not_run, cpu
        worker.hello()
        return worker

    def warm(self, job: str) -> None:
        """Import the modules of a job once, so that new measurement processes start with them.

        Raises:
            EvidenceError: The fork server has ended, or now has threads, so that its forks would hang.
        """
        self._forks.warm(job)

    def job(self, name: str, target: TargetSpec, request: JsonObject, *, tell: Tell | None = None) -> MeasurementReport:
        """Run one job on one target in a new measurement process.

        Args:
            name: Name of the job.
            target: The target.
            request: The job's options.
            tell: Progress callback.

        Raises:
            UsageError: The target cannot be used.
            WorkerError: The process hung, crashed, raised, or otherwise gave no reply.
            EvidenceError: It named an invalid file.
        """
        started = now(), time.monotonic_ns()
        self.warm(name)
        with self.worker(device=target.device) as worker:
            loaded = shallow(worker.load(target))
            answer = worker.ask(name, request, tell=tell or self.tell)
            made = tuple(self.kept(worker.scratch, artifact) for artifact in answer.read(WrittenFiles).artifacts)
        about = {**target.described(), **loaded}
        result = {each: answer.result[each] for each in answer.result if each != "artifacts"}
        return self.report(name, about, request, result, made=made, started=started)

    def report(
        self,
        kind: str,
        target: JsonObject,
        request: JsonObject,
        result: JsonObject,
        *,
        started: tuple[str, int],
        made: tuple[OutputFile, ...] = (),
    ) -> MeasurementReport:
        """Return a report of this lab.

        Args:
            kind: Kind of measurement.
            target: The target.
            request: The options.
            result: The result.
            started: Start time, as returned by `now`, and by the monotonic clock in nanoseconds.
            made: Output files.
        """
        body = {
            "schema": SCHEMA,
            "kind": kind,
            "started_at": started[0],
            "duration_ns": time.monotonic_ns() - started[1],
            "environment": {**self.environment(), **self.packages_not_run()},
            "sandbox": self.choice.described(),
            "target": target,
            "request": dict(request),
            "result": result,
            "artifacts": [each.described() for each in made],
        }
        return MeasurementReport(kind, body, made)

    def environment(self) -> JsonObject:
        """Return the environment of the measurements."""
        # No user code runs there, and CUDA, if present, cannot start in a limited address space.
        with self.worker(device="cuda") as worker:
            torch = worker.ask("environment", {}).result
        return {**environment.host(), "torch": torch, **self._source.described()}

    def packages_not_run(self) -> JsonObject:
        """Return the packages that this measurement imported without their `__init__.py`; empty for none."""
        found = [{"package": each.file, "error": each.error} for each in self._not_run.values()]
        return {"packages_not_run": found} if found else {}

    def kept(self, scratch: Path, artifact: WrittenFile) -> OutputFile:
        """Move an output file of a measurement process to the folder that keeps them, and return it.

        Args:
            scratch: Scratch folder of the process.
            artifact: The file, as reported by the process.

        Raises:
            WorkerError: There is no such file.
        """
        name = Path(artifact.name).name
        source = scratch / name
        # A path reported by a measurement process may be a link out of its scratch folder.
        if source.is_symlink() or not source.is_file():
            raise WorkerError(WorkerFailureKind.GARBLED, f"the worker left no file {name!r}")
        kept = self.keep / name
        if kept.is_symlink():
            # A move to another disk would write through the link.
            kept.unlink()
        shutil.move(source, kept)
        return OutputFile(kept, artifact.media_type)
