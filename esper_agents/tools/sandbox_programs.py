"""Run programs in the lab's sandbox on a copy of the project: no network, no secrets, limited."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.certificates.signing.signing_key import secret_places
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.paths import home
from esper_agents.tools.certified_tree import own_folder
from esper_agents.tools.file_access import is_private
from esper_agents.tools.project_files import project_files
from esper_agents.tools.secret_stores import secret_store
from esper_agents.torchlab import sandbox
from esper_agents.torchlab.interpreter import described_interpreter
from esper_agents.torchlab.lab import LabSettings
from esper_agents.torchlab.supervisor import (
    Supervisor,
    TotalLimits,
    descendants,
    kill_members,
    memory_at_most,
    tasks_of_user,
)
from esper_agents.torchlab.worker.process import confined_exec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.tools.tool import ToolContext
    from esper_agents.torchlab.sandbox import PythonInterpreter, SandboxChoice, SandboxMounts

LONGEST_S = 600
_WORKER = Path(sandbox.__file__).parent / "worker"
_BOOTSTRAP = (
    "import importlib.util as u, sys; p = sys.argv[1]; "
    "s = u.spec_from_file_location('esper_worker', p + '/__init__.py', submodule_search_locations=[p]); "
    "m = u.module_from_spec(s); sys.modules['esper_worker'] = m; s.loader.exec_module(m); "
    "from esper_worker.process.confined_exec import main; main(sys.argv[2])"
)
_MOST_BYTES = 1 << 30
_LARGEST_FILE = 1 << 30
_MEMORY_BYTES = LabSettings().memory_bytes
# Of the printed output; the rest is read and discarded.
_MOST_PRINTED = 2 << 20
_CHUNK = 1 << 16
_LARGEST_STORE = 5 << 20
# Total for all processes of one call.
_TOTAL = TotalLimits(memory_at_most(_MEMORY_BYTES), LabSettings().tasks, disk_bytes=4 << 30)


@dataclass(frozen=True, slots=True)
class SandboxCopy:
    """Copy of the project in which programs run.

    Attributes:
        folder: Writable folder; the home directory of the programs.
        tree: The copy, in that folder.
        files: Number of files in it.
        python: The interpreter.
        view: Visible files.
        choice: Sandbox of the programs.
        sources: Folders of the copy that replace the interpreter's paths into the project.
    """

    folder: Path
    tree: Path
    files: int
    python: PythonInterpreter
    view: SandboxMounts
    choice: SandboxChoice
    sources: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """Outcome of a program.

    Attributes:
        exit_code: Exit code, negative for a signal.
        stopped: Limit that stopped it, such as `60 s`; empty if it ended normally.
        printed: Output, errors included, with the project's own folder name.
        dropped: Number of further bytes printed.
    """

    exit_code: int | None
    stopped: str
    printed: str
    dropped: int

    @property
    def ended(self) -> str:
        """End of the program, in words."""
        return f"stopped after {self.stopped}" if self.stopped else f"exited with {self.exit_code}"


@asynccontextmanager
async def sandbox_copy(
    context: ToolContext, also: Sequence[str] = (), *, python: str = "", has_network: bool = False
) -> AsyncIterator[SandboxCopy]:
    """Yield a copy of the project to run programs in; it is deleted when the block ends.

    Args:
        context: The project.
        also: Further files and folders of it, such as ignored data that the user named
            among the task's paths. Secret stores are not copied.
        python: The interpreter; empty for the one of this process.
        has_network: Whether the programs may use the machine's network.

    Raises:
        EvidenceError: No sandbox works here, or the project is too large to copy.
        UsageError: There is no such interpreter.
    """
    made = own_folder()
    making = asyncio.ensure_future(asyncio.to_thread(made.__enter__))
    try:
        folder = await asyncio.shield(making)
        known = await asyncio.to_thread(described_interpreter, python or sys.executable, context.installed)
        yield await asyncio.to_thread(_prepared, context, folder.resolve(), also, known, has_network=has_network)
    finally:
        with suppress(EvidenceError):
            await making
            await asyncio.shield(asyncio.to_thread(made.__exit__, None, None, None))


@asynccontextmanager
async def project_copy(context: ToolContext) -> AsyncIterator[Path]:
    """Yield the folder of a copy of the project without secrets and ignored files; it is deleted when the block ends.

    Raises:
        EvidenceError: The project is too large to copy.
    """
    with own_folder() as folder:
        tree = folder.resolve() / "project"
        tree.mkdir()
        await asyncio.to_thread(_fill, context, tree, set(project_files(context)))
        yield tree


def _prepared(
    context: ToolContext, folder: Path, also: Sequence[str], known: PythonInterpreter, *, has_network: bool
) -> SandboxCopy:
    root = context.root.resolve()
    tree = folder / "project"
    tree.mkdir()
    wanted = {project_file for path in also for project_file in project_files(context, path, ignored=True)}
    files = {*project_files(context), *(each for each in wanted if not _stores_secrets(root / each))}
    _fill(context, tree, files)
    installed = context.installed.resolve()
    python = _without(known, installed)
    hidden = (*dict.fromkeys((root, installed)), *secret_places(home()), *_secrets_beside(python))
    view = sandbox.SandboxMounts(python, (), _WORKER, folder, hidden, has_network=has_network)
    # The program has the whole isolated root to itself: no inner namespaces are needed.
    choice = replace(sandbox.choose(view, is_waived=False), can_wall=False)
    inside = (tree / place.relative_to(installed) for place in known.places if place.is_relative_to(installed))
    return SandboxCopy(folder, tree, len(files), python, view, choice, tuple(each for each in inside if each.is_dir()))


def _fill(context: ToolContext, tree: Path, files: set[str]) -> None:
    """Copy files of the project to a folder, and write the contents of a drafted change over them."""
    try:
        _copy(context.root.resolve(), tree, files)
        for path, data in context.overlay.items():
            target = tree / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    except OSError as error:
        problem = f"the project cannot be copied: {error.strerror}"
        raise EvidenceError(problem, remedy="free some space, or set TMPDIR to another folder") from error


def _stores_secrets(file: Path) -> bool:
    try:
        return file.stat().st_size <= _LARGEST_STORE and bool(secret_store(file.read_bytes()))
    except OSError:
        return True


def _copy(root: Path, tree: Path, files: set[str]) -> None:
    left = _MOST_BYTES
    for path in sorted(files):
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            # Deleted, or made unreadable, since it was listed.
            continue
        with open(handle, "rb") as source, target.open("xb") as copy:  # noqa: PTH123 - a descriptor
            state = os.fstat(handle)
            left -= state.st_size
            if left < 0:
                problem = f"the project has over {_MOST_BYTES >> 20} MiB, which is too much to copy"
                raise EvidenceError(problem, remedy="keep data out of git, and name the needed data files")
            shutil.copyfileobj(source, copy)
            target.chmod(0o600 | state.st_mode & 0o111)


def _without(python: PythonInterpreter, root: Path) -> PythonInterpreter:
    """Return an interpreter without its paths into the project, which the copy replaces.

    An environment inside the project is kept.
    """
    prefix = Path(python.executable).parent.parent
    own = prefix != root and prefix.is_relative_to(root)
    kept = [
        place for place in python.places if not place.is_relative_to(root) or (own and place.is_relative_to(prefix))
    ]
    return replace(python, places=(*kept, prefix) if own and prefix not in kept else tuple(kept))


def _secrets_beside(python: PythonInterpreter) -> Iterator[Path]:
    """Yield the withheld files next to packages that are installed in editable mode."""
    for place in python.places:
        if place.is_dir():
            yield from (path for path in place.iterdir() if is_private(path.name))


async def run(
    context: ToolContext,
    place: SandboxCopy,
    argv: Sequence[str],
    *,
    timeout_s: int,
    env: Mapping[str, str] | None = None,
) -> ProgramResult:
    """Run a program in a sandbox copy, with all processes it starts.

    Args:
        context: The project.
        place: The copy.
        argv: The program and its arguments.
        timeout_s: Time limit in seconds.
        env: Further environment variables; a PYTHONPATH precedes the copy.

    Raises:
        EvidenceError: It could not be confined, or there is no such program.
        UsageError: The time limit is out of range.
    """
    if not 1 <= timeout_s <= LONGEST_S:
        raise UsageError(f"timeout_s is {timeout_s}", remedy=f"give 1 to {LONGEST_S} seconds")
    process, end = await _launch(place, argv, env or {})
    reading, ending = asyncio.create_task(_read(end)), asyncio.create_task(process.wait())

    def members(most: int) -> list[int]:
        return [process.pid, *descendants(process.pid, most)]

    def leaders() -> list[int]:
        # Its end kills all processes in its namespaces; without namespaces, background processes would continue.
        return [process.pid] if place.choice.sandbox is sandbox.Sandbox.BUBBLEWRAP else []

    try:
        with Supervisor(members, [place.folder], _TOTAL, leaders) as supervisor:
            done, _ = await asyncio.wait({ending}, timeout=timeout_s)
    finally:
        # Its background processes have ended with it.
        if process.returncode is None:
            await asyncio.to_thread(kill_members, members, leaders)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await ending
        data, dropped = await reading
    printed = data.decode("utf-8", "replace").replace(str(place.tree), str(context.root.resolve()))
    if process.returncode == confined_exec.REFUSED and printed.startswith(confined_exec.NOT_CONFINED):
        raise EvidenceError(printed.strip()[:300], remedy="run it by hand, where you trust it")
    exceeded = f"using {supervisor.exceeded}" if supervisor.exceeded else ""
    stopped = exceeded or ("" if ending in done else f"{timeout_s} s")
    return ProgramResult(process.returncode, stopped, printed.replace(str(place.folder), "~"), dropped)


async def _launch(
    place: SandboxCopy, argv: Sequence[str], env: Mapping[str, str]
) -> tuple[asyncio.subprocess.Process, int]:
    """Start a program; return its process, and the end of a pipe that has its output."""
    launching = ["-I", "-c", _BOOTSTRAP, str(_WORKER), json.dumps(_message(place, argv))]
    # A separate pipe: asyncio regards a program as running while a process holds one of its pipes.
    end, start = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *sandbox.command(place.choice, place.view, launching),
            cwd=place.folder,
            env=_environment(place, env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=start,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except BaseException:
        os.close(end)
        raise
    finally:
        os.close(start)
    return process, end


def _message(place: SandboxCopy, argv: Sequence[str]) -> JsonObject:
    return {
        "argv": list(argv),
        "folder": str(place.tree),
        "grants": {**sandbox.grants(place.view), "writable": [str(place.folder)]},
        "confined": True,
        # Network files stay unrestricted if the network may be used.
        "own_network": place.choice.has_own_network or place.view.has_network,
        "memory_bytes": _MEMORY_BYTES,
        "file_bytes": _LARGEST_FILE,
        "tasks": tasks_of_user() + _TOTAL.tasks,
    }


def _environment(place: SandboxCopy, more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment: the copy precedes the interpreter's own paths."""
    own = [each for each in more.get("PYTHONPATH", "").split(os.pathsep) if each]
    paths = dict.fromkeys((*own, *map(str, (place.tree, *place.sources))))
    ours = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"}
    return sandbox.environment(place.folder) | {**more, **ours}


async def _read(end: int) -> tuple[bytes, int]:
    stream = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(stream)
    pipe = os.fdopen(end, "rb", 0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    data, dropped = bytearray(), 0
    while chunk := await stream.read(_CHUNK):
        room = max(0, _MOST_PRINTED - len(data))
        data += chunk[:room]
        dropped += len(chunk[room:])
    return bytes(data), dropped
