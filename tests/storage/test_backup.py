from __future__ import annotations

import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import URL
from storage_samples import PROJECT, submission

from esper_agents.errors import StorageError, UsageError
from esper_agents.storage import sessions
from esper_agents.storage.backup import back_up
from esper_agents.storage.schema_names import HEAD
from esper_agents.storage.store import Store


@pytest.fixture
def file(migrated_sqlite, tmp_path):
    target = tmp_path / "esper.db"
    target.write_bytes(migrated_sqlite.read_bytes())
    return target


@pytest.fixture
def url(file):
    return URL.create("sqlite", database=str(file))


def fill(url, count):
    store = Store(url)
    for number in range(count):
        sessions.create(store, PROJECT, submission(f"review {number}"))
    store.close()


def opened(file):
    return closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True))


def test_a_backup_is_one_file_that_only_its_owner_reads_and_that_opens_like_the_database(url, tmp_path):
    fill(url, 5)
    to = tmp_path / "backups" / "first.db"
    to.parent.mkdir()
    done = back_up(url, to)
    assert (done.path, done.shape, done.sessions, done.certificates, done.log_entries) == (to, HEAD, 5, 0, 0)
    assert [path.name for path in to.parent.iterdir()] == ["first.db"]
    assert stat.S_IMODE(to.stat().st_mode) == 0o600
    assert done.size_bytes == to.stat().st_size
    store = Store(URL.create("sqlite", database=str(to)))
    assert [each.request for each in sessions.listing(store, PROJECT.key)] == [f"review {n}" for n in (4, 3, 2, 1, 0)]
    store.close()


def test_nothing_is_written_over(url, tmp_path):
    fill(url, 1)
    to = tmp_path / "there.db"
    to.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        back_up(url, to)
    assert to.read_text() == "mine"


def test_not_even_through_a_link_that_points_nowhere(url, tmp_path):
    fill(url, 1)
    to, elsewhere = tmp_path / "link.db", tmp_path / "elsewhere.db"
    to.symlink_to(elsewhere)
    with pytest.raises(UsageError, match="exists already"):
        back_up(url, to)
    assert not elsewhere.exists()


def test_a_folder_that_is_not_there_is_told(url, tmp_path):
    fill(url, 1)
    with pytest.raises(UsageError, match="there is no folder"):
        back_up(url, tmp_path / "nowhere" / "first.db")


def test_there_is_no_backup_of_no_database(tmp_path):
    with pytest.raises(StorageError, match="there is no database"):
        back_up(URL.create("sqlite", database=str(tmp_path / "none.db")), tmp_path / "first.db")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_database_makes_no_backup(url, file, tmp_path):
    fill(url, 200)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'session'").fetchone()
        (page,) = connection.execute("PRAGMA page_size").fetchone()
    data = bytearray(file.read_bytes())
    data[(root - 1) * page : root * page] = b"\xff" * page
    file.write_bytes(bytes(data))
    to = tmp_path / "backups"
    to.mkdir()
    with pytest.raises(StorageError, match="damaged"):
        back_up(url, to / "first.db")
    assert list(to.iterdir()) == []


def test_rows_that_point_nowhere_are_no_backup_either(url, file, tmp_path):
    fill(url, 1)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DELETE FROM session")
        connection.commit()
    with pytest.raises(StorageError, match="dangling references in ledger"):
        back_up(url, tmp_path / "first.db")


def test_what_is_committed_while_it_is_made_is_whole_in_it_or_not_at_all(url, tmp_path):
    fill(url, 20)
    store, done = Store(url), threading.Event()

    def write():
        while not done.is_set():
            sessions.create(store, PROJECT, submission("review again"))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            to = tmp_path / f"{number}.db"
            assert back_up(url, to).sessions >= 20
            with opened(to) as copy:
                # A session and its first row are one transaction.
                orphans = "SELECT count(*) FROM session WHERE id NOT IN (SELECT session_id FROM ledger)"
                assert copy.execute(orphans).fetchone() == (0,)
    finally:
        done.set()
        writer.join()
        store.close()


@pytest.mark.postgresql
def test_a_shared_database_is_backed_up_by_its_own_program_which_is_named(postgresql_url, tmp_path):
    secret = postgresql_url.set(password="s3cret", drivername="postgresql+psycopg")  # noqa: S106 - must not be shown
    with pytest.raises(UsageError, match="backed up with pg_dump") as refused:
        back_up(secret, tmp_path / "first.dump")
    assert refused.value.remedy.startswith(f"pg_dump --format=custom --file={tmp_path / 'first.dump'} postgresql://")
    assert "s3cret" not in refused.value.remedy
    assert not Path(tmp_path / "first.dump").exists()
