"""The roles of a shared database: what each printed set of statements lets a user do, and what not."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest
from command_line import build
from judged import FAULTY, judge
from sqlalchemy import create_engine, text
from sqlalchemy.exc import ProgrammingError
from typer.testing import CliRunner

from esper_agents.api import database_grants, open_project
from esper_agents.domain.database_role import DatabaseRole
from esper_agents.errors import ExitCode, StorageError, UsageError
from esper_agents.storage.engine import open_engine
from esper_agents.storage.maintenance import status, upgrade
from esper_agents.storage.schema_names import HEAD
from esper_agents.storage.store import Store

pytestmark = pytest.mark.postgresql


def do(url, *statements):
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


class Team:
    """A database, its owner, who is no superuser, and further users."""

    def __init__(self, url, monkeypatch):
        self.url, self._monkeypatch, self.users = url, monkeypatch, []
        self.owner = self.user("Owner of all")
        do(url, f'GRANT CREATE ON DATABASE "{url.database}" TO {quoted(self.owner)}')

    def user(self, name):
        made = f"{name} {uuid4().hex[:12]}"
        self.users.append(made)
        do(self.url, f"CREATE ROLE {quoted(made)} LOGIN")
        return made

    def url_of(self, user):
        return self.url.set(username=user)

    def use(self, user):
        self._monkeypatch.setenv("ESPER_DATABASE_URL", self.url_of(user).render_as_string(hide_password=False))

    def grant(self, role, name):
        """Run what `esper db grant` prints, as the owner; an administrator grants the owner's own role."""
        user = self.user(name)
        self.use(self.owner)
        by = self.url if role == "owner" else self.url_of(self.owner)
        do(by, *database_grants(DatabaseRole(role), user))
        return user

    def refused(self, user, statement):
        engine = open_engine(self.url_of(user))
        try:
            with engine.begin() as connection:
                connection.execute(text(statement))
        except ProgrammingError as error:
            return error.orig.sqlstate == "42501"
        finally:
            engine.dispose()
        return False


@pytest.fixture
def team(postgresql_url, postgresql_server, monkeypatch):
    made = Team(postgresql_url, monkeypatch)
    yield made
    for user in made.users:
        do(postgresql_url, f"DROP OWNED BY {quoted(user)} CASCADE")
    for user in made.users:
        do(postgresql_server, f"DROP ROLE {quoted(user)}")


@pytest.fixture
def root(team, make_project):
    """Return a project with one certificate, issued by the owner of the database."""
    made = make_project({"train.py": FAULTY})
    team.use(team.owner)
    judge(made)
    return made


def verified(root):
    async def run():
        async with open_project(root) as project:
            return (await project.certificates.verify_all()).exit_code, len(await project.sessions.list())

    return asyncio.run(run())


CHANGES = (
    "UPDATE ledger SET body = '{}'",
    "DELETE FROM ledger",
    "TRUNCATE ledger CASCADE",
    "UPDATE log_entry SET about = ''",
    "DELETE FROM log_entry",
    "UPDATE log_node SET hash = ''",
    "DELETE FROM log_node",
    "UPDATE log SET origin = 'x'",
    "UPDATE certificate SET statement = ''",
    "DELETE FROM certificate",
    "DELETE FROM session",
    "DELETE FROM note",
    "UPDATE project SET root = '/'",
    "UPDATE alembic_version SET version_num = '0001'",
    "ALTER TABLE ledger ADD COLUMN x int",
    "DROP TABLE ledger",
    "CREATE TABLE esper.other (x int)",
)


def test_a_reader_lists_searches_and_verifies_and_writes_nothing(team, root):
    reader = team.grant("reader", "reader")
    team.use(reader)
    assert verified(root) == (ExitCode.DONE, 1)
    assert status(team.url_of(reader)).certificates == 1
    with pytest.raises(StorageError, match="permission denied") as denied:
        judge(root)
    assert "esper db grant" in denied.value.remedy
    assert [each for each in CHANGES if not team.refused(reader, each)] == []
    assert team.refused(reader, "INSERT INTO project VALUES ('k', 'r', 'n', 't')")


def test_a_worker_runs_whole_sessions_and_the_ledger_and_the_log_stay_append_only(team, root):
    worker = team.grant("worker", "worker")
    team.use(worker)
    judge(root)
    judge(root)
    assert verified(root) == (ExitCode.DONE, 3)
    assert [each for each in CHANGES if not team.refused(worker, each)] == []


def test_a_worker_begins_a_project_and_its_log(team, root, make_project):
    team.use(team.grant("worker", 'wor"ker'))
    other = make_project({"train.py": FAULTY}, name="other")
    judge(other)
    assert verified(other) == (ExitCode.DONE, 1)


def test_an_owner_upgrades_and_the_new_tables_belong_to_the_first_owner(team):
    from alembic.config import Config

    from alembic import command
    from esper_agents.paths import data_folder

    engine = open_engine(team.url_of(team.owner))
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(data_folder("alembic")))
        config.attributes["connection"] = connection
        command.upgrade(config, "0004")
    engine.dispose()
    reader, deputy = team.grant("reader", "reader"), team.grant("owner", "deputy")
    with pytest.raises(StorageError, match="permission denied"):
        upgrade(team.url_of(reader))
    assert upgrade(team.url_of(deputy)).after == HEAD
    engine = create_engine(team.url)
    with engine.connect() as connection:
        owners = set(connection.scalars(text("SELECT tableowner FROM pg_tables WHERE schemaname = 'esper'")))
    engine.dispose()
    assert owners == {team.owner}
    assert status(team.url_of(reader)).shape == HEAD, "a reader may read tables that were added later"


def test_a_user_without_a_role_is_refused_with_the_command_that_grants_one(team):
    Store(team.url_of(team.owner)).close()
    with pytest.raises(StorageError, match="permission denied") as denied:
        Store(team.url_of(team.user("stranger")))
    assert "esper db grant" in denied.value.remedy


def test_the_command_prints_statements_and_runs_none(team, root, monkeypatch):
    monkeypatch.chdir(root)
    stranger = team.user("stranger")
    team.use(team.owner)
    done = CliRunner().invoke(build(), ["db", "grant", "reader", "--to", stranger])
    assert f'GRANT USAGE ON SCHEMA esper TO "{stranger}";' in done.output.splitlines()
    assert team.refused(stranger, "SELECT 1 FROM esper.ledger")


@pytest.mark.parametrize("user", ["", "a\nb", "x" * 64])
def test_a_name_that_no_user_can_have_is_refused(team, root, user):
    with pytest.raises(UsageError, match="invalid user name"):
        database_grants(DatabaseRole.READER, user, root)


def test_a_database_without_an_archive_has_nothing_to_grant(postgresql_url, monkeypatch, project):
    monkeypatch.setenv("ESPER_DATABASE_URL", postgresql_url.render_as_string(hide_password=False))
    with pytest.raises(UsageError, match="no archive in schema 'esper' yet"):
        database_grants(DatabaseRole.READER, "ann", project)


def test_an_sqlite_database_has_no_users(project):
    with pytest.raises(UsageError) as refused:
        database_grants(DatabaseRole.READER, "ann", project)
    assert "ESPER_DATABASE_URL" in refused.value.remedy
