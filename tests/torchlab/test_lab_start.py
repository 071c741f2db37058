"""Tests of the lab's beginning and of its end: what it refuses to start with, and that it never outlives its owner."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from esper_agents.errors import BusyError, EvidenceError, UsageError
from esper_agents.torchlab.lab import Lab, LabSettings
from esper_agents.torchlab.target import TargetSpec
from esper_agents.torchlab.worker_failure import WorkerError

torch = pytest.importorskip("torch", reason="no torch: NOTHING of the lab was run")

HOSTILE = Path(__file__).parents[2] / "benchmarks" / "hostile_targets"


def descendants(pid):
    parents = {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with suppress(OSError):
                parents[int(path.name)] = int((path / "stat").read_bytes().rpartition(b")")[2].split()[1])
    found, new = set(), {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - found
        found |= new
    return found


def left_after_a_while(processes):
    def is_running(pid):
        with suppress(OSError):
            return (Path(f"/proc/{pid}") / "stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
        return False

    deadline = time.monotonic() + 20
    while (left := set(filter(is_running, processes))) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def test_an_interpreter_without_torch_is_refused(tmp_path):
    bare = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    with (
        pytest.raises(UsageError, match="has no torch"),
        Lab(tmp_path, LabSettings(python=str(bare / "bin" / "python"))),
    ):
        pass


def test_a_lab_whose_process_is_killed_leaves_no_worker(tmp_path):
    script = (
        "import sys, time; from pathlib import Path\n"
        "from esper_agents.torchlab.lab import Lab\n"
        "from esper_agents.torchlab.target import TargetSpec\n"
        f"with Lab(Path({str(HOSTILE)!r})) as lab, lab.worker() as worker:\n"
        "    worker.load(TargetSpec('hostile.py:hangs', ('randn(4)',)))\n"
        "    request = {'phase': 'warm', 'calls': 1, 'train': False, 'seed': 0}\n"
        "    worker._channel.send({'do': 'timing', 'request': request})\n"
        "    print('running', flush=True)\n"
        "    time.sleep(600)\n"
    )
    started = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert started.stdout is not None
    assert started.stdout.readline() == b"running\n"
    theirs = descendants(started.pid)
    assert theirs
    started.send_signal(signal.SIGKILL)
    started.wait()
    started.stdout.close()
    assert not left_after_a_while(theirs)


@pytest.mark.slow
def test_a_lab_whose_warm_parent_is_killed_says_so_and_leaves_no_worker():
    before = descendants(os.getpid())
    with Lab(HOSTILE) as lab, lab.worker() as worker:
        worker.load(TargetSpec("nothing.py:nothing", ("randn(4)",)))
        theirs = descendants(os.getpid()) - before
        for each in theirs - {worker.pid}:
            os.kill(each, signal.SIGKILL)
        with pytest.raises(EvidenceError, match="has ended"):
            lab.worker()
        assert not lab.is_alive
        # The kernel closes the files of a process first, and kills its children only after its memory is freed.
        assert not left_after_a_while({worker.pid})
        with pytest.raises(WorkerError):
            worker.ask("timing", {"phase": "warm", "calls": 1, "train": False, "seed": 0})
    assert descendants(os.getpid()) <= before


def test_two_labs_are_open_at_once_and_only_their_timings_take_turns(tmp_path):
    told = []
    with Lab(HOSTILE) as first, Lab(tmp_path, LabSettings(queue_s=0.2), waiting=told.append) as second:
        with (
            first.timing_turn(None),
            pytest.raises(BusyError, match="has run for over 0 s"),
            second.timing_turn(None),
        ):
            pass
        assert told == [f"waiting for the timing of process {os.getpid()}; next in the queue"]
        with second.timing_turn(None):
            pass


def test_a_lab_that_is_closed_waits_no_longer(tmp_path):
    with Lab(HOSTILE) as first, Lab(tmp_path) as second, first.timing_turn(None):
        second.close()
        with pytest.raises(EvidenceError, match="was cancelled"), second.timing_turn(None):
            pass


@pytest.mark.slow
def test_a_lab_that_could_not_start_leaves_nothing(tmp_path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(UsageError), Lab(tmp_path, LabSettings(python=str(tmp_path / "absent"))):
        pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    with Lab(HOSTILE) as lab, lab.worker() as worker:
        assert worker.held
