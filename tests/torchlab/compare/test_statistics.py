"""Tests of the signed-rank interval."""

import math
import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.torchlab.compare.acceptance_rules import acceptance
from esper_agents.torchlab.compare.statistics import confidence, speedup_interval

LOOKS = list(zip(acceptance().looks.replicates, acceptance().looks.ranks, strict=True))


@pytest.mark.parametrize("rank", [0, 1, 2, 3, 10])
def test_the_confidence_is_what_all_sign_patterns_say(rank):
    totals = [sum(r for r, sign in enumerate(signs, 1) if sign) for signs in product((0, 1), repeat=8)]
    outside = sum(total <= rank for total in totals) * 2
    assert confidence(8, rank) == pytest.approx(1 - outside / 2**8, abs=1e-15)


def test_equal_ratios_give_an_interval_as_narrow_as_the_resolution():
    found = speedup_interval([math.log(1.3)] * 8, rank=3, resolution=0.001)
    assert (found.estimate, found.lower, found.upper) == (1.3, 1.2987, 1.3013)


def test_the_interval_of_known_ratios_is_the_textbook_one():
    # Walsh averages of 1, 2, 4 are 1, 1.5, 2, 2.5, 3, 4.
    found = speedup_interval([1.0, 2.0, 4.0], rank=1, resolution=0.0)
    assert found.estimate == pytest.approx(math.exp(2.25), rel=1e-5)
    assert found.lower == pytest.approx(math.exp(1.5), rel=1e-5)
    assert found.upper == pytest.approx(math.exp(3.0), rel=1e-5)


def test_a_rank_that_leaves_nothing_inside_is_refused():
    with pytest.raises(ValueError, match="no interval of rank 3 from 2 replicates"):
        speedup_interval([0.1, 0.2], rank=3, resolution=0.0)


@given(st.lists(st.floats(-1, 1), min_size=8, max_size=24), st.floats(-0.5, 0.5))
def test_scaling_every_ratio_scales_the_interval(ratios, shift):
    one = speedup_interval(ratios, rank=3, resolution=0.0)
    other = speedup_interval([each + shift for each in ratios], rank=3, resolution=0.0)
    for name in ("estimate", "lower", "upper"):
        assert getattr(other, name) == pytest.approx(getattr(one, name) * math.exp(shift), rel=1e-4)


@given(st.lists(st.floats(-1, 1), min_size=8, max_size=24))
def test_exchanging_the_arms_turns_the_interval_over(ratios):
    one = speedup_interval(ratios, rank=3, resolution=0.001)
    other = speedup_interval([-each for each in ratios], rank=3, resolution=0.001)
    assert other.lower == pytest.approx(1 / one.upper, rel=1e-4)
    assert other.upper == pytest.approx(1 / one.lower, rel=1e-4)


@given(st.lists(st.floats(-1, 1), min_size=8, max_size=24), st.randoms())
def test_the_order_of_replicates_changes_nothing(ratios, chance):
    shuffled = list(ratios)
    chance.shuffle(shuffled)
    assert speedup_interval(shuffled, rank=3, resolution=0.001) == speedup_interval(ratios, rank=3, resolution=0.001)


def test_looking_three_times_excludes_the_truth_in_at_most_one_of_twenty():
    chance = random.Random(7)  # noqa: S311 - a design, not a secret
    misses = trials = 0
    for _ in range(2_000):
        ratios = [chance.gauss(0, 0.01) * (6 if chance.random() < 0.1 else 1) for _ in range(LOOKS[-1][0])]
        intervals = [speedup_interval(ratios[:n], rank=rank, resolution=0.0) for n, rank in LOOKS]
        misses += any(interval.lower > 1 or interval.upper < 1 for interval in intervals)
        trials += 1
    # 5 % and three standard errors of 2,000 trials.
    assert misses / trials <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)
