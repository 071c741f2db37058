"""How long memory takes to answer: recall for an agent with 100,000 facts, lists and searches among a million notes.

The notes are made up in bulk, a tenth of them for each of ten agents; those of the first are all current. Half of the
files that they speak of are there, so that whether facts still hold is found out as in a session. Each kind of
question is asked with drawn names; p95 counts: of CPU, of this process and of the server's that answers it, so that
other work on the machine falls on none of it; of wall time where the server is on another machine. Beside it stand
the server's share and wall time. Every figure is printed with its aim, and with MISSED where it is not met; the exit
code is then 1. What an earlier run has filled is asked again as it is.

    python benchmarks/memory.py [--rows 1000000] [--draws 60] [--database sqlite|postgresql|URL] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import sys
import tempfile
import time
from bisect import bisect_left
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import databases
from databases import Question
from sqlalchemy import URL, make_url, text

from esper_agents.domain.memory import MemoryNote, NoteKind, NoteState, SourceDigest
from esper_agents.memory import notes
from esper_agents.memory.contradictions import contradicted
from esper_agents.memory.freshness import FileCache
from esper_agents.memory.recall import recall
from esper_agents.memory.search import search
from esper_agents.memory.words import index_words, path_key
from esper_agents.storage.store import Store, timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PROJECT, SESSION = "bulk-0123456789ab", f"ses_{0:032x}"
RECALL_MS, LIST_MS = 20.0, 25.0
AT_ONCE = 20_000
BEGAN_MS = 1_700_000_000_000
AGENTS = [f"agent-{number}" for number in range(10)]
KINDS = {NoteKind.WORKING: 40, NoteKind.DECISION: 20, NoteKind.ACTION: 40}
PAST = {
    NoteKind.WORKING: NoteState.SUPERSEDED,
    NoteKind.DECISION: NoteState.SUPERSEDED,
    NoteKind.ACTION: NoteState.DONE,
}
FILES = [f"src/part_{number % 20}/file_{number}.py" for number in range(600)]
CONTENT = b"x = 1\n" * 2_000
SHA256 = sha256(CONTENT).hexdigest()
_WORDS = list(accumulate(1 / (rank + 1) for rank in range(50_000)))


def word(chance: random.Random) -> str:
    """Return a word: few of them come often, most of them hardly ever."""
    return f"word{bisect_left(_WORDS, chance.random() * _WORDS[-1])}"


def identifier(number: int) -> str:
    """Return the identifier of a note: in order, and with an end like a drawn one."""
    return f"mem_{number:012x}{sha256(str(number).encode()).hexdigest()[:20]}"


def made_up(number: int) -> MemoryNote:
    """Return one note."""
    chance = random.Random(number)  # noqa: S311 - a design, not a secret
    agent = AGENTS[number % len(AGENTS)]
    kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
    is_current = agent == AGENTS[0] or chance.random() < 0.5
    status = chance.choice(("APPROVED", "REQUIRES_REMEDIATION", "CONDITIONALLY_APPROVED"))
    said = " ".join(word(chance) for _ in range(25))
    beginning = "" if kind is NoteKind.ACTION else f"component_{number // 10}: {status}. "
    sources = {FILES[int(len(FILES) * chance.random() ** 2)] for _ in range(chance.choice((1, 1, 2, 5)))}
    return MemoryNote(
        id=identifier(number),
        agent=agent,
        kind=kind,
        state=NoteState.CURRENT if is_current else PAST[kind],
        subject=f"verdict:component_{number // 10}",
        text=f"{beginning}finding {said}",
        command="esper submit --rerun latest" if kind is NoteKind.ACTION else "",
        session="",
        certificate=f"crt_{number // 5:032x}",
        commit="",
        sources=tuple(SourceDigest(source, SHA256) for source in sorted(sources)),
        written_at=timestamp(BEGAN_MS + number * 60_000),
    )


COLUMNS = {
    "note": "id project_key agent kind state subject text command session_id certificate_id revision sources written_at"
    " author",
    "note_file": "path note_id sha256",
    "note_text": "id words",
}


def rows(first: int, last: int) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of notes from one number to before another."""
    made: dict[str, list[tuple[Any, ...]]] = {name: [] for name in COLUMNS}
    for each in map(made_up, range(first, last)):
        sources = json.dumps([{"path": file.path, "sha256": file.sha256} for file in each.sources])
        made["note"].append(
            (
                *(each.id, PROJECT, each.agent, str(each.kind), str(each.state), each.subject, each.text, each.command),
                *(None, each.certificate, "", sources, each.written_at, ""),
            )
        )
        if each.state is NoteState.CURRENT:
            made["note_file"] += [(path_key(file.path), each.id, file.sha256) for file in each.sources]
        made["note_text"].append((each.id, index_words(PROJECT, each)))
    return made


def fill_sqlite(file: str, total: int) -> None:
    """Write the notes: rows first, indexes in the end."""
    with sqlite3.connect(file, isolation_level=None) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("PRAGMA cache_size=-400000")
        later = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name LIKE 'note%'"
        ).fetchall()
        connection.execute("BEGIN")
        for name, _ in later:
            connection.execute(f"DROP INDEX {name}")
        begin(connection.execute)
        for first in range(1, total + 1, AT_ONCE):
            for table, given in rows(first, min(first + AT_ONCE, total + 1)).items():
                names = COLUMNS[table].split()
                values = [(name, " ".join(words)) for name, words in given] if table == "note_text" else given
                places = ",".join("?" * len(names))
                connection.executemany(f"INSERT INTO {table} ({','.join(names)}) VALUES ({places})", values)  # noqa: S608 - names of ours
        for _, made_by in later:
            connection.execute(made_by)
        connection.execute("COMMIT")
    connection.close()


def fill_postgresql(url: URL, total: int) -> None:
    """Write the notes by COPY."""
    import psycopg

    target = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(target, options=databases.SEARCH_PATH) as connection, databases.filling(connection, *COLUMNS):
        begin(lambda statement, given: connection.execute(statement.replace("?", "%s"), given))
        connection.execute("CREATE TEMP TABLE said (id text, words text[])")
        for first in range(1, total + 1, AT_ONCE):
            for table, given in rows(first, min(first + AT_ONCE, total + 1)).items():
                target = "said (id, words)" if table == "note_text" else f"{table} ({','.join(COLUMNS[table].split())})"
                with connection.cursor().copy(f"COPY {target} FROM STDIN") as copy:
                    for each in given:
                        copy.write_row(each)
        connection.execute("INSERT INTO note_text SELECT id, array_to_tsvector(words) FROM said")


def begin(execute: Callable[[str, tuple[Any, ...]], object]) -> None:
    """Write the project that all notes belong to."""
    now = timestamp(BEGAN_MS)
    execute("INSERT INTO project (key, root, name, opened_at) VALUES (?, ?, ?, ?)", (PROJECT, "/bulk", "bulk", now))


def questions(store: Store, root: Path, total: int) -> Iterator[Question]:
    """Yield everything that is asked."""

    def told(found: tuple[MemoryNote, ...]) -> tuple[MemoryNote, ...]:
        with store.reading() as connection:
            return contradicted(connection, PROJECT, FileCache(root).told(found))

    def recalled(
        paths: Callable[[random.Random], list[str]], count: int
    ) -> Callable[[random.Random], Sequence[object]]:
        def ask(chance: random.Random) -> Sequence[object]:
            request = " ".join(["please review this finding", *(word(chance) for _ in range(count))])
            return recall(store, PROJECT, AGENTS[0], paths(chance), request=request, root=root)

        return ask

    def listed(**wanted: Any) -> Callable[[random.Random], Sequence[object]]:
        return lambda _: told(notes.listing(store, PROJECT, limit=50, **wanted))

    def searched(count: int, **wanted: Any) -> Callable[[random.Random], Sequence[object]]:
        return lambda chance: told(
            search(store, PROJECT, " ".join(word(chance) for _ in range(count)), limit=20, **wanted)
        )

    current = {"states": (NoteState.CURRENT,)}
    yield Question("recall for the whole project", RECALL_MS, recalled(lambda _: ["."], 6))
    yield Question("recall for a file", RECALL_MS, recalled(lambda chance: [chance.choice(FILES)], 6))
    yield Question("recall for a folder", RECALL_MS, recalled(lambda chance: [f"src/part_{chance.randrange(20)}"], 6))
    yield Question("recall for all folders", RECALL_MS, recalled(lambda _: ["src"], 6))
    yield Question("recall for ten files", RECALL_MS, recalled(lambda chance: chance.sample(FILES, 10), 12))
    yield Question("list the newest", LIST_MS, listed())
    yield Question("list what is current", LIST_MS, listed(**current))
    yield Question("list open actions", LIST_MS, listed(kind=NoteKind.ACTION, **current))
    yield Question("list what an agent keeps", LIST_MS, listed(agent=AGENTS[3]))
    yield Question("list what nobody dropped", LIST_MS, listed(states=(NoteState.DROPPED,)))
    yield Question(
        "find by the end of an identifier",
        LIST_MS,
        lambda chance: [notes.find(store, PROJECT, identifier(chance.randint(1, total))[-12:])],
    )
    yield Question("search a word", LIST_MS, searched(1))
    yield Question("search two words", LIST_MS, searched(2))
    yield Question("search three words", LIST_MS, searched(3, **current))
    yield Question("search a word, agent, current", LIST_MS, searched(1, agent=AGENTS[4], **current))
    yield Question("search the commonest word", LIST_MS, lambda _: told(search(store, PROJECT, "finding", limit=20)))
    yield Question("search a word that nobody said", LIST_MS, lambda _: search(store, PROJECT, "unheard", limit=20))
    yield Question(
        "search a rare word",
        LIST_MS,
        lambda chance: told(search(store, PROJECT, f"word{chance.randint(40_000, 49_999)}", limit=20)),
    )
    yield Question(
        "search by a file",
        LIST_MS,
        lambda chance: told(search(store, PROJECT, "", path=chance.choice(FILES), limit=20)),
    )


def measure(url: URL, folder: Path, given: argparse.Namespace) -> bool:
    """Fill a database, unless it is filled already, ask everything, and return whether all aims are met."""
    root = folder / "project"
    for file in FILES[::2]:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(CONTENT)
    store = Store(url)
    with store.reading() as connection:
        has = connection.scalar(text("SELECT 1 FROM note LIMIT 1"))
    if has is None:
        began = time.perf_counter()
        if url.get_backend_name() == "sqlite":
            fill_sqlite(str(url.database), given.rows)
        else:
            fill_postgresql(url, given.rows)
        print(f"filled in {time.perf_counter() - began:.0f} s")
    if url.get_backend_name() == "sqlite":
        print(f"{Path(str(url.database)).stat().st_size / 1e9:.1f} GB")
    load = os.getloadavg()[0]
    print(f"{url.get_backend_name()}, {given.rows} notes, {given.rows // 10} of one agent, load {load:.1f}, in ms")
    is_met = databases.ask_all(store, questions(store, root, given.rows), given.draws)
    store.close()
    return is_met


def main() -> None:
    """Read the command line, measure, and exit with 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="how many notes")
    parser.add_argument("--draws", type=int, default=60, help="how often each question is asked")
    parser.add_argument(
        "--keep", default="", help="a folder to keep the SQLite file and the files of the project in, for the next time"
    )
    databases.add_option(parser)
    given = parser.parse_args()
    with (
        databases.server_of(given.database) as server,
        tempfile.TemporaryDirectory(prefix="esper-memory-") as folder,
    ):
        file = Path(given.keep or folder, f"memory-{given.rows}.db")
        url = make_url(server) if server else URL.create("sqlite", database=str(file))
        is_met = measure(url, Path(given.keep or folder), given)
    sys.exit(not is_met)


if __name__ == "__main__":
    main()
