"""`esper submit`: give a task to the specialists."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.live import say
from esper_agents.cli.terminal import echo_json
from esper_agents.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from esper_agents.api import OpenProject, Plan
    from esper_agents.domain.task import Task


class Publish(StrEnum):
    """Where views go."""

    PROJECT = "project"
    DATA = "data"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(submit)


def submit(
    task: Annotated[str, typer.Argument(help="What you ask, in words.")] = "",
    paths: Annotated[list[Path] | None, typer.Argument(help="Files and folders it is about.")] = None,
    agent: Annotated[str, typer.Option(help="Give it to this agent instead of routing it.")] = "",
    again: Annotated[
        str, typer.Option(metavar="CERT", help="Ask the question of a certificate again, of the code as it is now.")
    ] = "",
    budget: Annotated[
        str, typer.Option(metavar="NAME=AMOUNT,...", help="Stop with what there is when so much of something is used.")
    ] = "",
    plan: Annotated[bool, typer.Option("--plan", help="Show what would happen; run nothing.")] = False,
    publish: Annotated[
        Publish, typer.Option(help="Where views go: the project, if it is ours to write, or the data folder.")
    ] = Publish.PROJECT,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON and nothing else.")] = False,
) -> None:
    """Give a task to the specialists; it ends with a certificate.

    Without paths the task is about the whole project, if it is under git.

    Examples:
      esper submit "review this training code" train.py
      esper submit "why does torch.compile break here?" model.py
      esper submit --plan "is this ready to ship?" src/
      esper submit --again latest
      esper submit --budget seconds=60,tool-calls=20,hops=3 "review this training code" train.py
    """
    raise typer.Exit(asyncio.run(_submit(task, paths or [], agent, again, budget, plan, publish, as_json)))


async def _submit(
    request: str,
    paths: list[Path],
    agent: str,
    again: str,
    budget: str,
    is_plan: bool,
    publish: Publish,
    as_json: bool,
) -> int:
    from esper_agents.api import open_project
    from esper_agents.cli.driving import drive
    from esper_agents.domain.budget import read_budget

    if again and (request or agent):
        raise UsageError("--again asks the certificate's own question", remedy="leave the task and --agent out")
    amounts = read_budget(budget) if budget else ()
    async with open_project(*paths, publish=publish is Publish.PROJECT) as project:
        task = await project.again(again) if again else project.task(request, paths, agent=agent)
        task = replace(task, budget=amounts)
        if is_plan:
            return await _plan(project, task, as_json=as_json)
        return await drive(project, await project.submit(task), as_json=as_json)


async def _plan(project: OpenProject, task: Task, *, as_json: bool) -> int:
    plan = await project.plan(task)
    if as_json:
        echo_json(asdict(plan))
    else:
        _show(project, plan)
    return ExitCode.DONE if plan.route.agent else ExitCode.USAGE


def _show(project: OpenProject, plan: Plan) -> None:
    say("project", str(project.root))
    say("question", f"{plan.task.kind} (because of: {plan.task.kind_because})")
    say("about", ", ".join(plan.task.paths) or "no code")
    say("route", f"{plan.route.agent or 'nobody'}, {plan.route.explanation}")
    for candidate in plan.route.candidates[1:]:
        say("", f"{candidate.agent} {candidate.score_milli}: {', '.join(candidate.because) or 'nothing for it'}")
    if plan.route.agent:
        say("reasoner", plan.reasoner)
        for tool in plan.tools:
            asks = "" if tool.risk == "low" else ", asks you first"
            say("tool", f"{tool.name} (risk {tool.risk}{asks}): {tool.description.splitlines()[0]}")
        say("handoffs", ", ".join(plan.neighbours) or "to nobody")
    say("cost", "no model is called: nothing leaves this machine, and nothing is to be paid")
    if plan.task.budget:
        say("budget", ", ".join(each.option for each in plan.task.budget))
    say("plan", "nothing was run")
