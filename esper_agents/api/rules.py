"""Lint rules and their pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from esper_agents.domain.finding import Category, Severity
    from esper_agents.review.rule import Rule

ALL_RULES = "all"


@dataclass(frozen=True, slots=True)
class RuleDescription:
    """One lint rule.

    Attributes:
        code: Code, such as `ESP305`.
        name: Name of the pattern, such as `item-in-training-loop`.
        severity: Severity of its diagnostics.
        category: Part of the review checklist.
        is_fixable: Whether some of its diagnostics can be fixed automatically.
        summary: First paragraph of its page, on one line.
        bad: Source that the rule reports, by path.
        good: The same source without the problem, by path.
    """

    code: str
    name: str
    severity: Severity
    category: Category
    is_fixable: bool
    summary: str
    bad: Mapping[str, str]
    good: Mapping[str, str]


def lint_rules(code: str = ALL_RULES, *, extra: Sequence[ModuleType] = ()) -> tuple[RuleDescription, ...]:
    """Return the lint rules, by code; for its code or name, also a diagnostic of the measurements, such as LAB401.

    Args:
        code: Code or name of one rule, or `all`, which means the lint rules.
        extra: Modules with additional rules.

    Raises:
        NotFoundError: There is no such rule.
    """
    from esper_agents.review.pages import explained
    from esper_agents.torchlab.measurement_codes import find_measurement_rule

    if measured := find_measurement_rule(code):
        about = (measured.code, measured.name, measured.severity, measured.category)
        return (RuleDescription(*about, is_fixable=False, summary=measured.meaning, bad={}, good={}),)
    return tuple(_described(rule) for rule in explained(code, extra))


def rule_page(code: str = ALL_RULES, *, extra: Sequence[ModuleType] = ()) -> str:
    """Return the page of a rule as Markdown, or those of all rules for `all`; see `lint_rules` for the arguments.

    The pages of all rules end with those of the measurements' diagnostics.

    Raises:
        NotFoundError: There is no such rule.
    """
    from esper_agents.review.pages import explain
    from esper_agents.torchlab.measurement_codes import MEASUREMENT_RULES, find_measurement_rule, measurement_page

    if measured := find_measurement_rule(code):
        return measurement_page(measured)
    page = explain(code, extra)
    if code != ALL_RULES:
        return page
    own = "\n".join(measurement_page(each).replace("# ", "### ") for each in MEASUREMENT_RULES)
    return f"{page}\n## Diagnostics of measurements\n\n{own}"


def _described(rule: Rule) -> RuleDescription:
    from esper_agents.review.pages import summary_of
    from esper_agents.review.rule import example_files

    return RuleDescription(
        code=rule.code,
        name=rule.name,
        severity=rule.severity,
        category=rule.category,
        is_fixable=rule.is_fixable,
        summary=summary_of(rule),
        bad=example_files(rule.bad),
        good=example_files(rule.good),
    )
