"""A forked call of the command is what a call with a start of its own is."""

from __future__ import annotations

import os
import stat
import subprocess

import fork_server
import pytest
from places import FAULTY, Place, environment, write


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path / "toy", tmp_path / "home")
    write(made.root, {"train.py": FAULTY})
    return made


def both(place, *arguments, **options):
    forked = place.esper(*arguments, **options)
    assert forked == place.esper(*arguments, is_cold=True, **options)
    return forked


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("review", "train.py"), 3),
        (("review", "--json", "train.py"), 3),
        (("certificates", "show", "latest"), 2),
        (("nonsense",), 2),
        (("sessions", "--help"), 0),
    ],
    ids=str,
)
def test_it_says_and_ends_with_the_same(place, arguments, code):
    assert both(place, *arguments).code == code


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "env",
    [
        {"COLUMNS": "40"},
        {"ESPER_DATABASE_URL": "nonsense://"},
        {"ESPER_HOME": "/dev/null/nowhere"},
        {"TZ": "Asia/Tokyo"},
    ],
    ids=str,
)
def test_it_has_the_environment_that_it_is_given_and_not_that_of_its_parent(place, env):
    both(place, "sessions", "list", env=env)


def test_a_session_goes_the_same_way(place, tmp_path):
    def session(**options):
        ran = Place(place.root, tmp_path / f"home-{len(options)}")
        done = ran.esper("submit", "--json", "review this training code", "train.py", code=3, **options)
        rows = ran.rows("SELECT frame, step, call, kind FROM ledger ORDER BY seq")
        return rows, done.json["certificate"]["status"], [each["claim"] for each in done.json["findings"]]

    assert session() == session(is_cold=True)


def test_two_calls_have_nothing_in_common(place):
    places = [Place(place.root, place.home.with_name(name)) for name in ("one", "two")]
    for each in places:
        each.esper("submit", "review this training code", "train.py", code=3)
    ((one,),), ((two,),) = (each.rows("SELECT id FROM session") for each in places)
    assert one != two


def test_files_are_made_under_the_umask_of_the_test(place):
    before = os.umask(0o077)
    try:
        place.esper("review", "train.py", "--format", "sarif", "--output", "made.sarif")
    finally:
        os.umask(before)
    assert stat.S_IMODE((place.root / "made.sarif").stat().st_mode) == 0o600


def test_one_that_does_not_end_is_killed(place):
    with pytest.raises(subprocess.TimeoutExpired):
        fork_server.run(["worker", "--poll", "0.1"], cwd=place.root, env=environment(place.home), timeout=2)
