from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import URL, func, make_url, select

from esper_agents.storage import lease, locks
from esper_agents.storage.store import Store
from esper_agents.storage.tables import project
from esper_agents.storage.write_lock import lock_file, write_lock


@pytest.fixture
def file(tmp_path):
    return str(tmp_path / "esper.db-lock")


HOLD = """
import sys, time
from esper_agents.storage.write_lock import write_lock
with write_lock(sys.argv[1]):
    print("has it", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(file):
    """Start a process that has the turn and keeps it."""
    running = subprocess.Popen([sys.executable, "-c", HOLD, file], stdout=subprocess.PIPE, text=True)
    assert running.stdout.readline() == "has it\n"
    yield running
    running.kill()
    running.wait()
    running.stdout.close()


def is_free(file):
    with Path(file).open() as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_one_writer_at_a_time_among_threads(file):
    inside, most, done = [], [], []

    def write(number):
        for _ in range(10):
            with write_lock(file):
                inside.append(number)
                most.append(len(inside))
                time.sleep(0.0005)
                inside.remove(number)
        done.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (max(most), len(done)) == (1, 6)


def test_who_was_killed_holds_nobody_up(file, holder):
    assert not is_free(file)
    waiting = threading.Event()

    def wait():
        with write_lock(file):
            waiting.set()

    thread = threading.Thread(target=wait)
    thread.start()
    holder.kill()
    thread.join()
    assert waiting.is_set()
    assert is_free(file)


def test_who_waits_for_somebody_that_is_stopped_goes_on_without_the_turn_and_leaves_nothing_behind(
    file, holder, monkeypatch
):
    monkeypatch.setattr(locks, "PATIENCE_S", 0.05)
    holder.send_signal(signal.SIGSTOP)
    with write_lock(file):
        assert not is_free(file)
    before = threading.active_count()
    holder.kill()
    holder.wait()
    for _ in range(1000):
        if threading.active_count() < before:
            break
        time.sleep(0.01)
    assert is_free(file)


def test_a_process_waits_once_for_somebody_that_is_stopped_and_takes_turns_again_when_he_is_gone(
    file, holder, monkeypatch
):
    before = threading.active_count()
    monkeypatch.setattr(locks, "PATIENCE_S", 0.05)
    holder.send_signal(signal.SIGSTOP)
    with write_lock(file):
        pass
    monkeypatch.setattr(locks, "PATIENCE_S", 3600.0)
    with write_lock(file):
        assert not is_free(file)
    holder.kill()
    holder.wait()
    # The threads that waited take the lock once more, one after the other, before they end.
    while threading.active_count() > before or not is_free(file):
        time.sleep(0.01)
    with write_lock(file):
        assert not is_free(file)
    assert is_free(file)


def test_a_heartbeat_that_waited_for_somebody_that_is_stopped_is_still_in_time():
    # Beats come every quarter of a lease.
    assert locks.PATIENCE_S * 1000 <= lease.LEASE_MS / 2


def test_a_child_that_was_forked_inside_does_not_keep_the_turn(file):
    reading, writing = os.pipe()
    with write_lock(file):
        child = os.fork()
        if not child:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
    assert is_free(file)
    os.close(writing)
    os.close(reading)
    assert os.waitpid(child, 0)[1] == 0


def test_a_block_that_fails_gives_the_turn_back(file):
    with pytest.raises(ZeroDivisionError), write_lock(file):
        raise ZeroDivisionError
    assert is_free(file)


@pytest.mark.parametrize("make", [lambda place: place / "no" / "folder", lambda place: place])
def test_where_there_can_be_no_lock_file_writers_go_on_without(tmp_path, make):
    with write_lock(str(make(tmp_path))):
        pass


def test_a_link_in_place_of_the_lock_file_is_not_followed(file, tmp_path):
    Path(file).symlink_to(tmp_path / "elsewhere")
    with write_lock(file):
        pass
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true", "postgresql://ann@host/esper"]
)
def test_what_is_no_file_needs_no_turns(url):
    assert lock_file(make_url(url)) == ""


def test_two_names_of_one_file_have_one_lock(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "other").symlink_to(tmp_path / "one")
    names = {lock_file(URL.create("sqlite", database=str(tmp_path / each / "esper.db"))) for each in ("one", "other")}
    assert names == {str(tmp_path / "one" / "esper.db-lock")}


def test_the_lock_lies_beside_the_database_for_its_owner_alone(tmp_path):
    store = Store(URL.create("sqlite", database=str(tmp_path / "esper.db")))
    with store.writing():
        assert not is_free(tmp_path / "esper.db-lock")
    store.close()
    assert (tmp_path / "esper.db-lock").stat().st_mode & 0o777 == 0o600


WRITE = """
import sys
from sqlalchemy import URL, insert
from esper_agents.storage.store import Store
from esper_agents.storage.tables import project
store = Store(URL.create("sqlite", database=sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(10):
    with store.writing() as transaction:
        key = f"{sys.argv[2]}-{number}"
        transaction.connection.execute(insert(project).values(key=key, root="/", name=key, opened_at=transaction.at))
"""


@pytest.mark.slow
def test_thirty_two_processes_write_at_once_and_none_fails(tmp_path):
    command = [sys.executable, "-c", WRITE, str(tmp_path / "esper.db")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    running = [subprocess.Popen([*command, str(each)], **pipes) for each in range(32)]
    assert [each.stdout.readline() for each in running] == ["ready\n"] * 32
    for each in running:
        each.stdin.write("go\n")
        each.stdin.flush()
    assert [each.wait() for each in running] == [0] * 32
    for each in running:
        each.stdin.close()
        each.stdout.close()
    store = Store(URL.create("sqlite", database=str(tmp_path / "esper.db")))
    with store.reading() as connection:
        assert connection.scalar(select(func.count()).select_from(project)) == 320
    store.close()
