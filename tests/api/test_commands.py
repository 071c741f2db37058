"""Commands become tasks like any other; what they name of tools can only take leave away."""

from __future__ import annotations

import json

import pytest
from toys import recording_tool

from esper_agents.api import open_project
from esper_agents.api.commands import commands_of, denied, task_of
from esper_agents.domain.agent_action import Conclude
from esper_agents.domain.evidence import Risk

pytestmark = pytest.mark.anyio

HERON = "---\nname: heron\ndescription: Counts herons.\ntools: [look]\nskills: [reeds]\n---\nYou count.\n"
COUNT = "---\nagent: heron\nallowed-tools: Read, write-log\n---\nCount the herons in $1, please.\n"


@pytest.fixture
def pack(tmp_path):
    root = tmp_path / "ponds"
    files = {
        ".claude-plugin/plugin.json": json.dumps({"name": "ponds", "version": "1.2"}),
        "agents/heron.md": HERON,
        "commands/count.md": COUNT,
        "skills/reeds/SKILL.md": "---\nname: reeds\ndescription: Reeds.\n---\nCut in winter.\n",
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def tools():
    return [
        recording_tool("look"),
        recording_tool("write-log", risk=Risk.MEDIUM),
        recording_tool("other-log", risk=Risk.MEDIUM),
        recording_tool("reach-out", risk=Risk.HIGH),
    ]


async def test_a_command_becomes_a_task_about_the_files_among_its_arguments(project, pack, monkeypatch):
    monkeypatch.chdir(project)
    async with open_project(plugins=[pack]) as opened:
        task = task_of(opened, commands_of(opened).get("count"), ["train.py", "nothing"])
    assert task.request == "Count the herons in train.py, please."
    assert task.paths == ("train.py",)
    assert task.agent == "ponds:heron"


async def test_tools_of_more_than_low_risk_that_a_command_does_not_name_are_denied_and_none_is_allowed(project, pack):
    async with open_project(project, plugins=[pack], tools=tools()) as opened:
        command = commands_of(opened).get("count")
        assert {"other-log", "reach-out"} <= set(denied(opened, command))
        assert not {"look", "write-log"} & set(denied(opened, command))
        task = task_of(opened, command, [str(project / "train.py")])
        assert {*task.options} == {"deny"}
        plan = await opened.tasks.plan(task)
    assert all(rule.action == "deny" for rule in plan.rules)


async def test_the_certificate_says_which_plugin_version_and_digest_an_agent_and_its_skill_came_from(project, pack):
    def play(brief):
        yield from ()
        return Conclude("seven herons")

    async with open_project(project, plugins=[pack], tools=tools(), playbooks={"ponds:heron": play}) as opened:
        (plugin,) = opened.services.plugins
        task = task_of(opened, commands_of(opened).get("count"), [str(project / "train.py")])
        outcome = await (await opened.tasks.submit(task)).run()
        issued = await opened.certificates.read(outcome.certificate.id)
        view = await opened.certificates.markdown(outcome.certificate.id)
    (definition,) = issued.definitions
    assert definition.definition_provider == f"plugin ponds 1.2 sha256:{plugin.sha256}"
    assert [(each.name, each.provider) for each in definition.skills] == [("reeds", definition.definition_provider)]
    assert definition.definition_provider in view


async def test_ours_are_said_to_be_ours_and_a_projects_own_to_be_of_nobody_else(project):
    (project / ".claude/agents").mkdir(parents=True)
    (project / ".claude/agents/heron.md").write_text(HERON)
    async with open_project(project) as opened:
        known = opened.services.agents.agents
    assert known["profiler"].provider.startswith("esper-agents ")
    assert known["project:heron"].provider == ""
