from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "crash.py"


def measured(*arguments):
    # A process of its own: workers must be forked from one that has no threads.
    command = [sys.executable, "-W", "error", str(BENCHMARK), "--json", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})
    assert done.stdout, done.stderr
    # How soon it went on is for the benchmark to judge: tests may share the machine.
    return json.loads(done.stdout)


def test_a_session_that_is_killed_at_some_step_goes_on_where_it_was():
    found = measured("--every", 90, "--random", 1)
    assert found["violations"] == []
    assert found["killed_at_points"] == -(-found["points"] // 90)


@pytest.mark.slow
def test_wherever_a_session_is_killed_nothing_is_lost_and_nothing_finished_is_repeated():
    # At every third point; `make bench` kills at all of them.
    # On a busy machine a session may end before its moment.
    found = measured("--every", 3, "--random", 12)
    assert found["violations"] == []
    assert found["killed_at_points"] == -(-found["points"] // 3)
    assert found["killed_at_random"] >= 3
    names = found["points_by_name"]
    for kind in ("submitted", "routed", "opened", "deciding", "moved", "calling", "called", "asked", "answered"):
        written = [name for name in names if kind in name.split(" ")[-1].split("+") and name.startswith("before")]
        assert written
        assert all(names[each] == names[each.replace("before", "after", 1)] for each in written)
    assert names["before the commit of certified"] == 1
    assert names["before migrating"] == 1
    assert names["before publishing a file"] >= 4
