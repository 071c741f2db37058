"""What issuing a certificate costs, by the size of the archive and by the number of processes that issue at once.

Size: real reviews of one file are concluded, and their certificates issued and published as always, in turn in an
archive of few and in one of many certificates, so that other work on the machine falls on both alike. The archives are
filled in bulk: certificates with all rows that find them, their entries in the log, two notes for each, and a file in
the folder that they are published in. The sessions and ledgers of those certificates are not made up. What is timed
begins when a session has concluded and ends when its files are published: one durable transaction, and the files.

Writers: processes that are forked prepare concluded sessions, begin at once, and issue without a pause; all in one
project, or each in a project of its own (with PostgreSQL in one database).

Every figure is printed with its aim, and with MISSED where it is not met; the exit code is then 1.

    python benchmarks/issuing.py [--rows 1000,1000000] [--issues 200] [--writers 1,8,32] [--each 8]
        [--only size|writers] [--database sqlite|postgresql|URL]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

import archive as bulk
import databases
from sqlalchemy import update

from esper_agents.api import open_project
from esper_agents.certificates.log import merkle, pins, transparency_log
from esper_agents.certificates.log.block_tree import BLOCK, BlockTree
from esper_agents.certificates.log.note import Checkpoint, signed_checkpoint
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.views.file_names import component_of
from esper_agents.domain.memory import MemoryNote, NoteKind, NoteState, SourceDigest
from esper_agents.errors import ExitCode
from esper_agents.git.find_project import find_project
from esper_agents.memory.words import index_words, path_key
from esper_agents.orchestration import certify as certifying
from esper_agents.orchestration.graph import build_graph
from esper_agents.paths import PUBLISHED, project_home
from esper_agents.storage.database_url import DatabaseUrl, SqliteUrl, database_url
from esper_agents.storage.store import Store
from esper_agents.storage.tables import project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from esper_agents.api.project import OpenProject
    from esper_agents.orchestration.graph import Graph
    from esper_agents.orchestration.session_run import SessionRun

P95_MS, RATIO = 50.0, 1.2
AGENT, FILE = "pytorch-code-reviewer", "src/train.py"
SOURCE = """import torch


def train(model, loader, optimizer, loss_fn):
    total = 0.0
    for x, y in loader:
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total
"""
AUTHOR = ("-c", "user.name=Benchmark", "-c", "user.email=benchmark@example.org")
Rows = dict[str, list[tuple[Any, ...]]]


@dataclass
class Place:
    """A project with an archive.

    Attributes:
        root: The project's folder.
        server: The URL of a PostgreSQL database; empty for SQLite.
    """

    root: Path
    server: str

    def make(self) -> None:
        """Make the project, under git."""
        (self.root / FILE).parent.mkdir(parents=True)
        (self.root / FILE).write_text(SOURCE)
        for arguments in (("init", "-q"), ("add", "-A"), (*AUTHOR, "commit", "-qm", "first")):
            subprocess.run(["git", "-C", str(self.root), *arguments], check=True)

    def point(self) -> None:
        """Have the program use this project's database."""
        if self.server:
            os.environ["ESPER_DATABASE_URL"] = self.server
        else:
            os.environ.pop("ESPER_DATABASE_URL", None)

    @cached_property
    def key(self) -> str:
        """The project's key; git is asked for it."""
        return find_project([self.root], self.root).key

    @property
    def url(self) -> DatabaseUrl:
        """The database."""
        self.point()
        return database_url(project_home(self.key) / "esper.db")


def note_rows(first: int, last: int, total: int, key: str, newest: dict[str, int]) -> Rows:
    """Return the notes of certificates from one number to before another: the newest of each component is current."""
    made: Rows = {"note": [], "note_file": [], "note_text": []}
    for number in range(first, last):
        component = component_at(number)
        state = NoteState.CURRENT if newest[component] == number else NoteState.SUPERSEDED
        for kind, subject in ((NoteKind.WORKING, "verdict"), (NoteKind.DECISION, "decision")):
            note = MemoryNote(
                id=f"mem_{bulk.identifier(number)[4:32]}{len(made['note']) % 2:04x}",
                agent=AGENT,
                kind=kind,
                state=state,
                subject=f"{subject}:{component}",
                text=f"{component}: APPROVED at {bulk.issued_at(number)} of {total}, seldom{number % 1000}",
                command="",
                session="",
                certificate=bulk.identifier(number),
                commit="",
                sources=(SourceDigest(FILE if component == reviewed() else f"{component}.py", "0" * 64),),
                written_at=bulk.issued_at(number),
            )
            sources = json.dumps([{"path": source.path, "sha256": source.sha256} for source in note.sources])
            made["note"].append(
                (
                    *(note.id, key, AGENT, str(kind), str(state), note.subject, note.text, ""),
                    *(None, note.certificate, "", sources, note.written_at, ""),
                )
            )
            if state is NoteState.CURRENT:
                made["note_file"] += [(path_key(source.path), note.id, source.sha256) for source in note.sources]
            made["note_text"].append((note.id, index_words(key, note)))
    return made


def component_at(number: int) -> str:
    """Return what a made-up certificate is about; often it is the file that is reviewed here."""
    drawn = bulk.COMPONENTS.draw(Random(number))  # noqa: S311 - a design, not a secret
    return reviewed() if drawn == "component_0" else drawn


def reviewed() -> str:
    """Return the component of the file that is reviewed."""
    return component_of([FILE])


NOTE_COLUMNS = {
    "note": "id project_key agent kind state subject text command session_id certificate_id revision sources written_at"
    " author",
    "note_file": "path note_id sha256",
    "note_text": "id words",
}
# The number of a log of its own, which no project of version 0.1.0 has.
LOG = transparency_log.SHARED + 1
LOG_COLUMNS = {
    "log_entry": "log_id idx record_id kind project_key about at key_id signature leaf_hash statement",
    "log_node": "log_id level idx hash",
}


def fill(place: Place, total: int) -> None:
    """Fill the archive of a project in bulk, its log and its memory, sign and pin the log, and fill the folder."""
    url = place.url
    store = Store(url)
    where = str(store.where)
    store.close()
    bulk.PROJECT = place.key
    (bulk.fill_postgresql if place.server else bulk.fill_sqlite)(*_target(url), total, b"{}")
    key, origin = signing_key(_home()), f"urn:uuid:{uuid5(NAMESPACE_URL, place.key)}"
    tree = BlockTree()
    with _writer(url) as write:
        newest = {component_at(number): number for number in range(1, total + 1)}
        for first in range(1, total + 1, bulk.AT_ONCE):
            made = note_rows(first, min(first + bulk.AT_ONCE, total + 1), total, place.key, newest)
            for table, rows in made.items():
                write(table, NOTE_COLUMNS[table], rows)
        at = bulk.issued_at(0)
        for first in range(0, total, BLOCK):
            numbers = range(first, min(first + BLOCK, total))
            leaves = [merkle.leaf_hash(b"%d" % each) for each in numbers]
            named = [bulk.identifier(each + 1) for each in numbers]
            entries = [
                (LOG, number, name, "certificate", place.key, name, at, key.key_id, bytes(64), leaf, b"")
                for number, name, leaf in zip(numbers, named, leaves, strict=True)
            ]
            nodes = [(LOG, 0, number, leaf) for number, leaf in zip(numbers, leaves, strict=True)]
            for run in tree.add(leaves):
                nodes += [(LOG, run.level, each, found) for each, found in enumerate(run.hashes, run.first)]
            write("log_entry", LOG_COLUMNS["log_entry"], entries)
            write("log_node", LOG_COLUMNS["log_node"], nodes)
        note = signed_checkpoint(Checkpoint(origin, total, merkle.root(total, tree.read)), key)
        write("log", "id origin created_at", [(LOG, origin, at)])
        write("log_checkpoint", "log_id size note at", [(LOG, total, note, at)])
    store = Store(url)
    with store.writing() as transaction:
        transaction.connection.execute(update(project).where(project.c.key == place.key).values(log_id=LOG))
    store.close()
    pins.accept(_home(), where, place.key, note)
    folder = place.root / PUBLISHED / AGENT / "certificates"
    folder.mkdir(parents=True)
    for number in range(1, total + 1):
        os.close(os.open(folder / f"view_{number}.md", os.O_CREAT | os.O_WRONLY, 0o644))


def _home() -> Path:
    return Path(os.environ["ESPER_HOME"])


def _target(url: DatabaseUrl) -> tuple[Any]:
    return (str(url.database) if url.get_backend_name() == "sqlite" else url,)


@contextmanager
def _writer(url: DatabaseUrl) -> Iterator[Callable[[str, str, list[tuple[Any, ...]]], None]]:
    """Yield what writes rows of a table in bulk; indexes of notes are made in the end."""
    if url.get_backend_name() == "sqlite":
        with sqlite3.connect(str(url.database), isolation_level=None) as file:
            # Pages in the order of random names would be written many times with a cache smaller than the database.
            for pragma in ("synchronous=OFF", "cache_size=-6000000"):
                file.execute(f"PRAGMA {pragma}")
            file.execute("BEGIN")

            def insert(table: str, names: str, rows: list[tuple[Any, ...]]) -> None:
                if table == "note_text":
                    rows = [(name, " ".join(words)) for name, words in rows]
                columns = names.split()
                places = ",".join("?" * len(columns))
                file.executemany(f"INSERT INTO {table} ({','.join(columns)}) VALUES ({places})", rows)  # noqa: S608 - names of ours

            yield insert
            file.execute("COMMIT")
        file.close()
        return
    import psycopg

    assert not isinstance(url, SqliteUrl)
    target = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with (
        psycopg.connect(target, options=databases.SEARCH_PATH) as connection,
        databases.filling(connection, *NOTE_COLUMNS, *LOG_COLUMNS),
    ):
        connection.execute("CREATE TEMP TABLE said (id text, words text[])")

        def copy(table: str, names: str, rows: list[tuple[Any, ...]]) -> None:
            into = "said (id, words)" if table == "note_text" else f"{table} ({','.join(names.split())})"
            with connection.cursor().copy(f"COPY {into} FROM STDIN") as stream:
                for row in rows:
                    stream.write_row(row)

        yield copy
        connection.execute("INSERT INTO note_text SELECT id, array_to_tsvector(words) FROM said")


@dataclass
class Timer:
    """Issues certificates in place of the graph's last node, one after another, and notes what each took.

    Attributes:
        wall_ms: Wall time of each.
        cpu_ms: CPU time of each, of this process and of its PostgreSQL server process.
        go: Set when issuing may begin.
        expected: How many sessions are to conclude first.
        waiting: How many have concluded.
        all_wait: Set when as many have as are expected.
        one: Held while a certificate is issued.
    """

    wall_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    expected: int = 0
    waiting: int = 0
    all_wait: asyncio.Event = field(default_factory=asyncio.Event)
    one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self, run: SessionRun) -> None:
        """Issue and publish the certificate of a session."""
        self.waiting += 1
        if self.waiting == self.expected:
            self.all_wait.set()
        await self.go.wait()
        async with self.one:
            clock = databases.clock_of(run.services.store.store).ms
            cpu, wall = clock(), time.perf_counter()
            await certifying.certify(run)
            self.wall_ms.append((time.perf_counter() - wall) * 1000)
            self.cpu_ms.append(clock() - cpu)


async def issue(opened: OpenProject, graph: Graph) -> None:
    """Review the file in a session, up to its certificate."""
    session = await opened.tasks.submit(
        opened.tasks.create("review this training code", [opened.root / FILE], agent=AGENT)
    )
    session._graph = graph  # noqa: SLF001 - the same graph, whose last node is timed
    await session.run()


async def by_size(places: dict[int, Place], issues: int) -> dict[int, Timer]:
    """Issue certificates in archives of several sizes in turn, and return what each took."""
    timers = {size: Timer() for size in places}
    graphs = {size: build_graph(end=timer) for size, timer in timers.items()}
    async with AsyncExitStack() as stack:
        opened = {}
        for size, place in places.items():
            place.point()
            opened[size] = await stack.enter_async_context(open_project(place.root))
            timers[size].go.set()
        for number in range(issues + 5):
            order = list(places) if number % 2 else list(reversed(places))
            for size in order:
                await issue(opened[size], graphs[size])
    for timer in timers.values():
        # The first ones compile statements and fill caches.
        timer.wall_ms, timer.cpu_ms = timer.wall_ms[5:], timer.cpu_ms[5:]
    return timers


def measure_sizes(server: str, folder: Path, sizes: list[int], issues: int) -> bool:
    """Fill archives, print what issuing takes in each, and return whether all aims are met."""
    places = {}
    for size in sizes:
        own = folder / f"size-{size}"
        own.mkdir()
        databases.create(server, own)
        places[size] = Place(own / "project", databases.database_of(server, own))
        places[size].make()
        began = time.perf_counter()
        fill(places[size], size)
        print(f"archive of {size} certificates filled in {time.perf_counter() - began:.0f} s", flush=True)
    timers = asyncio.run(by_size(places, issues))
    base = p95(timers[sizes[0]].wall_ms), p95(timers[sizes[0]].cpu_ms)
    met = True
    print(
        f"{'certificates':>14}{'p50 ms':>10}{'p95 ms':>10}{'CPU p50':>10}{'CPU p95':>10}{'ratio p95':>11}{'of CPU':>8}"
    )
    for size, timer in timers.items():
        wall, cpu = p95(timer.wall_ms), p95(timer.cpu_ms)
        is_met = wall <= P95_MS and wall <= RATIO * base[0]
        met &= is_met
        medians = (
            f"{statistics.median(timer.wall_ms):10.1f}{wall:10.1f}{statistics.median(timer.cpu_ms):10.1f}{cpu:10.1f}"
        )
        said = f"at most {P95_MS:.0f} ms, {RATIO}x: {'met' if is_met else 'MISSED'}"
        print(f"{size:14}{medians}{wall / base[0]:11.2f}{cpu / base[1]:8.2f}   {said}", flush=True)
    for place in places:
        databases.drop(server, folder / f"size-{place}")
    return met


def p95(took: list[float]) -> float:
    """Return the 95th percentile."""
    return statistics.quantiles(took, n=20)[-1]


def write(place: Place, count: int, ready: int, begin: int) -> dict[str, float]:
    """Conclude sessions, say so, wait for the others, issue the certificates, and return when that began and ended."""

    async def run() -> dict[str, float]:
        timer = Timer(expected=count)
        async with open_project(place.root) as opened:
            tasks = [asyncio.create_task(issue(opened, build_graph(end=timer))) for _ in range(count)]
            concluded = asyncio.create_task(timer.all_wait.wait())
            await asyncio.wait({concluded, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            os.write(ready, b"r")
            await asyncio.get_running_loop().run_in_executor(None, os.read, begin, 1)
            began = time.monotonic()
            timer.go.set()
            await asyncio.gather(*tasks)
            return {"began": began, "ended": time.monotonic(), "worst_ms": max(timer.wall_ms)}

    place.point()
    return asyncio.run(run())


def at_once(places: list[Place], count: int, results: Path) -> tuple[float, float]:
    """Return certificates a second of as many processes as places, and the longest that one took in milliseconds."""
    ready, begin = os.pipe(), os.pipe()
    children = []
    for number, place in enumerate(places):
        child = os.fork()
        if not child:
            try:
                (results / str(number)).write_text(json.dumps(write(place, count, ready[1], begin[0])))
            finally:
                os._exit(not (results / str(number)).exists())
        children.append(child)
    for _ in children:
        os.read(ready[0], 1)
    os.write(begin[1], b"g" * len(children))
    if any(os.waitpid(each, 0)[1] for each in children):
        raise SystemExit("a writer failed")
    found = [json.loads((results / str(each)).read_text()) for each in range(len(places))]
    took_s = max(each["ended"] for each in found) - min(each["began"] for each in found)
    return len(places) * count / took_s, max(each["worst_ms"] for each in found)


def measure_writers(server: str, folder: Path, writers: list[int], count: int) -> bool:
    """Print certificates a second by the number of processes, in one project and in many, and verify what they made."""
    print(f"{'writers':>10}{'projects':>10}{'certificates/s':>16}{'longest ms':>12}{'faults':>8}")
    met = True
    for number in writers:
        for projects in sorted({1, number}):
            own = folder / f"writers-{number}-{projects}"
            own.mkdir()
            databases.create(server, own)
            made = [Place(own / f"project-{each}", databases.database_of(server, own)) for each in range(projects)]
            for each in made:
                each.make()
                # The schema is made before, as whoever sets up a shared database does.
                Store(each.url).close()
            results = own / "results"
            results.mkdir()
            rate, longest = at_once([made[each % projects] for each in range(number)], count, results)
            faults = sum(_faults(each) for each in made)
            met &= not faults
            print(f"{number:10}{projects:10}{rate:16.1f}{longest:12.0f}{faults:8}", flush=True)
            databases.drop(server, own)
    return met


def _faults(place: Place) -> int:
    """Return how many faults `certificates verify --all` finds in a project, in a process of its own."""
    esper = str(Path(sys.executable).with_name("esper"))
    place.point()
    command = [esper, "certificates", "verify", "--all", "--json", "--project", str(place.root)]
    said = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
    wrong = sum(each["exit_code"] == ExitCode.TAMPERED for each in said["certificates"])
    return int(wrong + len(said["log"]["faults"]))


def main() -> None:
    """Read the command line, measure, print, and exit with 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000,1000000", help="sizes of archives, the first of which is compared with")
    parser.add_argument("--issues", type=int, default=200, help="certificates issued in each")
    parser.add_argument("--writers", default="1,8,32", help="numbers of processes")
    parser.add_argument("--each", type=int, default=8, help="certificates that each process issues")
    parser.add_argument("--only", choices=("size", "writers"), help="measure one of the two")
    databases.add_option(parser)
    given = parser.parse_args()
    met = True
    with databases.server_of(given.database) as server, tempfile.TemporaryDirectory(prefix="esper-issuing-") as name:
        os.environ["ESPER_HOME"] = str(Path(name) / "home")
        if given.only != "writers":
            met &= measure_sizes(server, Path(name), [int(each) for each in given.rows.split(",")], given.issues)
        if given.only != "size":
            met &= measure_writers(server, Path(name), [int(each) for each in given.writers.split(",")], given.each)
    print("all met" if met else "MISSED")
    sys.exit(not met)


if __name__ == "__main__":
    main()
