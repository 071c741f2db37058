"""Sessions that are interrupted, killed, starved of disk or wanted by two: nothing finished is lost or done twice."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import resource
import shutil
import signal
import struct
import subprocess
import termios
import time
from contextlib import suppress

import psutil
import pytest
from places import SOUND, write

# Between an empty log and the length of a whole one: some rows fit, not all.
ROOM_BYTES = 300_000
PATIENCE_S = 120
COLUMNS = 40
MORE_THAN_THE_REST = 64 * 1024 * 1024


def outcomes(place):
    """Return how each finished tool call ended, by tool."""
    bodies = [json.loads(body)["evidence"] for *_, body in place.calls()]
    return {body["tool"]: body["outcome"] for body in bodies}


def runs_pytest(process):
    """Return whether a process is pytest; one that has ended is not."""
    with suppress(psutil.Error):
        return "pytest" in process.cmdline()
    return False


def read(stream, text):
    """Read lines until one holds a text."""
    for line in stream:
        if text in line:
            return line
    pytest.fail(f"{text!r} was never said")


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_tests_outside_the_sandbox_at_once_and_resume_reports_them_as_interrupted(slow, number):
    process = slow.start("approve", "latest")
    # As a terminal does: to the whole group.
    os.killpg(process.pid, number)
    read(process.stderr, "stopping after the current step")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    problem, remedy = said.splitlines()
    assert problem.startswith("esper: stopped")
    (session,) = slow.place.rows("SELECT id, state FROM session")
    assert session[1] == "open"
    assert remedy == f"  fix: go on with `esper resume {session[0]}`"
    finished = slow.place.calls()
    slow.place.esper("resume", code=4)
    assert slow.place.calls()[: len(finished)] == finished
    assert outcomes(slow.place)["run-tests"] == "interrupted"
    assert slow.ran == 1


def test_a_signal_stops_tests_in_the_sandbox_leaves_no_process_and_resume_runs_them_again(place):
    made = place({"train.py": SOUND, "tests/test_slow.py": "import time\n\n\ndef test_slow():\n    time.sleep(600)\n"})
    process = made.start("submit", "lgtm? ship it", "train.py", "tests", "--allow", "run-tests")
    parent = psutil.Process(process.pid)
    children = []
    while not any(map(runs_pytest, children)):
        assert process.poll() is None, process.communicate()
        children = parent.children(recursive=True)
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "go on with `esper resume ses_" in said
    _, left = psutil.wait_procs(children, timeout=10)
    assert left == []
    write(made.root, {"tests/test_slow.py": "def test_quick():\n    assert 1\n"})
    made.esper("resume", code=4)
    assert outcomes(made)["run-tests"] == "completed"


def test_a_second_ctrl_c_does_not_wait_and_resume_reports_the_call_as_interrupted(slow):
    process = slow.start("approve", "latest")
    os.killpg(process.pid, signal.SIGINT)
    read(process.stderr, "Ctrl-C again")
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    problem, remedy = said.splitlines()
    assert problem.startswith("esper: interrupted")
    ((session,),) = slow.place.rows("SELECT id FROM session")
    assert remedy == f"  fix: go on with `esper resume {session}`"
    slow.place.esper("resume", code=4)
    assert outcomes(slow.place)["run-tests"] == "interrupted"
    assert slow.ran == 1


@pytest.mark.slow
def test_a_killed_session_is_resumed_and_its_unfinished_call_is_not_run_again(slow):
    process = slow.start("approve", "latest")
    finished = slow.place.calls()
    assert finished
    process.kill()
    process.communicate()
    assert "interrupted" in slow.place.esper("sessions", "list", code=0).stdout
    done = slow.place.esper("resume", code=4)
    assert "run-tests" in done.stdout
    assert slow.place.calls()[: len(finished)] == finished
    assert outcomes(slow.place)["run-tests"] == "interrupted"
    assert slow.ran == 1


@pytest.mark.slow
def test_a_session_has_one_owner_at_a_time_and_a_question_one_answer(slow):
    process = slow.start("approve", "latest")
    assert "approve by" in read(process.stdout, "answer")
    ((session,),) = slow.place.rows("SELECT id FROM session")
    assert "running" in slow.place.esper("sessions", "list", code=0).stdout
    problem, _ = slow.place.esper("resume", session).problem(75)
    assert session in problem
    ((asked,),) = slow.place.rows("SELECT body FROM ledger WHERE kind = 'asked'")
    slow.go()
    process.communicate(timeout=60)
    assert process.returncode == 0
    problem, _ = slow.place.esper("deny", json.loads(asked)["id"]).problem(2)
    assert "answered" in problem
    assert slow.ran == 1


@pytest.mark.slow
def test_two_processes_may_begin_in_one_project_at_once(place):
    made = place({"train.py": "def train():\n    return 1\n"})
    running = [made.start("submit", "review this training code", "train.py") for _ in range(2)]
    said = [each.communicate(timeout=120) for each in running]
    assert [each.returncode for each in running] == [0, 0], said
    assert len({line for out, _ in said for line in out.splitlines() if line.startswith("certified")}) == 2
    assert made.rows("SELECT count(*) FROM session WHERE state = 'done'") == [(2,)]


def test_a_file_that_may_not_grow_stops_a_session_that_resume_completes(known):
    before = known.kept()

    def short_of_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM_BYTES, ROOM_BYTES))

    done = known.esper("submit", "review this training code", "train.py", preexec_fn=short_of_room)
    problem, remedy = done.problem(1)
    assert str(known.database) in problem
    assert "esper resume" in remedy
    finished = known.kept()
    assert all(was <= is_now for was, is_now in zip(before, finished, strict=True))
    assert len(finished[0]) > len(before[0])
    known.esper("resume", code=3)
    assert finished[0] <= known.kept()[0]
    assert len(known.kept()[1]) == 2


FULL_DISK = """
mount -t tmpfs -o size=2m tmpfs "$1" || exit 42
cp -r "$ESPER_HOME/." "$1" || exit 43
export ESPER_HOME="$1"
head -c {rest} /dev/zero > "$1/filler" 2> "$2/head"
truncate -s -200K "$1/filler"
esper submit "review this training code" train.py > "$2/full.out" 2> "$2/full.err"; echo $? > "$2/full.code"
rm "$1/filler"
esper resume > "$2/room.out" 2> "$2/room.err"; echo $? > "$2/room.code"
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare: a full disk was NOT tested")
def test_a_full_disk_stops_a_session_that_resume_completes(known, tmp_path):
    disk, notes = tmp_path / "disk", tmp_path / "notes"
    disk.mkdir()
    notes.mkdir()
    script = FULL_DISK.format(rest=MORE_THAN_THE_REST)
    shell = {**known.child(), "args": ["unshare", "-m", "sh", "-c", script, "sh", disk, notes]}
    ran = subprocess.run(**shell, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if not (notes / "full.code").exists():
        pytest.skip(f"no mount here, so a full disk was NOT tested: {ran.stderr.strip()}")
    said = {path.name: path.read_text() for path in notes.iterdir()}
    assert said["full.code"].strip() == "1", said
    problem, remedy = said["full.err"].splitlines()
    assert "room" in problem or "full" in problem
    assert "esper resume" in remedy
    assert said["room.code"].strip() == "3", said
    assert not said["room.err"]
    assert "REQUIRES_REMEDIATION" in said["room.out"]


class Terminal:
    """A narrow terminal that the command runs in, with its keyboard."""

    def __init__(self, child):
        self._fd, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        self.shown = ""
        self.process = subprocess.Popen(
            **child,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            # Keys such as Ctrl-C become signals only at the terminal that controls the process.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no threads here
        )
        os.close(theirs)

    def wait_for(self, text):
        """Read until a text is shown."""
        while text not in self.shown:
            self.shown += os.read(self._fd, 4096).decode()

    def type(self, keys):
        """Type."""
        os.write(self._fd, keys.encode())

    def close(self):
        """Read what is left and return the exit code."""
        with suppress(OSError):  # what Linux answers once the other end is closed
            while more := os.read(self._fd, 4096):
                self.shown += more.decode(errors="replace")
        return self.process.wait()

    def end(self):
        """End the command, if it still runs, and close the terminal."""
        self.process.kill()
        self.process.wait()
        os.close(self._fd)


@pytest.fixture
def terminal(slow):
    """Return a terminal in which a session asks for leave to run the slow test."""
    made = Terminal(slow.place.child("resume", env={"SLOW_AT": slow.folder, "TERM": "dumb"}))
    made.wait_for("> ")
    yield made
    made.end()


@pytest.mark.slow
@pytest.mark.parametrize(("key", "code"), [("\x03", 130), ("\x04", 9)], ids=["Ctrl-C", "Ctrl-D"])
def test_leaving_the_question_at_the_terminal_leaves_it_to_be_answered_later(slow, terminal, key, code):
    terminal.type(key)
    assert terminal.close() == code, terminal.shown
    assert "internal error" not in terminal.shown
    assert "Traceback" not in terminal.shown
    assert "esper approve" in terminal.shown
    assert slow.place.rows("SELECT state FROM session") == [("waiting",)]
    slow.place.esper("deny", code=0)
    assert slow.ran == 0


@pytest.mark.slow
def test_a_question_at_the_terminal_takes_only_its_options(slow, terminal):
    terminal.type("perhaps\r")
    terminal.wait_for("approve, deny")
    ((session,),) = slow.place.rows("SELECT id FROM session")
    assert f"session: {session}\r\n" in terminal.shown
    slow.go()
    terminal.type("approve\r")
    assert terminal.close() == 0, terminal.shown
    assert outcomes(slow.place)["run-tests"] == "completed"
    assert slow.ran == 1
