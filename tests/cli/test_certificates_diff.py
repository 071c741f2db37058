"""`esper certificates diff`: which two certificates are compared."""

from __future__ import annotations

import json

import pytest
from command_line import build
from judged import FAULTY, judge
from typer.testing import CliRunner

from esper_agents.errors import UsageError


@pytest.fixture
def reviewed(make_project, monkeypatch):
    """Return the first certificate of a project that is reviewed twice."""
    root = make_project({"train.py": FAULTY, "other.py": FAULTY})
    monkeypatch.chdir(root)
    first = judge(root)
    return first, judge(root)


def diff(*words):
    return CliRunner().invoke(build(), ["certificates", "diff", *words, "--json"], env={"COLUMNS": "100"})


def compared(*words):
    said = json.loads(diff(*words).stdout)
    return said["before"], said["after"]


def test_the_latest_alone_is_compared_with_the_one_before(reviewed):
    first, second = reviewed
    assert compared("latest") == compared(second.id) == (first.id, second.id)


def test_an_earlier_one_alone_is_compared_with_the_latest_of_its_component(reviewed):
    first, second = reviewed
    CliRunner().invoke(build(), ["submit", "review this training code", "other.py"])
    assert compared(first.id) == (first.id, second.id)


def test_a_certificate_is_not_compared_with_itself(reviewed):
    done = diff("latest", "latest")
    assert isinstance(done.exception, UsageError)
    assert done.exception.remedy == "name another one: esper certificates list --component train"


def test_the_only_one_of_its_component_has_nothing_to_be_compared_with(reviewed):
    CliRunner().invoke(build(), ["submit", "review this training code", "other.py"])
    done = diff("latest")
    assert isinstance(done.exception, UsageError)
    assert done.exception.problem.endswith("is the only certificate of 'other'")
    assert done.exception.remedy.startswith("repeat its request, then compare: esper submit --rerun crt_")
