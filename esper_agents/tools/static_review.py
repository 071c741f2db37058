"""Run the review engine on files of the project."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import PurePosixPath
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import Risk
from esper_agents.domain.finding import Category, counted
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import UsageError
from esper_agents.review.catalogue import catalogue, providers
from esper_agents.review.changed_sources import change_since
from esper_agents.review.changes import review_change
from esper_agents.review.engine import ReviewReport, review
from esper_agents.review.rule import RuntimeExpectation
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from esper_agents.domain.codec import JsonObject
    from esper_agents.review.source import Unreadable


def _rerun(arguments: JsonObject) -> str:
    wanted = "".join(f" --category {quote(str(each))}" for each in arguments.get("categories") or ())
    if since := arguments.get("since"):
        wanted += f" --diff={quote(str(since))}"
    return f"esper review{wanted} -- " + " ".join(quote(str(each)) for each in arguments["paths"])


@tool("static-review", risk=Risk.LOW, repeatable=True, rerun=_rerun)
async def static_review(
    context: ToolContext,
    paths: list[str],
    categories: list[str] | None = None,
    related: list[str] | None = None,
    since: str = "",
) -> ToolResult:
    """Review Python files with the lint rules, without running them.

    Args:
        context: The project.
        paths: Files or folders, relative to the project.
        categories: Only rules of these categories; all if omitted.
        related: Files to read for context, such as callers and tests; they get no diagnostics.
        since: A revision; report only what changes since then introduced. If omitted, report everything.
    """
    places = [context.inside(path) for path in (*paths, *(related or ()))]
    wanted = _known(categories)
    if since:
        report = await asyncio.to_thread(_change, context, places, wanted, since)
    else:
        report = await asyncio.to_thread(review, context.root, places, categories=wanted, extra=context.rules)
    report = replace(report, claims=tuple(each for each in report.claims if _is_in(each.location.path, paths)))
    shown = {each.code for each in catalogue(context.rules) if each.shown is not RuntimeExpectation.NOT}
    unread = tuple(each for each in report.unreadable if _is_in(each.path, paths))
    beside = tuple(each for each in report.unreadable if each not in unread)
    report = replace(report, unreadable=unread)
    output = {**_output(report, shown), "related_unreadable": _listed(beside)}
    return ToolResult(_summary(report), output, claims=report.claims, examined=report.examined)


def _change(context: ToolContext, places: list[Path], categories: list[Category] | None, since: str) -> ReviewReport:
    """Return the review of a change, limited to diagnostics in files that were read."""
    root = context.root.resolve()
    change = change_since(root, since, {place.relative_to(root).as_posix() for place in places})
    report = review_change(
        root,
        change.before,
        change.after,
        paths=change.paths,
        companions=context.companions,
        categories=categories,
        extra=context.rules,
    ).report
    read = {each.path for each in report.examined}
    claims = tuple(each for each in report.claims if each.location.path in read)
    # Unchanged files are context: only what the change touches was judged.
    changed = set(change.paths)
    examined = tuple(each for each in report.examined if each.path in changed)
    return replace(report, claims=claims, examined=examined)


def _known(categories: list[str] | None) -> list[Category] | None:
    try:
        return None if not categories else [Category(each) for each in categories]
    except ValueError as error:
        raise UsageError(str(error).lower(), remedy="use one of " + ", ".join(Category)) from error


def _summary(report: ReviewReport) -> str:
    found = counted(claim.severity for claim in report.claims)
    unread = f", {number_of(len(report.unreadable), 'file')} could not be read" if report.unreadable else ""
    return f"found {found} in {number_of(len(report.examined), 'file')}, {number_of(report.lines, 'line')}{unread}"


def _is_in(path: str, paths: list[str]) -> bool:
    """Return whether a path is one of the named ones, or a file in one of them."""
    return any(PurePosixPath(path).is_relative_to(PurePosixPath(each)) for each in paths)


def _listed(unread: Sequence[Unreadable]) -> list[dict[str, str]]:
    return [{"path": each.path, "problem": each.problem, "remedy": each.remedy} for each in unread]


def _output(report: ReviewReport, shown: set[str]) -> JsonObject:
    return {
        "rules": list(report.rules),
        # For rules of installed packages only: distribution, version and digest.
        "providers": {code: said for code, said in providers().items() if code in report.rules},
        "files": len(report.examined),
        "torch_files": report.torch_files,
        "lines": report.lines,
        "suppressed": report.suppressed,
        "unreadable": _listed(report.unreadable),
        "claims": [claim.fingerprint for claim in report.claims],
        # Diagnostics that a run can confirm or refute.
        "shown_by_running": [str(claim.location) for claim in report.claims if claim.rule in shown],
    }
