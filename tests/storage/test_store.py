from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import URL, insert, make_url, select, text

from esper_agents.errors import StorageError, UsageError
from esper_agents.storage.database_url import SqliteUrl, database_url
from esper_agents.storage.store import AsyncStore, Store, timestamp
from esper_agents.storage.tables import project as table


def sqlite(path):
    return URL.create("sqlite", database=str(path))


def add(transaction, key):
    row = {"key": key, "root": "/", "name": key, "opened_at": transaction.at}
    transaction.connection.execute(insert(table).values(**row))


def keys(store):
    with store.reading() as connection:
        return sorted(connection.scalars(select(table.c.key)))


def test_what_was_written_is_there_for_the_next_who_opens_the_database(database):
    first = Store(database)
    with first.writing() as transaction:
        add(transaction, "toy")
    first.close()
    second = Store(database)
    assert keys(second) == ["toy"]
    second.close()


def test_a_block_that_fails_writes_nothing(store):
    def half_way():
        with store.writing() as transaction:
            add(transaction, "toy")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half_way()
    assert keys(store) == []


def test_a_reader_sees_one_state_and_does_not_wait_for_a_writer(store):
    with store.writing() as transaction:
        add(transaction, "toy")
        assert keys(store) == []
    assert keys(store) == ["toy"]


def test_a_reader_goes_on_seeing_the_state_that_it_began_with(store):
    with store.reading() as connection:
        assert connection.scalars(select(table.c.key)).all() == []
        with store.writing() as transaction:
            add(transaction, "toy")
        assert connection.scalars(select(table.c.key)).all() == []
    assert keys(store) == ["toy"]


def test_writers_on_many_threads_wait_for_one_another(store):
    def write(number):
        for each in range(5):
            with store.writing() as transaction:
                add(transaction, f"{number}-{each}")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(keys(store)) == 20


WRITE = """
import sys
from sqlalchemy import insert, make_url
from esper_agents.storage.store import Store
from esper_agents.storage.tables import project

store = Store(make_url(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for each in range(10):
    with store.writing() as transaction:
        row = {"key": f"{sys.argv[2]}-{each}", "root": "", "name": "", "opened_at": ""}
        transaction.connection.execute(insert(project).values(row))
"""


@pytest.mark.sample(1)
def test_writers_in_many_processes_wait_for_one_another(store, database):
    url = database.render_as_string(hide_password=False)
    started = [
        subprocess.Popen([sys.executable, "-c", WRITE, url, str(number)], stdin=-1, stdout=-1, stderr=-1, text=True)
        for number in range(3)
    ]
    assert [each.stdout.readline() for each in started] == ["ready\n"] * 3
    for each in started:
        each.stdin.write("go\n")
        each.stdin.flush()
    said = [each.communicate() for each in started]
    assert [each.returncode for each in started] == [0] * 3, said
    assert len(keys(store)) == 30


def test_time_is_the_database_clock_unless_another_is_given(database):
    before = time.time() * 1000
    opened = Store(database)
    with opened.writing() as transaction:
        # The same machine: a second is far more than two clocks of it differ by.
        assert abs(transaction.now_ms - before) < 60_000
        assert transaction.at == timestamp(transaction.now_ms)
    opened.close()


@pytest.mark.parametrize(
    ("now_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_800_000_000_007, "2027-01-15T08:00:00.007Z"),
        (951_782_400_999, "2000-02-29T00:00:00.999Z"),
    ],
)
def test_times_are_utc_text_of_one_width(now_ms, text):
    assert timestamp(now_ms) == text


def test_the_folder_of_the_database_is_made_for_its_owner_only(tmp_path):
    Store(sqlite(tmp_path / "new" / "esper.db")).close()
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_rows_of_the_embedded_database_survive_a_power_cut(tmp_path):
    opened = Store(sqlite(tmp_path / "esper.db"))
    with opened.reading() as connection:
        assert connection.scalar(text("PRAGMA journal_mode")) == "wal"
        assert connection.scalar(text("PRAGMA synchronous")) == 2
    opened.close()


def says_two_lines(error):
    assert error.problem
    assert error.remedy
    assert "\n" not in error.problem + error.remedy


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path):
    (tmp_path / "esper.db").write_bytes(b"not a database at all, but long enough to look at" * 50)
    with pytest.raises(StorageError, match="is damaged or not a database") as refused:
        Store(sqlite(tmp_path / "esper.db"))
    says_two_lines(refused.value)
    assert "restore a backup" in refused.value.remedy
    assert (tmp_path / "esper.db").read_bytes().startswith(b"not a database")


def test_a_database_that_was_damaged_is_refused(tmp_path):
    Store(sqlite(tmp_path / "esper.db")).close()
    with (tmp_path / "esper.db").open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 4000)
    with pytest.raises(StorageError, match="is damaged") as refused:
        Store(sqlite(tmp_path / "esper.db"))
    says_two_lines(refused.value)


def test_a_folder_in_the_place_of_the_database_is_refused(tmp_path):
    (tmp_path / "esper.db").mkdir()
    with pytest.raises(StorageError, match="cannot be opened") as refused:
        Store(sqlite(tmp_path / "esper.db"))
    says_two_lines(refused.value)


def test_a_file_in_the_place_of_its_folder_is_refused(tmp_path):
    (tmp_path / "home").write_text("")
    with pytest.raises(StorageError, match="cannot use") as refused:
        Store(sqlite(tmp_path / "home" / "esper.db"))
    says_two_lines(refused.value)


AS_NOBODY = """
import os, sys
from sqlalchemy import insert, make_url
from esper_agents.errors import StorageError
from esper_agents.storage.store import Store
from esper_agents.storage.tables import project

if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    store = Store(make_url(sys.argv[1]))
    with store.writing() as transaction:
        transaction.connection.execute(insert(project).values(key="a", root="", name="", opened_at=""))
except StorageError as error:
    print(f"{error.problem}\\n{error.remedy}")
"""


@pytest.fixture
def open_folder():
    """A folder that everybody can look into, which the temporary folder of a test is not."""
    folder = Path(tempfile.mkdtemp(prefix="esper-test-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    subprocess.run(["rm", "-r", str(folder)], check=True)


def as_nobody(url):
    done = subprocess.run([sys.executable, "-c", AS_NOBODY, str(url)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_read_only_folder_is_said_in_two_lines(open_folder):
    open_folder.chmod(0o555)
    problem, remedy = as_nobody(sqlite(open_folder / "esper.db"))
    assert problem == f"the database {str(open_folder / 'esper.db')!r} cannot be opened"
    assert remedy == "make its folder exist and writable, or set ESPER_HOME to one that is"


def test_a_folder_that_cannot_be_made_is_said_in_two_lines(open_folder):
    open_folder.chmod(0o555)
    problem, remedy = as_nobody(sqlite(open_folder / "deep" / "esper.db"))
    assert "ermission denied" in problem
    assert remedy == "make it writable or set ESPER_HOME"


def test_a_read_only_database_is_said_in_two_lines(open_folder):
    Store(sqlite(open_folder / "esper.db")).close()
    for each in (*open_folder.iterdir(), open_folder):
        each.chmod(0o555 if each.is_dir() else 0o444)
    problem, remedy = as_nobody(sqlite(open_folder / "esper.db"))
    assert "read-only" in problem or "cannot be opened" in problem
    assert "writable" in remedy


@pytest.mark.postgresql
def test_a_server_that_is_not_there_is_said_in_two_lines_without_the_password(tmp_path):
    url = make_url(f"postgresql://me:secret@/x?host={tmp_path}")
    with pytest.raises(StorageError, match="no server accepts connections") as refused:
        Store(url)
    says_two_lines(refused.value)
    assert "secret" not in refused.value.problem
    assert "ESPER_DATABASE_URL" in refused.value.remedy


def test_the_database_is_a_file_unless_a_team_shares_one(tmp_path, monkeypatch):
    assert database_url(tmp_path / "esper.db") == SqliteUrl(str(tmp_path / "esper.db"))
    monkeypatch.setenv("ESPER_DATABASE_URL", f"sqlite:///{tmp_path}/other.db")
    assert database_url(tmp_path / "esper.db") == SqliteUrl(f"{tmp_path}/other.db")
    monkeypatch.setenv("ESPER_DATABASE_URL", "postgresql://me@host/esper")
    assert database_url(tmp_path / "esper.db") == make_url("postgresql://me@host/esper")
    monkeypatch.setenv("ESPER_DATABASE_URL", "no url")
    with pytest.raises(UsageError, match="ESPER_DATABASE_URL is not a database URL"):
        database_url(tmp_path / "esper.db")


@pytest.mark.parametrize("given", ["oracle://me@host/x", "mysql://me@host/x", "nosuch://host/x"])
def test_a_database_we_do_not_speak_is_refused(given, tmp_path, monkeypatch):
    monkeypatch.setenv("ESPER_DATABASE_URL", given)
    with pytest.raises(UsageError, match=r"ESPER_DATABASE_URL names a '[a-z]+' database") as refused:
        database_url(tmp_path / "esper.db")
    says_two_lines(refused.value)


@pytest.mark.parametrize("driver", ["nosuch", "pg8000"])
def test_a_driver_that_is_not_there_is_said_with_the_command_that_installs_one(driver):
    with pytest.raises(UsageError, match="is not installed") as refused:
        Store(make_url(f"postgresql+{driver}://me@host/x"))
    assert refused.value.remedy == "install it, or write the URL as postgresql://..."


def test_postgresql_without_its_extra_is_refused_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr("esper_agents.extras._packages", lambda: {"postgresql": ("not-installed",)})
    with pytest.raises(UsageError) as refused:
        Store(make_url("postgresql+nosuch://me@host/x"))
    assert refused.value.remedy == "pip install 'esper-agents[postgresql]'"


def test_a_path_with_odd_characters_is_a_database(tmp_path):
    Store(sqlite(tmp_path / "50% ü?#" / "esper.db")).close()
    assert (tmp_path / "50% ü?#" / "esper.db").is_file()


@pytest.mark.anyio
async def test_the_asynchronous_store_works_on_one_thread_of_its_own(tmp_path):
    opened = AsyncStore(Store(sqlite(tmp_path / "esper.db")))
    seen = await asyncio.gather(*(opened.run(lambda _: threading.current_thread().name) for _ in range(5)))
    assert len(set(seen)) == 1
    assert seen[0] != threading.current_thread().name
    opened.close()


@pytest.mark.anyio
async def test_while_the_store_is_blocked_the_event_loop_goes_on(tmp_path):
    opened, gate = AsyncStore(Store(sqlite(tmp_path / "esper.db"))), threading.Event()
    blocked = asyncio.create_task(opened.run(lambda _: gate.wait(60)))
    await asyncio.sleep(0)
    assert not blocked.done()
    gate.set()
    assert await blocked
    opened.close()


def test_a_connection_in_use_when_the_store_is_closed_is_closed_at_the_end_of_its_transaction(tmp_path):
    store = Store(SqliteUrl(str(tmp_path / "esper.db")))
    with store.reading() as connection:
        driver = connection.connection
        store.close()
        assert driver.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        driver.execute("SELECT 1")


def test_a_transaction_that_failed_leaves_nothing_open(tmp_path):
    store = Store(SqliteUrl(str(tmp_path / "esper.db")))
    with pytest.raises(ValueError, match="inside"), store.writing():
        raise ValueError("inside")
    # Another writer would wait for half a minute.
    with sqlite3.connect(tmp_path / "esper.db", timeout=0, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
    store.close()
