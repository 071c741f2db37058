"""`esper agents route`: who would be given a request, in words, as JSON, and as an exit code."""

from __future__ import annotations

import json

from command_line import build
from typer.testing import CliRunner

from esper_agents.errors import ExitCode, InputFileError


def run(*arguments: str):
    return CliRunner().invoke(build(), ["agents", "route", *arguments])


def test_the_agent_and_the_words_that_decided_are_shown():
    shown = run("the loss is nan")
    assert shown.exit_code == ExitCode.DONE
    assert shown.stdout.startswith("nan-debugger\n")
    assert "because: 'nan', 'loss'" in shown.stdout


def test_json_holds_the_whole_route():
    route = json.loads(run("the loss is nan", "--json").stdout)
    assert (route["agent"], route["outcome"]) == ("nan-debugger", "assigned")
    assert route["candidates"][0]["score_milli"] > 0


def test_triage_is_told_apart():
    assert run("it crashes").stdout.startswith("issue-triage-manager (triage)\n")


def test_a_refused_request_exits_with_wrong_usage():
    shown = run("a poem, please")
    assert shown.exit_code == ExitCode.USAGE
    assert shown.stdout.startswith("refused\n")


def test_a_file_is_part_of_the_question(tmp_path):
    source = tmp_path / "net.py"
    source.write_text("import torch\n\nmodel = torch.nn.Linear(1, 1)\nloss = model(x).mean()\nloss.backward()\n")
    assert run("thoughts?", str(source)).stdout.startswith("pytorch-code-reviewer\n")


def test_a_file_that_is_not_there_is_named(tmp_path):
    shown = run("thoughts?", str(tmp_path / "gone.py"))
    assert isinstance(shown.exception, InputFileError)
    assert "gone.py" in shown.exception.problem


def test_an_agent_of_the_project_is_considered(tmp_path):
    folder = tmp_path / ".claude" / "agents"
    folder.mkdir(parents=True)
    (folder / "cobol.md").write_text("---\nname: cobol\ndescription: Moves COBOL copybooks to Python.\n---\nPort.\n")
    assert run("port this COBOL copybook", "--project", str(tmp_path)).stdout.startswith("project:cobol\n")
