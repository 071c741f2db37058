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
    from_action: Annotated[
        str, typer.Option(metavar="N", help="Do an open action: its number in `esper memory list`, or its identifier.")
    ] = "",
    budget: Annotated[
        str, typer.Option(metavar="NAME=AMOUNT,...", help="Stop with what there is when so much of something is used.")
    ] = "",
    ask: Annotated[
        list[str] | None,
        typer.Option("--ask", metavar="TOOL", help="No agent calls this tool unasked; repeatable."),
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option("--deny", metavar="TOOL", help="No agent calls this tool; repeatable.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show what would happen; run nothing.")] = False,
    queue: Annotated[bool, typer.Option("--queue", help="Leave the work to `esper worker`.")] = False,
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
      esper submit --from-action 1
      esper submit --queue "review this training code" train.py
      esper submit --deny run-tests "review this training code" train.py
      esper submit --budget seconds=60,tool-calls=20,hops=3 "review this training code" train.py
    """
    kept = {"ask": ask or [], "deny": deny or []}
    raise typer.Exit(
        asyncio.run(_submit(task, paths or [], agent, again, from_action, budget, kept, plan, queue, publish, as_json))
    )


async def _submit(
    request: str,
    paths: list[Path],
    agent: str,
    again: str,
    from_action: str,
    budget: str,
    kept: dict[str, list[str]],
    is_plan: bool,
    is_queued: bool,
    publish: Publish,
    as_json: bool,
) -> int:
    from esper_agents.api import open_project
    from esper_agents.cli.driving import drive
    from esper_agents.domain.budget import read_budget

    if again and (request or agent):
        raise UsageError("--again asks the certificate's own question", remedy="leave the task and --agent out")
    if is_queued and publish is Publish.DATA:
        raise UsageError("a queued task is published by its worker", remedy="esper worker --publish data")
    if from_action and (request or agent or again or paths):
        remedy = "leave the task, the paths, --agent and --again out"
        raise UsageError("--from-action takes the task from what an agent left to do", remedy=remedy)
    amounts = read_budget(budget) if budget else ()
    async with open_project(*paths, publish=publish is Publish.PROJECT) as project:
        if from_action:
            task = await project.from_action(from_action)
        else:
            task = await project.again(again) if again else project.task(request, paths, agent=agent)
        task = replace(task, budget=amounts)
        if any(kept.values()):
            task = project.restricted(task, **kept)
        if is_plan:
            return await _plan(project, task, as_json=as_json)
        if is_queued:
            return _queued(await project.enqueue(task), as_json=as_json)
        return await drive(project, await project.submit(task), as_json=as_json)


def _queued(session_id: str, *, as_json: bool) -> int:
    if as_json:
        echo_json({"session": session_id, "state": "queued"})
    else:
        say("queued", session_id)
        say("next", "esper worker --once")
    return ExitCode.DONE


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
            leave = f", {plan.leave[tool.name]}" if tool.name in plan.leave else ""
            say("tool", f"{tool.name} (risk {tool.risk}{leave}): {tool.description.splitlines()[0]}")
        for rule in plan.rules:
            say("rule", f"{rule.source}: {rule}")
        for rule in plan.ignored:
            say("ignored", f"{rule.source}: {rule}; only your own settings can allow")
        say("handoffs", ", ".join(plan.neighbours) or "to nobody")
    say("cost", "no model is called: nothing leaves this machine, and nothing is to be paid")
    if plan.task.budget:
        say("budget", ", ".join(each.option for each in plan.task.budget))
    say("plan", "nothing was run")
