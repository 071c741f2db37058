"""A measurement that takes too many processes, too much memory or disk in total ends by name and leaves nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from esper_agents.torchlab import bubblewrap
from esper_agents.torchlab.lab import Lab, Settings
from esper_agents.torchlab.outcome import Outcome, WorkerError
from esper_agents.torchlab.supervisor import descendants
from esper_agents.torchlab.target import TargetSpec

pytest.importorskip("torch", reason="no torch: NOTHING of the lab was run")

BOMBS = """
import os, threading, time


def forks(x):
    # One after the other: each copy of a process with torch in it costs the machine some milliseconds.
    for _ in range(1000):
        if os.fork() == 0:
            time.sleep(600)
    time.sleep(600)


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


def behaves(x):
    if os.fork() == 0:
        os._exit(0)
    return x * 2
"""
SAID = {"forks": "processes", "threads": "processes", "memory": "MiB of memory", "disk": "MiB of disk"}
SAID["deleted"] = "MiB of disk"


@pytest.fixture(params=["bubblewrap", "landlock"])
def lab(request, tmp_path, monkeypatch):
    if request.param == "landlock":
        monkeypatch.setattr(bubblewrap, "find", lambda: None)
    elif bubblewrap.find() is None:
        pytest.skip("bubblewrap is not installed and was NOT tested")
    (tmp_path / "bombs.py").write_text(BOMBS)
    settings = Settings(timeout_s=120, memory_bytes=1 << 30, tasks=200, disk_bytes=256 << 20)
    monkeypatch.setattr(Lab, "_total_memory", lambda _: 400 << 20)
    with Lab(tmp_path, settings) as opened:
        yield opened


def ran(lab, name):
    with lab.worker() as worker:
        worker.load(TargetSpec(f"bombs.py:{name}", ("randn(4)",)))
        return worker.ask("timing", {"phase": "warm", "calls": 1, "train": False, "seed": 0})


def test_each_bomb_is_stopped_by_name_and_leaves_nothing(lab):
    at_rest = len(descendants(os.getpid()))
    for name, said in SAID.items():
        with pytest.raises(WorkerError) as caught:
            ran(lab, name)
        assert (name, caught.value.outcome) == (name, Outcome.LIMIT)
        assert said in caught.value.problem
        assert caught.value.remedy
        assert lab.is_alive
        assert len(descendants(os.getpid())) <= at_rest
        assert not list(Path(lab._scratch).glob("worker-*"))
    assert ran(lab, "behaves").result
