"""What sessions cost: listing and resuming them, what they store for each step, and finding one among a million.

Sessions of 200 and of 2,000 steps are run in this process, with tools that return a few words; one step is a turn with
a tool call, four rows. A thousand copies of the shorter one are listed. It is resumed up to its next move, with the
store, the agents and the playbooks loaded, as in a process that has the project open. A million more are made up in
bulk for lists and searches. CPU counts, of this process and of the server's that answers it; wall time where the
server is on another machine. Every figure is printed with its aim, and with MISSED where it is not met; the exit code
is then 1.

    python benchmarks/sessions.py [--rows 1000000] [--draws 60] [--database sqlite|postgresql|URL]
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import databases
from sessions_made_up import fill_postgresql, fill_sqlite, questions
from sessions_steps import PAYLOAD, TURNS, opening
from sqlalchemy import URL, make_url, text

from esper_agents.domain.session import SessionState
from esper_agents.orchestration import drift
from esper_agents.orchestration.frame_start import reasoner_of
from esper_agents.orchestration.session_projection import SessionProjection
from esper_agents.orchestration.session_run import SessionRun
from esper_agents.storage import lease, ledger, sessions
from esper_agents.storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from esper_agents.api import OpenProject
    from esper_agents.storage.lease import Lease

LISTING_MS, RESUME_MS, FIND_MS = 5.0, 15.0, 25.0
SLOPE, STEP_BYTES = 1.05, 1_500
SHORT, LONG, LISTED = 200, 2_000, 1_000


@dataclass(frozen=True, slots=True)
class Stored:
    """What one session takes.

    Attributes:
        session: Its identifier.
        ledger: Bytes of its rows.
        payload: Those of them that tools were given and returned.
        whole: Bytes by which the database grew, its certificate, log and full text among them.
    """

    session: str
    ledger: int
    payload: int
    whole: int


async def run(opened: OpenProject, steps: int) -> Stored:
    """Run a session of so many steps to its end, and return what it takes."""
    before = size(opened)
    task = opened.tasks.create("review this", [opened.root / "train.py"], agent="benchmark-chief")
    outcome = await (await opened.tasks.submit(task)).run()
    assert outcome.state is SessionState.DONE
    with opened.services.store.store.reading() as connection:
        rows = ledger.rows(connection, outcome.session)
    taken = sum(row.key.kind == "called" for row in rows)
    assert taken == steps // TURNS * (TURNS - 1), taken
    payload = sum(len(str(PAYLOAD)) + len('{"number":1}') for row in rows if row.key.kind == "called")
    return Stored(outcome.session, sum(len(row.body.encode()) for row in rows), payload, size(opened) - before)


def size(opened: OpenProject) -> int:
    """Return how many bytes the database takes, without what is free in its file."""
    with opened.services.store.store.reading() as connection:
        if connection.dialect.name == "postgresql":
            return int(connection.scalar(text("SELECT pg_database_size(current_database())")) or 0)
        pages, free, page = (
            int(connection.scalar(text(f"PRAGMA {each}")) or 0)
            for each in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * page


def say(what: str, figure: float, unit: str, aim: float) -> bool:
    """Print a figure with its aim, and return whether it is met."""
    is_met = figure <= aim
    print(f"{what:58}{figure:10.2f} {unit:6} aim {aim:g} {'met' if is_met else 'MISSED'}", flush=True)
    return is_met


def say_both(what: str, took: list[float], aim: float) -> bool:
    """Print the median of some times, and their 95th percentile with its aim, and return whether that is met."""
    print(f"{what + ', median':58}{statistics.median(took):10.2f} ms", flush=True)
    return say(f"{what}, p95", p95(took), "ms", aim)


def p95(took: list[float]) -> float:
    """Return the 95th percentile."""
    return statistics.quantiles(took, n=20)[-1]


def measured(work: Callable[[], object], draws: int, clock: databases.Clock) -> list[float]:
    """Return how long something takes each time, in milliseconds."""
    work()
    took = []
    for _ in range(draws):
        began = clock.ms()
        work()
        took.append(clock.ms() - began)
    return took


def storing(short: Stored, long: Stored) -> Iterator[bool]:
    """Print what steps take, and yield whether the aims are met."""
    slope = math.log(long.ledger / short.ledger) / math.log(LONG / SHORT)
    yield say(f"slope of the ledger's bytes, {SHORT} to {LONG} steps", slope, "", SLOPE)
    whole = math.log(long.whole / short.whole) / math.log(LONG / SHORT)
    yield say("slope of all the database's bytes", whole, "", SLOPE)
    beside = (long.ledger - short.ledger - long.payload + short.payload) / (LONG - SHORT)
    yield say("bytes of a step in the ledger beside its payload", beside, "bytes", STEP_BYTES)
    grown = (long.whole - short.whole) / (LONG - SHORT)
    print(f"{'bytes of a step in all the database, certificate and all':58}{grown:10.2f} bytes  no aim", flush=True)


def copied(store: Store, session_id: str, count: int) -> None:
    """Make so many copies of a session, all its rows among them."""
    with store.writing() as transaction:
        connection = transaction.connection
        columns = list(connection.execute(text("SELECT * FROM session LIMIT 0")).keys())
        values = ", ".join({"id": ":copy"}.get(column, column) for column in columns)
        rows = "session_id, frame, step, call, kind, fence, at, body"
        for number in range(count):
            given = {"copy": f"ses_{number:032x}", "id": session_id}
            connection.execute(text(f"INSERT INTO session SELECT {values} FROM session WHERE id = :id"), given)  # noqa: S608
            connection.execute(
                text(
                    f"INSERT INTO ledger ({rows}) SELECT :copy, {rows.partition(', ')[2]} FROM ledger"  # noqa: S608
                    " WHERE session_id = :id ORDER BY seq"
                ),
                given,
            )


async def resumed(opened: OpenProject, session_id: str) -> Lease:
    """Do what a resume does before its first new step: claim, read, fold, look for drift, decide once more."""
    store = opened.services.store.store
    held = lease.claim(store, session_id)
    with store.reading() as connection:
        rows = ledger.rows(connection, session_id)
    history = SessionProjection(session_id, rows)
    assert not drift.find_drift(opened.services, history)
    run_ = SessionRun(opened.services, held, history, lambda _: None)
    frame = history.current
    assert frame is not None
    await reasoner_of(run_, frame).next_move(frame.settled, lambda _: None)
    return held


async def small(folder: Path, given: argparse.Namespace) -> bool:
    """Measure what is measured on real sessions, and return whether all aims are met."""
    async with opening(folder, LONG) as opened:
        await run(opened, LONG)  # What a database takes at first is none of a session's.
        long = await run(opened, LONG)
    async with opening(folder, SHORT) as opened:
        short = await run(opened, SHORT)
        met = list(storing(short, long))
        store, key = opened.services.store.store, opened.services.project.key
        with store.reading() as connection:
            rows = ledger.rows(connection, short.session)
        begun = sessions.create(store, opened.services.project, SessionProjection(short.session, rows).begun)
        # As where the process was killed before it concluded.
        entries = [(row.key, _Body(row.body)) for row in rows[1:-3]]
        _append_raw(store, begun.session, entries)
        took, clock = [], databases.clock_of(store)
        lease.release(store, begun, SessionState.OPEN)
        for _ in range(given.draws):
            began = clock.ms()
            held = await resumed(opened, begun.session)
            took.append(clock.ms() - began)
            lease.release(store, held, SessionState.OPEN)
        met.append(say_both(f"resume of a session of {SHORT} steps", took, RESUME_MS))
        copied(store, short.session, LISTED)
        ask = partial(sessions.listing, store, key, limit=LISTED)
        assert len(ask()) == LISTED
        met.append(
            say_both(f"listing {LISTED} sessions of {SHORT} steps", measured(ask, given.draws, clock), LISTING_MS)
        )
    return all(met)


@dataclass(frozen=True, slots=True)
class _Body:
    text: str


def _append_raw(store: Store, session_id: str, entries: list[tuple[Any, _Body]]) -> None:
    with store.writing() as transaction:
        for key, body in entries:
            transaction.connection.execute(
                text(
                    "INSERT INTO ledger (session_id, frame, step, call, kind, fence, at, body)"
                    " VALUES (:session, :frame, :step, :call, :kind, 1, :at, :body)"
                ),
                {
                    "session": session_id,
                    "frame": key.frame,
                    "step": key.step,
                    "call": key.call,
                    "kind": str(key.kind),
                    "at": transaction.at,
                    "body": body.text,
                },
            )


def large(url: URL, given: argparse.Namespace) -> bool:
    """Ask a million sessions, and return whether all aims are met."""
    store = Store(url)
    began = time.perf_counter()
    if url.get_backend_name() == "sqlite":
        fill_sqlite(str(url.database), given.rows)
    else:
        fill_postgresql(url.render_as_string(hide_password=False), given.rows)
    print(f"{given.rows} sessions filled in {time.perf_counter() - began:.0f} s", flush=True)
    met, clock = [], databases.clock_of(store)
    for name, ask in questions(store, given.rows):
        chance = random.Random(name)  # noqa: S311 - a design, not a secret
        took = measured(partial(ask, chance), given.draws, clock)
        met.append(say(f"{name}, p95", p95(took), "ms", FIND_MS))
    store.close()
    return all(met)


def main() -> None:
    """Read the command line, measure, and exit with 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="how many made-up sessions")
    parser.add_argument("--draws", type=int, default=60, help="how often each thing is done")
    databases.add_option(parser)
    given = parser.parse_args()
    met = []
    with databases.server_of(given.database) as server, tempfile.TemporaryDirectory(prefix="esper-sessions-") as name:
        folder = Path(name)
        os.environ["ESPER_HOME"] = str(folder / "home")
        print(f"{'PostgreSQL' if server else 'SQLite'}, load {os.getloadavg()[0]:.1f}", flush=True)
        for part in ("small", "large"):
            place = folder / part
            place.mkdir()
            databases.create(server, place)
            url = databases.database_of(server, place)
            if url:
                os.environ["ESPER_DATABASE_URL"] = url
            else:
                os.environ.pop("ESPER_DATABASE_URL", None)
            try:
                if part == "small":
                    met.append(asyncio.run(small(place, given)))
                else:
                    target = make_url(url) if url else URL.create("sqlite", database=str(place / "esper.db"))
                    met.append(large(target, given))
            finally:
                databases.drop(server, place)
    sys.exit(not all(met))


if __name__ == "__main__":
    main()
