"""Budgets: upper limits of one session, shared by all its agents."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from enum import StrEnum

from esper_agents.errors import UsageError


class Resource(StrEnum):
    """Resource that a budget limits."""

    TOKENS = "tokens"
    MONEY = "money"
    SECONDS = "seconds"
    HOPS = "hops"
    TOOL_CALLS = "tool-calls"


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of one resource: a limit, the usage, or the remainder.

    Attributes:
        resource: The resource.
        amount: The quantity: tokens, millionths of a US dollar, milliseconds of work, handoffs, or calls.
    """

    resource: Resource
    amount: int

    def __str__(self) -> str:
        """Return the amount in the unit used on the command line."""
        number = format(Decimal(self.amount) / _PARTS[self.resource], "f")
        return number.rstrip("0").rstrip(".") if "." in number else number

    @property
    def option(self) -> str:
        """The amount as a `--budget` argument, such as `seconds=60`."""
        return f"{self.resource}={self}"


# Internal units per unit used on the command line.
_PARTS = {
    Resource.TOKENS: 1,
    Resource.MONEY: 1_000_000,
    Resource.SECONDS: 1_000,
    Resource.HOPS: 1,
    Resource.TOOL_CALLS: 1,
}
_MOST = 2**53 - 1
MOST_HOPS_GIVEN = 50
_EXAMPLE = "esper submit --budget seconds=60,tool-calls=20,hops=3"


def read_budget(text: str) -> tuple[Amount, ...]:
    """Return the budget given by a text such as `seconds=60,tool-calls=20`, in the order of `Resource`.

    Raises:
        UsageError: The text is empty, names an unknown resource, repeats one, or has an invalid amount.
    """
    if not text.strip():
        raise UsageError("the budget is empty", remedy=f"give an amount, such as {_EXAMPLE}, or omit --budget")
    found: dict[Resource, Amount] = {}
    for part in text.split(","):
        name, _, number = (each.strip() for each in part.partition("="))
        resource = _resource(name)
        if resource in found:
            raise UsageError(f"the budget names {name} twice", remedy="give each amount once")
        found[resource] = Amount(resource, _amount(resource, number))
    return tuple(found[each] for each in Resource if each in found)


def _resource(name: str) -> Resource:
    try:
        return Resource(name)
    except ValueError:
        close = get_close_matches(name, list(Resource), n=1, cutoff=0.4)
        hint = f"did you mean {close[0]}?" if close else "give " + ", ".join(Resource) + f", such as {_EXAMPLE}"
        raise UsageError(f"unknown budget resource {name[:60]!r}", remedy=hint) from None


def _amount(resource: Resource, text: str) -> int:
    remedy = f"give a number of at least 0, such as {_EXAMPLE}"
    try:
        # Only digits and a point: no sign, no exponent, no infinity.
        amount = Decimal(text) * _PARTS[resource] if text.replace(".", "", 1).isdecimal() else None
    except InvalidOperation:
        amount = None
    if amount is None or amount != amount.to_integral_value() or amount > _MOST:
        raise UsageError(f"invalid amount {text[:60]!r} for {resource}", remedy=remedy)
    if resource is Resource.HOPS and amount > MOST_HOPS_GIVEN:
        raise UsageError(f"a task can be handed off {MOST_HOPS_GIVEN} times at most", remedy=remedy)
    return int(amount)
