"""Lets processes race for one session, and write to one database at once: one owner, nobody is locked out.

In each race every process asks for the same free session at the same moment, as `esper resume` does. One may get
it; the others must be told that it is busy (exit code 75) within a second. Afterwards processes append rows to
sessions of their own, all to one database. Run it with `python benchmarks/races.py [--database postgresql]
[--races 200] [--json]`; it exits with 1 where a figure is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from crash import fork, make_template, prepared, warm_up
from crash_session import FIRST, PLAYBOOKS, Place
from databases import add_option, drop, server_of

from esper_agents.api import open_project
from esper_agents.domain.ledger import RowKey, RowKind
from esper_agents.domain.session import SessionState
from esper_agents.errors import EsperError
from esper_agents.storage import lease, ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from esper_agents.api import OpenProject, Session
    from esper_agents.storage.store import Store

BUSY_MS, BUSY_CODE = 1000.0, 75


@dataclass(frozen=True, slots=True)
class Racer:
    """A process that does what it is told, one line at a time, and answers each in one line.

    Attributes:
        pid: Its process.
        told: Where it is told.
        answers: Where it answers.
    """

    pid: int
    told: TextIO
    answers: TextIO

    def tell(self, line: str) -> None:
        """Tell it something."""
        self.told.write(f"{line}\n")
        self.told.flush()

    def answer(self) -> dict[str, Any]:
        """Return what it answers."""
        said: dict[str, Any] = json.loads(self.answers.readline() or '{"code": -1, "ms": 0, "trouble": "it ended"}')
        return said


def start(place: Place, others: Sequence[Racer]) -> Racer:
    """Start a racer; it opens the project before its first answer."""
    (to_read, told), (answers, to_write) = os.pipe(), os.pipe()

    def be() -> None:
        # What another racer is told must end when the parent ends it.
        for each in (told, answers, *(file.fileno() for other in others for file in (other.told, other.answers))):
            os.close(each)
        os.environ.update(place.environment)
        with os.fdopen(to_read) as lines, os.fdopen(to_write, "w", buffering=1) as said:
            try:
                asyncio.run(_race(place, lines, said))
            except BaseException:  # noqa: BLE001 - a forked process must not run on into its parent's code
                said.write(json.dumps({"code": -1, "ms": 0, "trouble": traceback.format_exc()}) + "\n")

    pid = fork(be)
    os.close(to_read)
    os.close(to_write)
    return Racer(pid, os.fdopen(told, "w"), os.fdopen(answers))


async def _race(place: Place, lines: TextIO, said: TextIO) -> None:
    async with open_project(place.project, playbooks=PLAYBOOKS, agents=[place.agents]) as opened:
        session: Session | None = None
        said.write(json.dumps({"code": 0, "ms": 0}) + "\n")
        for line in lines:
            what, _, given = line.strip().partition(" ")
            began, code, trouble = time.perf_counter(), 0, ""
            try:
                match what:
                    case "submit":
                        session = await opened.tasks.submit(opened.tasks.create("review this", [], agent=FIRST))
                        trouble = session.id
                    case "take":
                        session = await opened.tasks.resume(given)
                    case "give" if session:
                        _give_back(opened, session)
                    case "write":
                        await _write(opened, int(given))
                    case _:
                        raise AssertionError(line)
            except EsperError as error:
                code, trouble = int(error.exit_code), error.problem
            took_ms = (time.perf_counter() - began) * 1000
            said.write(json.dumps({"code": code, "ms": took_ms, "trouble": trouble}) + "\n")


def _give_back(opened: OpenProject, session: Session) -> None:
    lease.release(opened.services.store.store, session._lease, SessionState.OPEN)  # noqa: SLF001 - only a run gives it back


async def _write(opened: OpenProject, rows: int) -> None:
    session = await opened.tasks.submit(opened.tasks.create("review this", [], agent=FIRST))
    for number in range(rows):
        await opened.services.store.run(partial(_append, session, number))


def _append(session: Session, number: int, store: Store) -> None:
    ledger.append(store, session._lease, [(RowKey(1, number + 1, 0, RowKind.DECIDING), {})])  # noqa: SLF001 - as above


def race(racers: Sequence[Racer], session: str) -> list[dict[str, Any]]:
    """Let all racers ask for a session at once, and give it back; return what each was told."""
    for each in racers:
        each.tell(f"take {session}")
    said = [each.answer() for each in racers]
    for racer, told in zip(racers, said, strict=True):
        if told["code"] == 0:
            racer.tell("give")
            racer.answer()
    return said


def all_at_once(racers: Sequence[Racer], line: str) -> list[dict[str, Any]]:
    """Tell all racers the same and return their answers."""
    for racer in racers:
        racer.tell(line)
    return [racer.answer() for racer in racers]


def measure(given: argparse.Namespace, root: Path, server: str) -> dict[str, Any]:
    """Run all races, then all writers, and return what was counted and measured."""
    template = make_template(root / "template", server)
    warm_up(template, root / "warm")
    place = prepared(root / "races", template)
    racers: list[Racer] = []
    try:
        for _ in range(max(given.racers, given.writers)):
            racers.append(start(place, racers))
        opened = [racer.answer() for racer in racers]
        session = _told(racers[0], "submit")["trouble"]
        _told(racers[0], "give")
        results = [race(racers[: given.racers], session) for _ in range(given.races)]
        written = all_at_once(racers[: given.writers], f"write {given.rows}")
    finally:
        for racer in racers:
            racer.told.close()
        for racer in racers:
            os.waitpid(racer.pid, 0)
            racer.answers.close()
        drop(server, place.folder)
        drop(server, root / "warm")
    codes = [Counter(each["code"] for each in told) for told in results]
    busy = [each["ms"] for told in results for each in told if each["code"] == BUSY_CODE]
    return {
        "database": "PostgreSQL" if server else "SQLite",
        "races": len(results),
        "racers": given.racers,
        "not_one_owner": sum(code[0] != 1 for code in codes),
        "not_told_busy": sum(code.total() - code[0] - code[BUSY_CODE] for code in codes),
        "busy_p50_ms": statistics.median(busy),
        "busy_worst_ms": max(busy),
        "writers": given.writers,
        "rows_each": given.rows,
        "writers_failed": sum(each["code"] != 0 for each in written),
        "trouble": sorted({each["trouble"] for each in (*opened, *written) if each["code"]}),
    }


def _told(racer: Racer, line: str) -> dict[str, Any]:
    racer.tell(line)
    return racer.answer()


def main() -> None:
    """Read the command line, measure, print, and exit with 1 where a figure is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_option(parser)
    parser.add_argument("--races", type=int, default=200, metavar="N")
    parser.add_argument("--racers", type=int, default=6, metavar="N", help="processes that race for the session")
    parser.add_argument("--writers", type=int, default=8, metavar="N", help="processes that write at once")
    parser.add_argument("--rows", type=int, default=100, metavar="N", help="rows that each of them appends")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="esper-races-"))
    try:
        with server_of(given.database) as server:
            measured = measure(given, root, server)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    checks: dict[str, Callable[[Any], bool]] = {
        "not_one_owner": lambda found: found == 0,
        "not_told_busy": lambda found: found == 0,
        "busy_worst_ms": lambda found: found < BUSY_MS,
        "writers_failed": lambda found: found == 0,
    }
    aims = {"busy_worst_ms": f"under {BUSY_MS:g}"}
    missed = [name for name, holds in checks.items() if not holds(measured[name])]
    if given.json:
        print(json.dumps(measured | {"missed": missed}))
    else:
        for name, found in measured.items():
            shown = f"{found:.1f}" if isinstance(found, float) else found
            verdict = (
                f" ({aims.get(name, 'must be 0')}: {'MISSED' if name in missed else 'met'})" if name in checks else ""
            )
            print(f"{name:18} {shown}{verdict}")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
