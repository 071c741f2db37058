"""What models have used: added up, and told to a person."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.domain.usage import Expense, dollars, expense_of

RECORD = {
    "usage": {"fresh": 100, "written": 200, "cached": 700, "output": 50},
    "spent": {"tokens": 1050, "money": 12_345},
    "is_priced": True,
}
COUNT = st.integers(0, 10**12)
EXPENSE = st.builds(Expense, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT)


def test_a_turn_of_a_model_is_told_in_tokens_share_of_the_cache_and_money():
    used = expense_of(RECORD)
    assert used == Expense(1, 100, 200, 700, 50, 12_345)
    assert (used.prompt, used.tokens, used.cached_percent) == (1000, 1050, 70)
    assert str(used) == "1,050 tokens, 70 % of prompts cached, $0.01"


def test_a_turn_of_a_model_whose_price_is_not_known_says_so():
    used = expense_of({**RECORD, "is_priced": False})
    assert used.unpriced == 1
    assert str(used + Expense()).endswith(", the price is not known")


@pytest.mark.parametrize(
    "record", [{}, {"content": []}, {"usage": None}, {"usage": 7}, {"spent": {"tokens": 7, "money": 3}}]
)
def test_a_turn_that_no_model_took_has_used_nothing(record):
    assert expense_of(record) == Expense()


@pytest.mark.parametrize("said", [-5, 1.5, "7", True, None, {}])
def test_what_is_no_amount_counts_as_nothing(said):
    used = expense_of({"usage": {"fresh": said, "cached": 3}, "spent": {"money": said}})
    assert used == Expense(1, cached=3)


@pytest.mark.parametrize(
    ("money", "told"),
    [(0, "$0.00"), (1, "$0.0000"), (123, "$0.0001"), (9_999, "$0.0100"), (10_000, "$0.01"), (1_234_567, "$1.23")],
)
def test_money_is_told_in_dollars_and_below_a_cent_more_exactly(money, told):
    assert dollars(money) == told


@given(EXPENSE, EXPENSE)
def test_expenses_add_up_in_any_order(one, other):
    assert one + other == other + one
    assert (one + other).tokens == one.tokens + other.tokens
    assert one + Expense() == one
    assert 0 <= one.cached_percent <= 100
