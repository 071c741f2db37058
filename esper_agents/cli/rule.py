"""`esper rule`: command that prints the documentation of lint rules."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from esper_agents.cli.lightweight_commands import LightweightCommand
from esper_agents.cli.shared_options import JsonOption

_ALL = "all"


class RuleFormat(StrEnum):
    """Output format of rules."""

    TEXT = "text"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=LightweightCommand)(rule)


def rule(
    code: Annotated[str, typer.Argument(metavar="CODE", help="Code or name of a rule [default: list all rules]")] = "",
    every: Annotated[bool, typer.Option("--all", help="Print the documentation of all rules")] = False,
    style: Annotated[RuleFormat, typer.Option("--format", help="Output format")] = RuleFormat.TEXT,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write to this file")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show lint rules and their documentation.

    The documentation of a rule says what it reports, why that costs, when the code is right and how to fix it.

    Examples:
      esper rule
      esper rule ESP305
      esper rule item-in-training-loop --json
      esper rule --all --output rules.md
    """
    from esper_agents.cli.review.command import write_output

    style = RuleFormat.JSON if as_json else style
    write_output(rule_text(_ALL if every else code, style), output)


def rule_text(code: str, style: RuleFormat) -> str:
    """Return the documentation of a rule, of all rules for `all`, or the list of rules for an empty code."""
    from esper_agents.api import rule_page

    if style is RuleFormat.JSON:
        return _as_json(code)
    return rule_page(code) if code else _table()


def _table() -> str:
    import io
    from contextlib import redirect_stdout

    from esper_agents.api import lint_rules
    from esper_agents.cli.terminal import table

    rows = [
        (
            lint_rule.code,
            lint_rule.name,
            str(lint_rule.severity),
            str(lint_rule.category),
            "yes" if lint_rule.is_fixable else "",
        )
        for lint_rule in lint_rules()
    ]
    stream = io.StringIO()
    with redirect_stdout(stream):
        table(("code", "name", "severity", "category", "fixed"), rows)
    return stream.getvalue()


def _as_json(code: str) -> str:
    from esper_agents.api import lint_rules, rule_page

    listed = []
    for lint_rule in lint_rules(code or _ALL):
        data: dict[str, object] = {
            "code": lint_rule.code,
            "name": lint_rule.name,
            "severity": lint_rule.severity,
            "category": lint_rule.category,
            "is_fixable": lint_rule.is_fixable,
            "summary": lint_rule.summary,
        }
        if code:
            data |= {"page": rule_page(lint_rule.code), "bad": lint_rule.bad, "good": lint_rule.good}
        listed.append(data)
    return json.dumps({"rules": listed}, indent=2, sort_keys=True, ensure_ascii=True) + "\n"
