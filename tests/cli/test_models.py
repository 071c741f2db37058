"""`esper models`, and where else it is told what models cost."""

from __future__ import annotations

import json

import pytest
from command_line import build
from modelling import conclude, served
from places import FAULTY
from typer.testing import CliRunner

from esper_agents.testing.script import ToolUseBlock

LOOK = ToolUseBlock("read-file", {"path": "train.py"})


@pytest.fixture
def esper(project, monkeypatch):
    """Return what runs a command in the project, as if nobody sat at a terminal."""
    (project / "train.py").write_text(FAULTY)
    monkeypatch.chdir(project)
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    app = build()

    def run(*arguments):
        return CliRunner().invoke(app, arguments)

    return run


@pytest.fixture
def asked(esper, monkeypatch):
    """Return what runs a command, after one session by playbooks and one in which a model took two turns."""
    esper("submit", "review this training code", "train.py")
    with served([LOOK, conclude()], monkeypatch) as server:
        esper("models", "agree")
        esper.done = esper("submit", "--reasoner", "claude", "review this training code", "train.py")
    assert len(server.requests) == 2
    return esper


def test_models_are_listed_with_roles_and_prices(esper):
    listed = esper("models", "list")
    assert listed.exit_code == 0
    (line,) = [each for each in listed.stdout.splitlines() if each.startswith("claude-opus-5-5")]
    assert line.split() == ["claude-opus-5-5", "opus,", "second_opinion", "4", "0.2", "20", "1,000,000", "128,000"]
    assert "no server: source code of this project stays on this machine" in listed.stdout


def test_the_list_as_json_has_exact_prices(esper):
    told = json.loads(esper("models", "list", "--json").stdout)
    haiku = next(each for each in told["models"] if each["name"] == "claude-haiku-5-5")
    assert (haiku["cache_write"], haiku["window"]) == ("0.625", "1000000")
    assert told["roles"]["haiku"] == "claude-haiku-5-5"
    assert told["consents"] == []
    assert told["activities"] == {}


@pytest.mark.parametrize(("allow", "disallow"), [("allow", "disallow"), ("agree", "withdraw")])
def test_consent_is_given_shown_and_withdrawn_under_both_names(esper, allow, disallow):
    assert "may go to localhost:8080" in esper("models", allow, "localhost:8080").stdout
    listed = esper("models", "list").stdout
    assert "may read   localhost:8080, agreed by " in listed
    assert esper("models", disallow, "localhost:8080").exit_code == 0
    assert "localhost:8080" not in esper("models", "list").stdout


def test_the_help_lists_the_current_names_only(esper):
    for group, shown, hidden in (
        ("models", {"allow", "disallow"}, {"agree", "withdraw"}),
        ("skills", {"accept"}, set()),
        ("retrospect", set(), {"accept"}),
    ):
        listed = {line.split()[0] for line in esper(group, "--help").stdout.splitlines() if line.startswith("  ")}
        assert shown <= listed
        assert not hidden & listed


def test_what_was_never_agreed_to_cannot_be_withdrawn(esper):
    esper("models", "allow", "localhost:8080")
    done = esper("models", "disallow", "localhost:8081")
    assert done.exit_code != 0
    assert done.exception.problem == "no consent named 'localhost:8081'"


def test_a_refusal_is_shown_and_lets_nothing_out(esper, project, monkeypatch):
    import asyncio

    from esper_agents.api import open_project

    async def refuse():
        async with open_project(project) as opened:
            opened.models.allow("localhost:8080", is_agreed=False)

    asyncio.run(refuse())
    listed = esper("models", "list").stdout
    assert "may not    localhost:8080, refused by " in listed
    assert "no server: source code of this project stays on this machine" in listed


def test_before_a_model_was_asked_there_is_no_cost(esper):
    assert esper("models", "cost").stdout == "no model has been asked in this project\n"
    assert json.loads(esper("models", "cost", "--json").stdout)["rows"] == []
    done = esper("submit", "review this training code", "train.py")
    assert "cost" not in {line.split()[0] for line in done.stdout.splitlines() if line.strip()}
    assert "$" not in esper("sessions", "list").stdout
    assert json.loads(esper("sessions", "list", "--json").stdout)[0]["cost"] is None


@pytest.mark.slow
def test_each_screen_tells_what_the_model_has_cost(asked):
    told = json.loads(asked("models", "cost", "--json").stdout)
    tokens, money = f"{told['total']['tokens']:,}", f"${told['total']['money'] / 1e6:.2f}"
    assert told["total"]["turns"] == 2
    assert told["total"]["cached_percent"] > 40
    (end,) = [line for line in asked.done.stdout.splitlines() if line.startswith("cost")]
    assert f"{tokens} tokens" in end
    assert money in end
    shown = asked("sessions", "show", "latest").stdout
    assert shown.count("claude-sonnet-5-5: ") == 2
    assert f"{money} in 2 turns" in shown
    listed = asked("sessions", "list").stdout.splitlines()
    assert listed[0].endswith(f"done, {money}")
    assert "$" not in listed[2]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("part", "name"), [("model", "claude-sonnet-5-5"), ("agent", "pytorch-code-reviewer"), ("session", "ses_")]
)
def test_costs_are_added_up_for_what_is_asked(asked, part, name):
    lines = asked("models", "cost", "--by", part).stdout.splitlines()
    assert lines[0].split() == [part, "turns", "tokens", "cached", "cost"]
    (row,) = [line for line in lines if line.startswith(name)]
    assert row.split()[1] == "2"
    assert lines[-1].split()[0] == "all"
    assert lines[-1].split()[1:] == row.split()[1:]


def test_a_plan_tells_the_estimate_and_what_is_missing_and_sends_nothing(esper, monkeypatch):
    with served([], monkeypatch) as server:
        host = server.url.removeprefix("http://")
        done = esper("submit", "--dry-run", "--reasoner", "claude", "review this training code", "train.py")
        assert done.exit_code == 0
        assert f"source goes to {host}; about $" in done.stdout
        assert f"no consent yet (esper models allow {host})" in done.stdout
        esper("models", "agree")
        again = esper("submit", "--dry-run", "review this training code", "train.py")
        assert "no consent" not in again.stdout
        assert "claude (claude-sonnet-5-5), after the playbook as guardrail" in again.stdout
        assert not server.requests


def test_a_plan_by_playbooks_costs_nothing(esper):
    done = esper("submit", "--dry-run", "review this training code", "train.py")
    assert "runs locally; no model, no cost" in done.stdout


def test_with_a_key_and_without_leave_playbooks_decide_and_say_so(esper, monkeypatch):
    with served([], monkeypatch) as server:
        done = esper("submit", "review this training code", "train.py")
        assert "playbooks; no consent to send source code to a model" in done.stdout
        told = json.loads(esper("submit", "--json", "review this training code", "train.py").stdout)
    assert (told["state"], told["cost"]) == ("done", [])
    assert not server.requests


def test_the_outcome_as_json_has_what_each_agent_cost(esper, monkeypatch):
    with served([conclude()], monkeypatch):
        esper("models", "agree")
        told = json.loads(esper("submit", "--json", "review this training code", "train.py").stdout)
    (cost,) = told["cost"]
    assert (cost["agent"], cost["model"], cost["turns"]) == ("pytorch-code-reviewer", "claude-sonnet-5-5", 1)
    assert cost["session"] == told["session"]
