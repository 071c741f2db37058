"""Sixty-four sessions at once in one process: whether each ends without an error, and how many end in a second.

Sessions of a toy agent with two tools are queued and one worker runs them, every step durable. The first tool of the
first wave ends only when as many sessions as may run at once are inside of it: so they did run at once. Views are
published, certificates signed and entered in the log, as always. There is no aim for sessions in a second; how long the
disk takes for one durable write is printed beside it.

With `--workers N` it measures N processes of `esper worker` instead. `esper submit --queue` queues real reviews of one
file, the processes issue their certificates, and `esper certificates verify --all` must then exit with 0.

    python benchmarks/worker.py [--sessions 256] [--concurrency 64] [--database sqlite|postgresql|URL] [--json]
    python benchmarks/worker.py --workers 2 --concurrency 8 --sessions 200 --database postgresql
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from databases import add_option, create, database_of, drop, server_of

from esper_agents.api import open_project
from esper_agents.api.worker import open_worker
from esper_agents.api.worker_events import WorkerEventKind
from esper_agents.cli.main import main as main_of_esper
from esper_agents.domain.agent_action import CallTools, Conclude, ToolCall
from esper_agents.domain.evidence import Risk
from esper_agents.orchestration.project_services import ServiceOverrides
from esper_agents.tools.tool import Tool, ToolContext, ToolResult

if TYPE_CHECKING:
    from collections.abc import Generator

    from esper_agents.api.worker_events import WorkerEvent
    from esper_agents.domain.frame import Brief

AGENT = "benchmark-worker"
DEFINITION = f"---\nname: {AGENT}\ndescription: Runs two tools. Use for {AGENT}.\ndomain: toys\n---\nYou.\n"
SOURCE = "import torch\n\n\ndef step(model, batch):\n    return model(batch).mean()\n"
_PATIENCE_S = 120
_AUTHOR = ("-c", "user.name=Benchmark", "-c", "user.email=benchmark@example.org")


@dataclass
class Meeting:
    """Where sessions wait for one another.

    Attributes:
        wanted: How many are to be there at once.
        inside: How many are.
        most: How many there were at most.
        calls: How often each tool ran, by its argument.
    """

    wanted: int
    inside: int = 0
    most: int = 0
    everybody: asyncio.Event = field(default_factory=asyncio.Event)
    calls: Counter[str] = field(default_factory=Counter)

    async def come(self) -> None:
        """Come in, and wait until everybody is there; who comes later does not wait."""
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.inside >= self.wanted:
            self.everybody.set()
        await asyncio.wait_for(self.everybody.wait(), _PATIENCE_S)
        self.inside -= 1


def tools_of(meeting: Meeting) -> tuple[Tool, ...]:
    """Return the two tools."""

    async def meet(context: ToolContext, text: str = "") -> ToolResult:  # noqa: ARG001 - every tool gets one
        """Wait for the others.

        Args:
            context: The project.
            text: Whatever.
        """
        meeting.calls["meet"] += 1
        await meeting.come()
        return ToolResult("met", {"text": text})

    async def look(context: ToolContext, text: str = "") -> ToolResult:  # noqa: ARG001 - every tool gets one
        """Look once.

        Args:
            context: The project.
            text: Whatever.
        """
        meeting.calls["look"] += 1
        return ToolResult("looked", {"text": text})

    return tuple(
        Tool(f"benchmark-{run.__name__}", Risk.LOW, False, run, lambda _: "true", "benchmark 1") for run in (meet, look)
    )


def play(_brief: Brief) -> Generator[Any, Any, Conclude]:
    """Call both tools, one turn each."""
    yield CallTools((ToolCall("benchmark-meet", {"text": "a"}),))
    yield CallTools((ToolCall("benchmark-look", {"text": "b"}),))
    return Conclude("Both ran.")


async def measure(folder: Path, sessions: int, concurrency: int) -> dict[str, Any]:
    """Queue sessions, have a worker run them, and return what was measured."""
    project, agents = folder / "project", folder / "agents"
    for place, name, text in ((project, "model.py", SOURCE), (agents, f"{AGENT}.md", DEFINITION)):
        place.mkdir()
        (place / name).write_text(text)
    meeting = Meeting(min(sessions, concurrency))
    additions = ServiceOverrides(tools_of(meeting), {AGENT: play}, (agents,))
    async with open_project(
        project, tools=additions.tools, playbooks=additions.playbooks, agents=additions.agents
    ) as opened:
        task = opened.tasks.create("review this", [project / "model.py"], agent=AGENT)
        began = time.perf_counter()
        for _ in range(sessions):
            await opened.tasks.enqueue(task)
        queued_s = time.perf_counter() - began
    told: list[WorkerEvent] = []
    began, cpu = time.perf_counter(), time.process_time()
    async with open_worker(project, concurrency=concurrency, tell=told.append, additions=additions) as worker:
        await worker.run(once=True, poll_s=1.0)
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    counts = Counter(each.what for each in told)
    errors = [each.text for each in told if each.what not in {WorkerEventKind.TAKEN, WorkerEventKind.ENDED}]
    return {
        "sessions": sessions,
        "ended": counts[WorkerEventKind.ENDED],
        "at_once": meeting.most,
        "errors": errors[:5],
        "calls_repeated": sum(meeting.calls.values()) - 2 * sessions,
        "queued_per_s": sessions / queued_s,
        "sessions_per_s": sessions / took_s,
        "cpu_ms_a_session": cpu_s * 1000 / sessions,
        "durable_write_p50_ms": durable_write_ms(folder),
    }


def measure_processes(folder: Path, sessions: int, concurrency: int, workers: int) -> dict[str, Any]:
    """Queue reviews, have processes of the command run them, verify the archive, and return what was measured."""
    project = folder / "project"
    project.mkdir()
    (project / "train.py").write_text(SOURCE)
    for arguments in (("init", "-q"), ("add", "-A"), (*_AUTHOR, "commit", "-qm", "first")):
        subprocess.run(["git", "-C", str(project), *arguments], check=True)
    for _ in range(sessions):
        submit(project)
    esper = str(Path(sys.executable).with_name("esper"))
    command = [esper, "worker", "--once", "--jobs", str(concurrency), "--poll", "0.2", "--project", str(project)]
    began = time.perf_counter()
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(workers)]
    errors = [each.communicate()[1].decode().strip() for each in started]
    took_s = time.perf_counter() - began
    listed = subprocess.run(
        [esper, "certificates", "list", "--json", "--limit", str(sessions + 1), "--project", str(project)],
        capture_output=True,
        check=True,
    )
    seconds = Counter(load["issued_at"][:19] for load in json.loads(listed.stdout))
    verify = [esper, "certificates", "verify", "--all", "--project", str(project)]
    verified = subprocess.run(verify, capture_output=True, text=True, check=False)
    return {
        "workers": workers,
        "sessions": sessions,
        "exit_codes": [each.returncode for each in started],
        "errors": [error for error in errors if error][:5],
        "certificates": seconds.total(),
        "in_a_second_with_another": sum(count for count in seconds.values() if count > 1),
        "views": len(list(project.rglob("certificates/*.md"))),
        "sessions_per_s": sessions / took_s,
        "verify_all_exit_code": verified.returncode,
        "verify_all_last_line": (verified.stdout + verified.stderr).strip().splitlines()[-1],
    }


def submit(project: Path) -> None:
    """Queue a review as the command does, in a process that need not import everything again."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        if status:
            raise SystemExit("esper submit --queue failed")
        return
    os.chdir(project)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.argv = [
        "esper",
        "submit",
        "--queue",
        "--agent",
        "pytorch-code-reviewer",
        "review this training code",
        "train.py",
    ]
    try:
        main_of_esper()
    except SystemExit as ended:
        os._exit(int(ended.code or 0))
    finally:
        os._exit(1)


def durable_write_ms(folder: Path) -> float:
    """Return how long the disk takes for a small write that lasts, the median of 50."""
    found = []
    with (folder / "durable").open("wb", buffering=0) as file:
        for _ in range(50):
            began = time.perf_counter()
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
            found.append((time.perf_counter() - began) * 1000)
    return statistics.median(found)


def measured_on(server: str, sessions: int, concurrency: int, workers: int = 0) -> dict[str, Any]:
    """Return what was measured with a database and a home of its own."""
    with tempfile.TemporaryDirectory(prefix="esper-worker-") as name:
        folder = Path(name)
        create(server, folder)
        os.environ["ESPER_HOME"] = str(folder / "home")
        if server:
            os.environ["ESPER_DATABASE_URL"] = database_of(server, folder)
        else:
            os.environ.pop("ESPER_DATABASE_URL", None)
        try:
            if workers:
                return measure_processes(folder, sessions, concurrency, workers)
            return asyncio.run(measure(folder, sessions, concurrency))
        finally:
            drop(server, folder)


def main() -> None:
    """Read the command line, measure, print, and exit with 1 where a figure is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=256)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--workers", type=int, default=0, help="processes of `esper worker`; 0 for one in this process")
    add_option(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    with server_of(given.database) as server:
        found = measured_on(server, given.sessions, given.concurrency, given.workers)
    wanted = {
        "ended": given.sessions,
        "at_once": min(given.sessions, given.concurrency),
        "errors": [],
        "calls_repeated": 0,
        "exit_codes": [0] * given.workers,
        "certificates": given.sessions,
        "views": given.sessions,
        "verify_all_exit_code": 0,
    }
    aims = {name: found[name] == aim for name, aim in wanted.items() if name in found}
    missed = not all(aims.values())
    if given.json:
        print(json.dumps(found | {"missed": [name for name, is_met in aims.items() if not is_met]}))
    else:
        for figure, amount in found.items():
            shown = f"{amount:.1f}" if isinstance(amount, float) else "none" if amount == [] else amount
            aim = f" ({'met' if aims[figure] else 'MISSED'})" if figure in aims else ""
            print(f"{figure:25} {shown}{aim}")
        print("MISSED" if missed else "all met")
    sys.exit(missed)


if __name__ == "__main__":
    main()
