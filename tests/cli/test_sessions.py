"""`esper sessions cancel --interrupted`: only what nothing works on, and only when a user agrees."""

from __future__ import annotations

import asyncio
import json

import pytest
from command_line import build
from typer.testing import CliRunner

from esper_agents.api import open_project
from esper_agents.domain.session import SessionState
from esper_agents.errors import UsageError
from esper_agents.storage.lease import release


def esper(*words, text=None):
    return CliRunner().invoke(build(), ["sessions", *words], env={"COLUMNS": "100"}, input=text)


def states():
    listed = json.loads(esper("list", "--json").output)
    return {each["id"]: each["state"] for each in listed}


async def _interrupted(root, count):
    """Return sessions that were begun and that no process works on any more."""
    async with open_project(root) as project:
        task = project.tasks.create("review this training code", [root / "train.py"])
        begun = [await project.tasks.submit(task) for _ in range(count)]
        for each in begun:
            await project.services.store.run(release, each._lease, SessionState.OPEN)
        return [each.id for each in begun]


@pytest.fixture
def interrupted(project, monkeypatch):
    monkeypatch.chdir(project)
    return asyncio.run(_interrupted(project, 2))


@pytest.fixture
def at_terminal(monkeypatch):
    monkeypatch.setattr("esper_agents.cli.sessions.is_interactive", lambda: True)


def test_all_interrupted_sessions_are_cancelled_after_yes(interrupted, project):
    queued = CliRunner().invoke(build(), ["submit", "--queue", "review this training code", "train.py"])
    assert queued.exit_code == 0
    done = esper("cancel", "--interrupted", "-y")
    assert (done.exit_code, done.output) == (0, "cancelled  2 sessions\n")
    found = states()
    assert {found.pop(each) for each in interrupted} == {"cancelled"}
    assert list(found.values()) == ["open"]
    again = esper("cancel", "--interrupted", "--yes", "--json")
    assert (again.exit_code, json.loads(again.output)) == (0, [])


def test_a_session_that_a_process_works_on_is_left_alone(interrupted, project):
    async def run():
        async with open_project(project) as opened:
            held = await opened.tasks.resume(interrupted[0])
            seen = await opened.sessions.interrupted()
            ended = await opened.sessions.cancel_interrupted([await opened.sessions.get(each) for each in interrupted])
            await opened.services.store.run(release, held._lease, SessionState.OPEN)
            return seen, ended

    seen, ended = asyncio.run(run())
    assert [each.id for each in seen] == [each.id for each in ended] == interrupted[1:]
    assert states() == {interrupted[0]: "open", interrupted[1]: "cancelled"}


@pytest.mark.usefixtures("at_terminal")
def test_the_user_is_asked_and_may_decline(interrupted):
    declined = esper("cancel", "--interrupted", text="n\n")
    assert declined.exit_code == 10
    assert "nothing was cancelled" in declined.output
    assert set(states().values()) == {"open"}
    assert esper("cancel", "--interrupted", text="y\n").exit_code == 0
    assert set(states().values()) == {"cancelled"}


def test_without_a_terminal_it_must_be_confirmed_on_the_command_line(interrupted):
    done = esper("cancel", "--interrupted")
    assert isinstance(done.exception, UsageError)
    assert done.exception.remedy == "esper sessions cancel --interrupted --yes"
    assert set(states().values()) == {"open"}


@pytest.mark.parametrize("words", [("cancel",), ("cancel", "latest", "--interrupted")])
def test_one_session_or_all_interrupted_ones_must_be_named(interrupted, words):
    assert isinstance(esper(*words).exception, UsageError)
    assert set(states().values()) == {"open"}
