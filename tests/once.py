"""What is the same in every test and is come by once: definitions, tools, and the shape of a new database."""

from __future__ import annotations

from functools import cache

from sqlalchemy import create_engine, text

from esper_agents.agents import registry as agents
from esper_agents.agents.definition import load_definition
from esper_agents.storage import migrate
from esper_agents.storage.tables import HEAD
from esper_agents.tools import registry as tools

_plain_upgrade, _plain_tools = migrate.upgrade, tools._ours


def know(monkeypatch):
    """Let all of it be found as it was found before: most of the time of a small session goes there."""

    def known(path, *, namespace=""):
        return _definition(path, path.stat().st_ctime_ns, namespace)

    monkeypatch.setattr(agents, "load_definition", known)
    monkeypatch.setattr(tools, "_ours", _tools)
    monkeypatch.setattr(migrate, "upgrade", upgrade)


@cache
def _definition(path, _changed_ns, namespace):
    return load_definition(path, namespace=namespace)


@cache
def _tools():
    return tuple(_plain_tools())


def upgrade(connection):
    """Bring a database to its newest shape; a new SQLite file gets what migrations made of another one."""
    if connection.dialect.name != "sqlite" or migrate.version(connection):
        _plain_upgrade(connection)
        return
    for statement in _shape():
        connection.exec_driver_sql(statement)
    connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})


@cache
def _shape():
    """Return the statements that make a migrated SQLite file."""
    engine = create_engine("sqlite://")
    with engine.connect() as connection, connection.begin():
        _plain_upgrade(connection)
        tables = connection.exec_driver_sql("PRAGMA table_list").all()
        made = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE sql <> '' ORDER BY rowid").all()
    engine.dispose()
    # What belongs to a virtual table comes with it.
    hidden = {each.name for each in tables if each.type == "shadow"}
    return tuple(sql for name, sql in made if name not in hidden)
