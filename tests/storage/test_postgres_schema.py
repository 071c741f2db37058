"""The program's own schema on PostgreSQL: archives move into it, other applications stay as they are."""

from __future__ import annotations

import asyncio
import os

import pytest
from judged import FAULTY, judge
from sqlalchemy import text

from esper_agents.api import database_status, open_project, upgrade_database
from esper_agents.archive.search.filters import Filter
from esper_agents.errors import ExitCode, NewerDatabaseError, StorageError
from esper_agents.storage import migrate
from esper_agents.storage.engine import open_engine
from esper_agents.storage.maintenance import status, upgrade, vacuum
from esper_agents.storage.postgres_schema import MOVED
from esper_agents.storage.schema_names import FULL_TEXTS, HEAD
from esper_agents.storage.store import Store
from esper_agents.storage.tables import metadata

pytestmark = pytest.mark.postgresql
OWN = {*metadata.tables, *FULL_TEXTS, "alembic_version"}


def do(url, *statements):
    engine = open_engine(url)
    with engine.begin() as connection:
        found = [connection.execute(text(statement)) for statement in statements]
        rows = [tuple(row) for row in found[-1]] if found and found[-1].returns_rows else []
    engine.dispose()
    return rows


def tables(url, schema):
    return {name for (name,) in do(url, f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}'")}  # noqa: S608


def put_into_public(url):
    """Leave an archive as earlier versions created it: all tables in `public`, and no schema of its own."""
    moves = [f"ALTER TABLE esper.{table} SET SCHEMA public" for table in sorted(tables(url, "esper"))]
    do(url, *moves, "DROP SCHEMA esper")


@pytest.fixture
def shared(postgresql_url, monkeypatch):
    monkeypatch.setenv("ESPER_DATABASE_URL", postgresql_url.render_as_string(hide_password=False))
    return postgresql_url


def test_a_new_archive_is_in_its_own_schema_and_public_stays_empty(postgresql_url):
    Store(postgresql_url).close()
    assert tables(postgresql_url, "esper") == OWN
    assert tables(postgresql_url, "public") == set()
    found = status(postgresql_url)
    assert (found.schema, found.shape, found.pending, found.other_application) == ("esper", HEAD, (), "")


def test_an_archive_in_public_is_refused_until_the_upgrade_moves_it_with_all_its_rows(shared, make_project):
    root = make_project({"train.py": FAULTY})
    issued = judge(root)
    put_into_public(shared)
    with pytest.raises(StorageError, match="still in schema 'public'") as refused:
        Store(shared)
    assert refused.value.remedy == "esper db upgrade"
    before = database_status(root)
    assert (before.schema, before.shape, before.certificates, before.pending) == ("public", HEAD, 1, ())
    done = upgrade_database(root)
    assert (done.moved, done.before, done.migrations) == (len(OWN), HEAD, ())
    assert tables(shared, "esper") == OWN

    async def verified():
        async with open_project(root) as project:
            found = await project.certificates.verify_all()
            again = await project.certificates.search(Filter(words="gradients"))
            return found, [hit.entry.id for hit in again]

    found, hits = asyncio.run(verified())
    assert found.exit_code is ExitCode.DONE
    assert hits == [issued.id]
    assert judge(root).id != issued.id, "sequences moved, too"
    assert upgrade_database(root).moved == 0


def test_an_older_archive_in_public_is_moved_and_migrated_at_once(postgresql_url):
    from alembic.config import Config

    from alembic import command
    from esper_agents.paths import data_folder

    do(postgresql_url, "CREATE SCHEMA esper")
    engine = open_engine(postgresql_url)
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(data_folder("alembic")))
        config.attributes["connection"] = connection
        command.upgrade(config, "0003")
    engine.dispose()
    put_into_public(postgresql_url)
    assert status(postgresql_url).shape == "0003"
    assert status(postgresql_url).pending == migrate.pending("0003")
    done = upgrade(postgresql_url)
    assert done.before == "0003"
    assert done.moved
    assert tables(postgresql_url, "esper") == OWN
    Store(postgresql_url).close()


def test_an_earlier_version_does_not_begin_a_second_archive_in_public(postgresql_url):
    """It compares the version in `public` with the newest one that it knows, and refuses a greater one."""
    Store(postgresql_url).close()
    put_into_public(postgresql_url)
    upgrade(postgresql_url)
    assert tables(postgresql_url, "public") == {"alembic_version"}
    ((version,),) = do(postgresql_url, "SELECT version_num FROM public.alembic_version")
    assert version == MOVED
    with pytest.raises(NewerDatabaseError):
        migrate._refuse_newer(version)
    assert status(postgresql_url).other_application == ""


def test_another_alembic_application_in_public_is_left_untouched_and_named(postgresql_url):
    theirs = (
        "CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)",
        "INSERT INTO alembic_version VALUES ('ae1027a6acf')",
        "CREATE TABLE project (id int, title text)",
        "INSERT INTO project VALUES (1, 'theirs')",
    )
    do(postgresql_url, "SET LOCAL search_path = public", *theirs)
    assert status(postgresql_url).other_application == "ae1027a6acf"
    upgrade(postgresql_url)
    Store(postgresql_url).close()
    assert upgrade(postgresql_url).moved == 0
    assert vacuum(postgresql_url).after_bytes
    assert tables(postgresql_url, "public") == {"alembic_version", "project"}
    assert do(postgresql_url, "SELECT * FROM public.project") == [(1, "theirs")]
    assert do(postgresql_url, "SELECT * FROM public.alembic_version") == [("ae1027a6acf",)]
    assert status(postgresql_url).other_application == "ae1027a6acf"


def test_another_application_whose_versions_look_like_ours_is_left_untouched(postgresql_url):
    do(
        postgresql_url,
        "SET LOCAL search_path = public",
        "CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)",
        "INSERT INTO alembic_version VALUES ('0004')",
        "CREATE TABLE session (id int)",
    )
    assert upgrade(postgresql_url).moved == 0
    assert tables(postgresql_url, "public") == {"alembic_version", "session"}


def test_a_schema_of_the_same_name_that_belongs_to_another_application_is_refused(postgresql_url):
    do(
        postgresql_url,
        "CREATE SCHEMA esper",
        "CREATE TABLE esper.alembic_version (version_num VARCHAR(32) PRIMARY KEY)",
        "INSERT INTO esper.alembic_version VALUES ('ae1027a6acf')",
    )
    for run in (Store, upgrade, status):
        with pytest.raises(StorageError, match="another Alembic application, at version 'ae1027a6acf'") as refused:
            run(postgresql_url)
        assert "ESPER_DATABASE_URL" in refused.value.remedy
    assert tables(postgresql_url, "esper") == {"alembic_version"}


def test_a_move_that_fails_halfway_changes_nothing(postgresql_url):
    Store(postgresql_url).close()
    put_into_public(postgresql_url)
    # A table of the same name in the way: the last moves fail.
    do(postgresql_url, "CREATE SCHEMA esper", "CREATE TABLE esper.session (id int)")
    with pytest.raises(StorageError):
        upgrade(postgresql_url)
    assert tables(postgresql_url, "public") == OWN
    assert tables(postgresql_url, "esper") == {"session"}


def test_the_status_and_the_upgrade_of_the_command_name_the_move(shared, make_project, monkeypatch):
    from command_line import build
    from typer.testing import CliRunner

    monkeypatch.chdir(make_project())
    Store(shared).close()
    put_into_public(shared)
    said = CliRunner().invoke(build(), ["db", "status"]).output
    assert "public" in said
    assert "esper db upgrade" in said
    said = CliRunner().invoke(build(), ["db", "upgrade"]).output
    assert f"{len(OWN)} tables from schema public to esper" in said
    assert os.environ["ESPER_DATABASE_URL"]
