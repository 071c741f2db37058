"""How long `esper` takes to answer, from the start of the process to its end, in wall time and in CPU time.

Each run is a process of its own on a small project; the commands take turns, so that load falls on all alike, and on
`import typer`, which the times are compared with.
Run it with `python benchmarks/startup.py [--runs 10] [--json]`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ESPER = Path(sys.executable).with_name("esper")
SOURCE = """def train(model, loader, optimizer):
    for batch in loader:
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
"""
REVIEW = ("submit", "review this training code", "train.py")
TYPER = "import typer"
COMMANDS = {
    TYPER: (sys.executable, "-c", "import typer"),
    "esper --help": (ESPER, "--help"),
    "esper sessions list": (ESPER, "sessions", "list"),
    "esper certificates list": (ESPER, "certificates", "list"),
    "esper why": (ESPER, "why"),
    "esper review train.py": (ESPER, "review", "train.py", "--no-cache"),
    "esper submit": (ESPER, *REVIEW),
}
# Done, and a verdict or a finding against: the project is faulty.
_EXPECTED = (0, 3)


@dataclass(slots=True)
class Timing:
    """What the runs of one command took.

    Attributes:
        command: As a person types it.
        wall_ms: Of each run.
        cpu_ms: Of each run and the processes it waited for, in user and system mode.
    """

    command: str
    wall_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """Return best and median of both times."""
        named: dict[str, Any] = {"command": self.command}
        for name, times in (("wall", self.wall_ms), ("cpu", self.cpu_ms)):
            named |= {f"{name}_best_ms": round(min(times), 1), f"{name}_median_ms": round(statistics.median(times), 1)}
        return named


def make_project(folder: Path) -> None:
    """Make a small project under git."""
    folder.mkdir()
    (folder / "train.py").write_text(SOURCE)
    author = ("-c", "user.name=Startup", "-c", "user.email=startup@example.org")
    for arguments in (("init", "-q", "--template="), ("add", "-A"), (*author, "commit", "-q", "-m", "first")):
        subprocess.run(["git", "-C", str(folder), *arguments], check=True)


def run(project: Path, home: Path, command: tuple[str | Path, ...], timing: Timing) -> None:
    """Run the command once and note what it took."""
    environment = {**os.environ, "ESPER_HOME": str(home)}
    # Without byte code every start compiles all of it again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=project, env=environment, stdout=subprocess.DEVNULL)
    # wait4, not wait: it alone says what this one process used.
    _, status, used = os.wait4(process.pid, 0)
    timing.wall_ms.append((time.perf_counter() - began) * 1000)
    timing.cpu_ms.append((used.ru_utime + used.ru_stime) * 1000)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in _EXPECTED:
        sys.exit(f"{timing.command} exited with {process.returncode}")


def measure(runs: int, folder: Path) -> dict[str, Any]:
    """Run every command so many times, in turn, and return what they took."""
    project, home = folder / "project", folder / "home"
    make_project(project)
    # Makes the database and the byte code: what only the first run ever pays.
    run(project, home, COMMANDS["esper submit"], Timing("first submit"))
    timings = [Timing(command) for command in COMMANDS]
    for _ in range(runs):
        for timing in timings:
            run(project, home, COMMANDS[timing.command], timing)
    machine = {"python": platform.python_version(), "cpus": os.cpu_count(), "load_1min": round(os.getloadavg()[0], 1)}
    base = min(timings[0].cpu_ms)
    summaries = [timing.summary() | {"times_typer": round(min(timing.cpu_ms) / base, 2)} for timing in timings]
    return {"runs": runs, **machine, "commands": summaries}


def main() -> None:
    """Read the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="of each command")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="esper-startup-") as folder:
        measured = measure(given.runs, Path(folder))
    if given.json:
        print(json.dumps(measured))
        return
    print(
        f"Python {measured['python']}, {measured['cpus']} CPUs, load {measured['load_1min']}, {given.runs} runs, in ms"
    )
    print(f"{'':24}{'wall best':>10}{'median':>8}{'CPU best':>10}{'median':>8}{'x typer':>9}")
    for each in measured["commands"]:
        wall = f"{each['wall_best_ms']:10.0f}{each['wall_median_ms']:8.0f}"
        print(
            f"{each['command']:24}{wall}{each['cpu_best_ms']:10.0f}{each['cpu_median_ms']:8.0f}{each['times_typer']:9.2f}"
        )


if __name__ == "__main__":
    main()
