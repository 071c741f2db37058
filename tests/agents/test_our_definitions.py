"""Our own definitions are complete: nothing odd, every name in them known, examples for and against."""

from __future__ import annotations

import pytest

from esper_agents.agents.lint import lint_agent
from esper_agents.agents.registry import load_registry
from esper_agents.tools.registry import load_tools

REGISTRY = load_registry(None)
OURS = sorted(name for name, agent in REGISTRY.agents.items() if "/prompts/agents/" in agent.path)
SPECIALISTS = {
    *("pytorch-expert", "torch-specialist", "pytorch-ultimate-performance-engineer", "pytorch-code-reviewer"),
    *("memory-diagnostician", "nan-debugger", "profiler", "validation-specialist", "issue-triage-manager"),
    *("algorithm-specialist", "integration-specialist", "system-architect", "security-architect"),
    *("infrastructure-architect", "devops-engineer", "test-engineer", "technical-writer", "performance-engineer"),
    "data-architect",
}


def test_every_specialist_that_another_may_name_is_there() -> None:
    assert set(OURS) >= SPECIALISTS
    assert REGISTRY.refused == ()


@pytest.mark.parametrize("name", OURS)
def test_a_definition_has_nothing_odd_and_every_name_in_it_is_known(name) -> None:
    agent = REGISTRY.get(name)
    assert agent.oddities == ()
    found = load_tools().offered(agent.tools)
    assert found.missing == ()
    assert lint_agent(agent, agents=REGISTRY.agents, tools=(), unknown=found.unknown) == ()
    assert REGISTRY.neighbours_known(name) == agent.hands_off_to


@pytest.mark.parametrize("name", OURS)
def test_a_definition_says_what_a_router_and_a_person_need(name) -> None:
    agent = REGISTRY.get(name)
    assert "Use " in agent.description
    assert 1 <= len(agent.domain.split()) <= 2
    assert agent.domain[0].lower() not in "aeiou", "the handoff sentence says `a DOMAIN problem`"
    assert agent.handles
    assert agent.declines
    assert 6 <= sum(example.is_for for example in agent.examples) <= 12
    assert 3 <= sum(not example.is_for for example in agent.examples) <= 6
    assert all(example.instead in agent.hands_off_to for example in agent.examples if not example.is_for)
    assert len(agent.body.split()) > 200


def test_no_request_is_claimed_by_two_agents() -> None:
    claimed = [example.text for name in OURS for example in REGISTRY.get(name).examples if example.is_for]
    assert len(claimed) == len(set(claimed))


@pytest.mark.parametrize("name", OURS)
def test_what_a_definition_declines_names_an_agent_that_takes_it(name) -> None:
    for declined in REGISTRY.get(name).declines:
        assert declined.endswith(")"), declined
        instead = declined.rsplit("(", 1)[1].rstrip(")")
        assert instead in REGISTRY.agents or instead == "the owner"
