"""Timings take turns: in the order in which they came, whatever becomes of those before them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from esper_agents.errors import BusyError, EvidenceError
from esper_agents.paths import home
from esper_agents.torchlab.timing_turn import timing_turn

HOLDER = """
import sys, time
from esper_agents.torchlab.timing_turn import timing_turn
with timing_turn(lambda what: print(what, flush=True), timeout_s=60):
    print("began", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def holder():
    started = []

    def start():
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for each in started:
        each.kill()
        each.communicate()


def tickets():
    return [path.name for path in (home() / "timing").iterdir() if path.name != "turn"]


def test_those_who_wait_come_in_their_order_and_are_told_their_place(holder):
    first = holder()
    assert first.stdout.readline() == "began\n"
    second = holder()
    assert second.stdout.readline() == f"waiting for the timing of process {first.pid}; next in the queue\n"
    third = holder()
    assert third.stdout.readline() == f"waiting for the timing of process {first.pid}; number 2 in the queue\n"
    first.communicate("\n")
    assert second.stdout.readline() == "began\n"
    assert third.stdout.readline() == f"waiting for the timing of process {second.pid}; next in the queue\n"
    second.communicate("\n")
    assert third.stdout.readline() == "began\n"
    third.communicate("\n")
    assert tickets() == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_end_of_a_process_ends_its_turn_and_its_place_in_the_queue(holder, how):
    first = holder()
    assert first.stdout.readline() == "began\n"
    second = holder()
    second.stdout.readline()
    third = holder()
    third.stdout.readline()
    second.send_signal(how)
    second.wait()
    assert third.stdout.readline().endswith("next in the queue\n")
    first.send_signal(how)
    first.wait()
    assert third.stdout.readline() == "began\n"


def test_who_does_not_want_to_wait_is_refused_at_once_and_leaves_nothing(holder):
    first = holder()
    assert first.stdout.readline() == "began\n"
    with (
        pytest.raises(BusyError, match=f"another timing is running .process {first.pid}.") as caught,
        timing_turn(pytest.fail, timeout_s=0),
    ):
        pass
    assert "--no-wait" in caught.value.remedy
    assert len(tickets()) == 1


def test_a_wait_can_be_cancelled(holder):
    first = holder()
    assert first.stdout.readline() == "began\n"
    is_cancelled = threading.Event()
    with (
        pytest.raises(EvidenceError, match="was cancelled"),
        timing_turn(lambda _: is_cancelled.set(), timeout_s=60, is_cancelled=is_cancelled.is_set),
    ):
        pass


def test_threads_of_one_process_take_turns_too():
    inside, most = [], []

    def work():
        with timing_turn(lambda _: None, timeout_s=60):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.05)
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 6


@pytest.mark.parametrize("name", ["00000000000000000001-1-0", "no-ticket", "00000000000000000001-x-0"])
def test_files_that_nobody_holds_and_links_delay_nobody(tmp_path, name):
    folder = home() / "timing"
    folder.mkdir(parents=True)
    (tmp_path / "kept").write_text("kept")
    (folder / name).symlink_to(tmp_path / "kept")
    os.mkfifo(folder / "00000000000000000002-1-0")
    with timing_turn(pytest.fail, timeout_s=0):
        pass
    assert (tmp_path / "kept").read_text() == "kept"
