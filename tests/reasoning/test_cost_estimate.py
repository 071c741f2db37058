"""About what a task costs, before anything of it is sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from esper_agents.reasoning.cost_estimate import estimate
from esper_agents.reasoning.models import load_models

MODELS = load_models()
OPUS, HAIKU = MODELS.resolve("opus"), MODELS.resolve("haiku")
LENGTHS = st.integers(0, 10**9)


def test_a_task_without_source_costs_something():
    guess = estimate(OPUS, 0)
    assert guess.tokens == 0
    assert guess.money > 0


@given(LENGTHS, LENGTHS)
def test_more_source_is_never_cheaper(one, other):
    less, more = sorted((one, other))
    assert estimate(OPUS, less).money <= estimate(OPUS, more).money


@given(LENGTHS)
def test_a_dearer_model_costs_more_and_no_prompt_is_longer_than_the_window(length):
    assert estimate(HAIKU, length).money < estimate(OPUS, length).money
    assert estimate(OPUS, length).tokens <= OPUS.window


def test_a_small_task_costs_cents_and_not_dollars():
    assert 10_000 < estimate(OPUS, 4_000).money < 1_000_000
