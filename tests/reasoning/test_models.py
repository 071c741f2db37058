"""The table of models: roles, prices, windows; and what a turn costs by it."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.errors import DefinitionError
from esper_agents.reasoning.models import ModelOverride, ModelSettings, Usage, load_models, read_models

TABLE = """
[roles]
inherit = "small"
opus = "large"
[fallback]
model = "small"
[[model]]
name = "large"
input = "4"
cache_write = "5"
cache_read = "0.20"
output = "20"
window = 1_000_000
most_output = 128_000
[[model]]
name = "small"
input = "0.50"
cache_write = "0.625"
cache_read = "0.05"
output = "2.50"
window = 200_000
most_output = 64_000
"""
COUNTS = st.integers(0, 10**9)


def test_every_role_and_the_fallback_of_our_table_mean_a_model_that_it_has():
    known = load_models()
    assert {"inherit", "opus", "sonnet", "haiku", "second_opinion"} <= set(known.roles)
    assert {*known.roles.values(), known.fallback} <= set(known.models)


def test_a_second_opinion_of_our_table_is_another_model_than_most_agents_have():
    known = load_models()
    assert known.resolve("second_opinion") != known.resolve("inherit")


def test_in_our_table_reading_the_cache_is_cheapest_and_an_answer_dearest():
    for model in load_models().models.values():
        assert 0 < model.cache_read < model.input < model.cache_write < model.output
        assert 0 < model.most_output < model.window


@pytest.mark.parametrize(
    ("wanted", "name"),
    [("opus", "large"), ("Opus", "large"), ("inherit", "small"), ("", "small"), ("large", "large")],
)
def test_a_role_or_a_full_name_means_a_model(wanted, name):
    found = read_models(TABLE).resolve(wanted)
    assert (found.name, found.is_listed) == (name, True)


def test_a_model_that_is_not_listed_costs_what_the_dearest_does_and_has_small_limits():
    found = read_models(TABLE).resolve("local-7b")
    assert (found.name, found.is_listed) == ("local-7b", False)
    assert (found.output, found.window, found.most_output) == (Decimal(20), 64_000, 8_000)


def test_a_person_states_prices_and_limits_of_any_model():
    one = ModelOverride("local-7b", Decimal("0.1"), Decimal("0.4"), window=32_000, most_output=4_000)
    two = ModelOverride("large", output=Decimal(1))
    changed = read_models(TABLE).changed(ModelSettings({"opus": "local-7b"}, models=(one, two)))
    local = changed.resolve("opus")
    assert (local.input, local.output, local.window, local.most_output) == (
        Decimal("0.1"),
        Decimal("0.4"),
        32_000,
        4_000,
    )
    assert (local.cache_write, local.cache_read, local.is_listed) == (Decimal("0.125"), Decimal("0.1"), True)
    large = changed.resolve("large")
    assert (large.output, large.input, large.window) == (Decimal(1), Decimal(4), 1_000_000)


def test_a_model_with_limits_and_no_prices_still_costs_what_the_dearest_does():
    changed = read_models(TABLE).changed(ModelSettings(models=(ModelOverride("local-7b", window=32_000),)))
    local = changed.resolve("local-7b")
    assert (local.output, local.window, local.is_listed) == (Decimal(20), 32_000, False)


def test_a_persons_roles_come_before_the_tables_and_the_others_stay():
    known = read_models(TABLE)
    changed = known.changed(ModelSettings({"opus": "local-7b"}))
    assert changed.resolve("opus").name == "local-7b"
    assert changed.resolve("inherit").name == "small"
    assert changed.fallback == "small"
    assert known.changed(ModelSettings(fallback="")).fallback == ""
    assert known.resolve("opus").name == "large"


def test_a_turn_costs_the_sum_of_its_parts_and_a_part_of_a_millionth_counts_as_one():
    large = read_models(TABLE).resolve("large")
    assert large.cost(Usage(fresh=1_000, written=2_000, cached=50_000, output=300)) == 4_000 + 10_000 + 10_000 + 6_000
    assert large.cost(Usage(cached=1)) == 1
    assert large.cost(Usage()) == 0


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_no_turn_is_told_cheaper_than_it_is(fresh, written, cached, output):
    used = Usage(fresh, written, cached, output)
    assert used.tokens == fresh + written + cached + output
    exact = Decimal(fresh) * 4 + written * 5 + cached * Decimal("0.2") + output * 20
    assert 0 <= read_models(TABLE).resolve("large").cost(used) - exact < 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('input = "4"', ""),
        ('input = "4"', 'input = "four"'),
        ("window = 1_000_000", 'window = "wide"'),
        ("[roles]", "[rolls]"),
        ("[[model]]", "[model"),
        ("[fallback]", "[[fallback]]"),
    ],
)
def test_a_broken_table_is_refused_in_one_line(before, after):
    with pytest.raises(DefinitionError) as raised:
        read_models(TABLE.replace(before, after, 1))
    assert "malformed table of models" in raised.value.problem
    assert "\n" not in raised.value.problem
