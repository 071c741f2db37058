"""Two collections written like public ones load whole, and what is odd in them is said by file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from esper_agents.agents.definition import load_definition
from esper_agents.agents.lint import lint_agent
from esper_agents.agents.plugins import PluginPart, load_plugin
from esper_agents.agents.registry import load_definitions, load_registry
from esper_agents.agents.skill_files import read_skill
from esper_agents.agents.skills import skills_in

WILD = Path(__file__).parent / "wild"
AGENTS = WILD / "collection_a/agents"
PACKS = sorted((WILD / "collection_b").iterdir())

# File, the tools and the model it is read with, and the line and part of the problem of an oddity.
READ = [
    ("accessibility-tester", ("Read", "WebFetch", "mcp__playwright__browser_snapshot"), "sonnet", (5, "tabs")),
    ("api-documenter", ("Read", "Write"), "haiku", (5, "second 'model'")),
    ("code-reviewer", None, "opus", (3, "literal `\\n`")),
    ("docs-architect", ("Read", "Glob", "Grep", "Write"), "inherit", None),
    ("golang-pro", None, "sonnet", (1, "no opening `---`")),
    ("java-architect", ("Read", "Edit", "Bash"), "sonnet", (2, "no closing `---`")),
    ("network-engineer", ("Bash(dig:*)", "Bash(curl -v:*)", "Bash(openssl s_client:*)"), "gpt-5", (1, "carriage")),
    ("payment-integration", ("Read", "Edit", "Bash"), "sonnet", (1, "byte-order mark (utf-16)")),
    ("python-pro", ("Read", "Write", "Edit", "Bash(python:*)"), "claude-sonnet-4-5-20250929", None),
    ("reference-builder", ("Read", "Write"), "inherit", (3, "not valid YAML")),
    ("rust-expert", ("Read", "Grep", "Bash"), "inherit", (1, "byte-order mark (utf-8)")),
    ("sales-automator", None, "inherit", (4, "YAML alias")),
    ("security-auditor", None, "opus", (5, "'hooks' grants nothing")),
    ("tutorial-engineer", ("Read", "Grep"), "inherit", (3, "not valid YAML")),
]


def test_there_are_more_than_a_hundred_files_and_all_of_them_load() -> None:
    flat = load_definitions([AGENTS])
    packed = load_registry(None, plugins=[load_plugin(each) for each in PACKS])
    folders = [
        WILD / "collection_a/skills",
        *(skill_folder for pack in PACKS for skill_folder in load_plugin(pack).skill_folders),
    ]
    skills = [read_skill(each) for folder in folders for each in skills_in(folder)]
    assert (flat.refused, packed.refused) == ((), ())
    assert len(flat.agents) == len([*AGENTS.iterdir()])
    of_packs = [agent for agent in packed.agents.values() if agent.provider.startswith("plugin ")]
    assert len(of_packs) == sum(len(load_plugin(each).paths(PluginPart.AGENTS)) for each in PACKS)
    assert len(flat.agents) + len(of_packs) + len(skills) > 100
    assert all(each.description and each.body for each in (*flat.agents.values(), *of_packs, *skills))


@pytest.mark.parametrize(("stem", "tools", "model", "oddity"), READ, ids=[stem for stem, *_ in READ])
def test_a_file_is_read_as_it_is_meant_and_what_is_odd_has_its_line(stem, tools, model, oddity) -> None:
    agent = load_definition(AGENTS / f"{stem}.md")
    assert agent.name == stem
    assert (agent.tools[: len(tools)] if tools else agent.tools) == tools
    assert agent.model == model
    if oddity:
        line, part = oddity
        assert any(each.line == line and part in each.problem for each in agent.oddities), agent.oddities


def test_names_beyond_ascii_and_names_with_blanks_are_kept_or_made_safe() -> None:
    known = load_definitions([AGENTS]).agents
    assert {"日本語レビュー", "café-critic", "übersetzungs-helfer", "kubernetes-operator-expert"} <= known.keys()


def test_requests_of_a_context_user_and_assistant_are_examples() -> None:
    examples = load_definition(AGENTS / "legacy-modernizer.md").examples
    assert [example.text for example in examples] == ["Move billing to Python 3", "Can we delete src/old?"]


def test_a_description_full_of_conversations_is_read_whole() -> None:
    judge = load_definition(WILD / "collection_b/house-style/agents/naming-judge.md")
    assert len(judge.description) > 10_000
    assert judge.model == "sonnet"
    assert "is Manager a good name?" in {example.text for example in judge.examples}


def test_every_warning_about_them_names_a_line_that_the_file_has() -> None:
    known = load_definitions([AGENTS])
    for agent in known.agents.values():
        lines = len(Path(agent.path).read_bytes().splitlines())
        for odd in lint_agent(agent, agents=known.agents, tools=(), unknown=agent.tools or ()):
            assert 1 <= odd.line <= lines
            assert odd.path == agent.path
