"""What `docs/mcp.md` says is so: its program runs, its table lists the tools, its configuration starts the server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from places import PATIENCE_S, environment

from esper_agents.mcp_server.results import MOST_BYTES
from esper_agents.mcp_server.server import build_server
from esper_agents.mcp_server.server_project import ServerProject

pytestmark = pytest.mark.anyio

TEXT = (Path(__file__).parents[2] / "docs/mcp.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def blocks(language):
    return [text for name, text in BLOCKS if name == language]


def test_the_program_of_the_tutorial_prints_what_the_page_shows(make_project, home, tmp_path):
    code, program = blocks("python")
    project = make_project({"train.py": code})
    file = tmp_path / "session.py"
    file.write_text(program)
    command = [sys.executable, file, project]
    # The SDK passes few variables on; the home is found by the one for it.
    given = {**environment(home), "HOME": str(home), "ESPER_HOME": ""}
    ran = subprocess.run(command, env=given, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ran.returncode == 0, ran.stderr
    *findings, status, result = ran.stdout.splitlines()
    assert f"{status}\n{result}\n" == blocks("text")[0]
    assert findings
    assert all(re.match(r"ESP\d+ train\.py:\d+ ", finding) for finding in findings)


async def test_the_table_lists_the_tools(make_project):
    async with ServerProject(make_project({"train.py": "x = 1\n"})) as project:
        tools = {tool.name for tool in await build_server(project).list_tools()}
    assert set(re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)) == tools
    assert f"at most {MOST_BYTES // 1000} kB" in TEXT


async def test_the_configurations_start_the_server(make_project, home):
    project = make_project({"train.py": "x = 1\n"})
    entries = [json.loads(block) for block in blocks("json")]
    entries += [tomllib.loads(block) for block in blocks("toml")]
    servers = [next(iter(entry.values()))["esper"] for entry in entries]
    assert len({(server["command"], *server["args"]) for server in servers}) == 1
    given = StdioServerParameters(
        command=servers[0]["command"], args=servers[0]["args"], cwd=project, env=environment(home)
    )
    async with Client(given) as client:
        found = await client.call_tool("review", {"paths": ["train.py"]})
        assert found.structured_content["files"] == 1
