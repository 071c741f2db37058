"""What a PostgreSQL server refuses, in our words: a real server, its own messages, never the password."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import pytest
from command_line import build
from sqlalchemy import create_engine, make_url, text
from typer.testing import CliRunner

from esper_agents.errors import ExitCode, StorageError
from esper_agents.storage.database_url import display_name
from esper_agents.storage.store import Store

pytestmark = pytest.mark.postgresql
SECRET = "correct-horse-battery"  # noqa: S105 - made for these tests


def do(url, *statements):
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        found = [connection.execute(text(statement)) for statement in statements]
        rows = found[-1].fetchall() if found[-1].returns_rows else []
    engine.dispose()
    return rows


@pytest.fixture
def guarded(postgresql_url, postgresql_server):
    """Return the URL of a database for a role that must give its password."""
    if os.environ.get("ESPER_TEST_PG_DSN"):
        pytest.skip("a server of somebody else keeps its own pg_hba.conf: wrong passwords were NOT tested")
    role = f"guarded_{uuid4().hex[:12]}"
    ((hba,),) = do(postgresql_server, "SHOW hba_file")
    before = Path(hba).read_text()
    Path(hba).write_text(f"local all {role} scram-sha-256\nlocal all barred_{role} reject\n{before}")
    do(postgresql_server, f"CREATE ROLE {role} LOGIN PASSWORD '{SECRET}'", "SELECT pg_reload_conf()")
    yield make_url(postgresql_url).set(username=role, password=SECRET)
    do(postgresql_url, f"DROP OWNED BY {role}")
    do(postgresql_server, f"DROP ROLE {role}", "SELECT pg_reload_conf()")
    Path(hba).write_text(before)
    do(postgresql_server, "SELECT pg_reload_conf()")


def refusal(url) -> StorageError:
    with pytest.raises(StorageError) as caught:
        Store(url)
    assert SECRET not in caught.value.problem + caught.value.remedy
    assert caught.value.exit_code == ExitCode.FAILED
    assert "\n" not in caught.value.problem
    return caught.value


@pytest.mark.parametrize(
    ("changed", "problem", "remedy"),
    [
        ({"password": "wrong"}, 'authentication failed for user "{role}"', "correct the user or the password"),
        ({"password": None}, "the server requires a password and none was given", "put one in ESPER_DATABASE_URL"),
        ({"username": "barred_{role}"}, 'user "barred_{role}"', "correct"),
        ({"username": "absent_role", "password": None}, 'no role "absent_role"', "create the role"),
        ({"database": "absent_db"}, 'the server has no database "absent_db"', "createdb"),
    ],
)
def test_who_or_what_the_server_refuses_is_named(guarded, changed, problem, remedy, monkeypatch):
    monkeypatch.setenv("PGPASSFILE", "/nonexistent")
    role = guarded.username
    filled = {name: each and each.format(role=role) for name, each in changed.items()}
    error = refusal(guarded._replace(**filled))
    assert problem.format(role=role) in error.problem
    assert remedy in error.remedy
    assert "cannot be reached" not in error.problem


def test_a_user_without_permission_is_told_which(guarded):
    error = refusal(guarded)
    assert f"permission denied for database {guarded.database}" in error.problem
    assert guarded.username in error.problem
    assert "esper db grant" in error.remedy


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql://me:{0}@nosuchhost.invalid/db", "the host is unknown"),
        ("postgresql://me:{0}@127.0.0.1:1/db", "no server accepts connections at this host and port"),
        ("postgresql://me:{0}@localhost:1/db", "no server accepts connections at this host and port"),
        ("postgresql://me@/db?host=/nonexistent&password={0}", "no server accepts connections at this host and port"),
    ],
)
def test_a_server_that_is_not_there_is_said_without_the_password(url, problem):
    assert problem in refusal(make_url(url.format(SECRET))).problem


def test_no_password_of_a_url_is_shown():
    url = make_url(f"postgresql://me:{SECRET}@host/db?password={SECRET}&sslpassword={SECRET}&sslmode=require")
    assert display_name(url) == "postgresql://me:***@host/db?sslmode=require"


def test_the_command_says_it_in_two_lines(guarded, project, monkeypatch):
    url = guarded.set(password="wrong")  # noqa: S106 - it is not the password
    monkeypatch.setenv("ESPER_DATABASE_URL", url.render_as_string(hide_password=False))
    monkeypatch.chdir(project)
    done = CliRunner().invoke(build(), ["sessions", "list"])
    assert isinstance(done.exception, StorageError)
    said = CliRunner().invoke(build(), ["doctor"]).output
    assert "authentication failed" in said
    assert "wrong" not in said.replace("wrong:", "")
