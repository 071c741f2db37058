"""`esper submit --budget`: a stop exits with 5, says what was used up, and leaves a certificate of what there is."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from command_line import build
from places import FAULTY
from typer.testing import CliRunner

from esper_agents.errors import ExitCode, UsageError

PAGE = (Path(__file__).parents[2] / "docs/handoffs.md").read_text(encoding="utf-8")


@pytest.fixture
def project(make_project, monkeypatch):
    root = make_project({"train.py": FAULTY})
    monkeypatch.chdir(root)
    return root


def esper(*words):
    return CliRunner().invoke(build(), words, env={"COLUMNS": "120"})


@pytest.mark.usefixtures("project")
def test_a_budget_that_is_used_up_ends_with_a_partial_certificate_and_exit_code_5():
    done = esper("submit", "review this training code", "train.py", "--budget", "tool-calls=1")
    assert done.exit_code == ExitCode.BUDGET, done.output
    assert "the budget of 1 tool call is used up" in done.stdout
    assert "NEEDS_FURTHER_REVIEW" in done.stdout or "REQUIRES_REMEDIATION" in done.stdout
    shown = esper("certificates", "verify", "latest")
    assert shown.exit_code == ExitCode.DONE, shown.output


@pytest.mark.usefixtures("project")
def test_programs_are_told_which_budget_it_was():
    done = esper("submit", "review this training code", "train.py", "--budget", "tool-calls=0", "--json")
    assert done.exit_code == ExitCode.BUDGET
    told = json.loads(done.stdout)
    assert (told["stopped_by"], told["exit_code"]) == ("tool-calls", 5)


@pytest.mark.usefixtures("project")
def test_an_empty_budget_is_refused():
    with pytest.raises(UsageError, match="the budget is empty") as refused:
        CliRunner().invoke(
            build(),
            ("submit", "review this", "train.py", "--budget", ""),
            catch_exceptions=False,
            standalone_mode=False,
        )
    assert "or omit --budget" in refused.value.remedy


@pytest.mark.usefixtures("project")
def test_the_plan_shows_the_budget():
    done = esper("submit", "review this training code", "train.py", "--budget", "hops=2,seconds=60", "--dry-run")
    assert "seconds=60, hops=2" in done.stdout


@pytest.mark.usefixtures("project")
def test_a_budget_of_what_there_is_not_is_refused_before_anything_runs():
    done = esper("submit", "review this training code", "train.py", "--budget", "hop=2")
    assert isinstance(done.exception, UsageError) or done.exit_code == ExitCode.USAGE
    assert isinstance(done.exception, UsageError)
    assert done.exception.remedy == "did you mean hops?"


def commands():
    return re.findall(r"^\$ (esper .*)$", PAGE, re.MULTILINE)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("command", commands())
def test_the_commands_of_the_page_do_what_it_says(command):
    done = esper(*shlex.split(command)[1:])
    assert done.exit_code in {ExitCode.DONE, ExitCode.AGAINST, ExitCode.UNDECIDED, ExitCode.BUDGET}, done.output
