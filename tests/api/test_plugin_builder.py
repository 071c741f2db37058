"""The plugin folder for Claude Code is loaded by our own loader, and names only tools that exist."""

from __future__ import annotations

import json
import re

import pytest
from mcp import Client, StdioServerParameters
from places import Place, environment

from esper_agents.agents.plugins import PluginPart
from esper_agents.api import build_plugin, load_agents
from esper_agents.errors import StorageError, UsageError
from esper_agents.mcp_server.server import build_server
from esper_agents.mcp_server.server_project import ServerProject
from esper_agents.tools.client_tools import PREFIX
from esper_agents.tools.registry import load_tools

# Tools of Claude Code that subagents can have.
CLIENT = {"Read", "Grep", "Glob", "Bash", "Skill"}


@pytest.fixture
def built(tmp_path):
    return build_plugin(tmp_path / "plugin")


def test_all_agents_skills_and_commands_are_loaded_again(built, project):
    ours = load_agents(project)
    theirs = load_agents(project, plugins=[built.plugin.folder])
    added = {name.removeprefix("esper:") for name in theirs.registry.agents if name.startswith("esper:")}
    assert added == set(ours.registry.agents)
    assert not theirs.registry.refused
    assert {f"esper:{name}" for name in ours.templates().commands} <= theirs.templates().commands.keys()
    assert {f"esper:{name}" for name in ours.skills.skills} <= theirs.skills.skills.keys()


def test_a_loaded_agent_has_its_evidence_tools_and_what_routes_to_it(built, project):
    catalog = load_agents(project, plugins=[built.plugin.folder])
    for name, ours in load_agents(project).registry.agents.items():
        agent = catalog.registry.agents[f"esper:{name}"]
        assert (agent.description, agent.handles, agent.examples) == (ours.description, ours.handles, ours.examples)
        offered = catalog.tools.offered(agent.tools)
        assert offered.missing == ()
        lost = set(ours.tools or ()) - set(offered.tools)
        # Claude Code edits and runs code by tools of its own; it runs no tests and confirms no lines: a session of the
        # server does.
        own = {"check-draft", "draft-patch", "run-python"}
        lab = {
            "run-tests",
            "torch-behaviour",
            "torch-targets",
            "torch-confirm",
            "torch-data",
            "torch-export",
            "torch-test",
            "torch-versions",
        }
        assert lost <= own | lab, name


@pytest.mark.anyio
async def test_every_tool_that_an_agent_names_exists_in_claude_code_or_in_the_server(built, make_project):
    async with ServerProject(make_project({"train.py": "x = 1\n"})) as project:
        served = {f"{PREFIX}{tool.name}" for tool in await build_server(project).list_tools()}
    native = set(load_tools().tools)
    for path in built.plugin.paths(PluginPart.AGENTS):
        text = path.read_text(encoding="utf-8")
        named = set(
            re.findall(r"^- ([\w-]+)(?:\(.*\))?$", text.split("\ntools:\n")[1].split("\nexamples:")[0], re.MULTILINE)
        )
        assert named <= served | CLIENT
        assert f"{PREFIX}submit_task" in named
        assert not named & native


@pytest.mark.anyio
async def test_the_server_of_the_plugin_starts_and_reviews(built, make_project, home):
    project = make_project({"train.py": "x = 1\n"})
    (entry,) = json.loads((built.plugin.folder / ".mcp.json").read_text())["mcpServers"].values()
    given = StdioServerParameters(command=entry["command"], args=entry["args"], cwd=project, env=environment(home))
    async with Client(given) as client:
        assert (await client.call_tool("review", {"paths": ["train.py"]})).structured_content["files"] == 1


def test_the_manifest_and_the_marketplace_name_one_plugin_with_its_version(built):
    manifest = json.loads((built.plugin.folder / ".claude-plugin/plugin.json").read_text())
    market = json.loads((built.plugin.folder / ".claude-plugin/marketplace.json").read_text())
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", manifest["name"])
    (listed,) = market["plugins"]
    assert (listed["name"], listed["version"], listed["source"]) == (manifest["name"], manifest["version"], "./")


def test_two_builds_are_the_same(built, tmp_path):
    assert build_plugin(tmp_path / "again").plugin.sha256 == built.plugin.sha256


def test_a_folder_with_files_a_file_and_a_strange_program_are_refused(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/a").touch()
    for folder in (tmp_path / "full", tmp_path / "full/a"):
        with pytest.raises(UsageError, match="is not an empty folder"):
            build_plugin(folder)
    for program in ("", " ", "${HOME}/esper", "a\nb"):
        with pytest.raises(UsageError, match="is not a program"):
            build_plugin(tmp_path / "new", command=program)
    with pytest.raises((StorageError, UsageError)):
        build_plugin(tmp_path / "full/a/b")


def test_the_command_says_what_it_built_and_what_to_run(make_project, home, tmp_path):
    place = Place(make_project({"train.py": "x = 1\n"}), home)
    done = place.esper("plugins", "build", tmp_path / "out", "--command", "/opt/my esper/bin/esper", code=0)
    assert "agents: 19" in done.stdout
    assert "server: '/opt/my esper/bin/esper' mcp --project ." in done.stdout
    assert done.stdout.splitlines()[-1] == f"next: claude --plugin-dir {tmp_path / 'out'}"
    assert place.esper("plugins", "add", tmp_path / "out", code=0).stdout.startswith("added: esper ")
    assert "is not an empty folder" in place.esper("plugins", "build", tmp_path / "out").problem(2)[0]
