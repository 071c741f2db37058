"""Made-up sessions, written to a database in bulk, and what `sessions.py` asks of them."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Any

import databases

from esper_agents.domain.session import SessionState
from esper_agents.storage import session_search_index, sessions

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from esper_agents.storage.store import Store

PROJECT = "benchmark-0123456789ab"
AGENTS = ("pytorch-expert", "profiler", "nan-debugger", "torch-specialist")


def session_id(number: int) -> str:
    """Return the identifier of a made-up session; later ones sort after earlier ones, and no two end alike."""
    return f"ses_{number:016x}{number * 2654435761 % 2**64:016x}"


def at(number: int) -> str:
    """Return when a made-up session changed: one every ten seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(1_700_000_000 + 10 * number))


def made_up(count: int) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield made-up sessions with the words that they are found by: common ones, rarer ones, rare ones."""
    for number in range(1, count + 1):
        state = "waiting" if number % 50_000 == 0 else "cancelled" if number % 100 == 0 else "done"
        request = f"review this loop often{number % 20} seldom{number % 1_000} rare{number % 100_000}"
        agent = AGENTS[number % len(AGENTS)]
        row = {"id": session_id(number), "request": request, "state": state, "agent": agent, "at": at(number)}
        row["project"] = PROJECT
        yield row, session_search_index.index_words(PROJECT, row["id"], f"{request} {agent} the gradients are cleared")


def fill_sqlite(file: str, count: int) -> None:
    """Fill a migrated SQLite database."""
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA synchronous=OFF")
    with connection:
        connection.execute("INSERT INTO project VALUES (?, '/benchmark', 'benchmark', '2026')", (PROJECT,))
        given = made_up(count)
        while some := [each for _, each in zip(range(50_000), given, strict=False)]:
            connection.executemany(
                "INSERT INTO session (id, project_key, request, created_at, state, agent, certificate_id, changed_at,"
                " owner, fence, expires_ms, attempts, cancel_requested)"
                " VALUES (:id, :project, :request, :at, :state, :agent, '', :at, '', 1, 0, 0, 0)",
                [row for row, _ in some],
            )
            connection.executemany(
                "INSERT INTO ledger (session_id, frame, step, call, kind, fence, at, body)"
                " VALUES (:id, 0, 0, 0, 'submitted', 1, :at, '{}')",
                [row for row, _ in some],
            )
            connection.executemany(
                "INSERT INTO session_text (rowid, id, words)"
                " SELECT (SELECT min(seq) FROM ledger WHERE session_id = ?), ?, ?",
                [(row["id"], row["id"], words) for row, words in some],
            )
        connection.execute("ANALYZE")
    connection.close()


def fill_postgresql(url: str, count: int) -> None:
    """Fill a migrated PostgreSQL database."""
    import psycopg

    with (
        psycopg.connect(url.replace("+psycopg", ""), options=databases.SEARCH_PATH) as connection,
        databases.filling(connection, "session", "session_text"),
    ):
        connection.execute("INSERT INTO project VALUES (%s, '/benchmark', 'benchmark', '2026')", (PROJECT,))
        cursor = connection.cursor()
        columns = (
            "id, project_key, request, created_at, state, agent, certificate_id, changed_at, owner, fence, expires_ms,"
            " attempts, cancel_requested"
        )
        with cursor.copy(f"COPY session ({columns}) FROM STDIN") as copy:
            for row, _ in made_up(count):
                fixed = ("", row["at"], "", 1, 0, 0, False)
                copy.write_row((row["id"], PROJECT, row["request"], row["at"], row["state"], row["agent"], *fixed))
        cursor.execute("CREATE TEMPORARY TABLE words (id TEXT, words TEXT)")
        with cursor.copy("COPY words FROM STDIN") as copy:
            for row, words in made_up(count):
                copy.write_row((row["id"], words))
        cursor.execute("INSERT INTO session_text SELECT id, to_tsvector('simple', words) FROM words ORDER BY id")


def questions(store: Store, rows: int) -> Iterator[tuple[str, Callable[[random.Random], object]]]:
    """Yield what is asked of a million sessions."""

    def listed(**which: Any) -> Callable[[random.Random], object]:
        return lambda _: sessions.listing(store, PROJECT, wanted=sessions.SessionFilter(**which), limit=20)

    def searched(words: Callable[[random.Random], str]) -> Callable[[random.Random], object]:
        return lambda chance: sessions.search(store, PROJECT, words(chance), limit=20)

    yield "list the newest", listed()
    yield "list those that wait", listed(states=(SessionState.WAITING, SessionState.OPEN))
    yield "list an agent's", listed(agent=AGENTS[1])
    yield "list an agent's that were cancelled", listed(agent=AGENTS[0], states=(SessionState.CANCELLED,))
    yield "list nobody's", listed(agent="nobody")
    yield "list what changed of late", listed(since=at(rows - 5))
    yield "list what changed ever", listed(since="2000")
    yield "search what all say", searched(lambda _: "review loop")
    yield "search what one in 20 says", searched(lambda chance: f"often{chance.randrange(20)}")
    yield "search what one in 1,000 says", searched(lambda chance: f"seldom{chance.randrange(1_000)}")
    yield "search what few say", searched(lambda chance: f"rare{chance.randrange(100_000)}")
    yield "search a common word with a rare one", searched(lambda chance: f"review rare{chance.randrange(100_000)}")
    yield "search what nobody says", searched(lambda _: "elephant")
    yield "find by the whole name", lambda chance: sessions.find(store, PROJECT, session_id(chance.randint(1, rows)))
    yield "find by its end", lambda chance: sessions.find(store, PROJECT, session_id(chance.randint(1, rows))[-12:])
    yield "find the latest", lambda _: sessions.find(store, PROJECT, "latest")
