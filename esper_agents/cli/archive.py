"""`esper certificates search|export|trend`: what the archive says, handed on, and followed over time."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from esper_agents.cli.certificates import certificates_app
from esper_agents.cli.filtering import (
    HERE,
    Agent,
    Before,
    Commit,
    Component,
    File,
    Json,
    Limit,
    Project,
    Rule,
    Since,
    Statuses,
    Until,
    filter_of,
    headline,
    refuse_unknown_agent,
    within,
)
from esper_agents.cli.outline import outline, outline_command
from esper_agents.cli.terminal import echo, echo_json, short, table
from esper_agents.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.certificates.exporting import Exported
    from esper_agents.certificates.filters import Filter
    from esper_agents.certificates.search import Hit
    from esper_agents.certificates.trends import Point


@certificates_app.command()
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS...", help="All of them are to be said.")],
    statuses: Statuses = None,
    agent: Agent = "",
    file: File = "",
    component: Component = "",
    rule: Rule = "",
    commit: Commit = "",
    since: Since = "",
    until: Until = "",
    before: Before = "",
    limit: Limit = 20,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Search what was asked, concluded and found, newest first, and show where it was said.

    Case and accents do not count; `loss.detach` stands for both words in a row. Only whole words are found.

    Examples:
      esper certificates search zero_grad
      esper certificates search graph loss --status REJECTED --since 2026-01
    """
    wanted = filter_of(
        statuses=statuses,
        agent=agent,
        file=file,
        component=component,
        rule=rule,
        commit=commit,
        since=since,
        until=until,
        words=" ".join(words),
    )
    found = asyncio.run(_search(project, wanted, before, limit + 1))
    shown = found[:limit]
    if as_json:
        echo_json([asdict(each.entry) | {"passage": asdict(each.passage) if each.passage else None} for each in shown])
        return
    for each in shown:
        outline(headline(each.entry))
        outline(f"{each.entry.agent} on {each.entry.component}", 1)
        outline(f"{each.passage.where}: {each.passage.text}" if each.passage else "its record says it no longer", 1)
    if not found:
        echo("no certificate says all of that")
    if len(found) > limit:
        outline_command("there are more: add", f"--before {short(shown[-1].entry.id)}")


@certificates_app.command()
def export(
    output: Annotated[Path, typer.Option("--output", metavar="FILE.tar|DIR", help="Where to; must not be there yet.")],
    statuses: Statuses = None,
    agent: Agent = "",
    file: File = "",
    component: Component = "",
    rule: Rule = "",
    commit: Commit = "",
    since: Since = "",
    until: Until = "",
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Write certificates for somebody else: envelopes, proofs, views, public keys, and how to check them by hand.

    The same archive gives the same bytes. Exits with 7 where one was left out because it is not what was issued.

    Examples:
      esper certificates export --output certificates.tar
      esper certificates export --component train --since 2026-01 --output handover
    """
    wanted = filter_of(
        statuses=statuses,
        agent=agent,
        file=file,
        component=component,
        rule=rule,
        commit=commit,
        since=since,
        until=until,
    )
    made = asyncio.run(_export(project, wanted, output.expanduser()))
    if as_json:
        echo_json(asdict(made))
    else:
        outline(f"exported: {made.certificates} certificates and {len(made.keys)} keys to {made.to}")
        for key in made.missing_keys:
            outline(f"no key: {key} signed, and nobody here trusts it", 1)
        for each in made.left_out:
            outline(f"left out: {each.id}: {each.why}", 1)
    if any(each.is_tampered for each in made.left_out):
        raise typer.Exit(ExitCode.TAMPERED)


@certificates_app.command()
def trend(
    metric: Annotated[str, typer.Argument(help="Its name, or the end of it; without one, all are listed.")] = "",
    statuses: Statuses = None,
    agent: Agent = "",
    file: File = "",
    component: Component = "",
    rule: Rule = "",
    commit: Commit = "",
    since: Since = "",
    until: Until = "",
    limit: Limit = 20,
    project: Project = HERE,
    as_json: Json = False,
) -> None:
    """Follow one number over certificates: what tools measured, and how much was found.

    Examples:
      esper certificates trend
      esper certificates trend findings.critical --file train.py
      esper certificates trend speedup.estimate --component model --limit 50
    """
    wanted = filter_of(
        statuses=statuses,
        agent=agent,
        file=file,
        component=component,
        rule=rule,
        commit=commit,
        since=since,
        until=until,
    )
    if not metric:
        names = asyncio.run(_metrics(project))
        if as_json:
            echo_json(names)
        else:
            echo("\n".join(names) or "no certificate has a number on record yet")
        return
    points = asyncio.run(_trend(project, metric, wanted, limit))
    if as_json:
        echo_json({"metric": points[0].name if points else metric, "points": [_point_as_data(each) for each in points]})
    else:
        _show_trend(metric, points)


async def _search(where: Path, wanted: Filter, before: str, limit: int) -> tuple[Hit, ...]:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        found = await project.search(within(project, wanted), before=before, limit=limit)
        if not found:
            refuse_unknown_agent(project, wanted)
        return found


async def _export(where: Path, wanted: Filter, output: Path) -> Exported:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.export(within(project, wanted), output)


async def _metrics(where: Path) -> tuple[str, ...]:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.metrics()


async def _trend(where: Path, metric: str, wanted: Filter, limit: int) -> tuple[Point, ...]:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        found = await project.trend(metric, within(project, wanted), limit=limit)
        if not found:
            refuse_unknown_agent(project, wanted)
        return found


def _show_trend(metric: str, points: Sequence[Point]) -> None:
    from esper_agents.certificates.metrics import amount_text, spark_line

    if not points:
        echo("no certificate that is wanted has that number on record")
        return
    amounts = [each.amount for each in points]
    low, high = amount_text(min(amounts)), amount_text(max(amounts))
    outline(f"{points[0].name or metric}: {spark_line(amounts)} from {low} to {high}, oldest first")
    rows = [
        (
            each.entry.issued_at[:16].replace("T", " ") + "Z",
            amount_text(each.amount),
            each.entry.component,
            each.entry.status,
            short(each.entry.id),
        )
        for each in points
    ]
    table(("issued", "amount", "component", "status", "certificate"), rows)


def _point_as_data(point: Point) -> dict[str, Any]:
    return {
        "certificate": point.entry.id,
        "issued_at": point.entry.issued_at,
        "component": point.entry.component,
        "commit": point.entry.commit,
        "status": point.entry.status,
        "evidence": point.evidence or None,
        "amount": point.amount,
    }
