"""`esper retrospect` through the real entry point."""

from __future__ import annotations

import json
import subprocess

import pytest
from command_line import build
from modelling import served
from places import command
from typer.testing import CliRunner

from esper_agents.errors import UsageError
from esper_agents.orchestration.consent import ConsentError
from esper_agents.testing.script import Stop, ToolUseBlock

WORDS = ToolUseBlock(
    "report",
    {
        "guidelines": [
            {"text": "Keep losses on the device.", "facts": ["G1"]},
            {"text": "It saves 97 %.", "facts": ["G1"]},
            {"text": "Ship it.", "facts": []},
            {"text": "Ship it.", "facts": ["G99"]},
        ],
        "skills": [
            {
                "name": "losses",
                "description": "Use before a training loop.",
                "instructions": ["Detach losses."],
                "facts": ["G1"],
            }
        ],
        "insights": [],
    },
)


@pytest.fixture
def esper(project):
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return command(*arguments, cwd=project)

    return run


def test_a_project_without_sessions_has_nothing_to_look_back_on(esper) -> None:
    done = esper("retrospect")
    assert done.returncode == 0
    assert "Looked at: 0 sessions" in done.stdout


def test_a_skill_that_sessions_suggest_goes_into_the_project_only_with_agreement(esper, project) -> None:
    (project / "other.py").write_text((project / "train.py").read_text())
    for path in ("train.py", "other.py"):
        esper("submit", "--reasoner", "playbook", "review this training code", path)
    found = json.loads(esper("retrospect", "--json").stdout)
    assert len(found["sessions"]) == 2
    name = found["suggestions"][0]["name"]
    written = esper("retrospect", "--output", "report.md")
    assert written.stdout == "wrote what 2 sessions show to report.md\n"
    assert f"esper skills accept {name}" in (project / "report.md").read_text()

    alone = esper("skills", "accept", name)
    assert (alone.returncode, f"esper skills accept --yes {name}" in alone.stderr) == (2, True)
    assert not (project / ".esper").exists()
    agreed = esper("skills", "accept", "--yes", name)
    target = project / f".esper/skills/{name}/SKILL.md"
    assert agreed.returncode == 0
    assert target.read_text() in agreed.stdout
    assert esper("retrospect", "accept", "--yes", name).returncode == 2
    assert f"project:{name}" in esper("skills", "list", "--json").stdout


def test_a_skill_that_nobody_proposed_is_refused(esper) -> None:
    done = esper("skills", "accept", "../../secret")
    assert done.returncode == 2
    assert "no proposed skill named '../../secret'" in done.stderr


@pytest.fixture
def here(project, monkeypatch):
    """Return what runs a command in this process, after two sessions by playbooks."""
    (project / "other.py").write_text((project / "train.py").read_text())
    monkeypatch.chdir(project)
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    app = build()

    def run(*arguments, said=""):
        return CliRunner().invoke(app, arguments, input=said)

    for path in ("train.py", "other.py"):
        run("submit", "--reasoner", "playbook", "review this training code", path)
    return run


@pytest.mark.slow
def test_a_model_words_the_report_where_a_person_has_agreed_and_what_it_cost_is_told(here, monkeypatch):
    with served([WORDS], monkeypatch) as server:
        refused = here("retrospect", "--reasoner", "claude")
        assert isinstance(refused.exception, ConsentError)
        left = here("retrospect").stdout
        assert "no model was used: no consent to send source code" in left
        assert "no consent" not in here("retrospect", "--reasoner", "playbook").stdout
        assert not server.requests
        here("models", "agree")
        done = here("retrospect")
        told = json.loads(here("retrospect", "--json").stdout)
        cost = here("models", "cost", "--by", "session").stdout
    assert len(server.requests) == 1
    assert "- Keep losses on the device.\n  - G1 ESP" in done.stdout
    assert "2 items of the model cited nothing that this report has counted and were omitted" in done.stdout
    assert "1 item of the model said a number" in done.stdout
    assert told["wording"]["left_out"][0]["items"] == 2
    assert told["wording"]["guidelines"] == [{"text": "Keep losses on the device.", "facts": ["G1"]}]
    assert told["wording"]["expense"]["money"] > 0
    assert cost.splitlines()[2].split()[:2] == ["retrospect", "1"]
    agreed = here("skills", "accept", "--yes", "worded-losses")
    assert "Detach losses." in agreed.stdout
    assert agreed.exit_code == 0


@pytest.mark.slow
def test_where_the_model_comes_to_nothing_the_report_is_printed_all_the_same(here, monkeypatch):
    with served(lambda _: Stop("refusal"), monkeypatch):
        here("models", "agree")
        plain = here("retrospect", "--reasoner", "playbook").stdout.splitlines()
        done = here("retrospect", "--reasoner", "claude")
    assert done.exit_code == 0
    (line,) = [each for each in done.stdout.splitlines() if each not in plain]
    assert "no model has worded it, as claude-opus-5 declined" in line


def test_a_model_by_name_without_a_key_is_refused(here):
    done = here("retrospect", "--reasoner", "claude")
    assert isinstance(done.exception, UsageError)
    assert done.exception.problem == "no API key for the model server"


@pytest.mark.slow
def test_a_person_is_asked_once_what_may_be_sent_and_their_answer_holds(here, monkeypatch):
    monkeypatch.setattr("esper_agents.cli.retrospect.is_interactive", lambda: True)
    with served([WORDS], monkeypatch) as server:
        refused = here("retrospect", said="n\n").stdout
        assert "of this report: rules, places, and what sessions said of them; no file" in refused
        assert "about $" in refused
        assert "send source code of this project to 127.0.0.1" in refused
        assert "no model was used" in refused
        assert "send source code of this project" not in here("retrospect").stdout
        assert not server.requests
        agreed = here("retrospect", "--reasoner", "claude", said="y\n").stdout
    assert "- Keep losses on the device." in agreed
