"""Run the review engine on files of the project."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import PurePosixPath
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.certificates.redaction import redacted, secrets_of
from esper_agents.domain.change import CHANGE_DIGEST
from esper_agents.domain.change_told import EDITS, FORM
from esper_agents.domain.evidence import Risk
from esper_agents.domain.finding import Category, counted
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import UsageError
from esper_agents.review.cache import review_cache
from esper_agents.review.catalogue import catalogue, providers
from esper_agents.review.changed_sources import change_since
from esper_agents.review.changes import review_change
from esper_agents.review.project_context import review_in_project
from esper_agents.review.rule import RuntimeExpectation
from esper_agents.tools.output_comparison import without
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from esper_agents.domain.codec import JsonObject
    from esper_agents.review.changes import DiffReview
    from esper_agents.review.report import ReviewReport
    from esper_agents.review.source import Unreadable


_MOST_FIXED, _MOST_FILES, _MOST_EDITS = 20, 10, 30


def _rerun(arguments: JsonObject) -> str:
    wanted = "".join(f" --category {quote(str(each))}" for each in arguments.get("categories") or ())
    if since := arguments.get("since"):
        wanted += f" --diff={quote(str(since))}"
    return f"esper review{wanted} -- " + " ".join(quote(str(each)) for each in arguments["paths"])


@tool(
    "static-review",
    risk=Risk.LOW,
    repeatable=True,
    concurrent=True,
    rerun=_rerun,
    comparing=without(CHANGE_DIGEST, "context_files", "context_sha256"),
)
async def static_review(
    context: ToolContext,
    paths: list[str],
    categories: list[str] | None = None,
    related: list[str] | None = None,
    since: str = "",
) -> ToolResult:
    """Review Python files with the lint rules, without running them; the rest of the project is read as context.

    Args:
        context: The project.
        paths: Files or folders, relative to the project.
        categories: Only rules of these categories; all if omitted.
        related: Files to read for context, such as callers and tests; they get no diagnostics.
        since: A revision; report only what changes since then introduced. If omitted, report everything.
    """
    places = [context.inside(path) for path in (*paths, *(related or ()))]
    wanted = _known(categories)
    difference = await asyncio.to_thread(_change, context, places, wanted, since) if since else None
    if difference is not None:
        report = difference.report
    else:
        report = await asyncio.to_thread(
            review_in_project,
            context.root,
            places,
            categories=wanted,
            extra=context.rules,
            cache=None if context.home is None else review_cache(_without_secrets),
        )
        report = replace(report, claims=tuple(claim for claim in report.claims if _is_in(claim.location.path, paths)))
    shown = {each.code for each in catalogue(context.rules) if each.shown is not RuntimeExpectation.NOT}
    unread = tuple(each for each in report.unreadable if _is_in(each.path, paths))
    beside = tuple(each for each in report.unreadable if each not in unread)
    report = replace(report, unreadable=unread)
    output = {**_output(report, shown), "related_unreadable": _listed(beside)}
    summary = _summary(report, wanted, paths)
    if difference is not None:
        output["change"] = _of_change(difference, paths)
        output |= await asyncio.to_thread(context.change_now, since)
        summary += _change_summary(output["change"])
    return ToolResult(summary, output, claims=report.claims, examined=report.examined)


def _without_secrets(report: ReviewReport) -> ReviewReport:
    return redacted(report, known=secrets_of(os.environ)).value


def _change(context: ToolContext, places: list[Path], categories: list[Category] | None, since: str) -> DiffReview:
    """Return the review of a change, limited to diagnostics in files that were read.

    A diagnostic in a related file that did not change is part of it, if the old version of the change had none there.
    """
    root = context.root.resolve()
    change = change_since(root, since, {place.relative_to(root).as_posix() for place in places})
    found = review_change(
        root,
        change.before,
        change.after,
        paths=change.paths,
        companions=context.companions,
        categories=categories,
        extra=context.rules,
    )
    report = found.report
    read = {each.path for each in report.examined}
    claims = tuple(claim for claim in report.claims if claim.location.path in read)
    # Unchanged files without a new diagnostic are context: only what the change touches or affects was judged.
    judged = {*change.paths, *(claim.location.path for claim in claims)}
    examined = tuple(each for each in report.examined if each.path in judged)
    return replace(found, report=replace(report, claims=claims, examined=examined))


def _of_change(found: DiffReview, paths: list[str]) -> JsonObject:
    """Return what a change did to files: diagnostics that are worse, gone or were there before, and its other edits."""
    claims = {id(claim) for claim in found.report.claims}
    described = found.description
    new = {each.path for each in found.report.examined}
    # A deleted file is in no path.
    edits = [edit for edit in described.edits if _is_in(edit.path, paths) or edit.path not in new]
    older = [each for each in found.older if _is_in(each.location.path, paths)]
    return {
        "worsened": [each.fingerprint for each in found.worsened if id(each) in claims],
        "fixed": [
            {"rule": each.rule, "name": each.name, "place": str(each.location), "message": each.message}
            for each in found.fixed
        ][:_MOST_FIXED],
        "fixed_count": len(found.fixed),
        "older_count": len(older),
        "older_files": sorted({each.location.path for each in older})[:_MOST_FILES],
        EDITS: [{"place": f"{edit.path}:{edit.line}", "text": str(edit)} for edit in edits[:_MOST_EDITS]],
        "edit_count": len(edits),
        FORM: list(described.form),
        # Lines in form and meaning are told apart only if all sources were compared.
        **({} if described.unread else {"lines": described.lines, "form_lines": described.form_lines}),
        "form_only": described.is_form_only,
        "not_described": [each for each in described.unread if _is_in(each, paths)][:_MOST_FILES],
    }


def _change_summary(change: JsonObject) -> str:
    worse, fixed = len(change["worsened"]), change["fixed_count"]
    told = f", {worse} of them worse than before" if worse else ""
    told += f"; {number_of(fixed, 'older finding')} fixed or removed" if fixed else ""
    if change["older_count"]:
        older = number_of(change["older_count"], "older finding")
        listing = " ".join(map(quote, change["older_files"]))
        told += f"; {older} not part of the change: esper review {listing}"
    return told


def _known(categories: list[str] | None) -> list[Category] | None:
    try:
        return None if not categories else [Category(category) for category in categories]
    except ValueError as error:
        raise UsageError(str(error).lower(), remedy="use one of " + ", ".join(Category)) from error


def _summary(report: ReviewReport, categories: list[Category] | None, paths: list[str]) -> str:
    found = counted(claim.severity for claim in report.claims)
    found += f" by the rules of {', '.join(categories)}" if categories else ""
    # The change of a deleted file, or one that affects other files, has findings outside the paths.
    own = [each for each in report.examined if _is_in(each.path, paths)] or report.examined
    names = {each.path for each in own}
    lines = sum(file.lines for file in report.sizes if file.path in names)
    size = f"{number_of(len(own), 'file')}, {number_of(lines, 'line')}"
    related = len(report.examined) - len(own)
    beside = f", with {number_of(related, 'related file')}" if related else ""
    unread = f", {number_of(len(report.unreadable), 'file')} could not be read" if report.unreadable else ""
    return f"found {found} in {size}{beside}{unread}"


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
        "context_files": report.context_files,
        "context_sha256": report.context_sha256,
        "suppressed": report.suppressed,
        "unreadable": _listed(report.unreadable),
        "claims": [claim.fingerprint for claim in report.claims],
        # Diagnostics that a run can confirm or refute.
        "shown_by_running": [str(claim.location) for claim in report.claims if claim.rule in shown],
    }
