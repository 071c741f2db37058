"""`esper models`: commands for language models, their cost, and consent to send source code."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.cost_summary import CostGrouping, as_data, by, total
from esper_agents.cli.shared_options import HERE, JsonOption, LimitOption, ProjectOption
from esper_agents.cli.terminal import echo, echo_json, say, short, table
from esper_agents.domain.usage import dollars
from esper_agents.errors import NotFoundError

if TYPE_CHECKING:
    from esper_agents.api import ModelUsage
    from esper_agents.domain.usage import Expense

models_app = typer.Typer(
    name="models",
    help="Manage language models and consent",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_Host = Annotated[str, typer.Argument(metavar="HOST", help="Server host [default: from the environment]")]


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(models_app)


@models_app.command("list", epilog="Example: esper models list")
def list_models(*, project: ProjectOption = HERE, as_json: JsonOption = False) -> None:
    """List models, prices and consents.

    Prices are in US dollars per million tokens; window and answer are limits in tokens.
    """
    asyncio.run(_list(project, as_json=as_json))


async def _list(where: Path, *, as_json: bool) -> None:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        known, agreed = project.models.table, project.models.consents()
        if as_json:
            models = [{key: str(value) for key, value in asdict(model).items()} for model in known.models.values()]
            activities = {str(name): asdict(settings) for name, settings in known.activities.items()}
            consents = [asdict(each) for each in agreed]
            echo_json({"models": models, "roles": known.roles, "activities": activities, "consents": consents})
            return
        rows = [
            (
                model.name,
                ", ".join(role for role, name in known.roles.items() if name == model.name),
                f"{model.input.normalize():f}",
                f"{model.cache_read.normalize():f}",
                f"{model.output.normalize():f}",
                f"{model.window:,}",
                f"{model.most_output:,}",
            )
            for model in known.models.values()
        ]
        table(("model", "role", "input $", "cached $", "output $", "window", "answer"), rows)
        echo()
        for activity, settings in known.activities.items():
            stated = (f"{name} {value}" for name, value in asdict(settings).items() if value is not None)
            say(str(activity), ", ".join(stated))
        for each in agreed:
            word = "agreed" if each.is_agreed else "refused"
            say("may read" if each.is_agreed else "may not", f"{each.host}, {word} by {each.by} at {each.at}")
        if not any(each.is_agreed for each in agreed):
            say("may read", "no server: source code of this project stays on this machine")


@models_app.command("cost")
def cost(
    part: Annotated[CostGrouping, typer.Option("--by", help="Group the totals by")] = CostGrouping.MODEL,
    limit: LimitOption = 20,
    *,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Show token usage and cost.

    Sums tokens, cache hits and cost over all sessions of the project.

    Examples:
      esper models cost
      esper models cost --by agent
      esper models cost --by session --limit 5
    """
    spent = asyncio.run(_spent(project))
    found = sorted(by(spent, part).items(), key=lambda each: each[1].money, reverse=True)
    if as_json:
        rows = [{str(part): name, **(as_data(each) or {})} for name, each in found[:limit]]
        echo_json({"by": part, "rows": rows, "total": as_data(total(spent))})
        return
    if not found:
        echo("no model has been asked in this project")
        return
    shown = [(short(name), *_columns(each)) for name, each in found[:limit]]
    table((part, "turns", "tokens", "cached", "cost"), [*shown, ("all", *_columns(total(spent)))])
    if total(spent).unpriced:
        echo("the price of some is not known: they count as the dearest model that is listed")


def _columns(used: Expense) -> tuple[str, ...]:
    return f"{used.turns:,}", f"{used.tokens:,}", f"{used.cached_percent} %", dollars(used.money)


async def _spent(where: Path) -> tuple[ModelUsage, ...]:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.models.usage()


@models_app.command("agree", hidden=True)
@models_app.command("allow", epilog="Example: esper models allow api.anthropic.com")
def allow(host: _Host = "", project: ProjectOption = HERE) -> None:
    """Allow sending source code to a server.

    Applies to this project until `esper models disallow`.
    """
    asyncio.run(_allow(host, project))


async def _allow(host: str, where: Path) -> None:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        said = project.models.allow(host or project.models.host)
        say("agreed", f"source of {project.root} may go to {said.host}")
        say("next", 'esper submit --reasoner claude "review this training code" train.py')


@models_app.command("withdraw", hidden=True)
@models_app.command("disallow", epilog="Example: esper models disallow api.anthropic.com")
def disallow(host: _Host = "", project: ProjectOption = HERE) -> None:
    """Withdraw that consent.

    From then on, no source code of this project is sent to the server.
    """
    asyncio.run(_disallow(host, project))


async def _disallow(host: str, where: Path) -> None:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        name = host or project.models.host
        if not project.models.withdraw(name):
            known = [consent.host for consent in project.models.consents()]
            raise NotFoundError("consent", name, known, listing="esper models list")
        say("withdrawn", f"nothing of {project.root} goes to {name} from now on")
