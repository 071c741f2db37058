"""Option names of version 0.1.0 on the current command line."""

from __future__ import annotations

import json

import pytest
import typer
from command_line import build
from typer.testing import CliRunner

from esper_agents.cli.old_options import with_current_names
from esper_agents.errors import UsageError


@pytest.mark.parametrize(
    ("command", "known", "words", "written"),
    [
        ("submit", ["--rerun"], ["--again", "latest"], ["--rerun", "latest"]),
        ("submit", ["--rerun"], ["--again=latest"], ["--rerun=latest"]),
        ("profile", ["--effort"], ["f", "--quick"], ["f", "--effort", "quick"]),
        ("resume", ["--definitions"], ["--pinned"], ["--definitions", "recorded"]),
        ("memory", ["--fail-on", "--device-memory"], ["--fail"], ["--fail-on", "leak"]),
        ("compare", ["--ignore"], ["--allow", "strides"], ["--ignore", "strides"]),
    ],
)
def test_an_old_name_is_read_as_the_current_one(command, known, words, written):
    assert with_current_names(command, known, words) == written


@pytest.mark.parametrize(
    ("command", "known", "words"),
    [
        ("submit", ["--allow", "--ignore"], ["--allow", "run-tests"]),
        ("other", ["--jobs"], ["--again", "x"]),
        ("submit", ["--rerun"], ["--", "--again"]),
        ("trust", ["--from-project", "--project"], ["--project", "there", "key"]),
    ],
)
def test_a_name_that_the_command_uses_or_that_is_no_option_stays(command, known, words):
    assert with_current_names(command, known, words) == words


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["torch", "memory", "m.py:f", "--limit", "24G"], "use --device-memory"),
        (["keys", "trust", "--project"], "use --from-project"),
    ],
)
def test_an_old_name_with_another_meaning_is_refused_with_the_new_one(words, remedy):
    with pytest.raises(UsageError) as refused:
        typer.main.get_command(build())(words, standalone_mode=False)
    assert refused.value.remedy == remedy


def test_no_help_shows_an_old_name(make_project, monkeypatch):
    monkeypatch.chdir(make_project({"train.py": "x = 1\n"}))
    help_text = CliRunner().invoke(build(), ["certificates", "list", "--help"]).output
    assert "--cursor" in help_text
    assert "--before" not in help_text
    assert json.loads(CliRunner().invoke(build(), ["certificates", "list", "--before", "", "--json"]).output) == []
