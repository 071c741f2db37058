"""What language models have used, added up for a person: by agent, by session, by model."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from esper_agents.domain.usage import Expense

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.storage.model_usage import ModelUsage


class CostGrouping(StrEnum):
    """What expenses are added up for."""

    AGENT = "agent"
    SESSION = "session"
    MODEL = "model"


def by(spent: Iterable[ModelUsage], part: CostGrouping) -> dict[str, Expense]:
    """Return expenses added up for each agent, session or model, by name."""
    found: dict[str, Expense] = {}
    for each in spent:
        name = getattr(each, part)
        found[name] = found.get(name, Expense()) + each.expense
    return found


def total(spent: Iterable[ModelUsage]) -> Expense:
    """Return all of them together."""
    return sum((each.expense for each in spent), Expense())


def as_data(expense: Expense | None) -> dict[str, Any] | None:
    """Return an expense as JSON; None where no model took part."""
    return asdict(expense) | {"tokens": expense.tokens, "cached_percent": expense.cached_percent} if expense else None


def as_row(spent: ModelUsage) -> dict[str, Any]:
    """Return what one model has used for one agent of one session, as JSON."""
    return {"session": spent.session, "agent": spent.agent, "model": spent.model, **(as_data(spent.expense) or {})}
