"""How much CPU orchestration takes beside reasoners and tools: three agents, twelve turns, every step durable.

Playbooks and tools are toys; what they take themselves is measured and taken off. What is left is measured on all
threads of the process, and comes in two parts. Orchestration is what the figure is of: checking and submitting the
task, then the turns with their rows, leases, routing, the graph, checks and memory, up to the conclusion, and giving
the lease back after the end. The certificate is shown beside it: the record with its signature and log entry, what is
remembered of it, and all published views. The total is both. The git that is asked about the project runs in processes
of its own, and its CPU is in none of these. Run it with `python benchmarks/overhead.py [--sessions 30] [--json]`; it
exits with 1 where the figure is missed. `--profile` shows where it goes.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import os
import pstats
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from databases import add_option, create, database_of, server_of

from esper_agents.api import CallTools, Conclude, HandOff, Risk, ToolCall, ToolContext, ToolResult, open_project, tool
from esper_agents.domain.session import SessionState
from esper_agents.orchestration import certify, graph
from esper_agents.reasoning import playbook

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from esper_agents.api import Brief, OpenProject
    from esper_agents.domain.agent_action import Move
    from esper_agents.orchestration.session_run import SessionRun
    from esper_agents.tools.tool import Tool

FIRST, SECOND, THIRD = "overhead-first", "overhead-second", "overhead-third"
TURNS, CALLS = 12, 9
LIMIT_MS = 10.0
JUDGED = "orchestration_p50_ms"
SOURCE = "import torch\n\n\ndef step(model, batch):\n    return model(batch).mean()\n"


@dataclass(slots=True)
class Clock:
    """CPU time by what it went into, in seconds.

    Attributes:
        own: In reasoners and tools.
        certifying: Of the threads that certify, in certify.
    """

    own: float = 0.0
    certifying: float = 0.0

    @contextmanager
    def toys(self) -> Iterator[None]:
        """Count a block as a reasoner's or a tool's own."""
        began = time.thread_time()
        try:
            yield
        finally:
            self.own += time.thread_time() - began


@dataclass(slots=True)
class Sample:
    """What one session took.

    Attributes:
        cpu_ms: All of the process.
        own_ms: What reasoners and tools took of it.
        submit_ms: What checking and submitting the task took of it: git, the environment, the first row.
        certify_ms: What certify took of it: the record, its signature, log entry and memory, and all published files.
    """

    cpu_ms: float
    own_ms: float
    submit_ms: float
    certify_ms: float

    @property
    def turns_ms(self) -> float:
        """What is left between the submission and certify, and after it."""
        return self.total_ms - self.submit_ms - self.certify_ms

    @property
    def orchestration_ms(self) -> float:
        """What the figure is of."""
        return self.submit_ms + self.turns_ms

    @property
    def total_ms(self) -> float:
        """What is left."""
        return self.cpu_ms - self.own_ms


def toy_tool(clock: Clock) -> Tool:
    """Return the tool that is called."""

    @tool("overhead-look", risk=Risk.LOW, repeatable=True, rerun=lambda arguments: f"echo {arguments.get('at', '')}")
    async def look(context: ToolContext, at: int) -> ToolResult:
        """Look.

        Args:
            context: The project.
            at: Where.
        """
        with clock.toys():
            return ToolResult(f"looked at {at}", {"at": at, "project": context.root.name})

    return look


def _looks(first: int, calls: int) -> Iterator[CallTools]:
    for at in range(first, first + calls):
        yield CallTools((ToolCall("overhead-look", {"at": at}),))


def _first(_: Brief) -> Generator[Move, Any, Conclude]:
    yield from _looks(0, 3)
    yield HandOff(SECOND, "overhead", "it is next", "looked at three")
    return Conclude("nobody took it")


def _second(_: Brief) -> Generator[Move, Any, Conclude]:
    yield from _looks(3, 3)
    yield HandOff(THIRD, "overhead", "it is next", "looked at three more")
    return Conclude("nobody took it")


def _third(_: Brief) -> Generator[Move, Any, Conclude]:
    yield from _looks(6, 3)
    return Conclude("All of it was looked at.")


PLAYBOOKS = {FIRST: _first, SECOND: _second, THIRD: _third}


def count_reasoners(clock: Clock) -> None:
    """Count what reasoners take as their own."""
    plain = playbook.PlaybookReasoner.next_move

    @wraps(plain)
    async def counted(*given: Any) -> Any:
        with clock.toys():
            return await plain(*given)

    setattr(playbook.PlaybookReasoner, plain.__name__, counted)


@dataclass
class Bench:
    """The sessions that are measured, one after the other.

    Attributes:
        project: Where.
        clock: What toys and certify take.
        samples: What each session took.
    """

    project: Path
    clock: Clock
    samples: list[Sample] = field(default_factory=list)

    async def run(self, opened: OpenProject) -> None:
        """Run one session from its task to its certificate and keep what it took."""
        self.clock.own = self.clock.certifying = 0.0
        began = time.process_time()
        session = await opened.tasks.submit(
            opened.tasks.create("review this", [self.project / "train.py"], agent=FIRST)
        )
        submitting = time.process_time() - began
        outcome = await session.run()
        took = time.process_time() - began
        if outcome.state is not SessionState.DONE or not outcome.certificate:
            raise AssertionError(f"the session ended {outcome.state}")
        parts = (took, self.clock.own, submitting, self.clock.certifying)
        self.samples.append(Sample(*(part * 1000 for part in parts)))


def timed_end(clock: Clock) -> Callable[[SessionRun], Any]:
    """Return certify, with what the process takes in it counted."""

    async def end(run: SessionRun) -> None:
        began = time.process_time()
        await certify.certify(run)
        clock.certifying += time.process_time() - began

    return end


async def measure(project: Path, sessions: int, profile: cProfile.Profile | None) -> tuple[list[Sample], int]:
    """Run sessions in one open project, the first three to warm up, and return what each of the others took."""
    clock = Clock()
    count_reasoners(clock)
    agents = [project.parent / "agents"]
    async with open_project(project, tools=[toy_tool(clock)], playbooks=PLAYBOOKS, agents=agents) as opened:
        vars(opened.sessions)["_graph"] = graph.build_graph(end=timed_end(clock))
        bench = Bench(project, clock)
        for number in range(sessions + 3):
            if profile and number == 3:
                profile.enable()
            await bench.run(opened)
        if profile:
            profile.disable()
        history = await opened.sessions.history((await opened.sessions.list(limit=1))[0].id)
        turns = sum(len(frame.turns) for frame in history.frames)
        if (turns, len(history.evidence()), len(history.frames)) != (TURNS, CALLS, 3):
            raise AssertionError(f"{turns} turns, {len(history.evidence())} calls, {len(history.frames)} agents")
        rows = len(await opened.sessions.timeline(history.session))
    return bench.samples[3:], rows


def make_project(folder: Path) -> Path:
    """Make the project and the agents."""
    project, agents = folder / "project", folder / "agents"
    project.mkdir()
    agents.mkdir()
    (project / "train.py").write_text(SOURCE)
    for name in PLAYBOOKS:
        text = f"---\nname: {name}\ndescription: Takes part.\ndomain: overhead\ntools: [overhead-look]\n---\nYou do.\n"
        (agents / f"{name}.md").write_text(text)
    author = ("-c", "user.name=Overhead", "-c", "user.email=overhead@example.org")
    for arguments in (("init", "-q", "--template="), ("add", "-A"), (*author, "commit", "-q", "-m", "first")):
        subprocess.run(["git", "-C", str(project), *arguments], check=True)
    return project


def _p95(found: list[float]) -> float:
    return statistics.quantiles(found, n=20)[-1] if len(found) > 1 else found[0]


def main() -> None:
    """Read the command line, measure, print, and exit with 1 where the figure is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_option(parser)
    parser.add_argument("--sessions", type=int, default=30, metavar="N")
    parser.add_argument("--profile", action="store_true", help="show where it goes; slower, so nothing is judged")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="esper-overhead-"))
    profile = cProfile.Profile(time.process_time) if given.profile else None
    try:
        with server_of(given.database) as server:
            create(server, folder)
            os.environ.update(ESPER_HOME=str(folder / "home"), ESPER_DATABASE_URL=database_of(server, folder))
            samples, rows = asyncio.run(measure(make_project(folder), given.sessions, profile))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)
        return
    orchestration = statistics.median(sample.orchestration_ms for sample in samples)
    measured = {
        "database": "PostgreSQL" if server else "SQLite",
        "sessions": len(samples),
        "turns": TURNS,
        "rows": rows,
        "toys_p50_ms": statistics.median(sample.own_ms for sample in samples),
        "submit_p50_ms": statistics.median(sample.submit_ms for sample in samples),
        "turns_p50_ms": statistics.median(sample.turns_ms for sample in samples),
        JUDGED: orchestration,
        "orchestration_p95_ms": _p95([sample.orchestration_ms for sample in samples]),
        "orchestration_best_ms": min(sample.orchestration_ms for sample in samples),
        "certificate_p50_ms": statistics.median(sample.certify_ms for sample in samples),
        "total_p50_ms": statistics.median(sample.total_ms for sample in samples),
    }
    is_missed = orchestration > LIMIT_MS
    if given.json:
        print(json.dumps(measured | {"missed": [JUDGED] if is_missed else []}))
    else:
        for name, found in measured.items():
            aim = f" (at most {LIMIT_MS:g}: {'MISSED' if is_missed else 'met'})" if name == JUDGED else ""
            print(f"{name:22} {found:.2f}{aim}" if isinstance(found, float) else f"{name:22} {found}")
    sys.exit(is_missed)


if __name__ == "__main__":
    main()
