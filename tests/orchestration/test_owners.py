"""Processes that freeze, thaw and race for one session, as the benchmarks have them; how long that takes is theirs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
DATABASES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]


def measured(name, *arguments):
    # A process of its own: workers must be forked from one that has no threads.
    command = [sys.executable, "-W", "error", str(BENCHMARKS / f"{name}.py"), "--json", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("database", DATABASES)
def test_a_frozen_owner_that_thaws_adds_no_row_and_repeats_no_effect(database):
    # On a busy machine many a session ends before it is frozen.
    found = measured("freeze", "--database", database, "--trials", 12)
    assert found["violations"] == []
    assert found["frozen"] >= 3


@pytest.mark.slow
@pytest.mark.parametrize("database", DATABASES)
def test_of_processes_that_resume_one_session_at_once_one_gets_it_and_the_others_are_told_it_is_busy(database):
    found = measured("races", "--database", database, "--races", 5, "--racers", 4, "--writers", 4, "--rows", 5)
    assert (found["not_one_owner"], found["not_told_busy"], found["races"]) == (0, 0, 5)
    assert (found["writers_failed"], found["trouble"]) == (0, [])


@pytest.mark.slow
def test_a_session_that_is_killed_on_postgresql_goes_on_where_it_was():
    found = measured("crash", "--database", "postgresql", "--every", 40, "--random", 2)
    assert found["violations"] == []
    assert found["killed_at_points"] >= 3


@pytest.mark.slow
def test_every_step_of_the_task_that_overhead_is_measured_on_is_durable():
    found = measured("overhead", "--sessions", 1)
    # A row before and a row after each move and each call, and those that begin, hand on and end.
    assert (found["turns"], found["rows"]) == (12, 2 * 12 + 2 * 9 + 9)
