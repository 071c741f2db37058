"""Growth is told from noise and from what levels off."""

from __future__ import annotations

import random

import pytest

from esper_agents.torchlab.worker.memory.growth import growth, may_grow

LEAST = 256


def steps(*differences):
    total, result = 0, []
    for difference in differences:
        total += difference
        result.append(total)
    return result


@pytest.mark.parametrize(
    "left",
    [
        steps(*[4_096] * 12),
        steps(50_000, *[4_096] * 11),
        steps(*[0, 8_192] * 8),
        steps(*[1_000, 1_500, 500, 1_200] * 3),
        steps(*range(1_000, 13_000, 1_000)),
    ],
    ids=["the same each step", "after a large first step", "every other step", "unevenly", "faster and faster"],
)
def test_what_rises_to_the_end_is_growth(left):
    assert growth(left, 4, LEAST).is_growing


@pytest.mark.parametrize(
    "left",
    [
        [4_096] * 12,
        steps(*[4_096] * 6, *[0] * 6),
        steps(8_192, 4_096, 2_048, 1_024, 512, 256, 128, 64, 32, 16, 8, 4),
        [4_096, 8_192] * 6,
        steps(*[4] * 12),
        list(range(120_000, 0, -10_000)),
        steps(*[4_096] * 7),
    ],
    ids=["level", "full half-way", "slower and slower", "to and fro", "a number a step", "falling", "too few steps"],
)
def test_what_levels_off_is_no_growth(left):
    assert not growth(left, 4, LEAST).is_growing


def test_the_slope_is_the_median_and_no_outlier_moves_it():
    left = steps(*[4_096] * 12)
    left[7] += 1 << 20
    assert growth(left, 4, LEAST).per_step == 4_096


def test_noise_without_growth_is_hardly_ever_taken_for_it():
    draw = random.Random(0)  # noqa: S311 - noise, and no secret
    taken = sum(growth([draw.randrange(1 << 20) for _ in range(17)], 8, LEAST).is_growing for _ in range(5_000))
    assert taken <= 5


def test_more_steps_are_worth_it_only_where_something_was_added_late():
    assert may_grow(steps(*[4_096] * 8), LEAST)
    assert not may_grow(steps(4_096, 4_096, 4_096, 0, 0, 0, 0, 0), LEAST)
