"""What is the same in every test and is come by once: definitions, the router, tools, and the shape of a database."""

from __future__ import annotations

from functools import cache, lru_cache

from sqlalchemy import create_engine, text

from esper_agents.agents import registry as agents
from esper_agents.agents import router
from esper_agents.agents.definition import load_definition
from esper_agents.storage import migrate
from esper_agents.storage.schema_names import HEAD
from esper_agents.tools import pytest_process
from esper_agents.tools import registry as tools

# What pytest plugins of our own environment take to load is four times what a toy project's tests take.
_PLUGINS = ("anyio", "hypothesispytest", "langsmith_plugin", "platformdirs", "timeout", "xdist", "xdist.looponfail")
_OPTIONS = (*pytest_process._OPTIONS, *(word for plugin in _PLUGINS for word in ("-p", f"no:{plugin}")))
_plain_upgrade, _plain_tools, _plain_router = migrate.upgrade, tools._ours, router.Router


def know(monkeypatch):
    """Let all of it be found as it was found before: most of the time of a small session goes there."""
    for module, name, known in _KNOWN:
        monkeypatch.setattr(module, name, known)


def keep():
    """Do as `know`, for the rest of this process."""
    for module, name, known in _KNOWN:
        setattr(module, name, known)


def _known_definition(path, *, namespace=""):
    return _definition(path, path.stat().st_ctime_ns, namespace)


@cache
def _definition(path, _changed_ns, namespace):
    return load_definition(path, namespace=namespace)


@cache
def _tools():
    return tuple(_plain_tools())


@lru_cache(maxsize=32)
def _router_among(known):
    return _plain_router(known)


def _router(known, *, taught=None):
    return _router_among(tuple(known)) if taught is None else _plain_router(known, taught=taught)


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
    hidden = {table.name for table in tables if table.type == "shadow"}
    return tuple(sql for name, sql in made if name not in hidden)


_KNOWN = (
    (agents, "load_definition", _known_definition),
    (router, "Router", _router),
    (pytest_process, "_OPTIONS", _OPTIONS),
    (tools, "_ours", _tools),
    (migrate, "upgrade", upgrade),
)
