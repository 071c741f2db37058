"""Workers of two machines on one PostgreSQL database: two data directories, and what differs between their machines."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from places import SOUND, Place, git, write

pytestmark = [pytest.mark.slow, pytest.mark.postgresql]
AGENT = "pytorch-code-reviewer"

AN_HOUR_AHEAD = """
import sys, time
from datetime import datetime, timedelta
import datetime as module
late = float(sys.argv.pop(1))
seconds, nanoseconds = time.time, time.time_ns
time.time = lambda: seconds() + late
time.time_ns = lambda: nanoseconds() + int(late * 1e9)
class Late(datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(seconds=late)
module.datetime = Late
sys.argv[0] = "esper"
from esper_agents.cli.main import main
main()
"""


@pytest.fixture
def machines(tmp_path, postgresql_url):
    """Return what runs the command on one of two machines, which have the project under one path."""
    root = tmp_path / "toy"
    write(root, {"train.py": SOUND})
    git(root, "init", "-q", "-b", "main", "--template=")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return [Machine(Place(root, tmp_path / name), postgresql_url) for name in ("one", "two")]


class Machine:
    """A place on a shared database."""

    def __init__(self, place, url):
        self.place = place
        self.env = {"ESPER_DATABASE_URL": url.render_as_string(hide_password=False)}

    def esper(self, *words, **options):
        return self.place.esper(*words, env=self.env, **options)

    def queue(self, count):
        for _ in range(count):
            self.esper("submit", "--queue", "--agent", AGENT, "review this training code", "train.py", code=0)

    def certificates(self):
        return json.loads(self.esper("certificates", "list", "--json", "-n", "99", code=0).stdout)


def test_two_machines_with_one_key_issue_certificates_of_one_signer(machines):
    one, two = machines
    one.queue(4)
    one.esper("worker", "--once", "--jobs", "1", code=0)
    shutil.copytree(one.place.home / "keys", two.place.home / "keys")
    one.queue(6)
    running = [machine.place.start("worker", "--once", "--jobs", "1", env=machine.env) for machine in machines]
    for process in running:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, (out, err)
    assert len({row["session"] for row in one.certificates()}) == len(one.certificates()) == 10
    for machine in machines:
        machine.esper("certificates", "repair", code=0)
        out = machine.esper("certificates", "verify", "--all", code=0).stdout
        assert "log: 10 entries, no faults" in out
    assert len(list(one.place.root.rglob("keys/*.pub"))) == 1


@pytest.mark.parametrize("late_s", [3600, -3600])
def test_a_worker_whose_clock_is_an_hour_off_has_the_times_and_leases_of_the_database(machines, late_s):
    one, _ = machines
    one.queue(2)
    child = one.place.child(env=one.env) | {
        "args": [sys.executable, "-c", AN_HOUR_AHEAD, str(late_s), "worker", "--once"]
    }
    done = subprocess.run(child.pop("args"), **child, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ended ") == 2
    now = datetime.now(UTC)
    for row in one.certificates():
        issued = datetime.fromisoformat(row["issued_at"])
        assert abs((now - issued).total_seconds()) < 600
    one.queue(1)
    assert "ended " in one.esper("worker", "--once", code=0).stdout
    one.esper("certificates", "verify", "--all", code=0)


def test_a_database_of_a_newer_version_is_named_and_nothing_is_claimed(machines):
    psycopg = pytest.importorskip("psycopg")
    one, _ = machines
    one.queue(1)
    with psycopg.connect(one.env["ESPER_DATABASE_URL"]) as connection:
        connection.execute("UPDATE esper.alembic_version SET version_num = '9999'")
    problem, fix = one.esper("worker", "--once").problem(1)
    assert "9999" in problem
    assert "upgrade esper-agents" in fix
