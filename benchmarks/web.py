"""How long the pages of `esper serve` take, and how much memory the server uses, at any number of certificates.

The archive is made up in bulk as in `archive.py`. A real server answers over HTTP; each page is asked with drawn names.
p95 counts: of the server's CPU time, so that other work on the machine does not fall on it; wall time stands beside it.
Every figure is printed with its aim, and with MISSED where it is not met; the exit code is then 1.

    python benchmarks/web.py [--rows 1000000] [--draws 20] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import archive as bulk
import httpx
from certificate_samples import certificate, finding  # type: ignore[import-not-found] # `archive` adds the tests' folder

from esper_agents.certificates.statement import statement
from esper_agents.domain.status import QuestionType
from esper_agents.git.find_project import find_project
from esper_agents.paths import project_home
from esper_agents.storage.database_url import database_url
from esper_agents.storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    Page = tuple[str, Callable[[random.Random], str]]

SMALL, SMALL_MS, LARGE_MS = 10_000, 100.0, 300.0
MEMORY_MIB = 200
FILES = 40
PATIENCE_S = 600


def make_project(folder: Path) -> Path:
    """Write a small project that has some of the files of the made-up certificates."""
    root = folder / "bulk"
    for number in range(FILES):
        file = root / f"src/part/file_{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"import torch\n\nVALUE = {number}\n")
    (root / "pyproject.toml").write_text("[project]\nname = 'bulk'\n")
    return root


def fill(root: Path, total: int) -> None:
    """Fill the database of the project, unless an earlier run did."""
    key = find_project([root], root).key
    database = project_home(key) / "esper.db"
    if database.exists():
        return
    Store(database_url(database)).close()
    bulk.PROJECT = key
    began = time.perf_counter()
    findings = tuple(finding(number) for number in range(1, 21))
    bulk.fill_sqlite(str(database), total, statement(certificate(findings=findings)))
    print(f"filled in {time.perf_counter() - began:.0f} s, {database.stat().st_size / 1e9:.1f} GB")


def pages(total: int) -> dict[str, Callable[[random.Random], str]]:
    """Return what is asked: a path for each draw, by name."""

    def listed(**filters: Callable[[random.Random], str]) -> Callable[[random.Random], str]:
        return lambda chance: "/?" + urlencode({name: draw(chance) for name, draw in filters.items()})

    def status(chance: random.Random) -> str:
        return str(chance.choice(list(bulk.STATUSES)))

    def recent(chance: random.Random) -> str:
        return bulk.identifier(chance.randint(max(total - bulk.REAL + 1, 1), total))

    def agent(chance: random.Random) -> str:
        return chance.choice(bulk.AGENTS)

    return {
        "certificates": listed(),
        "certificates, older": listed(before=lambda chance: bulk.identifier(chance.randint(total // 2, total))),
        "certificates by status": listed(status=status),
        "certificates by agent and status": listed(agent=agent, status=status),
        "certificates by question type": listed(kind=lambda chance: str(chance.choice(list(QuestionType)))),
        "certificates by rule": listed(rule=bulk.RULES.draw),
        "certificates by file": listed(file=bulk.FILES.draw),
        "certificates since": listed(since=lambda chance: bulk.issued_at(chance.randint(1, total))[:10]),
        "certificates by signer": listed(signer=lambda _: "SHA256:unknown"),
        "search of a word": listed(q=bulk.WORDS.draw),
        "search of two words": listed(q=lambda chance: f"{bulk.WORDS.draw(chance)} {bulk.WORDS.draw(chance)}"),
        "search of the commonest word, agent": listed(q=lambda _: "finding", agent=agent),
        "one certificate": lambda chance: f"/certificates/{recent(chance)}",
        "files": lambda _: "/files",
        "one file": lambda chance: "/file?" + urlencode({"path": f"src/part/file_{chance.randrange(FILES)}.py"}),
        "sessions": lambda _: "/sessions",
        "sessions by cost": lambda _: "/sessions?order=cost",
        "approvals": lambda _: "/approvals",
        "agents": lambda _: "/agents",
        "memory": lambda _: "/memory",
        "trends": lambda _: "/trends",
        "one trend": lambda _: f"/trends/{bulk.METRICS[0]}",
        "log": lambda _: "/log",
    }


def cpu_ms(pid: int) -> float:
    """Return the CPU time of all threads of a process."""
    ran = [(each / "schedstat").read_text().split()[0] for each in Path(f"/proc/{pid}/task").iterdir()]
    return sum(map(int, ran)) / 1e6


def memory_mib(pid: int) -> float:
    """Return the largest resident memory that a process had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def measure(root: Path, total: int, draws: int) -> bool:
    """Ask a server for all pages, print what each took, and return whether all aims are met."""
    aim_ms = SMALL_MS if total <= SMALL else LARGE_MS
    command = [sys.executable, "-c", "from esper_agents.cli.main import main; main()", "serve", "--port", "0"]
    process = subprocess.Popen([*command, "--project", root], stderr=subprocess.PIPE, text=True)
    is_met = True
    try:
        assert process.stderr is not None
        start = process.stderr.readline().split()[-1]
        base = start.partition("/start")[0]
        print(f"{total} certificates, load {os.getloadavg()[0]:.1f}, in ms, aim {aim_ms:.0f} ms of CPU at p95")
        with httpx.Client(base_url=base, timeout=PATIENCE_S) as client:
            client.get(start)
            for page in pages(total).items():
                is_met &= ask(client, process.pid, page, draws=draws, aim_ms=aim_ms)
        used = memory_mib(process.pid)
        is_met &= used < MEMORY_MIB
        print(f"{'largest memory':40} {used:8.0f} MiB, aim {MEMORY_MIB} MiB{'' if used < MEMORY_MIB else '  MISSED'}")
    finally:
        process.terminate()
        process.communicate()
    return is_met


def ask(client: httpx.Client, pid: int, page: Page, *, draws: int, aim_ms: float) -> bool:
    """Ask for one kind of page, and return whether its aim is met."""
    name, draw = page
    chance, used, wall = random.Random(name), [], []  # noqa: S311 - a design, not a secret
    # The first answer loads templates and modules; the coverage of the files is computed in the background.
    while 'http-equiv="refresh"' in client.get(draw(chance)).text:
        time.sleep(1)
    for _ in range(draws):
        before, began = cpu_ms(pid), time.perf_counter()
        answer = client.get(draw(chance))
        assert answer.status_code == 200, (name, answer.status_code, answer.text[:500])
        wall.append((time.perf_counter() - began) * 1e3)
        used.append(cpu_ms(pid) - before)
    p95, median, wall_p95 = percentile(used, 95), percentile(used, 50), percentile(wall, 95)
    is_met = p95 <= aim_ms
    print(f"{name:40} p95 {p95:7.1f}  median {median:7.1f}  wall p95 {wall_p95:7.1f}{'' if is_met else '  MISSED'}")
    return is_met


def percentile(values: list[float], percent: int) -> float:
    """Return a percentile by the nearest rank."""
    return sorted(values)[min(len(values) * percent // 100, len(values) - 1)]


def main() -> None:
    """Read the command line, measure, and exit with 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="how many certificates")
    parser.add_argument("--draws", type=int, default=20, help="how often each page is asked for")
    parser.add_argument("--keep", default="", help="a folder to keep the archive in, for the next time")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="esper-web-") as made:
        folder = Path(given.keep or made).absolute()
        os.environ["ESPER_HOME"] = str(folder / "home")
        root = make_project(folder)
        fill(root, given.rows)
        is_met = measure(root, given.rows, given.draws)
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
