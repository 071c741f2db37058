"""Tests of `esper inspect` and of what a session shows of an inspection."""

from __future__ import annotations

import pytest
from places import Place

UNSAFE = (
    "import torch\n\nstate = torch.load('a.pt', weights_only=False)\nsafe = torch.load('b.pt', weights_only=True)\n"
)


@pytest.fixture
def loading(project, tmp_path):
    (project / "load.py").write_text(UNSAFE)
    return Place(project, tmp_path / "home")


def test_what_must_change_is_exit_code_3_with_its_line_and_fix(loading):
    shown = loading.esper("inspect", "load.py", "--topic", "security", code=3).stdout
    assert "change     load.py:3  ESP901" in shown
    assert "fine       load.py:4" in shown
    data = loading.esper("inspect", "load.py", "--topic", "security", "--json", code=3).json
    assert {each["line"] for result in data for each in result["facts"]} == {3, 4}


def test_the_queries_are_listed_with_their_topics(loading):
    assert (
        "checkpoint-loads (security, untrusted files, checkpoints)" in loading.esper("inspect", "--list", code=0).stdout
    )
    names = {each["name"] for each in loading.esper("inspect", "--list", "--json", code=0).json}
    assert "checkpoint-loads" in names


def test_a_path_without_a_topic_is_refused_with_a_command(loading):
    problem, remedy = loading.esper("inspect", "load.py").problem(2)
    assert "topic" in problem
    assert "esper inspect" in remedy


def test_a_session_about_a_topic_states_what_must_change_and_what_is_fine(loading):
    done = loading.esper("submit", "security: which of these loads could run foreign code?", "load.py")
    assert "Must change: load.py:3" in " ".join(done.stdout.split())
    assert "load.py:3  ESP901" in done.stdout
    assert "fine       load.py:4" in done.stdout
    assert "esper inspect --topic=security" in str(loading.esper("certificates", "show", "--json", code=0).json)


def test_a_usage_is_answered_at_its_line(loading):
    shown = loading.esper("inspect", "load.py", "--usage", "weights-only:4", code=0).stdout
    assert "fine       load.py:4  `weights_only=True` is right" in shown
    problem, remedy = loading.esper("inspect", "load.py", "--usage", "weihgts-only").problem(2)
    assert "weihgts-only" in problem
    assert "weights-only" in remedy
