"""`esper worker` in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress

import pytest
from places import SLOW_TEST, SOUND, Place, Slow, environment, git, write

# Answers a question and ends without going on: whoever looks next finds a session that a dead process held.
ANSWER = """
import asyncio, os, sys
from esper_agents.api import open_project

async def answer():
    async with open_project(".") as project:
        await project.approvals.answer("latest", "approve")
        os._exit(0)

asyncio.run(answer())
"""


@pytest.fixture
def place(tmp_path):
    root = tmp_path / "toy"
    write(root, {"train.py": SOUND, "tests/test_slow.py": SLOW_TEST, ".gitignore": "__pycache__/\n"})
    git(root, "init", "-q", "-b", "main", "--template=")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return Place(root, tmp_path / "home")


@pytest.fixture
def slow(place, tmp_path):
    """Return a session that is about to run the slow test, and that nobody works on."""
    # Outside the sandbox: the slow test leaves its traces where another process sees them.
    leave = ("--ask", "run-tests", "--allow", "run-tests:unsandboxed")
    place.esper("submit", "review this training code and run the tests", "train.py", "tests", *leave, code=9)
    child = place.child() | {"args": [sys.executable, "-c", ANSWER]}
    subprocess.run(**child, check=True)
    made = Slow(place, tmp_path)
    yield made
    with suppress(OSError):
        made.go()


def state(place):
    return place.rows("SELECT state, owner, queued FROM session")


def test_what_was_queued_is_listed_run_and_nothing_is_left(place):
    queued = place.esper("submit", "--queue", "--json", "review this training code", "train.py", code=0).json
    assert queued["state"] == "queued"
    assert state(place) == [("open", "", 1)]
    assert "queued" in place.esper("sessions", "list", code=0).stdout.splitlines()[0]
    done = place.esper("worker", "--once", "--poll", "0.1", code=0)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["taken", "ended"]
    assert state(place)[0][:2] == ("done", "")
    assert place.esper("worker", "--once", code=0).stdout == ""


def test_a_queued_task_is_published_where_the_worker_is_told(place):
    refused = place.esper("submit", "--queue", "--publish", "data", "review this training code", "train.py")
    assert refused.problem(2) == ("a queued task is published by its worker", "esper worker --publish data")


def test_a_worker_that_cannot_go_on_with_a_session_says_why_and_exits_with_1(place):
    place.esper("submit", "--queue", "review this training code", "train.py", code=0)
    with closing(sqlite3.connect(place.database)) as connection:
        connection.execute("UPDATE ledger SET body = '{}' WHERE kind = 'submitted'")
        connection.commit()
    done = place.esper("worker", "--once", "--poll", "0.1", code=1)
    assert [line.split()[0] for line in done.stdout.splitlines() if not line.startswith(" ")][:2] == ["taken", "failed"]
    assert state(place) == [("open", "", 0)]


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_step_end_gives_the_session_back_and_another_worker_goes_on(slow, number):
    process = slow.start("worker", "--poll", "0.1")
    os.killpg(process.pid, number)
    assert "stopping after the steps that run" in process.stderr.readline()
    slow.go()
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "given back" in said
    assert [each[:2] for each in state(slow.place)] == [("open", "")]
    finished = slow.place.calls()
    # Stopped by a person, and queued by nobody: it is theirs to go on with.
    slow.place.esper("resume", code=0)
    assert slow.place.calls()[: len(finished)] == finished
    assert slow.ran == 1


@pytest.mark.slow
def test_a_worker_that_is_killed_leaves_a_session_that_the_next_one_takes(slow):
    process = slow.start("worker", "--poll", "0.1")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    slow.go()
    done = slow.place.esper("worker", "--once", "--poll", "0.1", code=0)
    assert "ended" in done.stdout
    assert [each[:2] for each in state(slow.place)] == [("done", "")]
    # What may have had an effect is not run again.
    assert slow.ran == 1


DIES_WHILE_PUBLISHING = """
import os, sys
from esper_agents.archive import publishing
plain, left = publishing._write, [int(sys.argv.pop(1))]
def write(path, data):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), 9)
    return plain(path, data)
publishing._write = write
sys.argv[0] = "esper"
from esper_agents.cli.main import main
main()
"""


@pytest.mark.parametrize("files", [0, 3])
def test_a_worker_publishes_what_a_killed_one_left(place, files):
    place.esper("submit", "--queue", "review this training code", "train.py", code=0)
    command = [sys.executable, "-c", DIES_WHILE_PUBLISHING, str(files), "worker", "--once"]
    died = subprocess.run(command, cwd=place.root, env=environment(place.home), capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL
    assert place.rows("SELECT count(*) FROM certificate") == [(1,)]
    (left,) = json.loads(place.esper("sessions", "list", "--json", code=0).stdout)
    assert left["state"] == "open"
    place.esper("worker", "--once", code=0)
    (ended,) = json.loads(place.esper("sessions", "list", "--json", code=0).stdout)
    assert ended["state"] == "done"
    assert place.rows("SELECT count(*) FROM certificate") == [(1,)]
    assert len(list(place.root.rglob("certificates/*.dsse.json"))) == 1
    place.esper("certificates", "verify", "--all", code=0)
    assert place.esper("certificates", "repair", code=0).stdout.count("written") == 0


def test_a_session_that_kills_every_worker_while_publishing_is_left_to_repair(place):
    place.esper("submit", "--queue", "review this training code", "train.py", code=0)
    command = [sys.executable, "-c", DIES_WHILE_PUBLISHING, "0", "worker", "--once"]
    codes = [
        subprocess.run(
            command, cwd=place.root, env=environment(place.home), capture_output=True, check=False
        ).returncode
        for _ in range(7)
    ]
    assert codes == [-signal.SIGKILL] * 5 + [0] * 2
    assert place.esper("certificates", "repair", code=0)
    place.esper("certificates", "verify", "--all", code=0)
