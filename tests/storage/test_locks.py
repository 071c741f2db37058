from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from esper_agents.errors import BusyError, ExitCode
from esper_agents.storage import locks

HOLD = """
import sys, time
from pathlib import Path
from esper_agents.storage import locks
locks.locked(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "lock"


@pytest.fixture
def holder(file):
    with subprocess.Popen([sys.executable, "-c", HOLD, str(file)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_a_lock_of_somebody_that_is_stopped_is_waited_for_within_a_limit(file, holder, monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE_S", 0.05)
    holder.send_signal(signal.SIGSTOP)
    with pytest.raises(BusyError) as caught:
        locks.locked(file)
    assert caught.value.exit_code == ExitCode.BUSY
    assert str(file) in caught.value.problem
    assert caught.value.remedy


def test_who_waited_in_vain_leaves_nothing_behind_once_the_lock_is_free(file, holder, monkeypatch):
    before = threading.active_count()
    monkeypatch.setattr(locks, "PATIENCE_S", 0.05)
    with pytest.raises(BusyError):
        locks.locked(file)
    holder.kill()
    holder.wait()
    for _ in range(1000):
        if threading.active_count() == before:
            break
        time.sleep(0.01)
    assert threading.active_count() == before
    locks.release(locks.locked(file))


def test_a_lock_is_had_as_soon_as_its_holder_ends(file, holder):
    got = threading.Event()

    def wait():
        lock = locks.locked(file)
        got.set()
        locks.release(lock)

    thread = threading.Thread(target=wait)
    thread.start()
    assert not got.wait(0.2)
    holder.kill()
    assert got.wait(60)
    thread.join()


def test_a_lock_that_was_waited_for_is_really_held(file, holder):
    threading.Timer(0.1, holder.kill).start()
    lock = locks.locked(file)
    other = os.open(file, os.O_RDWR)
    assert not locks.take(other, 0)
    locks.release(lock)
    assert locks.take(other, 0)
    locks.release(other)


def test_a_link_in_place_of_a_lock_is_not_followed(file, tmp_path):
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        locks.locked(file)
    assert not (tmp_path / "elsewhere").exists()
