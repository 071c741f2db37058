"""Commands of an open project: task templates, bundled or from plugins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.agents.commands import filled, load_commands
from esper_agents.domain.evidence import Risk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.agents.commands import Command, Commands
    from esper_agents.api.project import OpenProject
    from esper_agents.domain.task import Task


def commands_of(project: OpenProject) -> Commands:
    """Return the commands available in the project."""
    return load_commands(project.services.plugins)


def paths_among(arguments: Sequence[str]) -> tuple[Path, ...]:
    """Return the arguments that are files or folders."""
    return tuple(Path(each) for each in arguments if each and Path(each).expanduser().exists())


def task_of(project: OpenProject, command: Command, arguments: Sequence[str]) -> Task:
    """Return the task that a command creates from its arguments; nothing is stored.

    Tools that write files or use the network are denied unless the command names them; a command never allows a tool.

    Raises:
        UsageError: The request is empty or too long.
        NotFoundError: The agent named by the command is not installed.
    """
    registry = project.services.agents.agents
    # A plugin names its own agents without its prefix.
    own = f"{command.name.rpartition(':')[0]}:{command.agent}"
    agent = own if own in registry else command.agent
    task = project.tasks.create(filled(command, arguments), paths_among(arguments), agent=agent)
    return project.tasks.restrict(task, deny=denied(project, command))


def denied(project: OpenProject, command: Command) -> tuple[str, ...]:
    """Return the tools denied for a command's task: those above low risk that the command does not name."""
    if command.tools is None:
        return ()
    tools = project.services.tools
    named = {each.name for each in tools.named(command.tools)}
    return tuple(each.name for each in tools.tools.values() if each.risk is not Risk.LOW and each.name not in named)
