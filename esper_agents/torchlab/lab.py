"""The lab: a warm parent that forks confined workers, and what becomes of what they are asked."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from esper_agents.errors import EvidenceError, UsageError
from esper_agents.torchlab import environment, sandbox
from esper_agents.torchlab.handle import Worker
from esper_agents.torchlab.outcome import Outcome, WorkerError
from esper_agents.torchlab.report import SCHEMA, Made, Report, now
from esper_agents.torchlab.scratch import remove
from esper_agents.torchlab.turn import turn
from esper_agents.torchlab.worker.channel import Channel, ChannelError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.target import TargetSpec, Tell

_BOOTSTRAP = (
    "import importlib.util as u, sys; p = sys.argv[1]; "
    "s = u.spec_from_file_location('esper_worker', p + '/__init__.py', submodule_search_locations=[p]); "
    "m = u.module_from_spec(s); sys.modules['esper_worker'] = m; s.loader.exec_module(m); "
    "from esper_worker.parent import main; main(int(sys.argv[2]))"
)
_WORKER = Path(__file__).parent / "worker"
_START_S = 120.0
_OLDEST_TORCH = (2, 4)


@dataclass(frozen=True, slots=True)
class Settings:
    """How to run the user's code.

    Attributes:
        python: The interpreter whose torch is measured; ours where None.
        is_unconfined: A person said `--no-sandbox`.
        memory_bytes: What a worker may allocate on top of what it starts with.
        timeout_s: How long a worker may take for one answer.
        threads: What torch may use inside an operation.
        queue_s: How long to wait for another measurement on this machine.
    """

    python: str | None = None
    is_unconfined: bool = False
    memory_bytes: int = 16 << 30
    timeout_s: float = 120.0
    threads: int = 1
    queue_s: float = 3_600.0


class Lab:
    """Processes in which user code is measured; a context manager that leaves none behind."""

    def __init__(
        self,
        project: Path,
        settings: Settings | None = None,
        *,
        roots: Sequence[Path] = (),
        hidden: Sequence[Path] = (),
        keep: Path | None = None,
        tell: Tell | None = None,
    ) -> None:
        """Prepare; entering starts the warm parent.

        Args:
            project: The folder whose code is measured.
            settings: How to run it.
            roots: Further folders that workers may read, such as another revision of the project.
            hidden: Folders that they must not see, wherever they lie.
            keep: Where files go that measurements leave behind; a temporary folder where left out.
            tell: Told what is being done.
        """
        self.project = project.resolve()
        self.settings = settings or Settings()
        self.tell: Tell = tell or (lambda _what, _fraction: None)
        self._roots = [self.project, *(each.resolve() for each in roots)]
        self._hidden = list(hidden)
        self._keep = keep
        self._ended: dict[int, int] = {}
        self._warmed: set[str] = set()
        self._count = 0
        self._opened = ExitStack()
        self._closing = Lock()

    def __enter__(self) -> Self:
        """Wait for the machine's turn and start the warm parent.

        Raises:
            BusyError: Another measurement did not end in time.
            EvidenceError: No sandbox holds here, or the interpreter has no torch that can be used.
        """
        try:
            self._opened.enter_context(turn(lambda what: self.tell(what, 0.0), timeout_s=self.settings.queue_s))
            self._scratch = Path(tempfile.mkdtemp(prefix="esper-lab-"))
            self._opened.callback(remove, self._scratch)
            self.keep = self._keep or self._scratch / "kept"
            self.keep.mkdir(parents=True, exist_ok=True)
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Leave no process, no descriptor and no scratch behind."""
        self.close()

    def close(self) -> None:
        """Leave no process, no descriptor and no scratch behind; a second call, from any thread, does nothing."""
        with self._closing:
            opened, self._opened = self._opened, ExitStack()
        opened.close()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        self._channel.close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _why(self) -> str:
        self._complaint.seek(0)
        said = self._complaint.read().decode("utf-8", "replace").strip().splitlines()
        return f" ({said[-1][:300]})" if said else ""

    def _start(self) -> None:
        interpreter = sandbox.interpreter(self.settings.python or sys.executable)
        view = sandbox.View(interpreter, tuple(self._roots), _WORKER, self._scratch, tuple(self._hidden))
        self.choice = sandbox.choose(view, is_waived=self.settings.is_unconfined)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._channel = Channel(ours)
        self._opened.callback(self._channel.close)
        argv = ["-I", "-c", _BOOTSTRAP, str(_WORKER), str(theirs.fileno())]
        command = sandbox.command(self.choice, view, argv)
        self._grants = sandbox.grants(view)
        self._complaint = self._opened.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - closed with the lab
        with theirs:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._complaint,
                # A pool of threads that an import opens would make every fork of the parent hang.
                env=sandbox.environment(self._scratch)
                | {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                cwd=self._scratch,
            )
        self._opened.callback(self._end, process)
        try:
            self.interpreter, _ = self._channel.receive(_START_S)
        except (EOFError, TimeoutError, ChannelError) as error:
            raise EvidenceError(
                f"the interpreter {interpreter.executable!r} started no worker{self._why()}",
                remedy="try it: python -c 'import torch'",
            ) from error
        _check_torch(self.interpreter)
        self._channel.send(
            {
                "do": "prepare",
                "confined": self.choice.sandbox is not sandbox.Sandbox.NONE,
                "own_network": self.choice.has_own_network,
                "scratch": str(self._scratch),
            }
        )

    def worker(self, *, root: Path | None = None, label: str = "", cpu: int | None = None, padding: int = 0) -> Worker:
        """Fork a worker.

        Args:
            root: The folder that its target's name is about; the project where left out.
            label: What errors call it, such as `candidate`.
            cpu: The one processor that it may use.
            padding: Bytes to shift its memory by.

        Raises:
            WorkerError: It did not start.
        """
        self._count += 1
        scratch = self._scratch / f"worker-{self._count}"
        scratch.mkdir()
        # What an arm compiled once it finds again in its next process; the other arm cannot see it.
        cache = self._scratch / f"compiled-{label or self._count}"
        cache.mkdir(exist_ok=True)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        said = os.open(scratch / "said.txt", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        message = {
            "do": "fork",
            "root": str(root or self.project),
            "grants": {**self._grants, "writable": [str(scratch), str(cache)]},
            "scratch": str(scratch),
            "cache": str(cache),
            "memory_bytes": self.settings.memory_bytes,
            "cpu": cpu,
            "threads": self.settings.threads,
            "padding": padding,
            "confined": self.choice.sandbox is not sandbox.Sandbox.NONE,
            "own_network": self.choice.has_own_network,
        }
        with ExitStack() as failed:
            failed.callback(ours.close)
            failed.callback(os.close, said)
            with theirs:
                self._channel.send(message, (theirs.fileno(), said))
            pid = int(self._wait_for("forked")["forked"])
            failed.pop_all()
        worker = Worker(self, Channel(ours), pid, scratch, said, label)
        worker.hello()
        return worker

    def _wait_for(self, what: str) -> dict[str, Any]:
        while True:
            try:
                message, _ = self._channel.receive(_START_S)
            except (EOFError, TimeoutError, ChannelError) as error:
                raise EvidenceError("the process that forks workers is gone", remedy="measure again") from error
            if "ended" in message:
                self._ended[int(message["ended"])] = int(message["status"])
            if what in message:
                return message

    def status(self, pid: int, timeout_s: float) -> int | None:
        """Return how a worker's process ended, negative for a signal; None if it lives on."""
        deadline = time.monotonic() + timeout_s
        while pid not in self._ended:
            try:
                message, _ = self._channel.receive(max(deadline - time.monotonic(), 0.001))
            except TimeoutError:
                return None
            if "ended" in message:
                self._ended[int(message["ended"])] = int(message["status"])
        return self._ended[pid]

    def kill(self, pid: int) -> None:
        """Kill a worker with everything that it started."""
        self._channel.send({"do": "kill", "pid": pid})
        self._wait_for("killed")
        self._ended.pop(pid, None)

    def warm(self, job: str) -> None:
        """Have the parent load what a job needs, once, so that its workers start with it.

        Raises:
            EvidenceError: The parent has threads now: what it forked would hang.
        """
        if job in self._warmed:
            return
        self._channel.send({"do": "warm", "job": job})
        if self._wait_for("warmed")["threads"] > 1:
            raise EvidenceError(f"the process that forks workers has threads after loading {job!r}", remedy="report it")
        self._warmed.add(job)

    def job(self, name: str, target: TargetSpec, request: JsonObject, *, tell: Tell | None = None) -> Report:
        """Run one job on one target in a worker of its own.

        Args:
            name: The job.
            target: What it is about.
            request: The job's options.
            tell: Told how far it is.

        Raises:
            UsageError: The target cannot be used.
            WorkerError: It hung, crashed, raised, or otherwise did not answer.
        """
        started_at, started_ns = now(), time.monotonic_ns()
        self.warm(name)
        with self.worker() as worker:
            loaded = worker.load(target)
            answer = worker.ask(name, request, tell=tell or self.tell)
            made = tuple(self._kept(worker.scratch, each) for each in answer.result.get("artifacts", ()))
        body = {
            "schema": SCHEMA,
            "kind": name,
            "started_at": started_at,
            "duration_ns": time.monotonic_ns() - started_ns,
            "environment": self.environment(),
            "sandbox": self.choice.described(),
            "target": {**target.request(), **loaded},
            "request": dict(request),
            "result": {each: answer.result[each] for each in answer.result if each != "artifacts"},
            "artifacts": [each.described() for each in made],
        }
        return Report(name, body, made)

    def environment(self) -> JsonObject:
        """Return what the measurements were made on."""
        with self.worker() as worker:
            return {**environment.host(), "torch": worker.ask("environment", {}).result}

    def _kept(self, scratch: Path, artifact: Mapping[str, str]) -> Made:
        name = Path(artifact["name"]).name
        source = scratch / name
        # What a worker calls a file may be a link out of its scratch.
        if source.is_symlink() or not source.is_file():
            raise WorkerError(Outcome.GARBLED, f"the worker left no file {name!r}")
        kept = self.keep / name
        shutil.move(source, kept)
        return Made(kept, artifact["media_type"])


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
