"""Warnings stand at the line that has to be changed."""

from __future__ import annotations

import pytest

from esper_agents.agents.definition import load_definition
from esper_agents.agents.lint import lint_agent
from esper_agents.tools.tool_names import resolve_tools

SOUND = """---
name: heron
description: Counts herons.
tools: [static-review, Read]
hands_off_to:
  - reed
examples:
  - {text: How many herons?, for: true}
  - {text: Cut the reeds, for: false, instead: reed}
---
You count.
"""


def warnings(tmp_path, text: str, *, file: str = "heron.md", agents=("heron", "reed")) -> list[tuple[int, str, str]]:
    path = tmp_path / file
    path.write_text(text, encoding="utf-8")
    agent, tools = load_definition(path), ("static-review", "read-file")
    unknown = resolve_tools(agent.tools, tools).unknown
    found = lint_agent(agent, agents=agents, tools=tools, unknown=unknown)
    return [(odd.line, odd.problem, odd.remedy) for odd in found]


def test_a_sound_definition_has_no_warning(tmp_path) -> None:
    assert warnings(tmp_path, SOUND) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "problem", "remedy"),
    [
        ("static-review", "static-reviews", 4, "unknown tool 'static-reviews'", "did you mean 'static-review'?"),
        ("static-review", "teleport", 4, "unknown tool 'teleport'", "delete it"),
        ("  - reed", "  - reeds", 6, "hands off to an unknown agent 'reeds'", "did you mean 'reed'?"),
        ("instead: reed", "instead: frog", 9, "hands off to an unknown agent 'frog'", "esper agents list"),
        ("name: heron", "name: stork", 2, "differs from the file's name", "rename the file to stork.md"),
        ("Counts herons.", "Counts " + "herons " * 400, 3, "description is longer than", "move details"),
        ("  - {text: Cut the reeds, for: false, instead: reed}\n", "", 7, "for another agent", "for: false"),
        ("Counts herons.", "Counts: herons: all.", 3, "not valid YAML", ">-"),
    ],
)
def test_a_warning_has_its_line_and_a_remedy(tmp_path, *, old, new, line, problem, remedy) -> None:
    ((found_line, found_problem, found_remedy),) = warnings(tmp_path, SOUND.replace(old, new, 1))
    assert found_line == line
    assert problem in found_problem
    assert remedy in found_remedy


def test_an_agent_without_examples_is_warned_of(tmp_path) -> None:
    text = "---\nname: heron\ndescription: Counts herons.\n---\nYou count.\n"
    assert [problem for _, problem, _ in warnings(tmp_path, text)] == ["no examples of requests"]


def test_a_neighbour_within_the_project_is_known(tmp_path) -> None:
    assert warnings(tmp_path, SOUND, agents=("project:heron", "project:reed")) == []


def test_what_cannot_be_offered_is_said_at_its_line(tmp_path) -> None:
    path = tmp_path / "heron.md"
    path.write_text(SOUND.replace("[static-review, Read]", "[Read, WebFetch, teleport]"), encoding="utf-8")
    missing = (("WebFetch", "no tool reaches the network"), ("teleport", "no tool of that name is installed"))
    named = {"tools": ("read-file",), "unknown": ("teleport",), "missing": missing}
    found = lint_agent(load_definition(path), agents=("reed",), **named)
    assert [(odd.line, odd.problem) for odd in found] == [
        (4, "unknown tool 'teleport'"),
        (4, "'WebFetch' is not offered here: no tool reaches the network"),
    ]


@pytest.mark.parametrize(
    "tools",
    ["Python, Git, Read", "Bash(git log:*), mcp__birds__count, WebSearch", "read, bash, KillBash, Monitor, Memory"],
)
def test_tools_that_claude_code_files_name_are_not_unknown(tmp_path, tools) -> None:
    text = SOUND.replace("tools: [static-review, Read]", f"tools: {tools}")
    assert warnings(tmp_path, text) == []
