from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import URL, text
from storage_samples import PROJECT, submission

from esper_agents.errors import NewerDatabaseError, StorageError
from esper_agents.storage import maintenance, migrate, sessions
from esper_agents.storage.engine import WRITES, open_engine
from esper_agents.storage.schema_names import HEAD
from esper_agents.storage.store import Store

SINCE_THE_FIRST = [f"{number:04}" for number in range(2, int(HEAD) + 1)]


def set_version(url, version):
    engine = open_engine(url)
    with engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        connection.execute(text("UPDATE alembic_version SET version_num = :version"), {"version": version})
    engine.dispose()


def fill(url, count):
    store = Store(url)
    for number in range(count):
        sessions.create(store, PROJECT, submission(f"review {number}"))
    store.close()


def shaped(url, revision):
    """Bring an empty database to an older shape."""
    from alembic.config import Config

    from alembic import command
    from esper_agents.paths import data_folder

    engine = open_engine(url)
    if url.get_backend_name() == "sqlite":
        Path(url.database).parent.mkdir(exist_ok=True)
    with engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        config = Config()
        config.set_main_option("script_location", str(data_folder("alembic")))
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()


def test_the_state_of_a_database_says_what_is_in_it(database):
    fill(database, 3)
    store = Store(database)
    sessions.enqueue(store, PROJECT, submission())
    store.close()
    found = maintenance.status(database)
    assert (found.system, found.shape, found.pending) == (database.get_backend_name(), HEAD, ())
    assert (found.sessions, found.queued, found.certificates, found.log_entries, found.notes) == (4, 1, 0, 0, 0)
    assert found.size_bytes > 0
    assert "wal" in found.journal


def test_looking_makes_no_database_and_changes_none(empty_database):
    found = maintenance.status(empty_database)
    assert (found.exists, found.shape, found.sessions) == (False, "", None)
    assert [each.partition("_")[0] for each in found.pending][-1] == HEAD
    if empty_database.get_backend_name() == "sqlite":
        assert not Path(empty_database.database).exists()
    assert not maintenance.status(empty_database).exists


def test_a_database_of_an_older_shape_is_told_and_left_as_it_is(empty_database):
    shaped(empty_database, "0001")
    found = maintenance.status(empty_database)
    assert (found.exists, found.shape, found.sessions, found.log_entries, found.queued) == (True, "0001", 0, None, None)
    assert [each[:4] for each in found.pending] == SINCE_THE_FIRST
    assert maintenance.status(empty_database).shape == "0001"


def test_an_upgrade_says_what_it_ran_and_a_second_one_has_nothing_to_do(empty_database):
    shaped(empty_database, "0001")
    done = maintenance.upgrade(empty_database)
    assert (done.before, done.after, [migration[:4] for migration in done.migrations]) == (
        "0001",
        HEAD,
        SINCE_THE_FIRST,
    )
    Store(empty_database).close()
    assert maintenance.upgrade(empty_database) == maintenance.Upgraded(HEAD, HEAD, ())


def test_an_empty_database_can_be_brought_to_its_shape_before_anybody_uses_it(empty_database):
    assert maintenance.upgrade(empty_database).before == ""
    assert maintenance.status(empty_database).shape == HEAD


@pytest.mark.postgresql
def test_only_an_upgrade_that_was_asked_for_changes_a_shared_database(postgresql_url):
    shaped(postgresql_url, "0002")
    with pytest.raises(StorageError, match="older schema version 0002") as refused:
        Store(postgresql_url)
    assert refused.value.remedy == "esper db upgrade"
    maintenance.upgrade(postgresql_url)
    Store(postgresql_url).close()


def test_a_database_of_a_newer_esper_agents_is_shown_but_not_changed(empty_database):
    Store(empty_database).close()
    set_version(empty_database, "9999")
    found = maintenance.status(empty_database)
    assert (found.is_newer, found.shape, found.pending) == (True, "9999", ())
    with pytest.raises(NewerDatabaseError, match="has schema version 9999, this esper-agents supports up to"):
        maintenance.upgrade(empty_database)
    assert maintenance.status(empty_database).shape == "9999"


def test_an_upgrade_that_fails_leaves_the_shape_that_was_there(empty_database, monkeypatch):
    shaped(empty_database, "0001")
    plain = migrate.upgrade

    def broken(connection):
        plain(connection)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(migrate, "upgrade", broken)
    with pytest.raises(StorageError, match="No space left"):
        maintenance.upgrade(empty_database)
    assert maintenance.status(empty_database).shape == "0001"


def test_a_vacuum_gives_room_back_and_keeps_what_is_there(database):
    store = Store(database)
    for _ in range(40):
        sessions.create(store, PROJECT, submission("review this " + 4000 * "x"))
    with store.writing() as transaction:
        transaction.connection.execute(text("DELETE FROM ledger"))
    store.close()
    done = maintenance.vacuum(database)
    assert maintenance.status(database).sessions == 40
    if database.get_backend_name() == "sqlite":
        # A server keeps the room for rows to come.
        assert done.after_bytes < done.before_bytes - 40 * 4000


def test_sessions_are_found_by_their_words_after_a_vacuum(database):
    fill(database, 8)
    maintenance.vacuum(database)
    store = Store(database)
    (found,) = sessions.search(store, PROJECT.key, "review 5")
    store.close()
    assert found.request == "review 5"


def test_a_file_that_is_no_database_is_told_in_two_lines(tmp_path):
    file = tmp_path / "esper.db"
    file.write_bytes(b"not a database at all, but long enough to be looked at" * 100)
    with pytest.raises(StorageError, match="is damaged or not a database"):
        maintenance.status(URL.create("sqlite", database=str(file)))


def test_a_database_with_an_odd_name_is_looked_at_under_it(tmp_path):
    file = tmp_path / "a b?c#d%20" / "esper.db"
    url = URL.create("sqlite", database=str(file))
    fill(url, 2)
    assert maintenance.status(url).sessions == 2


def test_looking_does_not_wait_for_a_writer(database):
    if database.get_backend_name() != "sqlite":
        pytest.skip("only an SQLite file has one writer")
    fill(database, 1)
    with closing(sqlite3.connect(database.database, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert maintenance.status(database).sessions == 1
