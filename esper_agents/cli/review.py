"""`esper review`: the review engine alone, without a session or a certificate."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.live import say
from esper_agents.cli.terminal import echo, echo_json, table
from esper_agents.domain.finding import Category, Severity, counted
from esper_agents.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from esper_agents.domain.finding import Claim
    from esper_agents.review.engine import Report


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(review)


def review(
    paths: Annotated[list[Path] | None, typer.Argument(help="Files and folders that belong together.")] = None,
    category: Annotated[list[Category] | None, typer.Option(help="Only rules of this category.")] = None,
    rule: Annotated[list[str] | None, typer.Option(help="Only this rule, by code or name.")] = None,
    fail_on: Annotated[
        Severity, typer.Option(help="Exit with 3 when something at least this severe is found.")
    ] = Severity.CRITICAL,
    explain: Annotated[str, typer.Option(metavar="CODE", help="Print the page of a rule.")] = "",
    list_rules: Annotated[bool, typer.Option("--list-rules", help="Print the rules there are.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Review Python files for what goes wrong in PyTorch code, without running them.

    It forms no judgement and issues no certificate: for those, submit a task. Name all files that belong together:
    callers and callees are looked at across them. Exits with 3 when something at the level of --fail-on is found, and
    with 4 when not one of the files could be read.

    Examples:
      esper review train.py model.py
      esper review src --category memory --fail-on warning
      esper review --explain ESP101
    """
    from esper_agents.review.engine import explain as page_of
    from esper_agents.review.engine import review as run
    from esper_agents.tools.git import find_project

    if explain:
        echo(page_of(explain))
        return
    if list_rules:
        _print_rules()
        return
    if not paths:
        raise UsageError("no path was named", remedy="esper review train.py")
    root = Path(find_project(paths, Path.cwd()).root)
    report = run(root, [Path.cwd() / path for path in paths], categories=category, rules=rule)
    if as_json:
        echo_json(_as_data(report))
    else:
        _print(report)
    if any(_ORDER[claim.severity] <= _ORDER[fail_on] for claim in report.claims):
        raise typer.Exit(ExitCode.AGAINST)
    if not report.examined:
        raise typer.Exit(ExitCode.UNDECIDED)


def _print_rules() -> None:
    from esper_agents.review.catalogue import catalogue

    rows = [(rule.code, rule.name, str(rule.severity), str(rule.category)) for rule in catalogue()]
    table(("code", "name", "severity", "category"), rows)


_ORDER = {severity: number for number, severity in enumerate(Severity)}


def _print(report: Report) -> None:
    for claim in report.claims:
        _print_claim(claim)
    for each in report.unreadable:
        say("unread", f"{each.path}{f':{each.line}' if each.line else ''}: {each.problem}; {each.remedy}")
    found = counted(claim.severity for claim in report.claims)
    suppressed = f", {report.suppressed} suppressed" if report.suppressed else ""
    say(
        "found",
        f"{found} in {len(report.examined)} files, {report.lines} lines, by {len(report.rules)} rules{suppressed}",
    )


def _print_claim(claim: Claim) -> None:
    echo(f"{claim.location}:{claim.location.column}: {claim.severity} {claim.rule} {claim.name}")
    say("", claim.message)
    echo(f"{claim.location.line:>8} | {claim.excerpt}")
    say("remedy", claim.remedy)
    say("sure", f"{claim.confidence}, {claim.basis}")
    echo()


def _as_data(report: Report) -> dict[str, object]:
    return {
        "claims": [asdict(claim) for claim in report.claims],
        "files": [asdict(file) for file in report.examined],
        "unreadable": [asdict(each) for each in report.unreadable],
        "rules": list(report.rules),
        "suppressed": report.suppressed,
        "lines": report.lines,
        "torch_files": report.torch_files,
    }
