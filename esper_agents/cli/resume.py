"""`esper resume`, `approve`, `deny` and `answer`: commands that resume a session."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.live_output import say
from esper_agents.cli.shared_options import HERE, DefinitionsOption, DefinitionSource, JsonOption, ProjectOption
from esper_agents.cli.terminal import echo
from esper_agents.domain.approval_scope import ONE_QUESTION, AnswerReach, ScopeKind
from esper_agents.domain.session import SessionState
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.api import OpenProject

_Question = Annotated[str, typer.Argument(metavar="QUESTION", help="Question or session ID, or `latest` open question")]
_All = Annotated[bool, typer.Option("--all", help="Answer all approvals of the turn")]
_LOOKED_THROUGH = 200


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (resume, approve, deny, answer):
        app.command()(command)


def resume(
    session: Annotated[
        str, typer.Argument(metavar="SESSION", help="Session ID or prefix [default: newest unfinished session]")
    ] = "",
    definitions: DefinitionsOption = None,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Resume a session.

    Resumes at the first step that has no result. If an agent, playbook, skill or the policy has changed since the
    session started, the command lists the changes and stops; repeat it with --definitions.

    Examples:
      esper resume
      esper resume ses_0198f0c2
      esper resume latest --definitions recorded
    """
    raise typer.Exit(asyncio.run(_resume(session, project, definitions, as_json=as_json)))


def approve(
    question: _Question = "latest",
    is_all: _All = False,
    for_session: Annotated[bool, typer.Option("--session", help="Also later calls of this tool, same risk")] = False,
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="WORDS", help="Also later commands that begin with WORDS")
    ] = "",
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Approve a tool call or advice, then resume.

    An approval is for one call. With --session it also covers later calls of the same tool with the same risk in this
    session, with --prefix only commands whose first words are the same. A shell command with operators, variables or
    wildcards is never covered by a prefix.

    Examples:
      esper approve
      esper approve qst_0198f0c2...
      esper approve latest --all
      esper approve qst_0198f0c2... --prefix "python train.py"
    """
    if for_session and prefix:
        raise UsageError("--session and --prefix exclude each other", remedy="give one of them")
    kind = ScopeKind.SESSION if for_session else ScopeKind.PREFIX if prefix else ScopeKind.ONCE
    reach = AnswerReach(is_all, kind, prefix)
    raise typer.Exit(asyncio.run(_answer(question, "approve", project, is_decision=True, as_json=as_json, reach=reach)))


def deny(
    question: _Question = "latest", is_all: _All = False, project: ProjectOption = HERE, as_json: JsonOption = False
) -> None:
    """Deny a tool call or advice, then resume.

    Examples:
      esper deny qst_0198f0c2...
      esper deny latest --all
    """
    reach = AnswerReach(is_all)
    raise typer.Exit(asyncio.run(_answer(question, "deny", project, is_decision=True, as_json=as_json, reach=reach)))


def answer(
    question: _Question,
    text: Annotated[str, typer.Argument(help="Answer to the question")],
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Answer an agent's question, then resume.

    Examples:
      esper answer latest "the model runs on one GPU"
    """
    raise typer.Exit(asyncio.run(_answer(question, text, project, as_json=as_json)))


async def _resume(session: str, where: Path, source: DefinitionSource | None, *, as_json: bool) -> int:
    from esper_agents.api import open_project
    from esper_agents.cli.begun import begin
    from esper_agents.cli.run_session import run_interactively

    async with open_project(where) as project:
        with telling_changes(is_told=not as_json):
            wanted = session or await _unfinished(project)
            held = await begin(project.tasks.resume(wanted, **source_flags(source)))
        return await run_interactively(project, held, as_json=as_json)


async def _unfinished(project: OpenProject) -> str:
    """Return the newest unfinished session, or `latest` if there is none."""
    known = await project.sessions.list(limit=_LOOKED_THROUGH)
    return next((each.id for each in known if each.state is SessionState.OPEN), "latest")


def source_flags(source: DefinitionSource | None) -> dict[str, bool]:
    """Return the keyword arguments `accept` and `pinned` of the project API."""
    return {"accept": source is DefinitionSource.CURRENT, "pinned": source is DefinitionSource.RECORDED}


@contextmanager
def telling_changes(*, is_told: bool) -> Iterator[None]:
    """Print the changed definitions if they prevent a session from being resumed."""
    from esper_agents.api import ChangedError

    try:
        yield
    except ChangedError as error:
        for each in error.drifts if is_told else ():
            say("changed", each.heading)
            for line in each.lines:
                echo(f"  {line}")
        raise


async def _answer(
    question: str,
    text: str,
    where: Path,
    *,
    is_decision: bool = False,
    as_json: bool,
    reach: AnswerReach = ONE_QUESTION,
) -> int:
    from esper_agents.api import open_project
    from esper_agents.cli.begun import begin
    from esper_agents.cli.run_session import run_interactively

    async with open_project(where) as project:
        with telling_changes(is_told=not as_json):
            held = await begin(project.approvals.answer(question, text, is_decision=is_decision, reach=reach))
        return await run_interactively(project, held, as_json=as_json)
