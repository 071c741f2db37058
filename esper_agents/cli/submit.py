"""`esper submit`: command that submits a task."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.live_output import say
from esper_agents.cli.shared_options import JsonOption, PluginDirsOption
from esper_agents.cli.terminal import echo_json
from esper_agents.domain.change import STAGED
from esper_agents.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.api import OpenProject, TaskPlan
    from esper_agents.domain.request import ParsedRequest
    from esper_agents.domain.task import Task

_STANDARD_INPUT = "-"


class ReasonerName(StrEnum):
    """Name of a reasoner, or `auto`."""

    PLAYBOOK = "playbook"
    CLAUDE = "claude"
    AUTO = "auto"


class Publish(StrEnum):
    """Place where views are published."""

    PROJECT = "project"
    DATA = "data"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(submit)


def submit(
    context: typer.Context,
    task: Annotated[str, typer.Argument(help="Request in plain language, or `-` for standard input")] = "",
    paths: Annotated[list[str] | None, typer.Argument(help="Files and directories of the request")] = None,
    agent: Annotated[str, typer.Option(metavar="AGENT", help="Skip routing and use this agent")] = "",
    again: Annotated[
        str,
        typer.Option("--rerun", metavar="CERT", help="Repeat the request of a certificate on the current code"),
    ] = "",
    from_action: Annotated[
        str, typer.Option(metavar="N", help="Work on a follow-up: number in `esper memory list`, or ID")
    ] = "",
    diff: Annotated[str, typer.Option(metavar="REV", help="Judge the change since REV, or of A..B or A...B")] = "",
    staged: Annotated[bool, typer.Option("--staged", help="Judge the staged change")] = False,
    branch: Annotated[bool, typer.Option("--pr", help="Judge this branch against the default branch")] = False,
    budget: Annotated[
        str | None,
        typer.Option(metavar="NAME=AMOUNT,...", help="Stop with a partial result at this limit, e.g. money=0.50"),
    ] = None,
    ask: Annotated[
        list[str] | None,
        typer.Option("--ask", metavar="TOOL", help="Ask before every call of this tool (repeatable)"),
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option("--deny", metavar="TOOL", help="Deny all calls of this tool (repeatable)")
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="TOOL", help="Allow all calls of this tool in this session (repeatable)"),
    ] = None,
    plugin_dir: PluginDirsOption = None,
    project: Annotated[
        Path | None, typer.Option("--project", metavar="PATH", help="Project directory [default: around the paths]")
    ] = None,
    reasoner: Annotated[
        ReasonerName, typer.Option(help="Reasoner; auto uses a model if you gave consent")
    ] = ReasonerName.AUTO,
    plan: Annotated[bool, typer.Option("--dry-run", help="Show the plan and the cost estimate, run nothing")] = False,
    queue: Annotated[bool, typer.Option("--queue", help="Queue the task for `esper worker`")] = False,
    snapshot: Annotated[
        bool, typer.Option("--snapshot", help="With --queue: let workers without the checkout run it")
    ] = False,
    publish: Annotated[
        Publish, typer.Option(help="Publish views to the project or the data directory")
    ] = Publish.PROJECT,
    as_json: JsonOption = False,
) -> None:
    """Submit a task and get a certificate.

    Without paths the task applies to the whole project if it is a git repository.

    APPROVED and GO need an execution that could have failed: --allow run-tests lets the session run the tests of these
    files in the sandbox, on a copy of the project. Allow exceptions by name: run-tests:network, run-tests:read=PATH for
    a file or directory that git ignores, run-tests:unsandboxed for running the tests in the project itself.

    Examples:
      esper submit "review this training code" train.py
      esper submit "why does torch.compile break here?" model.py
      esper submit "why does it crash?" crash.log
      python train.py 2>&1 | esper submit -
      esper submit --dry-run "is this ready to ship?" src/
      esper submit --pr "safe to merge?"
      esper submit --diff v1.2 "does this change training?"
      esper submit --rerun latest
      esper submit --from-action 1
      esper submit --queue "review this training code" train.py
      esper submit --reasoner claude "is this loop right?" train.py
      esper submit --allow run-tests "may this ship?" train.py
      esper submit --allow run-tests:read=data --allow run-tests:network "review this training code" train.py
      esper submit --deny run-tests "review this training code" train.py
      esper submit --budget seconds=60,tool-calls=20,hops=3 "review this training code" train.py
    """
    if _STANDARD_INPUT in [task, *(paths or [])]:
        read = sys.stdin.buffer.read().decode("utf-8", "replace")
        if not read.strip():
            raise UsageError("standard input is empty", remedy="python train.py 2>&1 | esper submit -")
        paths = [path for path in paths or [] if path != _STANDARD_INPUT]
        task = read if task == _STANDARD_INPUT else f"{task}\n\n{read}"
    elif paths:
        _refuse_unquoted(context, [task, *paths])
    given = _Given(
        task,
        [Path(path) for path in paths or []],
        agent,
        again,
        from_action,
        budget,
        {"ask": ask or [], "deny": deny or [], "allow": allow or []},
        reasoner,
    )
    given = replace(given, diff=STAGED if staged and not diff else diff, is_branch=branch, is_staged=staged)
    given = replace(given, plugins=tuple(plugin_dir or ()), is_plan=plan, is_queued=queue, has_snapshot=snapshot)
    given = replace(given, publish=publish)
    given = replace(given, project=project)
    raise typer.Exit(asyncio.run(_submit(given, as_json=as_json)))


def _refuse_unquoted(context: typer.Context, words: list[str]) -> None:
    """Raise an error if words of an unquoted task are in the position of paths.

    Raises:
        UsageError: The task is one word, and a later word neither is a path nor looks like one.
    """
    is_path = [bool(word) and os.path.lexists(word) for word in words]
    looks_like_path = [
        found or "/" in each or bool(Path(each).suffix) for found, each in zip(is_path, words, strict=True)
    ]
    if any(each.isspace() for each in words[0]) or all(looks_like_path[1:]):
        return
    first, last = is_path.index(False), len(words) - is_path[::-1].index(False)
    if any(is_path[first:last]):  # "compare a.py with b.py": the last path belongs to the request.
        last = len(words)
    paths = dict.fromkeys(each for found, each in zip(is_path, words, strict=True) if found)
    command = shlex.join(["esper", "submit", *_options(context), " ".join(words[first:last]), *paths])
    stray = next(each for good, each in zip(looks_like_path[1:], words[1:], strict=True) if not good)
    raise UsageError(f"the task is not quoted: {stray!r} is neither a file nor a folder", remedy=command)


def _options(context: typer.Context) -> Iterator[str]:
    """Yield the options that were given on the command line."""
    for param in context.command.params:
        source = context.get_parameter_source(param.name or "")
        if param.param_type_name != "option" or source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[param.name or ""]
        for one in value if isinstance(value, list | tuple) else [value]:
            yield from [param.opts[0]] if isinstance(one, bool) else [param.opts[0], str(one)]


@dataclass(frozen=True, slots=True)
class _Given:
    request: str
    paths: list[Path]
    agent: str
    again: str
    from_action: str
    budget: str | None
    kept: dict[str, list[str]]
    reasoner: ReasonerName
    diff: str = ""
    is_staged: bool = False
    is_branch: bool = False
    plugins: tuple[Path, ...] = ()
    is_plan: bool = False
    is_queued: bool = False
    has_snapshot: bool = False
    publish: Publish = Publish.PROJECT
    project: Path | None = None

    @property
    def places(self) -> list[Path]:
        """Paths that determine the project."""
        return [*([self.project] if self.project else []), *self.paths]

    def check(self) -> None:
        changes = [bool(self.diff) and not (self.is_staged and self.diff == STAGED), self.is_staged, self.is_branch]
        if sum(changes) > 1:
            raise UsageError("more than one change is named", remedy="use one of --diff, --staged and --pr")
        if any(changes) and (self.again or self.from_action):
            raise UsageError("a repeated task has its own subject", remedy="leave --diff, --staged and --pr out")
        if self.again and (self.request or self.agent):
            raise UsageError("--rerun repeats the request of the certificate", remedy="remove the task and --agent")
        if self.is_queued and self.publish is Publish.DATA:
            raise UsageError("a queued task is published by its worker", remedy="esper worker --publish data")
        if self.has_snapshot and not self.is_queued:
            raise UsageError("--snapshot is for sessions of a worker", remedy="add --queue, or leave it out")
        if self.is_queued and self.plugins:
            raise UsageError("a worker has the plugins that were added, no others", remedy="esper plugins add PATH")
        if self.from_action and (self.request or self.agent or self.again or self.paths):
            remedy = "remove the task, the paths, --agent and --rerun"
            raise UsageError("--from-action takes the task from what an agent left to do", remedy=remedy)


async def _submit(given: _Given, *, as_json: bool) -> int:
    from esper_agents.api import open_project
    from esper_agents.cli.begun import begin
    from esper_agents.cli.consent_prompt import choose_reasoner
    from esper_agents.cli.run_session import run_interactively, show_route
    from esper_agents.domain.budget import read_budget

    given.check()
    amounts = () if given.budget is None else read_budget(given.budget)
    is_published = given.publish is Publish.PROJECT
    async with open_project(*given.places, plugins=given.plugins, publish=is_published) as project:
        task = replace(await _task(project, given), budget=amounts)
        if any(given.kept.values()):
            task = project.tasks.restrict(task, **given.kept)
        task = choose_reasoner(project, task, given.reasoner, is_plan=given.is_plan, is_told=not as_json)
        if given.is_plan:
            return await show_plan(project, task, as_json=as_json)
        if given.is_queued:
            return _queued(await project.tasks.enqueue(task, snapshot=given.has_snapshot), as_json=as_json)
        shown = () if as_json else show_route(project, task)
        session = await begin(project.tasks.submit(task))
        return await run_interactively(project, session, as_json=as_json, shown=shown)


async def _task(project: OpenProject, given: _Given) -> Task:
    if given.from_action:
        return await project.tasks.follow_up(given.from_action)
    if given.again:
        return await project.tasks.repeat(given.again)
    return project.tasks.create(
        given.request, given.paths, agent=given.agent, diff=given.diff, is_branch=given.is_branch
    )


def _queued(session_id: str, *, as_json: bool) -> int:
    if as_json:
        echo_json({"session": session_id, "state": "queued"})
    else:
        say("queued", session_id)
        say("next", "esper worker --once")
    return ExitCode.DONE


async def show_plan(project: OpenProject, task: Task, *, as_json: bool) -> int:
    """Print the plan of a task and return the exit code."""
    plan = await project.tasks.plan(task)
    if as_json:
        echo_json(asdict(plan))
    else:
        _show(project, plan)
    return ExitCode.DONE if plan.route.agent and not plan.declined else ExitCode.USAGE


def _show_request(request: ParsedRequest) -> None:
    """Print what the program understands of a request."""
    language = f", language {request.language}" if request.language not in {"", "en"} else ""
    say("wish", f"{request.wish} (because of: {request.wish_because}){language}")
    for topic in request.topics:
        say("topic", f"{topic.name} ({', '.join(topic.words)})")
    for seen in request.observations:
        say("observed", f"{seen.text} ({seen.quantity})")
    _show_usages(request)
    for constraint in request.constraints:
        say("constraint", f"{constraint.text} ({constraint.kind})")
    for error in request.errors:
        say("error", str(error))
    for file in request.files:
        say("file", f"{file.path}{f':{file.line}' if file.line else ''} ({file.words})")
    for symbol in request.symbols:
        say("symbol", str(symbol))
    for symbol in request.ambiguous:
        say("symbol", f"{symbol}; {symbol.words} is defined more than once")
    if request.unread:
        say("unread", f"{request.unread} characters in the middle of the request")


def _show_usages(request: ParsedRequest) -> None:
    """Print the APIs that a request asks about, and what the user states."""
    for usage in request.usages:
        say("asks about", f"{usage.name}{f', line {usage.line}' if usage.line else ''} ({usage.words})")
    for name in request.grounded:
        place = f" ({name.path}:{name.line})" if name.path else ""
        say("word", f"{name.words}: {name.kind} {name.name}{place}")
    for statement in request.statements:
        say("stated", f"{statement.kind} = {statement.value} ({statement.text})")


def _show(project: OpenProject, plan: TaskPlan) -> None:
    from esper_agents.cli.consent_prompt import cost

    say("project", str(project.root))
    say("question", f"{plan.task.kind} (because of: {plan.task.kind_because})")
    _show_request(plan.request)
    say("about", ", ".join(plan.task.paths) or "no code")
    if change := plan.task.change:
        say("change", f"{change.asked} ({change.base[:12]} to {change.head[:12] or 'the work tree'})")
    say("route", f"{plan.route.agent or 'no agent'}, {plan.route.explanation}")
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
            say("ignored", f"{rule.source}: {rule}; allow rules are accepted only in user settings")
        say("handoffs", ", ".join(plan.neighbours) or "none")
    if plan.declined:
        say("declined", plan.declined.problem)
        say("fix", plan.declined.remedy)
    say("cost", cost(project, plan.task))
    if plan.task.budget:
        say("budget", ", ".join(each.option for each in plan.task.budget))
    say("plan", "nothing was run")
