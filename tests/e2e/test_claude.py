"""The installed `esper` asks a model: who agrees, what is sent, and what is said of a server in trouble."""

from __future__ import annotations

import os
import pty
import subprocess
from contextlib import contextmanager, suppress

import pytest
from modelling import conclude
from places import FAULTY

from esper_agents.orchestration import consent
from esper_agents.testing.messages import MessagesServer
from esper_agents.testing.script import Hang, Say, ToolUseBlock, TruncateResponse

REVIEW = ("submit", "review this training code", "train.py")
CLAUDE = (*REVIEW, "--reasoner", "claude")
NOWHERE = {"ANTHROPIC_API_KEY": "test", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}


@pytest.fixture(scope="module")
def _toy(place):
    made = place({"train.py": FAULTY})
    made.esper("sessions", "list", code=0)
    return made


@pytest.fixture
def toy(_toy, tmp_path):
    """Return a project with a home in which nobody has agreed to anything."""
    return _toy.with_home(tmp_path / "home")


def agree(toy, host):
    """Agree that source of the project goes to a server."""
    (home,) = (toy.home / "projects").iterdir()
    consent.agree(home, host, "Ada")


@contextmanager
def serving(script, **options):
    """Serve a script; yield the server, and the host that `esper` knows it by."""
    with MessagesServer(script, **options) as server:
        yield server, server.url.removeprefix("http://")


def typed(toy, server, *keys, arguments=REVIEW):
    """Run a command at a terminal at which a person types; return the exit code and what was shown."""
    ours, theirs = pty.openpty()
    env = {**server.environment, "COLUMNS": "200"}
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    process = subprocess.Popen(**toy.child(*arguments, env=env), **streams, start_new_session=True)
    os.close(theirs)
    shown = b""
    for key in keys:
        while b"[y/n]" not in shown.rpartition(b"\n")[2]:
            shown += os.read(ours, 4096)
        os.write(ours, key.encode())
        shown += b"\n"
    with suppress(OSError):  # what Linux answers once the other end is closed
        while more := os.read(ours, 4096):
            shown += more
    os.close(ours)
    return process.wait(), shown.decode()


def test_at_a_terminal_the_person_is_asked_once_and_their_yes_is_remembered(toy):
    with serving(lambda _: conclude()) as (server, host):
        code, shown = typed(toy, server, "maybe\n", "yes\n")
        assert code == 3
        assert shown.count(f"send source code of this project to {host}?") == 2
        assert f"claude-sonnet-5-5 at {host}" in shown
        assert "train.py, plus files" in shown
        assert "about $0." in shown
        assert len(server.requests) == 1
        code, shown = typed(toy, server)
        assert "send source code of this project" not in shown
        assert len(server.requests) == 2


@pytest.mark.slow
def test_a_no_goes_on_by_playbooks_and_is_not_asked_again(toy):
    with serving([]) as (server, _):
        code, shown = typed(toy, server, "n\n")
        assert code == 3
        assert "playbooks; no consent" in shown
        assert "by playbook" in shown
        code, shown = typed(toy, server, arguments=(*REVIEW, "--queue"))
        assert (code, "[y/n]" in shown) == (0, False)
        code, shown = typed(toy, server, "no\n", arguments=CLAUDE)
        assert code == 2
        assert "no consent to send" in shown
        assert not server.requests


@pytest.mark.slow
def test_an_end_of_the_input_is_a_no_that_is_not_kept(toy):
    with serving([]) as (server, _):
        for _ in range(2):
            code, shown = typed(toy, server, "\x04", arguments=(*REVIEW, "--queue"))
            assert (code, "[y/n]" in shown) == (0, True)


def test_without_a_terminal_it_is_no_and_a_plan_shows_what_would_be_sent_and_for_how_much(toy):
    with serving([]) as (server, host):
        done = toy.esper(*CLAUDE, "--dry-run", code=0, env=server.environment)
        assert f"source goes to {host}; about $" in done.stdout
        problem, remedy = toy.esper(*CLAUDE, env=server.environment).problem(2)
        assert problem == f"no consent to send the source of this project to {host}"
        assert remedy == f"run `esper models allow {host}`, or use --reasoner playbook"
        assert not server.requests


def test_without_a_key_the_way_to_one_and_the_way_without_are_named(toy):
    problem, remedy = toy.esper(*CLAUDE, env={"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": ""}).problem(2)
    assert "no API key" in problem
    assert "ANTHROPIC_API_KEY" in remedy
    assert "--reasoner playbook" in remedy


@pytest.mark.slow
def test_a_wrong_key_is_told_before_any_work_and_nothing_is_left_behind(toy):
    with serving([], key="right") as (server, host):
        agree(toy, host)
        problem, remedy = toy.esper(*CLAUDE, env={**server.environment, "ANTHROPIC_API_KEY": "wrong"}).problem(2)
    assert problem.startswith(f"{host} rejects the API key")
    assert "wrong" not in problem
    assert remedy.startswith("check ANTHROPIC_API_KEY")
    assert toy.esper("sessions", "list", "--json", code=0).json == []
    assert not server.requests


def test_an_address_where_nobody_listens_is_told_before_any_work_and_nothing_is_left_behind(toy):
    agree(toy, "127.0.0.1:9")
    problem, remedy = toy.esper(*CLAUDE, env=NOWHERE).problem(75)
    assert problem.startswith("127.0.0.1:9 cannot be reached")
    assert "ANTHROPIC_BASE_URL" in remedy
    assert toy.esper("sessions", "list", "--json", code=0).json == []


@pytest.mark.slow
def test_an_answer_that_breaks_off_is_asked_for_again_in_a_line_of_the_programs_own(toy):
    answers = iter(
        [[Say("I begin to look"), TruncateResponse(700)], [ToolUseBlock("read-file", {"path": "train.py"})], conclude()]
    )
    with serving(lambda _: next(answers)) as (server, host):
        agree(toy, host)
        done = toy.esper(*CLAUDE, code=3, env=server.environment)
    assert len(server.requests) == 3
    assert f"waits      {host} ended its answer early; it is asked again in 0." in done.stdout


@pytest.mark.slow
def test_a_server_that_hangs_is_given_up(toy):
    with serving(lambda _: Hang()) as (server, host):
        agree(toy, host)
        env = {**server.environment, "ESPER_MODEL_TIMEOUT": "0.05"}
        problem, remedy = toy.esper(*CLAUDE, env=env).problem(75)
        assert host in problem
        assert "esper resume latest" in remedy


@pytest.mark.slow
def test_a_budget_that_the_first_prompt_would_exceed_sends_nothing(toy):
    with serving([]) as (server, host):
        agree(toy, host)
        done = toy.esper(*CLAUDE, "--budget", "tokens=500", code=5, env=server.environment)
        assert "stopped    by the budget of tokens" in done.stdout
        assert not server.requests
