"""`esper resume`, `approve`, `deny` and `answer`: go on with a session."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

_Project = Annotated[Path, typer.Option("--project", help="The project; the working folder's where left out.")]
_Json = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON and nothing else.")]
_Question = Annotated[str, typer.Argument(help="The question, or a session that asks just one; `latest` works.")]
_HERE = Path()


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (resume, approve, deny, answer):
        app.command()(command)


def resume(
    session: Annotated[str, typer.Argument(help="The session, or an unmistakable part of its name.")] = "latest",
    project: _Project = _HERE,
    as_json: _Json = False,
) -> None:
    """Go on with a session at the first step without a result.

    Examples:
      esper resume
      esper resume ses_0198f0c2
    """
    raise typer.Exit(asyncio.run(_resume(session, project, as_json=as_json)))


def approve(question: _Question = "latest", project: _Project = _HERE, as_json: _Json = False) -> None:
    """Agree to the one tool call that a question names, and go on.

    Examples:
      esper approve
      esper approve qst_0198f0c2...
    """
    raise typer.Exit(asyncio.run(_answer(question, "approve", project, as_json=as_json)))


def deny(question: _Question = "latest", project: _Project = _HERE, as_json: _Json = False) -> None:
    """Refuse the one tool call that a question names, and go on without it.

    Examples:
      esper deny qst_0198f0c2...
    """
    raise typer.Exit(asyncio.run(_answer(question, "deny", project, as_json=as_json)))


def answer(
    question: _Question,
    text: Annotated[str, typer.Argument(help="The answer.")],
    project: _Project = _HERE,
    as_json: _Json = False,
) -> None:
    """Answer an agent's question, and go on.

    Examples:
      esper answer latest "the model runs on one GPU"
    """
    raise typer.Exit(asyncio.run(_answer(question, text, project, as_json=as_json)))


async def _resume(session: str, where: Path, *, as_json: bool) -> int:
    from esper_agents.api import open_project
    from esper_agents.cli.driving import drive

    async with open_project(where) as project:
        return await drive(project, await project.resume(session), as_json=as_json)


async def _answer(question: str, text: str, where: Path, *, as_json: bool) -> int:
    from esper_agents.api import open_project
    from esper_agents.cli.driving import drive

    async with open_project(where) as project:
        return await drive(project, await project.answer(question, text), as_json=as_json)
