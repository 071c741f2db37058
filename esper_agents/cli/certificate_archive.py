"""`esper certificates search|export|trend`: commands that read the whole archive."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from esper_agents.cli.certificate_filters import Before, filter_of, headline, within
from esper_agents.cli.certificates import certificates_app
from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.cli.published_output import report_reading
from esper_agents.cli.shared_options import HERE, JsonOption, LimitOption, ProjectOption, gathered
from esper_agents.cli.terminal import echo, echo_json, short, table
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.api import (
        ExportResult,
        Filter,
        MetricSummary,
        Override,
        Point,
        SearchHit,
        SupersedingEntry,
    )


@certificates_app.command()
@gathered(filter_of, "wanted")
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS...", help="Search terms; all must match")],
    wanted: Filter,
    before: Before = "",
    limit: LimitOption = 20,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Search certificates by text.

    Searches requests, verdicts and findings, newest first, and shows the matching passage. Case and accents are
    ignored; only whole words match; `loss.detach` matches the two words in sequence.

    Examples:
      esper certificates search zero_grad
      esper certificates search graph loss --status REJECTED --since 2026-01
    """
    wanted = replace(wanted, words=" ".join(words))
    found, overridden, ended = asyncio.run(_search(project, wanted, before, limit + 1))
    shown = found[:limit]
    if as_json:
        echo_json([_hit_as_data(each, overridden.get(each.entry.id), ended.get(each.entry.id)) for each in shown])
        return
    for each in shown:
        outline(headline(each.entry))
        for standings in (ended, overridden):
            if each.entry.id in standings:
                outline(str(standings[each.entry.id]), 1)
        outline(f"{each.entry.agent} on {each.entry.component}", 1)
        outline(f"{each.passage.where}: {each.passage.text}" if each.passage else "its record says it no longer", 1)
    if not found:
        echo("no certificate says all of that")
    if len(found) > limit:
        outline_command("there are more: add", f"--cursor {short(shown[-1].entry.id)}")


@certificates_app.command()
@gathered(filter_of, "wanted")
def export(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.tar|DIR", help="Output file or directory; must not exist")
    ],
    wanted: Filter,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Export certificates as a portable archive.

    Contains envelopes, inclusion proofs, views, public keys, and instructions for manual verification. The output is
    reproducible byte for byte. Exits with 7 if a certificate was omitted because it was modified after issuing.

    Examples:
      esper certificates export --output certificates.tar
      esper certificates export --component train --since 2026-01 --output handover
    """
    made = asyncio.run(_export(project, wanted, output.expanduser()))
    if as_json:
        echo_json(asdict(made))
    else:
        certificates, keys = number_of(made.certificates, "certificate"), number_of(len(made.keys), "key")
        outline(f"exported: {certificates} and {keys} to {made.to}")
        for key in made.missing_keys:
            outline(f"no key: {key} signed, but is not trusted here", 1)
        for each in made.left_out:
            outline(f"omitted: {each.id}: {each.why}", 1)
    if any(each.is_tampered for each in made.left_out):
        raise typer.Exit(ExitCode.TAMPERED)


@certificates_app.command()
@gathered(filter_of, "wanted")
def trend(
    metric: Annotated[
        str, typer.Argument(metavar="METRIC", help="Metric name or suffix [default: list the metrics]")
    ] = "",
    *,
    wanted: Filter,
    limit: LimitOption = 20,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Show a metric over time.

    Metrics are values measured by tools and numbers of findings. Without a metric, lists the available ones.

    Examples:
      esper certificates trend
      esper certificates trend findings.critical --file train.py
      esper certificates trend speedup.estimate --component model --limit 50
    """
    if not metric:
        _show_metrics(asyncio.run(_metrics(project, wanted)), limit, as_json=as_json)
        return
    points = asyncio.run(_trend(project, metric, wanted, limit))
    if as_json:
        echo_json(
            {"metric": points[0].name if points else metric, "points": [_point_as_data(point) for point in points]}
        )
    else:
        _show_trend(metric, points)


async def _search(
    where: Path, wanted: Filter, before: str, limit: int
) -> tuple[tuple[SearchHit, ...], dict[str, Override], dict[str, SupersedingEntry]]:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        report_reading(project)
        found = await project.certificates.search(within(project, wanted), before=before, limit=limit)
        entries = [each.entry for each in found]
        return found, await project.certificates.overrides(entries), await project.certificates.endings(entries)


async def _export(where: Path, wanted: Filter, output: Path) -> ExportResult:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.certificates.export(within(project, wanted), output)


async def _metrics(where: Path, wanted: Filter) -> tuple[MetricSummary, ...]:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.certificates.metrics(within(project, wanted))


async def _trend(where: Path, metric: str, wanted: Filter, limit: int) -> tuple[Point, ...]:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.certificates.trend(metric, within(project, wanted), limit=limit)


def _show_metrics(found: Sequence[MetricSummary], limit: int, *, as_json: bool) -> None:
    from esper_agents.api import amount_text

    if as_json:
        echo_json([asdict(each) | {"newest": each.newest.id} for each in found[:limit]])
        return
    if not found:
        echo("no certificate that is wanted has a number on record")
        return
    rows = [
        (
            each.name,
            str(each.certificates),
            amount_text(each.lowest),
            amount_text(each.highest),
            each.newest.issued_at[:10],
        )
        for each in found[:limit]
    ]
    table(("metric", "certificates", "lowest", "highest", "newest"), rows)
    if len(found) > limit:
        outline_command(f"{len(found) - limit} more", f"esper certificates trend --limit {len(found)}")
    outline_command("follow one", f"esper certificates trend {found[0].name}")


def _show_trend(metric: str, points: Sequence[Point]) -> None:
    from esper_agents.api import amount_text, spark_line

    if not points:
        echo("no certificate that is wanted has that number on record")
        return
    amounts = [point.amount for point in points]
    low, high = amount_text(min(amounts)), amount_text(max(amounts))
    outline(f"{points[0].name or metric}: {spark_line(amounts)} from {low} to {high}, oldest first")
    rows = [
        (
            point.entry.issued_at[:16].replace("T", " ") + "Z",
            amount_text(point.amount),
            point.entry.component,
            point.entry.status,
            short(point.entry.id),
        )
        for point in points
    ]
    table(("issued", "amount", "component", "status", "certificate"), rows)


def _hit_as_data(hit: SearchHit, override: Override | None, ended: SupersedingEntry | None) -> dict[str, Any]:
    optional = {"overridden": override, "ended": ended, "passage": hit.passage}
    return asdict(hit.entry) | {name: asdict(each) if each else None for name, each in optional.items()}


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
