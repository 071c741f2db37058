"""A measurement that takes too many processes, too much memory or disk in total ends by name and leaves nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from esper_agents.torchlab import bubblewrap
from esper_agents.torchlab.lab import Lab, LabSettings
from esper_agents.torchlab.supervisor import descendants
from esper_agents.torchlab.target import TargetSpec
from esper_agents.torchlab.worker.process import confine
from esper_agents.torchlab.worker_failure import WorkerError, WorkerFailureKind

pytest.importorskip("torch", reason="no torch: NOTHING of the lab was run")

BOMBS = """
import os, threading, time


def forks(x):
    # One after the other: each copy of a process with torch in it costs the machine some milliseconds.
    for _ in range(1000):
        if os.fork() == 0:
            time.sleep(600)
    time.sleep(600)


def doubles(x):
    while True:
        os.fork()


def doubles_whatever_happens(x):
    while True:
        try:
            if os.fork() == 0:
                os.setsid()
        except OSError:
            pass


def threads(x):
    threading.stack_size(1 << 16)
    while True:
        try:
            threading.Thread(target=time.sleep, args=(600,)).start()
        except RuntimeError:
            time.sleep(0.01)


def memory(x):
    for _ in range(8):
        if os.fork() == 0:
            held = bytearray(os.urandom(1 << 20) * 100)
            time.sleep(600)
    time.sleep(600)


def disk(x):
    for number in range(100):
        with open(f"file-{number}", "wb") as file:
            file.write(bytes(16 << 20))
    time.sleep(600)


def deleted(x):
    held = []
    for number in range(100):
        held.append(open("file", "wb"))
        os.unlink("file")
        held[-1].write(bytes(16 << 20))
        held[-1].flush()
    time.sleep(600)


def bound(x):
    raise RuntimeError("most " + open("/proc/sys/kernel/pid_max").read())


def behaves(x):
    if os.fork() == 0:
        os._exit(0)
    return x * 2
"""
SAID = {"forks": "processes", "threads": "processes", "memory": "MiB of memory", "disk": "MiB of disk"}
SAID["deleted"] = "MiB of disk"
DOUBLING = ("doubles", "doubles_whatever_happens")


@pytest.fixture(params=["bubblewrap", "landlock"])
def lab(request, tmp_path, monkeypatch):
    if request.param == "landlock":
        monkeypatch.setattr(bubblewrap, "find", lambda: None)
    elif bubblewrap.find() is None:
        pytest.skip("bubblewrap is not installed and was NOT tested")
    (tmp_path / "bombs.py").write_text(BOMBS)
    settings = LabSettings(timeout_s=120, memory_bytes=1 << 30, tasks=200, disk_bytes=256 << 20)
    monkeypatch.setattr(Lab, "_total_memory", lambda _: 400 << 20)
    with Lab(tmp_path, settings) as opened:
        yield opened


@pytest.fixture
def capped():
    """End what descends from this process if it ever gets out of hand, whatever the code under test does."""
    script = (
        "import os, sys, time\n"
        "from esper_agents.torchlab.supervisor import descendants, kill_members\n"
        "me, root, end = os.getpid(), int(sys.argv[1]), time.monotonic() + 120\n"
        "members = lambda most: [pid for pid in descendants(root, most) if pid != me]\n"
        "while time.monotonic() < end and os.getppid() == root:\n"
        "    if len(members(1_000)) > 900:\n"
        "        kill_members(members, lambda: members(1_000))\n"
        "    time.sleep(0.1)\n"
    )
    with subprocess.Popen(["nice", "-n", "-20", sys.executable, "-c", script, str(os.getpid())]) as guard:
        yield
        guard.kill()


def ran(lab, name):
    with lab.worker() as worker:
        worker.load(TargetSpec(f"bombs.py:{name}", ("randn(4)",)))
        return worker.ask("timing", {"phase": "warm", "calls": 1, "train": False, "seed": 0})


@pytest.mark.sample(1)
def test_each_bomb_is_stopped_by_name_and_leaves_nothing(lab):
    at_rest = len(descendants(os.getpid()))
    for name, said in SAID.items():
        with pytest.raises(WorkerError) as caught:
            ran(lab, name)
        assert (name, caught.value.outcome) == (name, WorkerFailureKind.LIMIT)
        assert said in caught.value.problem
        assert caught.value.remedy
        assert lab.is_alive
        assert len(descendants(os.getpid())) <= at_rest
        assert not list(Path(lab._scratch).glob("worker-*"))
    assert ran(lab, "behaves").result


@pytest.mark.slow
@pytest.mark.usefixtures("capped")
@pytest.mark.parametrize("name", DOUBLING)
def test_a_bomb_that_doubles_is_stopped_by_name_and_leaves_nothing(lab, name):
    at_rest = len(descendants(os.getpid()))
    with pytest.raises(WorkerError) as caught:
        ran(lab, name)
    assert caught.value.outcome is WorkerFailureKind.LIMIT
    assert "more than 200 processes" in caught.value.problem
    assert lab.is_alive
    assert len(descendants(os.getpid())) <= at_rest
    assert ran(lab, "behaves").result


def test_the_kernel_bounds_the_processes_of_each_cell_and_leaves_the_machine_alone(lab):
    machine = Path("/proc/sys/kernel/pid_max").read_text()
    with lab.worker() as worker:
        worker.load(TargetSpec("bombs.py:bound", ("randn(4)",)))
        with pytest.raises(WorkerError) as caught:
            worker.ask("timing", {"phase": "warm", "calls": 1, "train": False, "seed": 0})
        if not worker.held["walled"]:
            pytest.skip("no PID namespace: the kernel's bound was NOT tested")
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 14):
        pytest.skip("this kernel bounds no namespace: that was NOT tested")
    assert "most 628" in caught.value.problem
    assert Path("/proc/sys/kernel/pid_max").read_text() == machine


def test_the_kernel_bounds_the_processes_of_an_ordinary_user():
    if os.geteuid() != 0:
        pytest.skip("only root can become a user without other processes")
    if not Path("/usr/bin/python3").exists():
        pytest.skip("every interpreter is root's alone: that was NOT tested")
    code = (
        "import os, sys, time\n"
        f"sys.path.insert(0, {str(Path(confine.__file__).parents[2])!r})\n"
        "from worker.process import confine\n"
        "confine.confine(confine.Grants((), ()), confine.Limits(tasks=20), use_landlock=False, use_seccomp=False)\n"
        "pids = []\n"
        "try:\n"
        "    while len(pids) < 300:\n"
        "        pid = os.fork()\n"
        "        if pid == 0:\n"
        "            time.sleep(600)\n"
        "        pids.append(pid)\n"
        "except BlockingIOError:\n"
        "    pass\n"
        "for pid in pids:\n"
        "    os.kill(pid, 9)\n"
        "print(len(pids))\n"
    )
    user = ("setpriv", "--reuid", "64999", "--regid", "64999", "--clear-groups")
    done = subprocess.run([*user, "/usr/bin/python3", "-c", code], capture_output=True, check=True, timeout=60)
    assert int(done.stdout) == 20 + confine.SPARE_TASKS - 1
