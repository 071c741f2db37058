"""Conditions about what the user stated in the request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.review.usages.conditions.options import written_value
from esper_agents.review.usages.registry import ConditionResult, condition

if TYPE_CHECKING:
    from esper_agents.review.usages.registry import UsageContext


@condition
def stated(context: UsageContext, kind: str, *values: str) -> ConditionResult:
    """Whether the user stated one of these values of a kind, such as `device cpu`; any value without values."""
    if kind not in context.statements:
        return ConditionResult(None)
    value, words = context.statements[kind]
    return ConditionResult(not values or value in values, {kind: value}, words)


@condition
def stated_below(context: UsageContext, kind: str, limit: str) -> ConditionResult:
    """Whether the user stated a number or a version below another."""
    if kind not in context.statements:
        return ConditionResult(None)
    value, words = context.statements[kind]
    return ConditionResult(_version(value) < _version(limit), {kind: value}, words)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


@condition
def option_in_stated(context: UsageContext, kind: str) -> ConditionResult:
    """Whether the number that the option has is in a range that the user stated, such as `labels` from 0 to 9."""
    written = written_value(context, context.site.option, context.entry.sites.default, context.site.call)
    bounds = re.fullmatch(r"(-?\d+)\.\.(-?\d+)", context.statements.get(kind, ("", ""))[0])
    if bounds is None or not re.fullmatch(r"-?\d+", written):
        return ConditionResult(None)
    is_inside = int(bounds[1]) <= int(written) <= int(bounds[2])
    words = context.statements[kind][1]
    return ConditionResult(is_inside, {"value": written, "lowest": bounds[1], "highest": bounds[2]}, words)
