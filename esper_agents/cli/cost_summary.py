"""Sums of token usage and cost by agent, session or model."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from esper_agents.domain.usage import Expense

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.api import ModelUsage


class CostGrouping(StrEnum):
    """Grouping of expenses."""

    AGENT = "agent"
    SESSION = "session"
    MODEL = "model"


def by(spent: Iterable[ModelUsage], part: CostGrouping) -> dict[str, Expense]:
    """Return the sum of expenses by name of agent, session or model."""
    found: dict[str, Expense] = {}
    for each in spent:
        name = getattr(each, part)
        found[name] = found.get(name, Expense()) + each.expense
    return found


def total(spent: Iterable[ModelUsage]) -> Expense:
    """Return the total of all expenses."""
    return sum((each.expense for each in spent), Expense())


def as_data(expense: Expense | None) -> dict[str, Any] | None:
    """Return an expense as JSON; None if no model was used."""
    return asdict(expense) | {"tokens": expense.tokens, "cached_percent": expense.cached_percent} if expense else None


def as_row(spent: ModelUsage) -> dict[str, Any]:
    """Return the usage of one model by one agent of one session, as JSON."""
    return {"session": spent.session, "agent": spent.agent, "model": spent.model, **(as_data(spent.expense) or {})}
