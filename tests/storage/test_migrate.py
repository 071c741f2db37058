from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from once import know
from sqlalchemy import URL, inspect, text

from esper_agents.errors import NewerDatabaseError, StorageError
from esper_agents.paths import data_folder
from esper_agents.storage import migrate
from esper_agents.storage.engine import WRITES, open_engine
from esper_agents.storage.schema_names import FULL_TEXTS, HEAD
from esper_agents.storage.store import Store
from esper_agents.storage.tables import metadata


@pytest.fixture
def known_once():
    """Run every migration."""


def config(connection):
    from alembic.config import Config

    made = Config()
    made.set_main_option("script_location", str(data_folder("alembic")))
    made.attributes["connection"] = connection
    return made


@pytest.fixture
def engine(empty_database):
    Store(empty_database).close()
    opened = open_engine(empty_database)
    yield opened
    opened.dispose()


def test_an_empty_database_gets_every_table(engine):
    with engine.connect() as connection:
        found = set(inspect(connection).get_table_names())
        assert set(FULL_TEXTS) <= found
        assert {each for each in found if not each.startswith(FULL_TEXTS)} == {*metadata.tables, "alembic_version"}
        assert migrate.version(connection) == HEAD


def test_the_tables_are_what_the_migrations_make(engine):
    from alembic import command

    with engine.connect().execution_options(**{WRITES: True}) as connection:
        command.check(config(connection))


def dumped(file):
    """Return the lines of what is in a database; constraints of a table that was made anew stand in any order."""
    with closing(sqlite3.connect(file)) as opened:
        return sorted("\n".join(opened.iterdump()).replace(",\n", "\n").replace(", \n", "\n").split("\n"))


def test_the_copy_that_other_tests_begin_with_is_what_the_migrations_make(tmp_path, monkeypatch):
    made, copied = tmp_path / "made.db", tmp_path / "copied.db"
    Store(URL.create("sqlite", database=str(made))).close()
    know(monkeypatch)
    Store(URL.create("sqlite", database=str(copied))).close()
    assert dumped(copied) == dumped(made)


def test_head_names_the_newest_migration():
    from alembic.script import ScriptDirectory

    assert ScriptDirectory(str(data_folder("alembic"))).get_heads() == [HEAD]


def test_a_database_in_its_newest_shape_is_left_alone(engine, empty_database, monkeypatch):
    def untouched(_connection):
        raise AssertionError("it was migrated again")

    monkeypatch.setattr(migrate, "upgrade", untouched)
    Store(empty_database).close()


OPEN = """
import sys
from sqlalchemy import make_url
from esper_agents.storage.store import Store
from alembic import command

print("ready", flush=True)
sys.stdin.readline()
Store(make_url(sys.argv[1])).close()
"""


@pytest.mark.sample(1)
def test_processes_that_start_at_once_on_an_empty_database_wait_for_one_another(empty_database):
    url = empty_database.render_as_string(hide_password=False)
    started = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", OPEN, url], stdin=-1, stdout=-1, stderr=-1, text=True)
        for _ in range(4)
    ]
    assert [each.stdout.readline() for each in started] == ["ready\n"] * 4
    for each in started:
        each.stdin.write("go\n")
        each.stdin.flush()
    said = [each.communicate() for each in started]
    assert [each.returncode for each in started] == [0] * 4, said
    engine = open_engine(empty_database)
    with engine.connect() as connection:
        assert migrate.version(connection) == HEAD
        assert connection.scalar(text("SELECT count(*) FROM alembic_version")) == 1
    engine.dispose()


def test_an_archive_that_appears_between_two_questions_is_not_taken_for_an_earlier_one(empty_database, monkeypatch):
    if empty_database.get_backend_name() == "sqlite":
        pytest.skip("a file has no schemas")
    engine = open_engine(empty_database)
    plain, asked = migrate.version, []

    def version(connection):
        asked.append(found := plain(connection))
        if len(asked) == 1:
            Store(empty_database).close()
        return found

    monkeypatch.setattr(migrate, "version", version)
    migrate.ensure_schema(engine)
    engine.dispose()
    assert (asked[0], asked[-1]) == ("", HEAD)


def test_while_one_migrates_the_others_wait_and_then_have_nothing_to_do(empty_database, monkeypatch):
    plain, entered, second = migrate.upgrade, [], threading.Event()

    def slow(connection):
        entered.append(connection)
        if len(entered) > 1:
            second.set()
        second.wait(0.5)
        plain(connection)

    monkeypatch.setattr(migrate, "upgrade", slow)
    threads = [threading.Thread(target=lambda: Store(empty_database).close()) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(entered) == 1


def set_version(engine, version):
    with engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        connection.execute(text("UPDATE alembic_version SET version_num = :version"), {"version": version})


def test_a_database_of_a_newer_esper_agents_is_refused_and_left_alone(engine, empty_database):
    set_version(engine, "9999")
    with pytest.raises(NewerDatabaseError, match="schema version 9999, this esper-agents supports up to") as refused:
        Store(empty_database)
    assert refused.value.remedy == "pip install --upgrade esper-agents"
    with engine.connect() as connection:
        assert migrate.version(connection) == "9999"


@pytest.mark.postgresql
def test_an_older_shared_database_is_not_changed_without_being_asked(postgresql_url):
    Store(postgresql_url).close()
    engine = open_engine(postgresql_url)
    set_version(engine, "0000")
    with pytest.raises(StorageError, match="older schema version 0000") as refused:
        Store(postgresql_url)
    assert refused.value.remedy == "esper db upgrade"
    engine.dispose()


def test_a_migration_that_fails_leaves_nothing_behind(empty_database, monkeypatch):
    plain = migrate.upgrade

    def broken(connection):
        plain(connection)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(migrate, "upgrade", broken)
    with pytest.raises(StorageError, match="No space left"):
        Store(empty_database)
    engine = open_engine(empty_database)
    with engine.connect() as connection:
        assert inspect(connection).get_table_names() == []
    engine.dispose()
    monkeypatch.setattr(migrate, "upgrade", plain)
    Store(empty_database).close()


def test_foreign_keys_hold(engine):
    from sqlalchemy.exc import IntegrityError

    from esper_agents.storage.tables import ledger

    row = {
        "session_id": "ses_none",
        "frame": 0,
        "step": 0,
        "call": 0,
        "kind": "submitted",
        "fence": 1,
        "at": "",
        "body": "",
    }
    with (
        pytest.raises(IntegrityError),
        engine.connect().execution_options(**{WRITES: True}) as connection,
        connection.begin(),
    ):
        connection.execute(ledger.insert().values(**row))


@pytest.mark.slow
@pytest.mark.sample(1)
def test_alembic_upgrades_a_shared_database_by_itself(empty_database, monkeypatch):
    command = [sys.executable, "-m", "alembic", "upgrade", "head"]
    root = data_folder("alembic").parent
    monkeypatch.setenv("ESPER_DATABASE_URL", empty_database.render_as_string(hide_password=False))
    if empty_database.get_backend_name() == "sqlite":
        from pathlib import Path

        Path(empty_database.database).parent.mkdir()
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    engine = open_engine(empty_database)
    with engine.connect() as connection:
        assert migrate.version(connection) == HEAD
    engine.dispose()
