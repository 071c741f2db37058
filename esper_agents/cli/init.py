"""`esper init`: command that sets up a project."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.consent_prompt import yes_or_no
from esper_agents.cli.shared_options import HERE, JsonOption, ProjectOption, YesOption
from esper_agents.cli.terminal import echo, echo_json, is_interactive, say

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.api import SetupPart, SetupStep


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("init")(init)


def init(
    install: Annotated[str, typer.Option("--install", metavar="REQUIREMENT", help="What CI installs with pip")] = "",
    *,
    project: ProjectOption = HERE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written, write nothing")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Set up a project: key, model, hook and CI.

    Creates your signing key, a git hook that reviews staged changes, and a workflow that reviews pull requests. Asks
    before each; existing files are not changed. A language model is used only with your consent, which --yes does not
    give.

    Examples:
      esper init --dry-run
      esper init --yes
      esper init --install git+https://git.example.org/esper-agents@v0.2.0
    """
    from esper_agents.api import SetupState, plan_setup, set_up

    steps = plan_setup(project, requirement=install)
    may_write = not dry_run and (yes or (is_interactive() and not as_json))
    if may_write:
        refused = () if yes else _refused(steps)
        if not yes:
            _ask_for_consent(steps, project)
        steps = set_up(project, requirement=install, without=refused)
    if as_json:
        echo_json([asdict(step) | {"file": None if step.file is None else str(step.file)} for step in steps])
        return
    for step in steps:
        _show(step, with_content=not may_write)
    if not may_write and any(step.state is SetupState.MISSING for step in steps):
        say("next", "esper init --yes")


def _refused(steps: tuple[SetupStep, ...]) -> tuple[SetupPart, ...]:
    """Ask about each missing part, and return those that the user does not want."""
    from esper_agents.api import SetupState

    missing = [step for step in steps if step.state is SetupState.MISSING]
    for each in missing:
        _show(each, with_content=True)
    return tuple(each.part for each in missing if not yes_or_no(f"{each.part}: write {each.file}? [y/n] "))


def _ask_for_consent(steps: tuple[SetupStep, ...], where: Path) -> None:
    """Ask whether to use the language model of the environment, if there is one and the user has not answered yet."""
    from esper_agents.api import SetupPart, SetupState, open_project

    async def ask() -> None:
        async with open_project(where) as project:
            if project.models.has_key and not project.models.consents():
                host = project.models.host
                said = yes_or_no(f"model: send source code of this project to {host}? [y/n] ")
                if said is not None:
                    project.models.allow(host, is_agreed=said)

    if any(step.part is SetupPart.MODEL and step.state is SetupState.MANUAL for step in steps):
        asyncio.run(ask())


def _show(step: SetupStep, *, with_content: bool) -> None:
    from esper_agents.api import SetupState

    mark = "wrote: " if step.is_new else "would write: " if step.state is SetupState.MISSING else ""
    where = f" ({step.file})" if step.file is not None and step.state is not SetupState.MANUAL else ""
    say(str(step.part), f"{mark}{step.text}{where}")
    if step.content and (step.state is SetupState.MANUAL or with_content):
        echo()
        for line in step.content.splitlines():
            echo(f"    {line}")
        echo()
