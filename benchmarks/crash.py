"""Kills sessions with SIGKILL, at every durable step and at random moments, resumes them and checks what must hold.

Every other archive is repaired before its session is resumed, and every one at the end, where nothing may be left.

Workers are forked from this process, which imports everything and opens nothing, so that a trial costs little.
Run it with `python benchmarks/crash.py [--database postgresql] [--random 300] [--json]`; it exits with 1 on any
violation, and where a session did not go on within a second of its store being open.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from crash_checks import Seen, look, mend, violations
from crash_session import SOURCE, Place, Points, be_worker, work, write_agents
from databases import add_option, create, drop, server_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

_MOST_KILLS = 3
GO_ON_MS = 1000


@dataclass(frozen=True, slots=True)
class Trial:
    """How one session is to be killed.

    Attributes:
        number: Names its folder.
        point: The point to die at, from 1; None for random moments.
        delays_s: Random moments, each after the start of a worker; empty for a point.
    """

    number: int
    point: int | None = None
    delays_s: tuple[float, ...] = ()


@dataclass(slots=True)
class Result:
    """What became of one session.

    Attributes:
        died_at: The point's name, or how many random kills took effect.
        kills: How many workers were killed.
        resume_ms: How long the last worker took, from opening the project to the certificate.
        went_on_ms: How long the last worker took from the store being open to the next row of the session.
        violations: What does not hold.
    """

    died_at: str
    kills: int
    resume_ms: float
    went_on_ms: float
    violations: list[str] = field(default_factory=list)


def warm_up(template: Place, folder: Path) -> None:
    """Run one session here, so that workers find everything imported and built; its threads end with it."""
    place = prepared(folder, template)
    with patch.dict(os.environ, place.environment):
        asyncio.run(work(place, Points(place, 0)))
    if threading.active_count() != 1:
        raise AssertionError("a worker must be forked from a process with one thread")


def fork(work: Callable[[], Any]) -> int:
    """Do some work in a forked process that ends after it, and return its id."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    finally:
        os._exit(0)


def prepared(folder: Path, template: Place) -> Place:
    """Return a place of its own for one session, with its database on the template's server."""
    shutil.copytree(template.folder, folder)
    create(template.server, folder)
    return Place(folder, template.server)


def make_template(folder: Path, server: str) -> Place:
    """Make the project and the agents that every trial starts from."""
    place = Place(folder, server)
    place.project.mkdir(parents=True)
    (place.project / "train.py").write_text(SOURCE)
    write_agents(place.agents)
    author = ("-c", "user.name=Crash", "-c", "user.email=crash@example.org")
    for arguments in (("init", "-q", "--template="), ("add", "-A"), (*author, "commit", "-q", "-m", "first")):
        subprocess.run(["git", "-C", str(place.project), *arguments], check=True)
    return place


def run_trial(trial: Trial, place: Place, expected: Sequence[tuple[int, int, int, str]]) -> Result:
    """Kill one session as asked, resume it to its end, and check everything."""
    kills: list[Seen] = []
    if trial.point is not None:
        child = fork(lambda: be_worker(place, trial.point))
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            kills.append(look(place))
    for delay_s in trial.delays_s:
        child = fork(lambda: be_worker(place, 0))
        time.sleep(delay_s)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            break
        kills.append(look(place))
    if trial.number % 2 and kills:
        # Somebody may repair what a crash left before anybody resumes it.
        os.waitpid(fork(lambda: mend(place)), 0)
    os.waitpid(fork(lambda: be_worker(place, 0)), 0)
    died = (place.lines("died") or [f"{len(kills)} random"])[0]
    took, went_on = (
        [float(line) for line in place.lines(name)] or [float("nan")] for name in ("took_ms", "went_on_ms")
    )
    return Result(died, len(kills), took[-1], went_on[-1], violations(place, kills, expected))


def in_parallel(
    trials: Sequence[Trial], template: Place, expected: Sequence[tuple[int, int, int, str]]
) -> list[Result]:
    """Run every trial in a process of its own, as many at once as there are cores."""
    waiting, results = list(reversed(trials)), list[Result]()
    running: dict[int, Trial] = {}
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            trial = waiting.pop()
            running[fork(partial(_write_result, trial, template, expected))] = trial
        child, _ = waited(running)
        folder = template.folder.parent / str(running.pop(child).number)
        said = Place(folder).lines("result")
        results.append(Result(**json.loads(said[0])) if said else Result("?", 0, 0, 0, ["the trial itself broke"]))
        if not results[-1].violations:
            shutil.rmtree(folder)
        drop(template.server, folder)
    return results


def waited(running: Collection[int]) -> tuple[int, int]:
    """Wait for one of some children, and return it with its status; a server that runs is a child, too."""
    while True:
        child, status = os.wait()
        if child in running:
            return child, status


def _write_result(trial: Trial, template: Place, expected: Sequence[tuple[int, int, int, str]]) -> None:
    place = prepared(template.folder.parent / str(trial.number), template)
    place.note("result", json.dumps(asdict(run_trial(trial, place, expected))))


def _delays(source: random.Random, longest_s: float) -> tuple[float, ...]:
    return tuple(source.uniform(0, longest_s) for _ in range(source.randint(1, _MOST_KILLS)))


def measure(given: argparse.Namespace, root: Path, server: str) -> dict[str, Any]:
    """Run all trials and return what was counted and measured."""
    began = time.perf_counter()
    template = make_template(root / "template", server)
    warm_up(template, root / "warm")
    calm = [prepared(root / f"calm-{number}", template) for number in range(3)]
    for each in calm:
        os.waitpid(fork(partial(be_worker, each, None)), 0)
    points, expected = calm[0].lines("points"), look(calm[0]).keys
    # The fastest: random moments must lie inside a session, not behind its end.
    calm_ms = min(float(took) for each in calm for took in each.lines("took_ms") or ["nan"])
    calm_violations = violations(calm[0], [], expected)
    source = random.Random(given.seed)  # noqa: S311 - moments, no secrets
    boundaries = [Trial(number, point=number) for number in range(1, len(points) + 1, given.every)]
    moments = [Trial(-number, delays_s=_delays(source, calm_ms / 1000)) for number in range(1, given.random + 1)]
    at_points = in_parallel(boundaries, template, expected)
    at_random = in_parallel(moments, template, expected)
    results = [*at_points, *at_random]
    found = [*calm_violations, *(f"{result.died_at}: {what}" for result in results for what in result.violations)]
    resumed = sorted(result.resume_ms for result in results if result.kills)
    went_on = sorted(result.went_on_ms for result in results if result.kills)
    return {
        "database": "PostgreSQL" if server else "SQLite",
        "points": len(points),
        "points_by_name": dict(Counter(points)),
        "killed_at_points": sum(point.kills for point in at_points),
        "random_sessions": len(at_random),
        "killed_at_random": sum(each.kills for each in at_random),
        "seed": given.seed,
        "rows_per_session": len(expected),
        "uninterrupted_ms": calm_ms,
        "resume_p50_ms": round(statistics.median(resumed), 1),
        "resume_p95_ms": round(statistics.quantiles(resumed, n=20)[-1] if len(resumed) > 1 else resumed[0], 1),
        "went_on_p50_ms": round(statistics.median(went_on), 1),
        "went_on_worst_ms": round(max(went_on), 1),
        "elapsed_s": round(time.perf_counter() - began, 1),
        "violations": found,
    }


def main() -> None:
    """Read the command line, measure, print, and exit with 1 on any violation."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_option(parser)
    parser.add_argument("--random", type=int, default=300, metavar="N", help="sessions killed at random moments")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="try only every N-th of the named points")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--keep", action="store_true", help="keep the folders of trials that broke something")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="esper-crash-"))
    try:
        with server_of(given.database) as server:
            measured = measure(given, root, server)
    finally:
        if not given.keep:
            shutil.rmtree(root, ignore_errors=True)
    is_late = not measured["went_on_worst_ms"] < GO_ON_MS
    if given.json:
        print(json.dumps(measured))
    else:
        print("\n".join(f"{name:18} {what}" for name, what in measured.items() if name != "violations"))
        print(f"went on within {GO_ON_MS} ms of the store being open: {'MISSED' if is_late else 'met'}")
        print("\n".join(f"VIOLATION {each}" for each in measured["violations"]) or "no violation")
        if given.keep:
            print(f"kept in {root}")
    sys.exit(bool(measured["violations"]) or is_late)


if __name__ == "__main__":
    main()
