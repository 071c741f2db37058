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
    """Return the commands that the project's tasks can be made by."""
    return load_commands(project.workshop.plugins)


def paths_among(arguments: Sequence[str]) -> tuple[Path, ...]:
    """Return the arguments that are files or folders: what the task is about."""
    return tuple(Path(each) for each in arguments if each and Path(each).expanduser().exists())


def task_of(project: OpenProject, command: Command, arguments: Sequence[str]) -> Task:
    """Return the task that a command makes of arguments; nothing is stored.

    Tools that write or reach outside are denied unless the command names them; none is ever allowed by it.

    Raises:
        UsageError: The request would be empty or too long.
        NotFoundError: The agent that it names is not installed.
    """
    registry = project.workshop.agents.agents
    # A plugin names its own agents without its name before them.
    own = f"{command.name.rpartition(':')[0]}:{command.agent}"
    agent = own if own in registry else command.agent
    task = project.task(filled(command, arguments), paths_among(arguments), agent=agent)
    return project.restricted(task, deny=denied(project, command))


def denied(project: OpenProject, command: Command) -> tuple[str, ...]:
    """Return the tools that a command's task may not call: those of more than low risk that it does not name."""
    if command.tools is None:
        return ()
    tools = project.workshop.tools
    named = {each.name for each in tools.named(command.tools)}
    return tuple(each.name for each in tools.tools.values() if each.risk is not Risk.LOW and each.name not in named)
