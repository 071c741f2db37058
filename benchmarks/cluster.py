"""Sessions on two Ray nodes of this machine while workers, nodes and the driver are killed.

Reviews of one file are queued in a PostgreSQL database. `esper worker --on ray` runs them; whenever a further share of
them has a certificate, something is killed, in turn: a worker, the second node (a new one takes its place), the driver
(it is started again). In the end every session must have exactly one certificate, and `verify --all` must exit with 0:
what a killed process did not publish, the worker that continues its session has published.

With `--cpu` it measures instead how much CPU a session takes in a worker on Ray and in a plain one, in pairs.

    python benchmarks/cluster.py [--sessions 256] [--kills 20] [--database postgresql|URL] [--json]
    python benchmarks/cluster.py --cpu --sessions 32
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
from databases import EMBEDDED, connected, create, database_of, drop, server_of
from ray_nodes import RayNodes, clean_environment, ray_nodes
from worker import SOURCE, submit

_AUTHOR = ("-c", "user.name=Benchmark", "-c", "user.email=benchmark@example.org")
_ESPER = str(Path(sys.executable).with_name("esper"))
_PATIENCE_S = 1_200
_JOBS = 2


def queued_project(folder: Path, sessions: int) -> Path:
    """Return a project with queued reviews."""
    project = folder / "project"
    if not project.is_dir():
        project.mkdir()
        (project / "train.py").write_text(SOURCE)
        for arguments in (("init", "-q"), ("add", "-A"), (*_AUTHOR, "commit", "-qm", "first")):
            subprocess.run(["git", "-C", str(project), *arguments], check=True)
    for _ in range(sessions):
        submit(project)
    return project


def certificates_of_sessions() -> Counter[str]:
    """Return the number of certificates of each session."""
    with connected(os.environ["ESPER_DATABASE_URL"]) as connection:
        rows = connection.execute("SELECT session_id FROM certificate").fetchall()
    return Counter(str(session) for (session,) in rows)


def unfinished_sessions() -> int:
    """Return the number of sessions that are open, or whose process has not returned their lease."""
    with connected(os.environ["ESPER_DATABASE_URL"]) as connection:
        statement = "SELECT count(*) FROM session WHERE state = 'open' OR owner <> ''"
        (count,) = connection.execute(statement).fetchone() or (0,)
    return int(count)


def start_driver(project: Path, nodes: RayNodes, workers: int) -> subprocess.Popen[bytes]:
    """Start `esper worker --on ray`."""
    command = [_ESPER, "worker", "--on", "ray", "--cluster", nodes.address, "--project", str(project)]
    command += ["--workers", str(workers), "--jobs", str(_JOBS), "--poll", "0.5"]
    return subprocess.Popen(command, env=nodes.env, stdout=subprocess.DEVNULL)


def esper(*words: str, project: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a project."""
    command = [_ESPER, *words, "--project", str(project)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def measure_kills(folder: Path, sessions: int, kills: int) -> dict[str, Any]:
    """Run sessions with kills, and return what was counted."""
    project = queued_project(folder, sessions)
    killed: Counter[str] = Counter()
    with ray_nodes(clean_environment()) as nodes:
        nodes.start()
        second = nodes.start()
        driver = start_driver(project, nodes, 2)
        began = time.monotonic()
        while (left := unfinished_sessions()) and time.monotonic() < began + _PATIENCE_S:
            time.sleep(0.2)
            done = sessions - left
            # The first kill comes before the first certificate, the last one before the last.
            if killed.total() >= kills or done < sessions * killed.total() // kills or not nodes.workers():
                continue
            match killed.total() % 3:
                case 0:
                    nodes.workers()[0].kill()
                    killed["worker"] += 1
                case 1:
                    nodes.kill(second)
                    second = nodes.start()
                    killed["node"] += 1
                case _:
                    driver.kill()
                    driver.wait()
                    driver = start_driver(project, nodes, 2)
                    killed["driver"] += 1
        took_s = time.monotonic() - began
        driver.send_signal(signal.SIGTERM)
        driver_exit = driver.wait(_PATIENCE_S)
    counts = certificates_of_sessions()
    verified = esper("certificates", "verify", "--all", project=project)
    with connected(os.environ["ESPER_DATABASE_URL"]) as connection:
        (calls,) = connection.execute("SELECT count(*) FROM ledger WHERE kind = 'called'").fetchone() or (0,)
    return {
        "sessions": sessions,
        "kills": dict(killed),
        "lost": sessions - len(counts),
        "doubled": sum(count > 1 for count in counts.values()),
        "tool_calls_a_session": calls / sessions,
        "driver_exit_code": driver_exit,
        "verify_all_exit_code": verified.returncode,
        "wall_s": took_s,
    }


def cpu_of_plain_worker(project: Path) -> float:
    """Return the CPU time of a plain worker until the queue is empty, in seconds."""
    command = [_ESPER, "worker", "--once", "--jobs", str(_JOBS), "--poll", "0.5", "--project", str(project)]
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def cpu_of_ray_worker(project: Path, total: int) -> tuple[float, float]:
    """Return the CPU time of a worker on Ray until the queue is empty, and that of all of Ray, in seconds."""
    with ray_nodes(clean_environment()) as nodes:
        nodes.start()
        driver = start_driver(project, nodes, 1)
        deadline = time.monotonic() + _PATIENCE_S
        while certificates_of_sessions().total() < total and time.monotonic() < deadline:
            time.sleep(0.5)
        # The worker process: a reaped child counts for it, as it does for the plain worker.
        worker = sum(_cpu_s(process) for process in nodes.workers())
        everything = sum(_cpu_s(process) for process in nodes.processes(0)) + _cpu_s(psutil.Process(driver.pid))
        driver.send_signal(signal.SIGTERM)
        driver.wait(_PATIENCE_S)
    return worker, everything


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def measure_cpu(folder: Path, sessions: int, pairs: int) -> dict[str, Any]:
    """Measure pairs of a plain worker and one on Ray; the ratio is that of the worker processes."""
    ratios, plain_ms, on_ray_ms, ray_itself_s = [], [], [], []
    for pair in range(pairs):
        project = queued_project(folder, sessions)
        plain_s = cpu_of_plain_worker(project)
        queued_project(folder, sessions)
        on_ray_s, everything_s = cpu_of_ray_worker(project, 2 * sessions * (pair + 1))
        ratios.append(on_ray_s / plain_s)
        plain_ms.append(plain_s * 1000 / sessions)
        on_ray_ms.append(on_ray_s * 1000 / sessions)
        ray_itself_s.append(everything_s - on_ray_s)
    return {
        "sessions": sessions,
        "pairs": pairs,
        "plain_cpu_ms_a_session": statistics.median(plain_ms),
        "ray_cpu_ms_a_session": statistics.median(on_ray_ms),
        "cpu_ratio": statistics.median(ratios),
        "ray_itself_cpu_s": statistics.median(ray_itself_s),
    }


def main() -> None:
    """Read the command line, measure, print, and exit with 1 if a session was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=256)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--cpu", action="store_true", help="measure CPU time in pairs, without kills")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--database", default=EMBEDDED, metavar="URL", help="postgresql, or the URL of a server")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    with server_of(given.database) as server, tempfile.TemporaryDirectory(prefix="esper-cluster-") as name:
        folder = Path(name)
        create(server, folder)
        os.environ["ESPER_HOME"] = str(folder / "home")
        os.environ["ESPER_DATABASE_URL"] = database_of(server, folder)
        try:
            if given.cpu:
                found = measure_cpu(folder, given.sessions, given.pairs)
            else:
                found = measure_kills(folder, given.sessions, given.kills)
        finally:
            drop(server, folder)
    wanted = {"lost": 0, "doubled": 0, "verify_all_exit_code": 0, "driver_exit_code": 0}
    missed = [figure for figure, aim in wanted.items() if found.get(figure, aim) != aim]
    if given.json:
        print(json.dumps(found | {"missed": missed}))
    else:
        for figure, amount in found.items():
            shown = f"{amount:.2f}" if isinstance(amount, float) else amount
            print(f"{figure:25} {shown}{' MISSED' if figure in missed else ''}")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
