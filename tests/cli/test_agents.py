"""`esper agents` through the real entry point."""

from __future__ import annotations

import json
import subprocess

import pytest
from places import command

HERON = "---\nname: heron\ndescription: Counts \x1b[31mherons.\ncolour: red\n---\nYou count.\n"


@pytest.fixture
def esper(tmp_path):
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return command("agents", *arguments, cwd=tmp_path)

    return run


@pytest.fixture
def heron(tmp_path):
    path = tmp_path / ".claude/agents/heron.md"
    path.parent.mkdir(parents=True)
    path.write_text(HERON, encoding="utf-8")
    return path


def test_list_shows_ours_and_the_projects_and_names_what_cannot_be_used(esper, heron) -> None:
    (heron.parent / "empty.md").write_text("", encoding="utf-8")
    done = esper("list")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert "pytorch-expert (graph break): has a playbook" in lines
    assert "project:heron (heron): needs a model" in lines
    assert "empty.md: the file is empty" in done.stderr
    assert "  fix: " in done.stderr


def test_list_as_json_holds_digests(esper, heron) -> None:
    listed = json.loads(esper("list", "--json").stdout)
    by_name = {agent["name"]: agent for agent in listed["agents"]}
    assert len(by_name["project:heron"]["sha256"]) == 64
    assert (by_name["project:heron"]["has_playbook"], by_name["pytorch-expert"]["has_playbook"]) == (False, True)
    assert listed["refused"] == []


def test_show_says_what_an_agent_takes_and_declines(esper) -> None:
    done = esper("show", "nan-debugger")
    assert done.returncode == 0
    for part in ("handles:", "declines:", "hands off to:", "examples for it:", "-> memory-diagnostician"):
        assert part in done.stdout


def test_show_and_lint_say_what_tools_of_claude_code_come_to(esper, heron) -> None:
    heron.write_text(HERON.replace("colour: red", "tools: Read, Edit, Bash(git log:*), WebFetch, Task"))
    shown = esper("show", "project:heron").stdout
    (tools,) = [line for line in shown.splitlines() if line.startswith("tools: ")]
    assert {"read-file", "edit-file", "git-log"} <= set(tools.removeprefix("tools: ").split(", "))
    assert "shell" not in tools
    assert "not offered:\n  - WebFetch: no tool reaches the network" in shown
    assert "done without a tool:\n  - Task: by consult and hand_off" in shown
    assert "heron.md:4: 'WebFetch' is not offered here: no tool reaches the network" in esper("lint").stdout


def test_show_prints_no_escape_sequence_of_a_definition(esper, heron) -> None:
    done = esper("show", "project:heron")
    assert "\x1b" not in done.stdout
    assert "unknown field 'colour'" in done.stdout


def test_show_of_an_unknown_name_offers_the_nearest_and_exits_with_2(esper) -> None:
    done = esper("show", "nan-debug")
    assert done.returncode == 2
    assert done.stderr == "esper: no agent named 'nan-debug'\n  fix: did you mean 'nan-debugger'?\n"


def test_lint_exits_with_0_for_warnings_3_when_strict_and_2_for_a_file_that_cannot_be_used(esper, heron) -> None:
    assert "heron.md:4: unknown field 'colour'" in esper("lint").stdout
    assert esper("lint", str(heron)).returncode == 0
    assert esper("lint", "--fail-on", "warning", str(heron)).returncode == 3
    heron.write_text("", encoding="utf-8")
    assert esper("lint", str(heron.parent)).returncode == 2


def test_lint_as_json_has_file_and_line(esper, heron) -> None:
    found = json.loads(esper("lint", "--json", str(heron)).stdout)
    assert (str(heron), 4) in {(odd["path"], odd["line"]) for odd in found["warnings"]}


def test_lint_of_a_path_that_is_not_there_exits_with_2(esper) -> None:
    done = esper("lint", "none.md")
    assert done.returncode == 2
    assert "no such file or folder: 'none.md'" in done.stderr


def test_export_writes_the_document_to_a_file(esper, tmp_path) -> None:
    done = esper("export", "--output", "roster.md")
    assert done.returncode == 0
    assert (tmp_path / "roster.md").read_text(encoding="utf-8") == esper("export").stdout.rstrip("\n") + "\n"


def test_export_to_a_place_that_cannot_be_written_exits_with_2(esper) -> None:
    done = esper("export", "--output", "none/roster.md")
    assert done.returncode == 2
    assert "  fix: " in done.stderr


@pytest.mark.parametrize("command", ["list", "show", "lint", "export"])
def test_every_command_has_an_example_in_its_help(esper, command) -> None:
    assert f"esper agents {command}" in esper(command, "--help").stdout
