"""`esper approvals`: commands that list and answer pending questions."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from esper_agents.cli.answer_prompt import choice, commands
from esper_agents.cli.approval_prompt import show_preview
from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.cli.resume import answer, approve, deny
from esper_agents.cli.shared_options import HERE, JsonOption, ProjectOption
from esper_agents.cli.terminal import echo, echo_json, short

if TYPE_CHECKING:
    from esper_agents.api import PendingQuestion

_LONGEST = 200

approvals_app = typer.Typer(no_args_is_help=True, help="List and answer pending questions", rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the command group; `approve`, `deny` and `answer` are hidden names of the top-level commands."""
    for command in (approve, deny, answer):
        approvals_app.command(hidden=True)(command)
    app.add_typer(approvals_app, name="approvals")


@approvals_app.command("list")
def list_approvals(
    is_full: Annotated[bool, typer.Option("--full", help="Show whole diffs and commands")] = False,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """List pending questions.

    Lists the unanswered questions of all sessions of the project, oldest first. Calls that need approval are shown as
    a unified diff or a command line.

    Examples:
      esper approvals list
      esper approvals list --full
      esper approvals list --json
    """
    found = asyncio.run(_list(project))
    if as_json:
        echo_json([_as_data(each) for each in found])
        return
    if not found:
        echo("nothing waits for you")
    for each in found:
        since = each.since[:16].replace("T", " ")
        outline(f"{short(each.question.id)} since {since} in {short(each.session)}, asked by {each.agent}")
        outline(_shown(each.question.text) + choice(each.question), 1)
        show_preview(each.question, is_full=is_full)
        for command in commands(each.question):
            outline_command("answer", command, 1)
    for session, number in Counter(each.session for each in found if each.is_decision).items():
        if number > 1:
            outline(f"all {number} of {short(session)}, in this order:")
            outline_command("answer", f"esper approve {short(session)} --all", 1)


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... (all of it: esper approvals list --json)"


def _as_data(each: PendingQuestion) -> dict[str, Any]:
    return {
        "session": each.session,
        "agent": each.agent,
        "since": each.since,
        **asdict(each.question),
        "commands": commands(each.question),
    }


async def _list(where: Path) -> tuple[PendingQuestion, ...]:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.approvals.list()
