"""Language model usage: tokens by billing category, and cost."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject

_MILLION = 1_000_000
_CENT = 10_000
_PARTS = ("fresh", "written", "cached", "output")


@dataclass(frozen=True, slots=True)
class Expense:
    """Usage of language models, summed over turns; instances can be added.

    Attributes:
        turns: Number of turns.
        fresh: Prompt tokens neither read from a cache nor written to it.
        written: Prompt tokens written to a cache.
        cached: Prompt tokens read from a cache.
        output: Tokens of the responses.
        money: Cost in millionths of a US dollar.
        unpriced: Turns of models with unknown price, which are charged at the price of the most expensive model.
    """

    turns: int = 0
    fresh: int = 0
    written: int = 0
    cached: int = 0
    output: int = 0
    money: int = 0
    unpriced: int = 0

    def __add__(self, other: Expense) -> Expense:
        """Return the sum of both."""
        return Expense(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    @property
    def prompt(self) -> int:
        """Number of prompt tokens."""
        return self.fresh + self.written + self.cached

    @property
    def tokens(self) -> int:
        """Number of all tokens."""
        return self.prompt + self.output

    @property
    def cached_percent(self) -> int:
        """Share of prompt tokens read from a cache, in percent, rounded down."""
        return 100 * self.cached // self.prompt if self.prompt else 0

    def __str__(self) -> str:
        """Return tokens, cached share and cost as readable text."""
        doubt = ", the price is not known" if self.unpriced else ""
        return f"{self.tokens:,} tokens, {self.cached_percent} % of prompts cached, {dollars(self.money)}{doubt}"


def dollars(money: int) -> str:
    """Return an amount in millionths of a US dollar as readable text, with four decimals below one cent."""
    places = 2 if money >= _CENT or not money else 4
    return f"${money / _MILLION:.{places}f}"


def expense_of(record: JsonObject) -> Expense:
    """Return the usage of a turn from its reasoner's record; zero if no model was called.

    Args:
        record: See `reasoner.Decision`.
    """
    usage, spent = record.get("usage"), record.get("spent")
    if not isinstance(usage, dict):
        return Expense()
    money = _count(spent.get("money")) if isinstance(spent, dict) else 0
    used = {name: _count(usage.get(name)) for name in _PARTS}
    return Expense(1, money=money, unpriced=int(record.get("is_priced") is False), **used)


def _count(said: object) -> int:
    return said if type(said) is int and said > 0 else 0
