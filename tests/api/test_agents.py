"""Commands become tasks like any other; what they name of tools can only take leave away."""

from __future__ import annotations

import json

import pytest
from toys import recording_tool

from esper_agents.api import load_agents, missing_tools, open_project
from esper_agents.domain.agent_action import Conclude
from esper_agents.domain.evidence import Risk
from esper_agents.errors import InputFileError, NotFoundError
from esper_agents.git.find_project import find_project
from esper_agents.learning.proposals import write_proposals
from esper_agents.paths import project_home

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
        task = opened.agents.task_from_template(opened.agents.templates().get("count"), ["train.py", "nothing"])
    assert task.request == "Count the herons in train.py, please."
    assert task.paths == ("train.py",)
    assert task.agent == "ponds:heron"


async def test_tools_of_more_than_low_risk_that_a_command_does_not_name_are_denied_and_none_is_allowed(project, pack):
    async with open_project(project, plugins=[pack], tools=tools()) as opened:
        command = opened.agents.templates().get("count")
        assert {"other-log", "reach-out"} <= set(opened.agents.denied_tools(command))
        assert not {"look", "write-log"} & set(opened.agents.denied_tools(command))
        task = opened.agents.task_from_template(command, [str(project / "train.py")])
        assert {*task.options} == {"deny"}
        plan = await opened.tasks.plan(task)
    assert all(rule.action == "deny" for rule in plan.rules)


async def test_the_certificate_says_which_plugin_version_and_digest_an_agent_and_its_skill_came_from(project, pack):
    def play(brief):
        yield from ()
        return Conclude("seven herons")

    async with open_project(project, plugins=[pack], tools=tools(), playbooks={"ponds:heron": play}) as opened:
        (plugin,) = opened.services.plugins
        task = opened.agents.task_from_template(opened.agents.templates().get("count"), [str(project / "train.py")])
        outcome = await (await opened.tasks.submit(task)).run()
        issued = await opened.certificates.read(outcome.certificate.id)
        view = await opened.certificates.markdown(outcome.certificate.id)
    (definition,) = issued.definitions
    assert definition.definition_provider == f"plugin ponds 1.2 sha256:{plugin.sha256}"
    assert [(skill.name, skill.provider) for skill in definition.skills] == [("reeds", definition.definition_provider)]
    assert definition.definition_provider in view


async def test_ours_are_said_to_be_ours_and_a_projects_own_to_be_of_nobody_else(project):
    (project / ".claude/agents").mkdir(parents=True)
    (project / ".claude/agents/heron.md").write_text(HERON)
    async with open_project(project) as opened:
        known = opened.services.agents.agents
    assert known["profiler"].provider.startswith("esper-agents ")
    assert known["project:heron"].provider == ""


def test_the_agents_skills_and_templates_of_a_folder_are_read_without_a_database(project, pack, tmp_path, monkeypatch):
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "empty"))
    catalog = load_agents(project, plugins=[pack])
    heron = catalog.show("ponds:heron")
    assert (heron.agent.name, heron.has_playbook) == ("ponds:heron", False)
    assert catalog.show("pytorch-expert").has_playbook
    assert "ponds:count" in catalog.templates().commands
    assert catalog.skills.get("ponds:reeds").description == "Reeds."
    assert "pytorch-expert" in catalog.export()
    assert not (tmp_path / "empty/projects").exists()


def test_the_route_of_a_request_takes_the_code_of_its_files_into_account(project):
    found = load_agents(project).route("review this training code", [project / "train.py"])
    assert found.agent == "pytorch-code-reviewer"
    with pytest.raises(InputFileError, match="cannot be read"):
        load_agents(project).route("review this", [project / "nothing.py"])


def test_linting_named_definitions_reports_their_warnings_and_the_unusable_ones(project, tmp_path):
    (tmp_path / "heron.md").write_text(HERON)
    (tmp_path / "empty.md").write_text("")
    found = load_agents(project).lint([tmp_path / "heron.md", tmp_path / "empty.md"])
    assert (found.checked, [each.path for each in found.refused]) == (1, [str(tmp_path / "empty.md")])
    assert any("unknown tool" in warning.problem for warning in found.warnings)
    with pytest.raises(InputFileError, match="no such file"):
        load_agents(project).lint([tmp_path / "missing.md"])


def test_a_plugin_is_checked_for_tools_that_its_agents_cannot_have(pack):
    (missing,) = missing_tools(load_agents(plugins=[pack]).plugins.plugins[0])
    assert (missing.name, missing.agents) == ("look", ("ponds:heron",))


def test_a_proposed_skill_moves_into_the_project_when_it_is_accepted(project):
    catalog = load_agents(project)
    with pytest.raises(NotFoundError, match="no proposed skill named 'learnt-memory'"):
        catalog.proposed_skill("learnt-memory")
    key = find_project([project], project).key
    write_proposals(project_home(key), {"learnt-memory": "---\nname: learnt-memory\ndescription: x\n---\nText.\n"})
    file = catalog.accept_skill(catalog.proposed_skill("learnt-memory"))
    assert file == project / ".esper/skills/learnt-memory/SKILL.md"
    assert load_agents(project).skills.get("project:learnt-memory").body.strip() == "Text."
