"""Queue workers on Ray clusters of real nodes on this machine."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from places import ESPER, FAULTY, Place, environment

pytest.importorskip("ray", reason="the extra `ray` is not installed: workers on a cluster were NOT tested")
sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
from ray_nodes import ray_nodes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
AGENT = "pytorch-code-reviewer"
PATIENCE_S = 300


@pytest.fixture
def place(make_project, home):
    return Place(make_project({"train.py": FAULTY}), home)


@pytest.fixture
def cluster(home):
    with ray_nodes(environment(home)) as nodes:
        nodes.start()
        yield nodes


def queue(place, count, env=None):
    for _ in range(count):
        place.esper("submit", "--queue", "--agent", AGENT, "review this training code", "train.py", code=0, env=env)


def worker(place, nodes, *options, env=None, once=True):
    """Start `esper worker --on ray` in the project."""
    command = [str(ESPER), "worker", "--on", "ray", "--cluster", nodes.address, "--poll", "0.2", *options]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        command + ["--once"] * once, cwd=place.root, env={**nodes.env, **(env or {})}, start_new_session=True, **streams
    )


def ended(process, code=0):
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code, (out[-2000:], err[-2000:])
    return out, err


def assert_each_has_one_certificate(place, count, env=None):
    """Assert that each session has one certificate that holds, with all its published files."""
    listed = json.loads(place.esper("certificates", "list", "--json", "-n", str(count + 9), code=0, env=env).stdout)
    assert len(listed) == count
    assert len({each["session"] for each in listed}) == count
    place.esper("certificates", "verify", "--all", code=0, env=env)


def until(holds):
    deadline = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def is_running(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_two_workers_on_two_nodes_run_the_queue_once(place, cluster):
    cluster.start()
    queue(place, 6)
    out, err = ended(worker(place, cluster, "--workers", "2", "--jobs", "2"))
    assert (out.count("worker started"), out.count("ended "), err) == (2, 6, "")
    assert_each_has_one_certificate(place, 6)


def test_a_module_of_the_project_is_not_imported_by_the_workers(place, cluster):
    (place.root / "sqlalchemy.py").write_text("raise SystemExit('imported')\n")
    queue(place, 1)
    assert "ended " in ended(worker(place, cluster))[0]


def test_a_killed_worker_is_replaced_and_nothing_is_lost_or_doubled(place, cluster):
    queue(place, 12)
    running = worker(place, cluster, "--workers", "1", "--jobs", "2")
    until(lambda: "ended" in running.stdout.readline())
    for process in until(cluster.workers):
        process.kill()
    out, _ = ended(running)
    assert "worker died" in out
    assert_each_has_one_certificate(place, 12)


def test_a_killed_node_loses_nothing(place, cluster):
    second = cluster.start("--resources", '{"here": 1}')
    queue(place, 12)
    running = worker(place, cluster, "--workers", "2", "--jobs", "1")
    until(lambda: "ended" in running.stdout.readline())
    cluster.kill(second)
    ended(running)
    assert_each_has_one_certificate(place, 12)


def test_a_killed_driver_loses_nothing(place, cluster):
    queue(place, 8)
    running = worker(place, cluster, "--jobs", "1")
    until(lambda: "ended" in running.stdout.readline())
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    until(lambda: not cluster.workers())
    ended(worker(place, cluster))
    assert_each_has_one_certificate(place, 8)


def test_sigterm_stops_the_workers_and_gives_the_sessions_back(place, cluster):
    queue(place, 8)
    running = worker(place, cluster, "--jobs", "1", once=False)
    until(lambda: "ended" in running.stdout.readline())
    running.send_signal(signal.SIGTERM)
    ended(running)
    until(lambda: not cluster.workers())
    sessions = json.loads(place.esper("sessions", "list", "--json", code=0).stdout)
    assert {each["state"] for each in sessions} == {"open", "done"}
    place.esper("worker", "--once", code=0)
    assert_each_has_one_certificate(place, 8)


def test_a_lost_head_is_one_error_in_two_lines(place, cluster):
    running = worker(place, cluster, once=False)
    until(lambda: "worker started" in running.stdout.readline())
    cluster.kill(0)
    _, err = ended(running, code=1)
    assert "no longer answers" in err
    assert "Traceback" not in err


def test_a_cluster_without_a_token_is_refused_unless_the_user_accepts_it(place, home):
    queue(place, 1)
    with ray_nodes(environment(home), with_token=False) as nodes:
        nodes.start()
        _, err = ended(worker(place, nodes), code=2)
        assert err.splitlines()[0].endswith("requires no token: whoever reaches it can run code")
        assert "--allow-open-cluster" in err.splitlines()[1]
        assert "ended " in ended(worker(place, nodes, "--allow-open-cluster"))[0]


def test_a_wrong_token_and_no_token_are_named(place, cluster):
    for env in ({"RAY_AUTH_TOKEN": "0" * 64}, {"RAY_AUTH_MODE": "disabled"}):
        _, err = ended(worker(place, cluster, env=env), code=1)
        assert "refuses the token of this process" in err
        assert len(err.splitlines()) == 2


def test_another_database_of_the_nodes_is_refused(place, cluster, tmp_path):
    _, err = ended(worker(place, cluster, env={"ESPER_HOME": str(tmp_path / "other")}), code=1)
    assert "uses the database" in err
    assert len(err.splitlines()) == 2


def test_what_no_node_has_is_refused_at_once(place, cluster):
    for options, name in ((["--gpus", "1"], "GPU 1"), (["--resource", "fpga=2"], "fpga 2")):
        _, err = ended(worker(place, cluster, *options), code=2)
        assert f"no node of the Ray cluster has CPU 1, {name}" in err


def test_workers_beyond_the_room_of_the_cluster_wait_and_can_be_stopped(place, cluster):
    queue(place, 1)
    running = worker(place, cluster, "--workers", "3", once=False)
    seen = []
    until(lambda: (seen.append(running.stdout.readline()), "has room" in "".join(seen) and "ended" in "".join(seen))[1])
    running.send_signal(signal.SIGTERM)
    ended(running)


def test_a_custom_resource_decides_the_node(place, cluster):
    second = cluster.start("--resources", '{"fpga": 1}')
    queue(place, 1)
    running = worker(place, cluster, "--resource", "fpga=1", once=False)
    until(lambda: "ended" in running.stdout.readline())
    (process,) = cluster.workers()
    assert process in cluster.processes(second)
    running.send_signal(signal.SIGTERM)
    ended(running)


def test_another_version_of_ray_is_named(place, cluster):
    code = (
        "import ray; ray.__version__ = '2.1.0'\n"
        "import sys; sys.argv[0] = 'esper'\n"
        "from esper_agents.cli.main import main; main()"
    )
    command = [sys.executable, "-c", code, "worker", "--on", "ray", "--cluster", cluster.address]
    done = subprocess.run(
        command, cwd=place.root, env=cluster.env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 1
    problem, fix = done.stderr.splitlines()
    assert "has Ray 2.60" in problem
    assert "this process 2.1.0" in problem
    assert fix.startswith("  fix: pip install 'ray==2.60")


def test_without_a_cluster_there_is_one_error(place, home):
    env = {name: text for name, text in environment(home).items() if not name.startswith("RAY_")}
    command = [str(ESPER), "worker", "--on", "ray", "--cluster", "127.0.0.1:9"]
    done = subprocess.run(
        command, cwd=place.root, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 2)
    assert "no Ray cluster answers at" in done.stderr


@pytest.mark.parametrize("options", [["--workers", "2"], ["--cluster", "h:1"], ["--on", "ray", "--resource", "x"]])
def test_options_of_a_cluster_are_checked(place, options):
    place.esper("worker", *options, code=2)


def test_no_process_is_left_of_a_closed_cluster(home):
    with ray_nodes(environment(home)) as nodes:
        nodes.start()
        pids = [each.pid for each in nodes.processes(0)]
    assert not [pid for pid in pids if is_running(pid)]


def test_the_status_shows_nodes_workers_and_sessions(place, cluster):
    queue(place, 1)
    running = worker(place, cluster, "--workers", "2", once=False)
    until(lambda: "worker started" in running.stdout.readline())
    until(lambda: "ended" in running.stdout.readline())
    shown = place.esper(
        "cluster", "status", "--cluster", cluster.address, "--json", code=0, env=cluster.env, is_cold=True
    )
    found = json.loads(shown.stdout)
    (node,) = found["nodes"]
    assert (node["workers"], node["resources"]["CPU"]) == (2, 2.0)
    assert (found["queue"]["queued"], found["queue"]["running"], found["devices"]) == (0, 0, [])
    running.send_signal(signal.SIGTERM)
    ended(running)
    assert "queue" in place.esper("cluster", "status", code=0).stdout


def test_the_commands_of_the_page_work_on_one_machine_with_two_nodes(place, cluster):
    cluster.start()
    text = (Path(__file__).parents[3] / "docs/cluster.md").read_text(encoding="utf-8")
    lines = [line.removeprefix("$ esper ") for line in text.splitlines() if line.startswith("$ esper ")]
    assert sum("--on ray" in line for line in lines) == 4
    for line in lines:
        env = {**cluster.env, "RAY_ADDRESS": cluster.address}
        # The project has a critical finding.
        code = 3 if line.startswith("review") else 0
        place.esper(*shlex.split(line), env=env, code=code, is_cold="ray" in line or "cluster" in line)
    assert_each_has_one_certificate(place, 1)
