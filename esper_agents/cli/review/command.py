"""Options, output and exit code of `esper review`."""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.lightweight_commands import LightweightCommand
from esper_agents.cli.shared_options import (
    AllowOpenClusterOption,
    ClusterOption,
    JsonOption,
    OnOption,
    WorkPlace,
    refuse_cluster_options,
)
from esper_agents.cli.terminal import clean, echo, one_line, redact
from esper_agents.domain.finding import Category, Severity
from esper_agents.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from esper_agents.api import ReviewOptions, ReviewOutcome


_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::\d+)?")


class OutputFormat(StrEnum):
    """Output format of a review."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


class FailOn(StrEnum):
    """Lowest severity of a finding that makes the command fail."""

    CRITICAL = "critical"
    WARNING = "warning"
    SUGGESTION = "suggestion"
    NEVER = "never"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=LightweightCommand)(review)


def review(
    paths: Annotated[list[Path] | None, typer.Argument(help="Files and directories to report")] = None,
    category: Annotated[
        list[Category] | None, typer.Option(help="Run only the rules of this category (repeatable)")
    ] = None,
    rule: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="Run only this rule, by code or name (repeatable)")
    ] = None,
    fail_on: Annotated[FailOn, typer.Option(help="Exit 3 on findings of this severity or higher")] = FailOn.CRITICAL,
    diff: Annotated[str, typer.Option(metavar="REV", help="Report only findings introduced since REV (or A..B)")] = "",
    staged: Annotated[bool, typer.Option("--staged", help="Report only findings introduced by staged changes")] = False,
    baseline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Ignore findings listed in this baseline file")
    ] = None,
    write_baseline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the findings to a baseline file")
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Apply safe fixes and report the remaining findings")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --fix: print the changes as a patch, write nothing")
    ] = False,
    diff_only: Annotated[bool, typer.Option("--diff-only", hidden=True, help="Same as --fix --dry-run")] = False,
    style: Annotated[OutputFormat, typer.Option("--format", help="Output format")] = OutputFormat.TEXT,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the report to this file")
    ] = None,
    allow_unread: Annotated[
        bool, typer.Option("--allow-unread", help="Do not exit 4 because of unreadable files")
    ] = False,
    no_context: Annotated[
        bool, typer.Option("--no-context", help="Analyze the named paths without their project")
    ] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Do not read or write the cache")] = False,
    explain: Annotated[str, typer.Option(metavar="PATH:LINE", help="Explain findings and values at this line")] = "",
    list_rules: Annotated[bool, typer.Option("--list-rules", hidden=True, help="Same as `esper rule`")] = False,
    project: Annotated[
        Path | None, typer.Option("--project", metavar="PATH", help="Project directory [default: around the paths]")
    ] = None,
    on: OnOption = WorkPlace.HERE,
    cluster: ClusterOption = "",
    allow_open_cluster: AllowOpenClusterOption = False,
    as_json: JsonOption = False,
) -> None:
    """Lint Python files with the PyTorch rules.

    No code is executed and no certificate is issued; for a certificate, use `esper submit`. Pass all files that belong
    together: calls are followed across them. Exits with 3 if there is a finding at the level of --fail-on or higher,
    and with 4 if a file could not be read, unless --allow-unread is given and at least one file was read.

    With --on ray, the nodes of a Ray cluster review the parts of a large project; the result is the same.

    Examples:
      esper review train.py model.py
      esper review src --category memory --fail-on warning
      esper review --diff main
      esper review src --fix
      esper review src --format sarif --output review.sarif
      esper review --explain train.py:48
    """
    from esper_agents.api import ReviewOptions, fix_files, fixes_as_patch
    from esper_agents.cli.review.progress import progress_line

    style = OutputFormat.JSON if as_json else style
    is_data = style is not OutputFormat.TEXT
    place = _PLACE.fullmatch(explain)
    if list_rules or (explain and place is None):
        write_output(_rules(explain, style), output)
        return
    if dry_run and not fix:
        raise UsageError("--dry-run shows the changes of --fix", remedy="add --fix")
    places = (*(paths or ()), *((Path(place["file"]),) if place else ()))
    options = ReviewOptions(
        places,
        category,
        rule,
        diff,
        baseline,
        is_staged=staged,
        may_cache=not no_cache,
        with_context=not no_context,
        project=project,
    )
    if place is not None:
        write_output(_line(options, Path(place["file"]), int(place["line"]), style), output, is_data=is_data)
        return
    if write_baseline is not None:
        _write_baseline(options, write_baseline)
        return
    shows_patch = dry_run or diff_only
    refuse_cluster_options(on, cluster, allow_open=allow_open_cluster)
    if on is WorkPlace.RAY and fix:
        raise UsageError("fixes are made here", remedy="leave out --on ray, or --fix")
    with progress_line() as on_progress:
        if fix and not shows_patch:
            outcome = fix_files(options, on_progress)
        elif on is WorkPlace.RAY:
            from esper_agents.api import review_on_ray

            outcome = review_on_ray(options, on_progress, cluster=cluster, allow_open=allow_open_cluster)
        else:
            from esper_agents.api import review_files

            outcome = review_files(options, on_progress)
    if shows_patch:
        write_output(fixes_as_patch(options, outcome), output, is_raw=True)
    else:
        write_output(_written(outcome, style, options), output, is_data=is_data)
    finish(outcome, fail_on, allows_unread=allow_unread)


def _rules(code: str, style: OutputFormat) -> str:
    """Return what `esper rule` prints."""
    from esper_agents.cli.rule import RuleFormat, rule_text

    if code:
        sys.stderr.write(f"esper: use `esper rule {one_line(redact(code))}`; `--explain CODE` will be removed\n")
    match style:
        case OutputFormat.TEXT | OutputFormat.JSON:
            return rule_text(code, RuleFormat(style))
        case OutputFormat.SARIF | OutputFormat.GITHUB:
            raise UsageError(f"rules are not printed as {style}", remedy="use --format text or --format json")


def _line(options: ReviewOptions, file: Path, line: int, style: OutputFormat) -> str:
    """Return the explanation of the findings at a line.

    Raises:
        UsageError: There is none, or the format cannot express it.
    """
    from esper_agents.api import review_line
    from esper_agents.cli.review.text_output import line_as_json, line_as_text

    found = redact(review_line(options, file, line))
    if not (found.diagnostics or found.suppressed or found.values or found.events):
        others = ", ".join(map(str, found.other_lines))
        remedy = f"lines with findings: {others}" if others else f"run `esper review {found.path}`; it has no finding"
        raise UsageError(f"no finding at {found.path}:{line}", remedy=remedy)
    match style:
        case OutputFormat.TEXT:
            return line_as_text(found)
        case OutputFormat.JSON:
            return line_as_json(found)
        case OutputFormat.SARIF | OutputFormat.GITHUB:
            raise UsageError(f"a line is not explained as {style}", remedy="use --format text or --format json")


def _written(outcome: ReviewOutcome, style: OutputFormat, options: ReviewOptions) -> str:
    from esper_agents.cli.review.text_output import as_json, as_text

    outcome = redact(outcome)
    match style:
        case OutputFormat.TEXT:
            return as_text(outcome)
        case OutputFormat.JSON:
            return as_json(outcome)
        case OutputFormat.SARIF:
            import json

            from esper_agents.api import review_as_sarif

            return json.dumps(review_as_sarif(outcome, options=options), indent=1, sort_keys=True) + "\n"
        case OutputFormat.GITHUB:
            from esper_agents.api import as_annotations

            return as_annotations(outcome)


def _write_baseline(options: ReviewOptions, file: Path) -> None:
    from esper_agents.api import write_baseline
    from esper_agents.domain.pluralize import number_of

    report = write_baseline(options, file)
    echo(f"{file}: {number_of(len(report.claims), 'finding')} in {number_of(len(report.examined), 'file')}")


def write_output(text: str, output: Path | None, *, is_raw: bool = False, is_data: bool = False) -> None:
    """Write to a file or to standard output; terminal output is sanitized, and coloured if it is no data."""
    if output is not None:
        try:
            output.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
        except OSError as error:
            raise UsageError(
                f"{str(output)!r} cannot be written: {error.strerror}", remedy="name a file in an existing directory"
            ) from error
    elif is_raw and not sys.stdout.isatty():
        # Write a patch unchanged, including line ends, or `git apply` rejects it.
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()
    else:
        echo(clean(text).removesuffix("\n"), is_data=is_data)


def finish(outcome: ReviewOutcome, fail_on: FailOn, *, allows_unread: bool) -> None:
    """End the command with the exit code of a review, if that is not 0."""
    report = outcome.report
    if fail_on is not FailOn.NEVER:
        ranks = list(Severity)
        limit = ranks.index(Severity(fail_on))
        if any(ranks.index(claim.severity) <= limit for claim in report.claims):
            raise typer.Exit(ExitCode.AGAINST)
    is_empty = not report.examined and (outcome.earlier is None or report.unreadable)
    if is_empty or (report.unreadable and not allows_unread):
        raise typer.Exit(ExitCode.UNDECIDED)
