"""Freezes workers in the middle of their work, lets others take over, thaws them, and checks what must hold.

A worker is stopped (SIGSTOP) inside a tool, at a step boundary or at a random moment, and goes on (SIGCONT) only after
another has taken the session over: in the middle of that one's work, or after its end. No row may be doubled, no tool
that must not be repeated may start twice, and the other must go on within the lease plus 1.5 s. Leases are short here;
the program's own last 30 s.

A worker may freeze while it writes: in a transaction of SQLite, which has one writer, or while it pins the log. Nobody
on the machine can write until it thaws, and no lease helps. Such a worker is thawed after two leases, the other must go
on within 1.5 s of that, and nothing may be doubled then either. These trials are counted under a name of their own.

Run it with `python benchmarks/freeze.py [--database postgresql] [--trials 24] [--json]`; it exits with 1 on any miss.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import shutil
import signal
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crash import fork, make_template, prepared, waited, warm_up
from crash_checks import look, violations
from crash_session import UNREPEATABLE, Place, be_worker
from databases import add_option, drop, server_of
from freeze_workers import be_frozen, be_rescuer, longest_s

if TYPE_CHECKING:
    from collections.abc import Sequence

LATE_MS = 1500
AIMED = ("beyond_the_lease_ms", "after_the_thaw_ms")


@dataclass(frozen=True, slots=True)
class Trial:
    """How one session is frozen.

    Attributes:
        number: Names its folder.
        point: The named point to freeze at, from 1; 0 for a random moment.
        delay_s: The random moment, after the start of the worker.
        is_early: Whether the worker is thawed in the middle of the other's work, not after it.
    """

    number: int
    point: int
    delay_s: float
    is_early: bool


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one session.

    Attributes:
        froze_at: The point's name, or `a random moment`.
        is_frozen: Whether it was frozen before its end.
        is_writing: Whether it was frozen while it wrote, so that nobody else could.
        recovery_ms: To the claim of the other worker: from the freeze, or from the thaw where nobody else could write.
        violations: What does not hold.
    """

    froze_at: str
    is_frozen: bool
    is_writing: bool
    recovery_ms: float
    violations: list[str]


def run_trial(trial: Trial, place: Place, expected: Sequence[tuple[int, int, int, str]], lease_ms: int) -> Result:
    """Freeze one session as asked, have another worker take it over, thaw the first, and check everything."""
    frozen = fork(partial(be_frozen, place, trial.point, lease_ms))
    if not trial.point:
        _wait_for(place, "accepted", lease_ms)
        time.sleep(trial.delay_s)
        os.kill(frozen, signal.SIGSTOP)
    _, status = os.waitpid(frozen, os.WUNTRACED)
    is_frozen = os.WIFSTOPPED(status)
    is_writing = is_frozen and not _can_write(place)
    # What is on record while somebody writes is not all that will be durable.
    at, seen = time.monotonic(), [] if place.server or is_writing else [look(place)]
    rescuer = fork(partial(be_rescuer, place, lease_ms))
    if is_writing:
        time.sleep(2 * lease_ms / 1000)
        at = time.monotonic()
    elif trial.is_early:
        _wait_for(place, "claimed_at", lease_ms)
    else:
        os.waitpid(rescuer, 0)
    if is_frozen:
        os.kill(frozen, signal.SIGCONT)
        os.waitpid(frozen, 0)
    if is_writing or trial.is_early:
        os.waitpid(rescuer, 0)
    claimed = [float(line) for line in place.lines("claimed_at")]
    died = (place.lines("died") or ["a random moment"])[0]
    found = [*violations(place, seen, expected), *_started_twice(place)]
    if is_frozen and not claimed:
        found.append("nobody took it over")
    recovery_ms = (claimed[0] - at) * 1000 if claimed and is_frozen else 0.0
    return Result(died, is_frozen, is_writing, recovery_ms, found)


def _started_twice(place: Place) -> list[str]:
    started = Counter(line for line in place.lines("effects") if line.partition(" ")[0] in UNREPEATABLE)
    return [f"{line.partition(' ')[0]} started {number} times" for line, number in started.items() if number > 1]


def _can_write(place: Place) -> bool:
    """Return whether nobody has what others wait for: the file of a database, or the lock of the keys or of a pin."""
    for file in place.home.glob("projects/*/esper.db"):
        with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
            except sqlite3.OperationalError:
                return False
    for file in (*place.home.glob("*/lock"), *place.home.glob("pins/*.lock")):
        with file.open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
    return True


def _wait_for(place: Place, name: str, lease_ms: int) -> None:
    deadline = time.monotonic() + longest_s(lease_ms)
    while not place.lines(name) and time.monotonic() < deadline:
        time.sleep(0.005)


def measure(given: argparse.Namespace, root: Path, server: str) -> dict[str, Any]:
    """Run all trials and return what was counted and measured."""
    template = make_template(root / "template", server)
    warm_up(template, root / "warm")
    calm = prepared(root / "calm", template)
    waited([fork(partial(be_worker, calm, None))])
    points, expected = calm.lines("points"), look(calm).keys
    calm_s = float(calm.lines("took_ms")[0]) / 1000
    source = random.Random(given.seed)  # noqa: S311 - moments, no secrets
    half = given.trials // 2
    trials = [Trial(each, source.randint(1, len(points)), 0.0, bool(each % 2)) for each in range(1, half + 1)]
    trials += [
        Trial(each, 0, source.uniform(0.0, 0.7) * calm_s, bool(each % 2)) for each in range(half + 1, given.trials + 1)
    ]
    results = []
    running: dict[int, Trial] = {}
    waiting = list(reversed(trials))
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            trial = waiting.pop()
            running[fork(partial(_write_result, trial, template, expected, given.lease_ms))] = trial
        child, _ = waited(running)
        place = Place(root / str(running.pop(child).number), server)
        said = place.lines("result")
        results.append(Result(**json.loads(said[0])) if said else Result("?", False, False, 0.0, ["the trial broke"]))
        drop(server, place.folder)
    frozen = [result for result in results if result.is_frozen]
    late = [each.recovery_ms - given.lease_ms for each in frozen if not each.is_writing]
    thawed = [each.recovery_ms for each in frozen if each.is_writing]
    return {
        "database": "PostgreSQL" if server else "SQLite",
        "trials": len(results),
        "frozen": len(frozen),
        "froze_while_writing": len(thawed),
        "lease_ms": given.lease_ms,
        "beyond_the_lease_p50_ms": statistics.median(late) if late else 0.0,
        "beyond_the_lease_ms": max(late, default=0.0),
        "after_the_thaw_ms": max(thawed, default=0.0),
        "violations": [f"{result.froze_at}: {what}" for result in results for what in result.violations],
    }


def _write_result(trial: Trial, template: Place, expected: Sequence[tuple[int, int, int, str]], lease_ms: int) -> None:
    place = prepared(template.folder.parent / str(trial.number), template)
    place.note("result", json.dumps(asdict(run_trial(trial, place, expected, lease_ms))))


def main() -> None:
    """Read the command line, measure, print, and exit with 1 on any miss."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_option(parser)
    parser.add_argument("--trials", type=int, default=24, metavar="N", help="half at named points, half at random")
    parser.add_argument("--lease-ms", type=int, default=2000, metavar="MS", help="how long leases are in the trials")
    parser.add_argument("--seed", type=int, default=0, help="of points and moments")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="esper-freeze-"))
    try:
        with server_of(given.database) as server:
            measured = measure(given, root, server)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    missed = [each for each in AIMED if measured[each] > LATE_MS]
    if given.json:
        print(json.dumps(measured | {"missed": missed}))
    else:
        for name, found in measured.items():
            aim = f" (at most {LATE_MS}: {'MISSED' if name in missed else 'met'})" if name in AIMED else ""
            if name != "violations":
                print(f"{name:24} {found:.0f}{aim}" if isinstance(found, float) else f"{name:24} {found}")
        print("\n".join(f"VIOLATION {each}" for each in measured["violations"]) or "no violation")
    sys.exit(bool(missed or measured["violations"]))


if __name__ == "__main__":
    main()
