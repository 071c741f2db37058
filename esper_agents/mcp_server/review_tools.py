"""Tools that read code: review, fixes, rules and stack traces."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Literal

from mcp_types import CallToolResult
from pydantic import Field

from esper_agents.errors import UsageError
from esper_agents.mcp_server.calls import READS, CallActivity, ToolCallContext, answered, in_thread, project_of, working
from esper_agents.mcp_server.paging import page_of
from esper_agents.mcp_server.results import (
    MOST_BYTES,
    PatchAnswer,
    ReviewAnswer,
    RuleAnswer,
    TraceAnswer,
    clipped,
    finding_row,
)
from esper_agents.mcp_server.suggested_calls import call_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from esper_agents.api import Progress, ReviewOptions, ReviewOutcome
    from esper_agents.mcp_server.server_project import ServerProject

Paths = Annotated[
    list[str], Field(description="Files and folders, relative to the project; the whole project if empty")
]
Diff = Annotated[
    str, Field(description="Only what changed since this git revision, or in A..B, such as `main`; empty: whole files")
]
Cursor = Annotated[str, Field(description="`next_cursor` of the previous page, with the same arguments")]
Limit = Annotated[int, Field(description="Maximum number of rows", ge=1, le=100)]

_SEVERITIES = ("critical", "warning", "suggestion")
_MOST_UNREAD = 10
_MOST_ALTERNATIVES, _MOST_PLACES = 4, 8
# A patch of one file above this size is not sent.
_MOST_PATCH = MOST_BYTES - 4_000


def _options(
    project: ServerProject, paths: list[str], diff: str, *, staged: bool = False, rules: list[str] | None = None
) -> ReviewOptions:
    """Return the options of a review.

    Raises:
        UsageError: A path is outside the project, or the revision is not valid.
    """
    from esper_agents.api import ReviewOptions

    named = tuple(project.inside(path) for path in paths) or (project.root,)
    if diff.startswith("-"):
        raise UsageError(f"{diff[:80]!r} is not a revision", remedy="name a branch, a tag or a commit")
    return ReviewOptions(named, rules=rules or None, revision=diff, is_staged=staged, project=project.root)


async def _reviewed(context: ToolCallContext, chosen: ReviewOptions) -> ReviewOutcome:
    from esper_agents.api import review_files

    activity = CallActivity("reading files")

    def work(on_progress: Callable[[Progress], None]) -> ReviewOutcome:
        return review_files(chosen, on_progress)

    return await working(context, activity, in_thread(work, activity, project_of(context).reviews))


async def review(
    context: ToolCallContext,
    paths: Paths = [],
    diff: Diff = "",
    staged: Annotated[bool, Field(description="Only what the staged changes introduce")] = False,
    rules: Annotated[list[str], Field(description="Only these rules, such as ESP305")] = [],
    severity: Annotated[
        Literal["critical", "warning", "suggestion"], Field(description="Lowest severity to list")
    ] = "suggestion",
    limit: Limit = 20,
    cursor: Cursor = "",
) -> Annotated[CallToolResult, ReviewAnswer]:
    """Review Python files, or a change, with the PyTorch rules; runs none of the code.

    Call it after editing training, model or data code, with `diff` set to the base branch to see only what the
    edit introduced. The findings are static; `explain_rule` documents each rule.
    """
    outcome = await _reviewed(context, _options(project_of(context), paths, diff, staged=staged, rules=rules))
    report = outcome.report
    worst = {name: number for number, name in enumerate(_SEVERITIES)}
    chosen = sorted(
        (claim for claim in report.claims if worst[claim.severity] <= worst[severity]),
        key=lambda each: (worst[each.severity], each.location.path, each.location.line, each.rule),
    )
    rows = [finding_row(each) for each in chosen]
    page = page_of(rows, (paths, diff, staged, rules, severity), cursor=cursor, limit=limit)
    unread = [clipped(f"{each.path}: {each.problem}", 200) for each in report.unreadable]
    return answered(
        ReviewAnswer(
            files=len(report.examined),
            lines=report.lines,
            total=len(rows),
            by_severity=dict(Counter(str(each.severity) for each in chosen)),
            findings=page.rows,
            next_cursor=page.next_cursor,
            unread=tuple(unread[:_MOST_UNREAD]),
            more_unread=max(0, len(unread) - _MOST_UNREAD),
            before=outcome.earlier,
            suppressed=report.suppressed,
        )
    )


async def suggest_fixes(
    context: ToolCallContext, paths: Paths, diff: Diff = "", cursor: Cursor = ""
) -> Annotated[CallToolResult, PatchAnswer]:
    """Return the safe fixes of review findings as a patch for `git apply`; changes no file."""
    from esper_agents.api import fixes_as_patch

    chosen = _options(project_of(context), paths, diff)
    outcome = await _reviewed(context, chosen)
    patch = fixes_as_patch(chosen, outcome)
    parts = _by_file(patch)
    fitting = [part for part in parts if len(part.encode()) <= _MOST_PATCH]
    page = page_of(fitting, (paths, diff, patch), cursor=cursor, limit=len(parts) or 1)
    omitted = tuple(part.splitlines()[0].removeprefix("--- a/") for part in parts if part not in fitting)
    return answered(PatchAnswer("".join(page.rows), len(parts), page.next_cursor, omitted[:_MOST_PLACES]))


async def explain_rule(
    rule: Annotated[str, Field(description="Code or name in a result, such as ESP305 or LAB401")],
) -> Annotated[CallToolResult, RuleAnswer]:
    """Return the documentation of a rule or diagnostic: what it means, when the code is right, the fix, sources."""
    from esper_agents.api import lint_rules, rule_page

    if rule.casefold() == "all":
        raise UsageError("name one rule", remedy="read the resource esper://rules for the list")
    (found,) = lint_rules(rule)
    page = clipped(rule_page(rule), MOST_BYTES // 2)
    return answered(RuleAnswer(found.code, found.name, str(found.severity), found.is_fixable, page))


async def explain_trace(
    context: ToolCallContext,
    text: Annotated[str, Field(description="Stack trace, error message or log that contains one")] = "",
    log: Annotated[str, Field(description="Log file of the project, instead of the text")] = "",
) -> Annotated[CallToolResult, TraceAnswer]:
    """Explain a stack trace or error message of PyTorch code: cause, line of the project, fix."""
    from esper_agents.api import explain_trace as explain
    from esper_agents.api import read_trace_file

    project = project_of(context)
    if bool(text.strip()) == bool(log):
        raise UsageError("give either a text or a log file", remedy="paste the output from 'Traceback' on")
    found = explain(read_trace_file(project.inside(log)) if log else text, project.root)
    return answered(
        TraceAnswer(
            answer=clipped(found.answer),
            fix=clipped(found.fix),
            why=clipped(found.why),
            at=str(found.location) if found.location else "",
            is_cause_certain=found.is_certain,
            family=found.family,
            alternatives=tuple(map(clipped, found.alternatives[:_MOST_ALTERNATIVES])),
            frames=tuple(map(clipped, found.frames[:_MOST_PLACES])),
            also=tuple(str(each) for each in found.also[:_MOST_PLACES]),
            findings=tuple(map(clipped, found.findings[:_MOST_PLACES])),
            next=call_of(found.next, project.root),
            target=found.target,
        )
    )


def _by_file(patch: str) -> list[str]:
    """Return the parts of a patch, one for each file."""
    parts: list[str] = []
    for line in patch.splitlines(keepends=True):
        if line.startswith("--- ") or not parts:
            parts.append("")
        parts[-1] += line
    return parts


# Tools of this module, with what they may do.
TOOLS = (
    (review, READS),
    (suggest_fixes, READS),
    (explain_rule, READS),
    (explain_trace, READS),
)
