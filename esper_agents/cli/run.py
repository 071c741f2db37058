"""`esper run`: command that submits a task from a template."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.shared_options import JsonOption, PluginDirsOption
from esper_agents.cli.submit import Publish, ReasonerName, show_plan
from esper_agents.cli.terminal import echo, echo_json, one_line, report, say
from esper_agents.errors import ExitCode

if TYPE_CHECKING:
    from esper_agents.api import Command, Commands

_MOST_SAID = 5


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(run)


def run(
    name: Annotated[str, typer.Argument(metavar="TEMPLATE", help="Template name [default: list all templates]")] = "",
    arguments: Annotated[list[str] | None, typer.Argument(help="Files, directories and words for the template")] = None,
    plugin_dir: PluginDirsOption = None,
    reasoner: Annotated[
        ReasonerName, typer.Option(help="Reasoner; auto uses a model if you gave consent")
    ] = ReasonerName.AUTO,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan and the cost estimate, run nothing")
    ] = False,
    publish: Annotated[
        Publish, typer.Option(help="Publish views to the project or the data directory")
    ] = Publish.PROJECT,
    as_json: JsonOption = False,
) -> None:
    """Submit a task from a template.

    Templates are the built-in ones and the commands of plugins. Arguments that are files or directories become the
    paths of the task. A template is text: no command in it is executed. The session ends with a certificate.

    Examples:
      esper run
      esper run debug-nan train.py
      esper run torch-pack:profile --dry-run train.py
    """
    plugins, into_project = tuple(plugin_dir or ()), publish is Publish.PROJECT
    coroutine = _run(name, tuple(arguments or ()), plugins, reasoner, dry_run, into_project, as_json)
    raise typer.Exit(asyncio.run(coroutine))


async def _run(
    name: str,
    arguments: tuple[str, ...],
    plugins: tuple[Path, ...],
    reasoner: ReasonerName,
    is_plan: bool,
    into_project: bool,
    as_json: bool,
) -> int:
    from esper_agents.api import open_project, paths_among
    from esper_agents.cli.begun import begin
    from esper_agents.cli.consent_prompt import choose_reasoner
    from esper_agents.cli.run_session import run_interactively, show_route

    async with open_project(*paths_among(arguments), plugins=plugins, publish=into_project) as project:
        known = project.agents.templates()
        if not name:
            return _list(known, as_json=as_json)
        command = known.get(name)
        _say_inert(command)
        task = project.agents.task_from_template(command, arguments)
        task = choose_reasoner(project, task, reasoner, is_plan=is_plan, is_told=not as_json)
        if is_plan:
            return await show_plan(project, task, as_json=as_json)
        if task.paths == (".",) and not as_json:
            say("about", f"the whole project {project.root}")
        shown = () if as_json else show_route(project, task)
        session = await begin(project.tasks.submit(task))
        return await run_interactively(project, session, as_json=as_json, shown=shown)


def _list(known: Commands, *, as_json: bool) -> int:
    if as_json:
        echo_json([asdict(command) for command in known.commands.values()])
        return ExitCode.DONE
    for command in known.commands.values():
        echo(one_line(f"{command.name} {command.argument_hint}"))
        echo(f"  {one_line(command.description) or 'no description'}")
    for error in known.refused:
        report(error)
    return ExitCode.DONE


def _say_inert(command: Command) -> None:
    """Report on standard error the commands and file references that esper treats as plain text."""
    for each in command.inert[:_MOST_SAID]:
        why = "nothing in a command is run" if each.startswith("!") else "name the file as an argument to have it read"
        sys.stderr.write(f"esper: {command.name}: {one_line(each)} stays text: {why}\n")
    if len(command.inert) > _MOST_SAID:
        sys.stderr.write(f"esper: {command.name}: {len(command.inert) - _MOST_SAID} more stay text\n")
