"""How long the archive takes to answer at a million certificates: lists, filters, files, ends of identifiers, words.

The certificates are made up in bulk, with every row that finds them; the newest have a real record with 20 findings,
which is read again for each hit of a search. Each kind of question is asked with drawn names; p95 counts: of CPU, of
this process and of the server's that answers it, so that other work on the machine falls on none of it; of wall time
where the server is on another machine. Beside it stand the server's share and wall time. Every figure is printed with
its aim, and with MISSED where it is not met; the exit code is then 1. What an earlier run has filled is asked again as
it is.

    python benchmarks/archive.py [--rows 1000000] [--draws 60] [--database sqlite|postgresql|URL] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import sys
import tempfile
import time
from bisect import bisect_left
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import databases
from databases import Question
from sqlalchemy import URL, make_url, text

from esper_agents.archive import store as archive
from esper_agents.archive.search.filters import Filter
from esper_agents.archive.search.search import search
from esper_agents.archive.search.tokens import words_of
from esper_agents.archive.search_index import ending_word
from esper_agents.archive.trends import trend
from esper_agents.certificates.statement import statement
from esper_agents.domain.status import QuestionType, Status
from esper_agents.storage.store import Store, timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from certificate_samples import certificate, finding  # type: ignore[import-not-found] # the samples of the tests

PROJECT, SESSION = "bulk-0123456789ab", f"ses_{0:032x}"
LIST_MS, SEARCH_MS = 20.0, 25.0
REAL = 2_000
AT_ONCE = 20_000
BEGAN_MS = 1_700_000_000_000
STATUSES = {Status.APPROVED: 60, Status.CONDITIONALLY_APPROVED: 20, Status.REQUIRES_REMEDIATION: 15, Status.REJECTED: 4}
AGENTS = [f"agent-{number}" for number in range(12)]
METRICS = ("findings.critical", "findings.warning", "findings.suggestion", "examined.files")
RARE_METRIC = "torch-compare/verdict.speedup.estimate"
Columns = dict[str, list[tuple[Any, ...]]]


class Names:
    """Draws names as they come in the world: few of them often, most of them hardly ever."""

    def __init__(self, form: str, count: int) -> None:
        self._form = form
        self._weights = list(accumulate(1 / (rank + 1) for rank in range(count)))

    def draw(self, chance: random.Random) -> str:
        """Return one name."""
        return self._form.format(bisect_left(self._weights, chance.random() * self._weights[-1]))


COMPONENTS, FILES = Names("component_{}", 20_000), Names("src/part/file_{}.py", 5_000)
RULES, WORDS = Names("ESP{}", 80), Names("word{}", 50_000)


def identifier(number: int) -> str:
    """Return the identifier of a certificate: in order, and with an end like a drawn one."""
    return f"crt_{number:012x}{sha256(str(number).encode()).hexdigest()[:20]}"


def commit(number: int) -> str:
    """Return a commit; five certificates have the same."""
    return sha256(f"commit {number // 5}".encode()).hexdigest()[:40]


def issued_at(number: int) -> str:
    """Return when a certificate was issued: one a minute, not quite in order."""
    return timestamp(BEGAN_MS + number * 60_000 + number * 7919 % 300_000)


def rows(first: int, last: int, total: int, real: bytes) -> Columns:
    """Return all rows of certificates from one number to before another."""
    made: Columns = {name: [] for name in COLUMNS}
    for number in range(first, last):
        chance = random.Random(number)  # noqa: S311 - a design, not a secret
        status = chance.choices(list(STATUSES), list(STATUSES.values()))[0]
        if number % 200_000 == 77:
            status = Status.EMERGENCY_STOP
        data = real if number > total - REAL else b"{}"
        agent, component = chance.choice(AGENTS), COMPONENTS.draw(chance)
        said = [WORDS.draw(chance) for _ in range(24)]
        row: tuple[Any, ...] = (
            number,
            identifier(number),
            SESSION,
            PROJECT,
            issued_at(number),
            agent,
            str(QuestionType.APPROVAL),
            str(status),
        )
        row += (str(status), "review", component, " ".join(said[:8]), commit(number), f"view_{number}.md")
        made["certificate"].append((*row, sha256(data).hexdigest(), data))
        made["certificate_file"] += [(each, number) for each in sorted({FILES.draw(chance) for _ in range(3)})]
        made["certificate_rule"] += [(each, number) for each in sorted({RULES.draw(chance) for _ in range(2)})]
        made["certificate_metric"] += [(name, number, "", float(chance.randrange(9))) for name in METRICS]
        if number % 1_000 == 0:
            made["certificate_metric"].append((RARE_METRIC, number, f"ev_{number:032x}", 1 + chance.random()))
        words = " ".join(chain(said, words_of(f"{agent} {component}"), ("finding", ending_word(identifier(number)))))
        made["certificate_text"].append((number, words))
    return made


COLUMNS = {
    "certificate": "position id session_id project_key issued_at agent kind status ceiling descriptor component request"
    " revision view_name sha256 statement",
    "certificate_file": "path position",
    "certificate_rule": "rule position",
    "certificate_metric": "name position evidence_id amount",
    "certificate_text": "rowid words",
}


def fill_sqlite(file: str, total: int, real: bytes) -> None:
    """Write the archive: the rows that a query goes through, and in the end its indexes."""
    with sqlite3.connect(file, isolation_level=None) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("PRAGMA cache_size=-400000")
        later = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name LIKE 'certif%'"
        ).fetchall()
        connection.execute("BEGIN")
        for name, _ in later:
            connection.execute(f"DROP INDEX {name}")
        begin(connection.execute)
        for first in range(1, total + 1, AT_ONCE):
            for table, given in rows(first, min(first + AT_ONCE, total + 1), total, real).items():
                names = COLUMNS[table].split()
                places = ",".join("?" * len(names))
                connection.executemany(f"INSERT INTO {table} ({','.join(names)}) VALUES ({places})", given)  # noqa: S608 - names of ours
        for _, made_by in later:
            connection.execute(made_by)
        connection.execute("COMMIT")
    connection.close()


def fill_postgresql(url: URL, total: int, real: bytes) -> None:
    """Write the archive by COPY."""
    import psycopg

    target = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(target, options=databases.SEARCH_PATH) as connection, databases.filling(connection, *COLUMNS):
        begin(lambda statement, given: connection.execute(statement.replace("?", "%s"), given))
        connection.execute("CREATE TEMP TABLE said (position bigint, words text)")
        for first in range(1, total + 1, AT_ONCE):
            for table, given in rows(first, min(first + AT_ONCE, total + 1), total, real).items():
                names = ",".join(COLUMNS[table].split())
                target = "said (position, words)" if table == "certificate_text" else f"{table} ({names})"
                with connection.cursor().copy(f"COPY {target} FROM STDIN") as copy:
                    for each in given:
                        copy.write_row(each)
        connection.execute("INSERT INTO certificate_text SELECT position, to_tsvector('simple', words) FROM said")


def begin(execute: Callable[[str, tuple[Any, ...]], object]) -> None:
    """Write the project and the one session that all certificates are said to come from."""
    now = issued_at(0)
    execute("INSERT INTO project (key, root, name, opened_at) VALUES (?, ?, ?, ?)", (PROJECT, "/bulk", "bulk", now))
    execute(
        "INSERT INTO session (id, project_key, request, created_at, state, agent, certificate_id, changed_at, owner,"
        " fence, expires_ms, attempts, cancel_requested) VALUES (?, ?, '', ?, 'done', '', '', ?, '', 1, 0, 1, ?)",
        (SESSION, PROJECT, now, now, False),
    )


def questions(store: Store, total: int) -> Iterator[Question]:
    """Yield everything that is asked."""

    def listed(wanted: Callable[[random.Random], Filter], *, before: bool = False) -> Callable[..., Sequence[object]]:
        def ask(chance: random.Random) -> Sequence[object]:
            start = identifier(chance.randint(1, total)) if before else ""
            return archive.listing(store, PROJECT, wanted=wanted(chance), before=start, limit=20)

        return ask

    def some(chance: random.Random) -> int:
        return chance.randint(1, total)

    def one_status(chance: random.Random) -> tuple[Status]:
        return (chance.choice(list(STATUSES)),)

    filters: dict[str, Callable[[random.Random], Filter]] = {
        "newest": lambda _: Filter(),
        "status": lambda chance: Filter(statuses=one_status(chance)),
        "rare status": lambda _: Filter(statuses=(Status.EMERGENCY_STOP,)),
        "two statuses": lambda chance: Filter(statuses=(*one_status(chance), Status.EMERGENCY_STOP)),
        "agent": lambda chance: Filter(agent=chance.choice(AGENTS)),
        "component": lambda chance: Filter(component=COMPONENTS.draw(chance)),
        "commit": lambda chance: Filter(commit=commit(some(chance))[:10]),
        "rule": lambda chance: Filter(rule=RULES.draw(chance)),
        "file": lambda chance: Filter(path=FILES.draw(chance)),
        "file that nobody read": lambda _: Filter(path="nowhere.py"),
        "agent, status": lambda chance: Filter(agent=chance.choice(AGENTS), statuses=one_status(chance)),
        "component, agent, status": lambda chance: Filter(
            component=COMPONENTS.draw(chance), agent=chance.choice(AGENTS), statuses=one_status(chance)
        ),
        "file, rule, status": lambda chance: Filter(
            path=FILES.draw(chance), rule=RULES.draw(chance), statuses=one_status(chance)
        ),
        "since": lambda chance: Filter(since=issued_at(some(chance))),
        "until": lambda chance: Filter(until=issued_at(some(chance))),
        "a week": lambda chance: week(some(chance)),
        "a week, component": lambda chance: replace(week(some(chance)), component=COMPONENTS.draw(chance)),
        "until, agent, status": lambda chance: Filter(
            until=issued_at(some(chance)), agent=chance.choice(AGENTS), statuses=one_status(chance)
        ),
    }
    for name, wanted in filters.items():
        yield Question(f"list by {name}", LIST_MS, listed(wanted))
    yield Question("list from anywhere on", LIST_MS, listed(filters["newest"], before=True))
    yield Question("list by file from anywhere on", LIST_MS, listed(filters["file"], before=True))
    yield Question(
        "find by the end of an identifier",
        LIST_MS,
        lambda chance: [archive.find(store, PROJECT, identifier(some(chance))[-12:])],
    )
    for metric in (METRICS[0], RARE_METRIC):
        yield Question(f"trend of {metric}", LIST_MS, partial(follow, store, metric))
    yield from searches(store)


def searches(store: Store) -> Iterator[Question]:
    """Yield what is asked of the full text."""

    def words(count: int) -> Callable[[random.Random], Filter]:
        return lambda chance: Filter(words=" ".join(WORDS.draw(chance) for _ in range(count)))

    wanted: dict[str, Callable[[random.Random], Filter]] = {
        "a word": words(1),
        "the commonest word": lambda _: Filter(words="finding"),
        "two words": words(2),
        "three words": words(3),
        "a word in a hundred": lambda _: Filter(words="word20"),
        "a rare word": lambda chance: Filter(words=f"word{chance.randint(40_000, 49_999)}"),
        "a word that nobody said": lambda _: Filter(words="unheard"),
        "two words in a row": lambda _: Filter(words="agent-3 finding"),
        "a word, agent": lambda chance: replace(words(1)(chance), agent=chance.choice(AGENTS)),
        "a common word, component": lambda chance: Filter(words="finding", component=COMPONENTS.draw(chance)),
        "a common word, rare status": lambda _: Filter(words="finding", statuses=(Status.EMERGENCY_STOP,)),
    }
    for name, each in wanted.items():
        yield Question(f"search {name}", SEARCH_MS, partial(look, store, each))


def follow(store: Store, metric: str, _: random.Random) -> Sequence[object]:
    """Follow one number over the newest certificates that have it."""
    return trend(store, PROJECT, metric, Filter(), limit=20)


def look(store: Store, wanted: Callable[[random.Random], Filter], chance: random.Random) -> Sequence[object]:
    """Search for drawn words."""
    return search(store, PROJECT, wanted(chance), limit=20)


def week(number: int) -> Filter:
    """Return a filter for a week."""
    return Filter(since=issued_at(number), until=issued_at(number + 7 * 24 * 60))


def measure(url: URL, given: argparse.Namespace) -> bool:
    """Fill a database, unless it is filled already, ask everything, and return whether all aims are met."""
    store = Store(url)
    with store.reading() as connection:
        has = connection.scalar(text("SELECT max(position) FROM certificate"))
    if has is None:
        began = time.perf_counter()
        real = statement(certificate(findings=tuple(finding(number) for number in range(1, 21))))
        if url.get_backend_name() == "sqlite":
            fill_sqlite(str(url.database), given.rows, real)
        else:
            fill_postgresql(url, given.rows, real)
        print(f"filled in {time.perf_counter() - began:.0f} s")
    if url.get_backend_name() == "sqlite":
        print(f"{Path(str(url.database)).stat().st_size / 1e9:.1f} GB")
    print(f"{url.get_backend_name()}, {given.rows} certificates, load {os.getloadavg()[0]:.1f}, in ms")
    is_met = databases.ask_all(store, questions(store, given.rows), given.draws)
    store.close()
    return is_met


def main() -> None:
    """Read the command line, measure, and exit with 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="how many certificates")
    parser.add_argument("--draws", type=int, default=60, help="how often each question is asked")
    parser.add_argument("--keep", default="", help="a folder to keep the SQLite archive in, for the next time")
    databases.add_option(parser)
    given = parser.parse_args()
    with (
        databases.server_of(given.database) as server,
        tempfile.TemporaryDirectory(prefix="esper-archive-") as folder,
    ):
        file = Path(given.keep or folder, f"archive-{given.rows}.db")
        is_met = measure(make_url(server) if server else URL.create("sqlite", database=str(file)), given)
    sys.exit(not is_met)


if __name__ == "__main__":
    main()
