"""Tests of the warm parent: that it serves the next command, ends in time, and that measured code cannot reach it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from esper_agents.errors import UsageError
from esper_agents.torchlab import warm_parent
from esper_agents.torchlab.lab import Lab, LabSettings
from esper_agents.torchlab.supervisor import descendants
from esper_agents.torchlab.target import TargetSpec
from esper_agents.torchlab.worker.process.channel import Channel
from esper_agents.torchlab.worker_failure import WorkerError

torch = pytest.importorskip("torch", reason="no torch: NOTHING of the warm parent was run")

WARM = LabSettings(timeout_s=20, memory_bytes=1 << 30, keep_warm_s=120)
# Code of the measured project: each attack raises an error that says what it achieved.
ATTACKS = """
import glob, json, os, socket, struct, sys, time
from pathlib import Path
import torch

KEEPER, PARENT, FOLDER, SITE = 0, 0, "", ""


def say(**found):
    raise RuntimeError(json.dumps(found))


def attempt(work, *arguments):
    try:
        return str(work(*arguments) or "done")
    except BaseException as error:
        return type(error).__name__


def nothing(x):
    return x


def connects(x):
    end = None
    def work():
        end = socket.socket(socket.AF_UNIX)
        end.settimeout(2)
        end.connect(FOLDER + "/socket")
    def through_descriptor():
        place = os.open(FOLDER, os.O_PATH)
        end = socket.socket(socket.AF_UNIX)
        end.connect(f"/proc/self/fd/{place}/socket")
    say(path=attempt(work), descriptor=attempt(through_descriptor))


def reads_the_token(x):
    say(token=attempt(lambda: Path(FOLDER, "token").read_text()), listing=attempt(os.listdir, FOLDER))


def replaces_the_record(x):
    say(unlinked=attempt(os.unlink, FOLDER + "/socket"), written=attempt(lambda: Path(FOLDER, "token").write_text("x")),
        renamed=attempt(os.rename, FOLDER, FOLDER + "-old"), linked=attempt(os.symlink, "/tmp", FOLDER + "/other"))


def signals(x):
    found = {}
    for name, pid in (("keeper", KEEPER), ("parent", PARENT)):
        for number in (19, 9, 15):
            found[f"{name} {number}"] = attempt(os.kill, pid, number)
    found["group"] = attempt(os.killpg, PARENT, 9)
    say(**found)


def signals_everyone(x):
    # Minus one is everyone that may be signalled: it may well reach its own fork server.
    os.kill(-1, 9)
    os.kill(1, 9)
    os.kill(os.getppid() or 1, 9)
    say(survived="done")


def reads_memory(x):
    found = {}
    for name, pid in (("keeper", KEEPER), ("parent", PARENT)):
        for what in ("mem", "environ", "maps", "fd/0"):
            mode = "rb+" if what == "mem" else "rb"
            found[f"{name} {what}"] = attempt(lambda: open(f"/proc/{pid}/{what}", mode).read(1))
    say(**found)


def slows_it(x):
    say(priority=attempt(os.setpriority, os.PRIO_PROCESS, PARENT, 19),
        processor=attempt(os.sched_setaffinity, PARENT, {0}),
        scheduler=attempt(os.sched_setscheduler, PARENT, os.SCHED_IDLE, os.sched_param(0)))


def counts_sockets(x):
    found = []
    for name in os.listdir("/proc/self/fd"):
        with_link = attempt(os.readlink, f"/proc/self/fd/{name}")
        if with_link.startswith(("socket", "pipe")):
            found.append(with_link.partition(":")[0])
    say(sockets=" ".join(found))


def writes_into_every_socket(x):
    # Every descriptor gets what a keeper would say to a parent.
    text = json.dumps({"do": "serve", "job": "os"}).encode()
    for name in os.listdir("/proc/self/fd"):
        attempt(os.write, int(name), struct.pack("!IB", len(text), 0) + text)
    time.sleep(0.2)
    return x


def leaves_a_process(x):
    for _ in range(3):
        if os.fork() == 0:
            attempt(os.setsid)
            if os.fork() == 0:
                while True:
                    time.sleep(0.05)
            os._exit(0)
    say(left="done")


def leaves_files(x):
    found = {}
    for place in ("/tmp", "/dev/shm", ".", "..", "../.."):
        found[place] = attempt(lambda: Path(place, "esper-left").write_text("left") and None)
    say(**found)


def finds_files(x):
    seen = [p for place in ("/tmp", "/dev/shm", "..", "../..")
            for p in glob.glob(place + "/**/esper-left", recursive=True)]
    others = [p for p in glob.glob("../../*") if not os.path.samefile(p, "..")]
    say(seen=" ".join(seen), others=" ".join(others))


def patches(x):
    import builtins, socket
    torch.matmul = torch.tanh = lambda *a: x * 0
    builtins.esper_left = 1
    os.environ["ESPER_LEFT"] = "1"
    socket.socket = None
    sys.modules["json"] = None
    torch.set_default_dtype(torch.float64)
    torch.set_flush_denormal(True)
    return x


def finds_patches(x):
    import builtins
    say(matmul=torch.matmul.__name__, tanh=torch.tanh.__name__, builtins=str(hasattr(builtins, "esper_left")),
        environ=str("ESPER_LEFT" in os.environ), dtype=str(torch.get_default_dtype()),
        denormal=str((torch.tensor(1e-40) * 0.5 != 0).item()))


def changes_the_installation(x):
    found = {}
    places = {"torch": torch.__file__, "worker": sys.modules["esper_worker"].__file__, "python": sys.executable}
    for name, place in places.items():
        found[f"{name} written"] = attempt(lambda: open(place, "r+b").close())
        found[f"{name} touched"] = attempt(os.utime, place)
    found["site"] = attempt(lambda: Path(SITE, "esper_left.pth").write_text("import os") and None)
    say(**found)


def listens_in_its_place(x):
    def at(address):
        end = socket.socket(socket.AF_UNIX)
        end.bind(address)
        end.listen()
        globals().setdefault("kept", []).append(end)
    say(path=attempt(at, FOLDER + "/socket"), other=attempt(at, FOLDER + "/socket2"))


def shares_memory(x):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    key = libc.shmget(0x45535052, 4096, 0o1666)
    seen = libc.shmget(0x45535052, 4096, 0)
    # add_key(2) into the keyring of the user.
    kept = libc.syscall(248, b"user", b"esper-left", b"x", 1, -4)
    say(created=str(key), again=str(seen), keyring=str(kept))


def eats_memory(x):
    kept = []
    while True:
        kept.append(torch.ones(1 << 24))


def fills_the_disk(x):
    with open("big", "wb") as opened:
        for _ in range(64):
            opened.write(bytes(1 << 20))
    say(done="done")


def get_inputs():
    return (torch.ones(4),)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a project and a data directory that the tests of this module share, and leave no parent."""
    folder = tmp_path_factory.mktemp("warm")
    (folder / "project").mkdir()
    yield folder
    for state in _records(folder / "home"):
        with suppress(ProcessLookupError):
            os.kill(state["pid"], signal.SIGTERM)
    assert _until(lambda: not list(_running(folder / "home")))


@pytest.fixture
def project(place, monkeypatch):
    monkeypatch.setenv("ESPER_HOME", str(place / "home"))
    return place / "project"


def _records(home):
    for path in home.glob("warm/*/parent.json"):
        yield json.loads(path.read_text())


def _running(home):
    for path in home.glob("warm/*/lock"):
        with path.open() as opened:
            if subprocess.run(["flock", "-n", "-s", str(path), "true"], check=False).returncode:
                yield opened.name


def _until(condition, seconds=20.0):
    ends = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < ends:
        time.sleep(0.05)
    return found


def _parents():
    return list(warm_parent.running_parents())


def _children(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _call(lab, name, **limits):
    with lab.worker() as worker:
        worker.load(TargetSpec(f"code.py:{name}"))
        return worker.ask("timing", {"phase": "warm", "calls": 1, "train": False, "seed": 0}, **limits)


def _said(lab, name):
    """Return what an attack said that it achieved."""
    with pytest.raises(WorkerError) as caught:
        _call(lab, name)
    text = caught.value.problem
    assert "RuntimeError: " in text, text
    return json.loads(text.partition("RuntimeError: ")[2])


@pytest.fixture
def lab(project):
    """Return a lab with a warm parent, whose project knows all that an attacker could know of it."""
    with Lab(project, WARM) as first:
        (state,) = _parents()
        (record,) = (path.parent for path in (project.parent / "home").glob("warm/*/parent.json"))
        site = next(path for path in sys.path if path.endswith("site-packages"))
        server = descendants(first._forks._channel.peer_pid)
        parent = max({*descendants(state.pid)} - {first._forks._channel.peer_pid, *server})
        known = f"KEEPER, PARENT, FOLDER, SITE = {state.pid}, {parent}, {str(record)!r}, {site!r}"
        code = ATTACKS.replace('KEEPER, PARENT, FOLDER, SITE = 0, 0, "", ""', known)
        (project / "code.py").write_text(code)
        yield first
    assert _parents() == [state]


def _serves(project):
    """Return whether the parent serves the next command as it served the first."""
    (before,) = _parents()
    with Lab(project, WARM) as next_lab:
        _call(next_lab, "nothing")
    return _parents() == [before]


def test_the_next_command_is_served_by_the_same_parent(lab, project):
    (state,) = _parents()
    assert (state.project, state.torch) == (str(project), torch.__version__)
    _call(lab, "nothing")
    assert _serves(project)


def test_two_commands_at_a_time_have_processes_of_their_own(lab, project):
    with Lab(project, WARM) as other:
        with lab.worker() as one, other.worker() as two:
            assert one.pid != two.pid
            assert one.scratch.parent != two.scratch.parent
        other.close()
        _call(lab, "nothing")


@pytest.mark.parametrize(
    "name",
    [
        "connects",
        "reads_the_token",
        "replaces_the_record",
        "signals",
        "reads_memory",
        "slows_it",
        "changes_the_installation",
        "listens_in_its_place",
    ],
)
def test_measured_code_cannot_reach_the_parent(lab, project, name):
    found = _said(lab, name)
    assert found
    assert not [what for what, result in found.items() if not result.endswith("Error")], found
    assert _serves(project)


@pytest.mark.parametrize("name", ["signals_everyone", "eats_memory", "writes_into_every_socket"])
def test_what_ends_a_measurement_leaves_the_parent(lab, project, name):
    with suppress(WorkerError):
        _call(lab, name, timeout_s=15)
    assert _serves(project)


def test_a_process_has_one_socket_which_leads_to_its_own_lab(lab):
    assert _said(lab, "counts_sockets") == {"sockets": "socket"}


def test_no_process_outlives_its_command(lab, project):
    (state,) = _parents()
    parent = _children(state.pid)[0]
    with Lab(project, WARM) as other:
        _said(other, "leaves_a_process")
        server = other._forks._channel.peer_pid
        assert server in descendants(parent)
    assert server not in descendants(parent)
    assert not Path(f"/proc/{server}").exists()


def test_nothing_that_is_written_reaches_the_next_command(lab, project):
    assert _said(lab, "leaves_files")
    with Lab(project, WARM) as other:
        assert _said(other, "finds_files") == {"seen": "", "others": ""}


def test_nothing_that_is_patched_reaches_the_next_command(lab, project):
    with suppress(WorkerError):
        _call(lab, "patches")
    with Lab(project, WARM) as other:
        assert _said(other, "finds_patches") == {
            "matmul": "matmul",
            "tanh": "tanh",
            "builtins": "False",
            "environ": "False",
            "dtype": "torch.float32",
            "denormal": "True",
        }


def test_no_shared_memory_and_no_keyring_carries_numbers_on(lab, project):
    first = _said(lab, "shares_memory")
    with Lab(project, WARM) as other:
        assert _said(other, "shares_memory")["keyring"] == first["keyring"] == "-1"
    # A segment of a namespace ends with it; without one, none can be made.
    assert "0x45535052" not in subprocess.run(["ipcs", "-m"], capture_output=True, text=True, check=False).stdout


def test_the_keeper_answers_no_one_without_the_token(lab):
    (state,) = _parents()
    folder = next((warm_parent.home() / "warm").iterdir())
    for request in (
        {"do": "serve", "idle_s": 1, "token": ""},
        {"do": "serve", "idle_s": 1},
        {"do": "warm", "job": "os"},
    ):
        with socket.socket(socket.AF_UNIX) as end:
            end.connect(str(folder / "socket"))
            channel = Channel(end)
            # It may close the connection while the request is being written.
            with suppress(BrokenPipeError):
                channel.send(request)
            with pytest.raises((EOFError, ConnectionResetError)):
                channel.receive(5)
    assert _parents() == [state]


def test_the_record_is_for_this_user_alone(lab):
    folder = next((warm_parent.home() / "warm").iterdir())
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == dict.fromkeys(
        ("socket", "token", "lock", "parent.json"), 0o600
    )


def test_the_parent_imports_nothing_of_the_project(lab):
    (state,) = _parents()
    _call(lab, "nothing")
    maps = Path(f"/proc/{_children(state.pid)[0]}/maps").read_text()
    assert str(lab.project) not in maps
    assert "code.py" not in maps


def test_a_change_of_what_was_loaded_ends_the_parent(place, tmp_path, monkeypatch):
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "home"))
    worker = Path(warm_parent.__file__).parent / "worker"
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "code.py").write_text("def nothing(x):\n    return x\n")
    with Lab(tmp_path / "project", WARM):
        (before,) = _parents()
    file = worker / "process" / "environment_job.py"
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    # A change of its times is a change of the file: an installer writes a new one.
    os.utime(file)
    try:
        assert _until(lambda: not _parents(), 30)
        with Lab(tmp_path / "project", WARM):
            (after,) = _parents()
        assert after.pid != before.pid
        os.kill(after.pid, signal.SIGTERM)
        assert _until(lambda: not _parents())
    finally:
        os.utime(file, ns=times)


def test_an_idle_parent_ends_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "home"))
    (tmp_path / "project").mkdir()
    with Lab(tmp_path / "project", LabSettings(keep_warm_s=0.5)) as lab:
        (state,) = _parents()
        scratch = lab._scratch.parent
        parent = _children(state.pid)[0]
    assert _until(lambda: not _parents())
    assert _until(lambda: not Path(f"/proc/{parent}").exists() and not scratch.exists())
    (folder,) = (tmp_path / "home" / "warm").iterdir()
    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_a_killed_keeper_takes_its_parent_along_and_the_next_command_starts_another(tmp_path, monkeypatch):
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "home"))
    (tmp_path / "project").mkdir()
    with Lab(tmp_path / "project", WARM) as lab:
        (state,) = _parents()
        parent, scratch = _children(state.pid)[0], lab._scratch.parent
    os.kill(state.pid, signal.SIGKILL)
    assert _until(lambda: not Path(f"/proc/{parent}").exists())
    with Lab(tmp_path / "project", WARM):
        (after,) = _parents()
        assert after.pid != state.pid
        assert not scratch.exists()
    os.kill(after.pid, signal.SIGTERM)
    assert _until(lambda: not _parents())


def test_without_the_setting_no_parent_stays(project):
    before = _parents()
    with Lab(project, LabSettings()):
        assert _parents() == before


def test_code_without_a_sandbox_has_no_warm_parent(tmp_path, monkeypatch):
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "home"))
    with Lab(tmp_path, LabSettings(keep_warm_s=60, is_unconfined=True)):
        assert not _parents()


def test_another_environment_needs_another_parent(project, lab, monkeypatch):
    (state,) = _parents()
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with Lab(project, LabSettings(keep_warm_s=0.5)) as other:
        others = [each for each in _parents() if each != state]
        assert len(others) == 1
        _call(other, "nothing")
    assert _until(lambda: _parents() == [state])


@pytest.mark.parametrize(("text", "seconds"), [("", 300.0), ("0", 0.0), ("12.5", 12.5)])
def test_the_setting_is_a_number_of_seconds(monkeypatch, text, seconds):
    monkeypatch.setenv("ESPER_KEEP_WARM", text)
    assert warm_parent.seconds_to_stay() == seconds
    assert warm_parent.seconds_to_stay("7") == 7.0


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "1e9"])
def test_other_texts_are_refused(text):
    with pytest.raises(UsageError, match="--keep-warm"):
        warm_parent.seconds_to_stay(text)
