"""Shell completion: its table, its candidates, and what the shells get."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from esper_agents.api import lint_rules, rule_codes
from esper_agents.cli import completion, completion_table
from esper_agents.storage.recent_ids import recent_ids

ROOT = Path(__file__).parents[2]


def names(line):
    words = line.split(" ")
    return [name for name, _ in completion.candidates(words[:-1], words[-1])]


def test_the_table_is_that_of_the_commands():
    written = runpy.run_path(str(ROOT / "checks/completion_table.py"))["written"]()
    file = Path(completion_table.__file__)
    assert file.read_text("utf-8") == written, f"run `python checks/completion_table.py > {file.name}` in its folder"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rev", ["review"]),
        ("certificates rev", ["revoke"]),
        ("review --format g", ["github"]),
        ("review --rule ESP30", ["ESP301", "ESP302", "ESP303", "ESP305"]),
        ("rule ESP301", ["ESP301"]),
        ("submit --agent nan", ["nan-debugger"]),
        ("agents show torch-s", ["torch-specialist"]),
        ("torch profile --eff", ["--effort"]),
        ("torch profile --effort th", ["thorough"]),
        ("gate --require GO", ["GO"]),
        ("nonsense x", []),
        ("review train", []),
    ],
)
def test_candidates_fit_the_place_of_the_word(line, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert names(line) == expected


def test_the_built_in_rules_are_completed_by_code():
    assert [code for code, _ in rule_codes()] == sorted(rule.code for rule in lint_rules())


def test_certificates_and_sessions_of_the_project_are_completed(judged_project, monkeypatch):
    monkeypatch.chdir(judged_project.root)
    assert names("why ") == ["latest", judged_project.id]
    assert [name[:4] for name in names("sessions show s")] == ["ses_"]
    assert names("certificates show crt_") == [judged_project.id]


def test_a_database_that_cannot_be_read_gives_no_candidates(tmp_path):
    (tmp_path / "esper.db").write_bytes(b"no database")
    assert recent_ids(tmp_path / "esper.db", "x", "session") == []
    assert recent_ids(tmp_path / "none.db", "x", "session") == []


def run(shell, **given):
    environment = {**os.environ, "_ESPER_COMPLETE": shell, **given}
    command = [sys.executable, "-X", "importtime", "-m", "esper_agents.cli.main"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_each_shell_gets_its_form_and_no_command_is_imported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("complete_bash", COMP_WORDS="esper\nreview\n--form", COMP_CWORD="2")
    assert done.stdout == "--format"
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & {"typer", "sqlalchemy", "pydantic", "asyncio", "esper_agents.cli.review", "json"}
    assert run("complete_zsh", _TYPER_COMPLETE_ARGS="esper why").stdout == (
        """_arguments '*: :(("why":"Explain the verdict of a certificate"))'"""
    )
    assert run("complete_zsh", _TYPER_COMPLETE_ARGS="esper review ").stdout == "_files"
    fish = {"_TYPER_COMPLETE_ARGS": "esper review ", "_TYPER_COMPLETE_FISH_ACTION": "is-args"}
    assert run("complete_fish", **fish).returncode == 1
