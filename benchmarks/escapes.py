"""Attempts of measured code to leave its sandbox, by way of the lab, in each mode that this machine has.

The project and its virtual environment lie below the temporary directory, where a worker's own directory lies too.

python benchmarks/escapes.py
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from esper_agents.tools.withheld_files import withheld_files
from esper_agents.torchlab import bubblewrap, sandbox
from esper_agents.torchlab.lab import Lab, LabSettings
from esper_agents.torchlab.target import TargetSpec
from esper_agents.torchlab.worker_failure import WorkerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PROCESSES = ("parent", "sibling", "victim")
_PRELUDE = """
import ctypes, fcntl, os, platform, resource, signal, socket, subprocess
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
rename_exchange = 316 if x86 else 276
def refuse_negative(answer):
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
started_in, got_through, broken = os.getcwd(), [], []
for number, (name, code, names) in enumerate(probes):
    here = f"{started_in}/probe-{number}"
    os.mkdir(here)
    os.chdir(here)
    if names.get("pid") == os.getpid():
        # Behind walls the number of another process is one of its own.
        continue
    try:
        exec(code, {**globals(), **names})
    except OSError:
        pass
    except BaseException as error:
        broken.append(f"{name}: {type(error).__name__}: {error}")
    else:
        got_through.append(name)
os.chdir(started_in)
"""


@dataclass(frozen=True, slots=True)
class Probe:
    """One attempt to leave the sandbox.

    Attributes:
        name: What is attempted, and where.
        code: Python that raises OSError if it is refused.
        names: What the code knows by name.
        is_possible: A worker without a sandbox can do it on every machine.
    """

    name: str
    code: str
    names: dict[str, str | int | bool]
    is_possible: bool


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What measured code must not touch, made for one set of probes below a shared temporary directory.

    Attributes:
        temp: The shared temporary directory.
        project: A project in it, with a repository.
        venv: A virtual environment in it.
        home: The user's home, in it as well.
        names: What probes call these, and the sockets, the port and the process beside them.
    """

    temp: Path
    project: Path
    venv: Path
    home: Path
    names: dict[str, str | int | bool]

    def digest(self) -> str:
        """Return a digest of every name, mode, time and byte in them, a worker's own directory aside."""
        state = hashlib.sha256()
        for place in (self.project, self.venv, self.home):
            for path in sorted([place, *place.rglob("*")]):
                about = path.lstat()
                data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
                state.update(repr((path, about.st_mode, about.st_uid, about.st_mtime_ns, about.st_nlink)).encode())
                state.update(data)
        state.update(repr(sorted(each.name for each in self.temp.iterdir())).encode())
        state.update((self.temp / "of_another_program.txt").read_bytes())
        return state.hexdigest()


@contextmanager
def surroundings(temp: Path, *, python: str = sys.executable) -> Iterator[Surroundings]:
    """Yield what measured code must not touch, below a temporary directory.

    Args:
        temp: An empty folder that stands for the shared temporary directory, or lies in it.
        python: The interpreter that the virtual environment is of.
    """
    project, venv, home = temp / "project", temp / "venv", temp / "home"
    for folder in (project, project / "nested"):
        subprocess.run(["git", "init", "-q", "--template=", str(folder)], check=True)
    for folder in (project / ".git" / "hooks", project / "__pycache__", home):
        folder.mkdir(parents=True)
    for name in ("data", "package", "build"):
        (project / name).mkdir()
    (project / ".gitignore").write_text("/data/\n/build/\n*.log\n.env*\n")
    (project / "nested" / ".gitignore").write_text("*.out\n")
    (project / "package" / "link").symlink_to("../data/train.bin")
    options = ["--without-pip"]
    subprocess.run([python, "-m", "venv", *options, str(venv)], check=True, capture_output=True)
    site = next(venv.glob("lib/python*/site-packages"))
    if python == sys.executable:
        # Ours may be a virtual environment itself, whose packages the other would not see.
        (site / "ours.pth").write_text(sysconfig.get_path("purelib"))
    for file in (
        *(project / "model.py", project / ".git" / "hooks" / "pre-commit", site / "installed.py"),
        *(project / "__pycache__" / "model.cpython-311.pyc", temp / "of_another_program.txt"),
        *(home / ".bashrc", home / "id_ed25519"),
        *(project / ".env", project / "package" / ".ENV.local", project / "data" / "train.bin"),
        *(project / "package" / "notes.log", project / "nested" / "results.out"),
        *(project / "build" / "config.json", project / "build" / "generated.py"),
    ):
        file.write_text("answer = 42\n")
        file.chmod(0o755)
    token = f"esper-escape-{uuid4().hex[:8]}"
    with ExitStack() as stack:
        place = str(temp / "socket")
        for address in (place, f"\0{token}"):
            stream = stack.enter_context(socket.socket(socket.AF_UNIX))
            stream.bind(address)
            stream.listen(64)
            stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)).bind(f"{address}.datagram")
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        memory = Path("/dev/shm", token)  # noqa: S108 - named shared memory lies there
        memory.write_bytes(b"shared")
        stack.callback(memory.unlink, missing_ok=True)
        victim = stack.enter_context(subprocess.Popen(["sleep", "600"], start_new_session=True))
        stack.callback(victim.kill)
        names: dict[str, str | int | bool] = {
            "project": str(project),
            "site": str(site),
            "temp": str(temp),
            "home": str(home),
            "port": server.getsockname()[1],
            "path_socket": place,
            "abstract_socket": token,
            "shared_memory": token,
            "victim": victim.pid,
            "has_own_ipc": True,
        }
        yield Surroundings(temp, project, venv, home, names)


def probes(names: dict[str, str | int | bool], *, sample: int = 1) -> list[Probe]:
    """Return the attempts that `escape_probes.toml` describes.

    Args:
        names: What they know by name.
        sample: Return one of so many, spread over all of them.
    """
    table = tomllib.loads(Path(__file__).with_name("escape_probes.toml").read_text(encoding="utf-8"))
    found = []
    for place in table["place"]:
        folder = place["folder"].format(**names)
        where = {"folder": folder, "file": f"{folder}/{place['file']}"}
        for each in table["operation"]:
            known = {**names, **where}
            found.append(Probe(f"{each['name']}: {place['name']}", each["code"], known, each.get("control", True)))
    for place in table["withheld"]:
        file = {**names, "file": place["file"].format(**names)}
        found += [
            Probe(f"{each['name']}: {place['name']}", each["code"], file, each.get("control", True))
            for each in table["reading"]
        ]
    found += [Probe(each["name"], each["code"], dict(names), each.get("control", True)) for each in table["attempt"]]
    for each in table["process"]:
        for whose in _PROCESSES:
            if whose in names:
                known = {**names, "pid": names[whose]}
                found.append(Probe(f"{each['name']}: {whose}", each["code"], known, each.get("control", True)))
    return found[::sample]


def source(chosen: Sequence[Probe]) -> str:
    """Return Python that tries each probe, and names those that were not refused in `got_through`.

    Those that fail for any reason but a refusal are named in `broken`.
    """
    written = [(each.name, each.code, each.names) for each in chosen]
    return f"import json\nprobes = json.loads({json.dumps(written)!r})\n{_PRELUDE}"


def _landlock_only() -> Iterator[None]:
    """Leave bubblewrap out, as on a machine that does not have it."""
    find = bubblewrap.find
    bubblewrap.find = lambda: None
    try:
        yield
    finally:
        bubblewrap.find = find


def withhold(root: Path, environments: Sequence[Path]) -> Sequence[Path]:
    """Return what measured code cannot read of a project, as the commands and tools have it."""
    return withheld_files(root, environments=environments)


def escapes(mode: str) -> bool:
    """Try every probe in the target of a measurement; say what got through."""
    with tempfile.TemporaryDirectory(prefix="esper-escapes-") as folder, ExitStack() as stack:
        if mode == "landlock":
            stack.enter_context(contextmanager(_landlock_only)())
        around = stack.enter_context(surroundings(Path(folder).resolve()))
        code = source(probes({**around.names, "parent": os.getpid(), "other_scratch": f"{folder}/nothing"}))
        report = "raise RuntimeError(json.dumps([len(probes), got_through, broken])[:3900])"
        lines = "\n".join(f"    {line}" for line in [*code.splitlines(), report])
        lines = lines.replace("{**globals(), **names}", "{**globals(), **locals(), **names}")
        (around.project / "probing.py").write_text(f"def probe(x):\n{lines}\n")
        before = around.digest()
        settings = LabSettings(python=str(around.venv / "bin" / "python"))
        with Lab(around.project, settings, withhold=withhold) as lab, lab.worker() as worker:
            held = f"{lab.choice.sandbox}, walls {worker.held['walled']}"
            if (lab.choice.sandbox is sandbox.Sandbox.LANDLOCK) != (mode == "landlock"):
                print(f"{mode}: NOT tried on this machine ({held})")
                return True
            worker.load(TargetSpec("probing.py:probe", ("randn(4)",)))
            try:
                worker.ask("timing", {"phase": "warm", "calls": 1, "train": False, "seed": 0}, timeout_s=120)
                said = "the target did not report"
            except WorkerError as error:
                said = error.problem.partition("RuntimeError: ")[2] or error.problem
        is_same = around.digest() == before
    with suppress(ValueError):
        tried, got_through, broken = json.loads(said)
        print(f"{mode} ({held}): {tried} probes, {len(got_through)} got through {got_through}, broken {broken}")
        print(f"  files outside {'unchanged' if is_same else 'CHANGED'}")
        return is_same and not got_through and not broken
    print(f"{mode} ({held}): no report: {said}; files outside {'unchanged' if is_same else 'CHANGED'}")
    return False


def main() -> None:
    """Try all modes that this process can have; exit with 1 where something got through."""
    modes = ["landlock", *(["bubblewrap"] if shutil.which("bwrap") else [])]
    if "bubblewrap" not in modes:
        print("bubblewrap is not installed and was NOT tried")
    held = [escapes(mode) for mode in modes]
    sys.exit(not all(held))


if __name__ == "__main__":
    main()
