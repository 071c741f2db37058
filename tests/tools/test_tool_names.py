from __future__ import annotations

import pytest

from esper_agents.tools.registry import load_tools
from esper_agents.tools.tool_names import resolve_tools

REGISTRY = load_tools()
KNOWN = REGISTRY.tools
READING = {
    *(
        "static-review",
        "read-file",
        "find-files",
        "find-symbol",
        "search-files",
        "search-code",
        "search-documents",
        "inspect-code",
        "related-code",
        "git-state",
        "git-log",
    ),
    *("git-show", "git-blame", "read-artifact", "load-skill", "memory"),
}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("Read", set()),
        ("Write", {"write-file"}),
        ("Edit", {"edit-file"}),
        ("MultiEdit", {"edit-file"}),
        ("Bash", {"shell"}),
        ("Bash(*)", {"shell"}),
        ("Grep", set()),
        ("Glob", set()),
        ("LS", set()),
        ("Python", {"run-python"}),
        ("Git", set()),
        ("bash", {"shell"}),
        ("Bash(git log:*)", set()),
        ("Bash(git diff:*, git show:*)", set()),
        ("Bash(python:*)", {"run-python"}),
        ("Bash(python -m pytest:*)", {"run-tests"}),
        ("Bash(pytest *)", {"run-tests"}),
        ("Bash( rg : * )", set()),
        ("Read(src/**)", set()),
    ],
)
def test_a_name_of_claude_code_comes_to_a_tool_of_ours_and_what_reads_comes_along(name, more):
    found = resolve_tools([name], KNOWN)
    assert set(found.tools) == READING | more
    assert (found.moves, found.missing) == ((), ())


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("WebFetch", "network"),
        ("WebSearch", "network"),
        ("NotebookEdit", "cells"),
        ("TodoWrite", "ledger"),
        ("mcp__github__create_issue", "MCP"),
        ("mcp__github", "MCP"),
        ("Bash(npm run build:*)", "no shell can be limited to 'npm run build:*'"),
        ("Bash(git push:*)", "no shell can be limited to 'git push:*'"),
        ("Bash(sudo rm -rf /)", "no shell can be limited to"),
        ("Edit(docs/**)", "edit-file cannot be limited to part"),
        ("Write(*.md)", "write-file cannot be limited to part"),
    ],
)
def test_what_cannot_be_offered_is_said_and_gives_no_leave(name, why):
    found = resolve_tools([name], KNOWN)
    assert set(found.tools) == READING
    ((said, because),) = found.missing
    assert said == name
    assert why in because


@pytest.mark.parametrize("name", ["Task", "Agent", "AskUserQuestion", "ExitPlanMode"])
def test_what_every_agent_can_do_by_a_move_is_said_to_be_one(name):
    found = resolve_tools([name], KNOWN)
    assert [each for each, _ in found.moves] == [name]
    assert found.missing == ()


@pytest.mark.parametrize("name", ["teleport", "", "(", "Bashful", "read_file", "Ba(sh", "x" * 10_000])
def test_a_name_that_nobody_knows_gives_nothing(name):
    found = resolve_tools([name], KNOWN)
    assert found.tools == ()
    assert found.missing == ((name, "no tool of that name is installed"),)


def test_a_definition_that_names_ours_gets_those_and_no_more():
    assert resolve_tools(["read-file", "static-review"], KNOWN).tools == ("read-file", "static-review")
    assert resolve_tools([], KNOWN).tools == ()
    assert resolve_tools(None, KNOWN).tools == tuple(sorted(KNOWN))


def test_what_is_not_installed_is_not_offered_and_said():
    found = resolve_tools(["Bash", "Read"], ["read-file"])
    assert found.tools == ("read-file",)
    assert found.missing == (("Bash", "shell is not installed"),)


def test_the_table_names_tools_that_there_are():
    from esper_agents.tools.tool_names import _table

    table = _table()
    named = {tool for name in table.names.values() for tool in name.tools} | {*table.reading, *table.writing}
    assert named | {tool for command in table.commands.values() for tool in command} <= set(KNOWN)
    assert set(table.reading) == READING


def test_only_what_neither_we_nor_claude_code_have_is_unknown():
    found = resolve_tools(
        ["Git", "python", "WebFetch", "mcp__birds__count", "Bash(kubectl get:*)", "read-file", "teleport"], KNOWN
    )
    assert found.unknown == ("teleport",)
    assert {name for name, _ in found.missing} == {"WebFetch", "mcp__birds__count", "Bash(kubectl get:*)", "teleport"}


def test_the_registry_offers_by_the_same_table():
    assert [each.name for each in REGISTRY.named(["Bash(git log:*)", "Write"])] == sorted(READING | {"write-file"})
    assert REGISTRY.offered(["WebFetch"]).missing == (("WebFetch", "no tool reaches the network"),)
