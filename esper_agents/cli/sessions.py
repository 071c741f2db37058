"""`esper sessions`: commands that list, search, show and cancel sessions."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from esper_agents.cli.answer_prompt import is_decision
from esper_agents.cli.cost_summary import CostGrouping, as_data, by
from esper_agents.cli.indented_output import outline
from esper_agents.cli.live_output import say
from esper_agents.cli.shared_options import HERE, JsonOption, LimitOption, ProjectOption, SessionArgument, YesOption
from esper_agents.cli.terminal import echo, echo_json, is_interactive, one_line, short
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.session import SessionState
from esper_agents.domain.task import short_request
from esper_agents.domain.usage import dollars
from esper_agents.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from esper_agents.api import OpenProject
    from esper_agents.domain.session import Event, SessionSummary
    from esper_agents.domain.usage import Expense

    _Found = tuple[tuple[SessionSummary, ...], Mapping[str, Expense]]

_SHOWN = 10
_NONE = 'no sessions yet; begin with: esper submit "review this training code" train.py'

sessions_app = typer.Typer(no_args_is_help=True, help="List and manage sessions")


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(sessions_app, name="sessions")


@sessions_app.command("list")
def list_sessions(
    state: Annotated[
        list[SessionState] | None, typer.Option("--state", help="Filter by state (repeatable)", show_default=False)
    ] = None,
    agent: Annotated[str, typer.Option("--agent", metavar="AGENT", help="Filter by current or last agent")] = "",
    since: Annotated[
        str,
        typer.Option("--since", metavar="DATE", help="Filter by last activity, on or after e.g. 2026-01-31"),
    ] = "",
    project: ProjectOption = HERE,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """List sessions.

    Newest first.

    Examples:
      esper sessions list --limit 5
      esper sessions list --state waiting --state open
    """
    found = asyncio.run(_list(project, tuple(state or ()), agent, since, limit))
    none = "no such session" if state or agent or since else _NONE
    _listed(*found, none, as_json=as_json)


@sessions_app.command()
def search(
    words: Annotated[list[str], typer.Argument(help="Search terms; all must match")],
    project: ProjectOption = HERE,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """Search sessions.

    Searches request, agent and conclusion, newest first.

    Examples:
      esper sessions search gradient accumulation
    """
    _listed(*asyncio.run(_search(" ".join(words), project, limit)), "no session says that", as_json=as_json)


def _listed(found: tuple[SessionSummary, ...], spent: Mapping[str, Expense], none: str, *, as_json: bool) -> None:
    if as_json:
        echo_json([_as_data(each) | {"cost": as_data(spent.get(each.id))} for each in found])
        return
    if not found:
        echo(none)
    for each in found:
        when = each.changed_at[:16].replace("T", " ")
        outline(f"{each.id} {when} {state_of(each)}{_origin(each)}{_cost(spent, each)}")
        outline(f"{each.agent or 'no agent'}: {short_request(each.request)}", 1)


def _as_data(each: SessionSummary) -> dict[str, Any]:
    return each._asdict() | {"origin": asdict(each.origin)}


def _origin(each: SessionSummary) -> str:
    return f", {each.origin.kind} from {each.origin.session}" if each.origin.session else ""


def _cost(spent: Mapping[str, Expense], each: SessionSummary) -> str:
    return f", {dollars(spent[each.id].money)}" if each.id in spent else ""


@sessions_app.command()
def show(session: SessionArgument = "latest", project: ProjectOption = HERE, as_json: JsonOption = False) -> None:
    """Show the timeline of a session.

    Shows agents, handoffs, questions, answers and the pending question.

    Examples:
      esper sessions show latest
    """
    from esper_agents.api import session_timeline

    found, events = asyncio.run(_show(session, project))
    if as_json:
        echo_json({"session": _as_data(found), "events": [asdict(each) for each in events]})
        return
    say("session", found.id)
    say("request", found.request)
    say("state", state_of(found))
    for label, text in session_timeline(found, events):
        say(label, one_line(text))
    answered = {event.body["question"] for event in events if event.kind == "answered"}
    for event in events:
        if event.kind == "asked" and event.body["id"] not in answered:
            how = "approve or deny" if is_decision(event.body["options"]) else "answer"
            say("next", f"esper {how} {short(event.body['id'])}")
    if found.state is SessionState.OPEN:
        say("next", f"esper resume {short(found.id)}")


@sessions_app.command()
def cancel(
    session: SessionArgument = "",
    interrupted: Annotated[bool, typer.Option("--interrupted", help="Cancel all interrupted sessions")] = False,
    yes: YesOption = False,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Cancel a session.

    The session ends without a verdict; a running one stops at its next step. With --interrupted, cancels all unfinished
    sessions of the project that no process runs and that are not queued, after confirmation. Exits with 0 if they were
    cancelled or there were none; with 10 if you decline.

    Examples:
      esper sessions cancel latest
      esper sessions cancel --interrupted
    """
    if bool(session) is interrupted:
        problem = "a session and --interrupted are mutually exclusive" if session else "no session is named"
        raise UsageError(problem, remedy="esper sessions cancel latest, or esper sessions cancel --interrupted")
    if interrupted:
        raise typer.Exit(asyncio.run(_cancel_interrupted(project, asks=not yes, as_json=as_json)))
    found = asyncio.run(_cancel(session, project))
    if as_json:
        echo_json(_as_data(found))
    elif found.state is SessionState.CANCELLED:
        say("cancelled", found.id)
    else:
        say("asked", f"the process that runs {found.id} stops it at its next step")


def state_of(each: SessionSummary) -> str:
    """Return the state of a session for output."""
    match each.state:
        case SessionState.OPEN:
            return "running" if each.is_owned else "queued" if each.is_queued else "interrupted"
        case SessionState.WAITING:
            return "waiting for you"
        case SessionState.DONE | SessionState.REFUSED | SessionState.CANCELLED:
            return str(each.state)


async def _list(where: Path, states: tuple[SessionState, ...], agent: str, since: str, limit: int) -> _Found:
    from esper_agents.api import open_project, read_session_filter

    wanted = read_session_filter(states=states, agent=agent, since=since)
    async with open_project(where) as project:
        return await _with_costs(project, await project.sessions.list(wanted=wanted, limit=limit))


async def _search(words: str, where: Path, limit: int) -> _Found:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await _with_costs(project, await project.sessions.search(words, limit=limit))


async def _with_costs(project: OpenProject, found: tuple[SessionSummary, ...]) -> _Found:
    return found, by(await project.models.usage([each.id for each in found]), CostGrouping.SESSION)


async def _show(session: str, where: Path) -> tuple[SessionSummary, tuple[Event, ...]]:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        found = await project.sessions.get(session)
        return found, await project.sessions.timeline(found.id)


async def _cancel(session: str, where: Path) -> SessionSummary:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.sessions.cancel(session)


async def _cancel_interrupted(where: Path, *, asks: bool, as_json: bool) -> int:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        found = await project.sessions.interrupted()
        if found and asks:
            count = number_of(len(found), "interrupted session")
            if as_json or not is_interactive():
                remedy = "esper sessions cancel --interrupted --yes"
                raise UsageError(f"cancelling {count} needs a confirmation", remedy=remedy)
            for each in found[:_SHOWN]:
                outline(
                    f"{each.id} {each.changed_at[:16].replace('T', ' ')} {each.agent}: {short_request(each.request)}"
                )
            if len(found) > _SHOWN:
                outline(f"and {len(found) - _SHOWN} more")
            if not typer.confirm(f"cancel {count} without a verdict?"):
                echo("nothing was cancelled")
                return ExitCode.CANCELLED
        ended = await project.sessions.cancel_interrupted(found)
    if as_json:
        echo_json([_as_data(each) for each in ended])
    else:
        say("cancelled", number_of(len(ended), "session"))
        if len(ended) < len(found):
            say("running", f"{number_of(len(found) - len(ended), 'session')} that a process has resumed")
    return ExitCode.DONE
