"""Workers end with everything that they started, whatever it does to get away: real processes, really killed."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack

import pytest
from cages import HELD, cage_for

# What a worker starts. Where it may not leave its group, it goes on without.
APART = """
import os, signal, time
def leave(how=os.setsid, *arguments):
    try:
        how(*arguments)
    except PermissionError:
        pass
"""
STARTED = {
    "a child": """
if os.fork() == 0:
    time.sleep(60)
""",
    "children that close everything": """
for _ in range(20):
    if os.fork() == 0:
        os.closerange(0, 64)
        time.sleep(60)
""",
    "a daemon": """
if os.fork() == 0:
    leave()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)
""",
    "a tree of groups": """
def grow(depth):
    for _ in range(3):
        if os.fork() == 0:
            leave(os.setpgid, 0, 0)
            if depth:
                grow(depth - 1)
            time.sleep(60)
grow(3)
""",
    "a chain of processes that fork and end": """
if os.fork() == 0:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        leave()
        if os.fork():
            os._exit(0)
    os._exit(0)
""",
    "a bomb": """
if os.fork() == 0:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            if os.fork() == 0:
                leave()
                time.sleep(0.2)
        except BlockingIOError:
            pass
        time.sleep(0.02)
    os._exit(0)
""",
    "a child that is stopped": """
if os.fork() == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
""",
}
DAEMON = APART + STARTED["a daemon"]


@pytest.fixture(scope="module")
def cages(tmp_path_factory):
    """Return what gives the one warm parent of each kind."""
    with ExitStack() as stack:
        made = {}

        def get(how):
            if how not in made:
                folder = tmp_path_factory.mktemp(how)
                (folder / "project").mkdir()
                made[how] = stack.enter_context(cage_for(how, folder, folder / "project"))
            return made[how]

        yield get


@pytest.fixture(params=[*HELD, "none"])
def cage(request, cages):
    return cages(request.param)


@pytest.mark.sample(12)
@pytest.mark.parametrize("what", STARTED)
def test_nothing_that_a_worker_started_outlives_it(cage, what):
    before = sorted(cage.processes())
    pid = cage.fork(f"{APART}{STARTED[what]}time.sleep(0.05)\ntell('started')\ntime.sleep(60)")
    assert cage.hear(pid) == "started"
    assert cage.kill(pid) == -signal.SIGKILL
    assert sorted(cage.processes()) == before
    assert cage.ask(do="?")["children"] == []


def test_what_a_worker_leaves_behind_when_it_ends_is_killed_too(cage):
    before = sorted(cage.processes())
    pid = cage.fork(f"{DAEMON}os._exit(3)")
    ended = []
    while not ended:
        ended = cage.ask(do="ended")["ended"]
    assert ended == [[pid, 3]]
    assert cage.ask(do="ended")["ended"] == []
    assert cage.kill(pid) == 3
    assert sorted(cage.processes()) == before


def test_killing_one_worker_leaves_the_other_alone(cage):
    first = cage.fork("import os\ntell('here')\nos.read(0, 1)\nimport time\ntime.sleep(60)")
    assert cage.hear(first) == "here"
    second = cage.fork(f"{DAEMON}tell('started')\ntime.sleep(60)")
    assert cage.hear(second) == "started"
    cage.kill(second)
    assert cage.ask(do="ended")["ended"] == []
    assert cage.kill(first) == -signal.SIGKILL


@pytest.mark.parametrize("how", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_crashes_is_reported_with_its_signal(cage, how):
    pid = cage.fork(f"import os\nos.kill(os.getpid(), {int(how)})", stays=False)
    assert cage.hear(pid) is None
    assert cage.kill(pid) == -how


def test_no_descriptor_stays_open_after_many_workers(cage):
    before = cage.ask(do="?")["descriptors"]
    for _ in range(20):
        cage.kill(cage.fork("pass"))
    assert cage.ask(do="?")["descriptors"] == before


def test_the_end_of_a_pipe_is_seen_when_a_worker_closes_it(cage):
    pid = cage.fork("import os, time\nos.closerange(3, 256)\ntime.sleep(60)")
    assert cage.hear(pid) is None
    cage.kill(pid)


def test_killing_a_worker_twice_does_nothing(cage):
    pid = cage.fork("pass")
    assert cage.ask(do="kill", pid=pid)["code"] is not None
    assert cage.ask(do="kill", pid=pid)["code"] is None


def test_a_worker_behind_walls_sees_its_own_processes_only(cages):
    code = "import os\nresult = sorted(int(each) for each in os.listdir('/proc') if each.isdecimal())"
    assert cages("walls").run(code) == [1, 2]


def test_all_workers_together_have_a_limit_on_processes(cages):
    if tuple(int(each) for each in os.uname().release.split(".")[:2]) < (6, 14):
        pytest.skip("this kernel has no limit for a namespace: fork bombs of root were NOT bounded")
    assert cages("walls").ask(do="?")["most_processes"] <= 8192


@pytest.mark.parametrize("how", [*HELD, "none"])
def test_when_the_parent_is_gone_its_workers_go_too(tmp_path, how):
    (tmp_path / "project").mkdir()
    with cage_for(how, tmp_path, tmp_path / "project") as cage:
        pid = cage.fork("tell('here')\nimport time\ntime.sleep(60)")
        assert cage.hear(pid) == "here"
        assert cage.processes()
    patience = time.monotonic() + 20
    while cage.marked() and time.monotonic() < patience:
        time.sleep(0.01)
    assert cage.marked() == []


@pytest.mark.parametrize("how", [*HELD, "none"])
def test_workers_do_not_outlive_a_parent_that_is_killed(tmp_path, how):
    (tmp_path / "project").mkdir()
    with cage_for(how, tmp_path, tmp_path / "project") as cage:
        pid = cage.fork("tell('here')\nimport time\ntime.sleep(60)")
        assert cage.hear(pid) == "here"
        cage.end_badly()
    patience = time.monotonic() + 20
    while cage.marked() and time.monotonic() < patience:
        time.sleep(0.01)
    assert cage.marked() == []
