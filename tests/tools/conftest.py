"""A small project and a way to call a tool on it as an agent would."""

from __future__ import annotations

import subprocess

import pytest

from esper_agents.tools.registry import load_tools
from esper_agents.tools.tool import ToolContext


@pytest.fixture
def call(project):
    """Call a tool on the project."""
    tools = load_tools()

    async def run(name, **arguments):
        return await tools.get(name).run(ToolContext(project), arguments)

    return run


@pytest.fixture
def context(project, tmp_path):
    """Return what tools may touch of the project, with a place to keep things in."""
    return ToolContext(project, home=tmp_path / "kept")


@pytest.fixture
def shell(project):
    """Run a command line in the project, as a person would, and return the lines it prints."""

    def run(command):
        done = subprocess.run(command, shell=True, cwd=project, capture_output=True, text=True, check=True)  # noqa: S602
        return done.stdout.splitlines()

    return run
