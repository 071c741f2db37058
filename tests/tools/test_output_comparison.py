"""How outputs of two runs are compared where the tool does not say how else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.domain.codec import canonical
from esper_agents.domain.reproduction import ReproductionOutcome
from esper_agents.tools.output_comparison import compare_exactly, difference, is_near, without

NAMES = st.text("abcdefgh_", min_size=1, max_size=6).map(lambda name: f"x{name}x")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
OUTPUTS = st.dictionaries(NAMES, VALUES, max_size=4)


def found(recorded, again):
    return [str(each) for each in compare_exactly(recorded, again).differences]


@given(OUTPUTS)
def test_the_same_output_is_reproduced(output):
    assert compare_exactly(output, dict(output)).outcome is ReproductionOutcome.REPRODUCED


@given(OUTPUTS, OUTPUTS)
def test_two_outputs_differ_exactly_where_they_are_not_equal(one, other):
    compared = compare_exactly(one, other)
    are_equal = canonical(one) == canonical(other)
    assert (compared.outcome is ReproductionOutcome.REPRODUCED) is are_equal
    assert (compared.differences == ()) is are_equal


@pytest.mark.parametrize("name", ["took_s", "wall_ns", "started_at", "cost", "duration", "elapsed", "pid"])
def test_how_long_it_took_and_when_it_was_does_not_count(name):
    assert (
        compare_exactly({name: 1, "deep": [{name: 2}]}, {name: 3, "deep": [{name: 4}]}).outcome
        is ReproductionOutcome.REPRODUCED
    )


@pytest.mark.parametrize("name", ["steps", "files", "at", "claims", "s"])
def test_what_only_looks_like_a_time_counts(name):
    assert compare_exactly({name: 1}, {name: 2}).outcome is ReproductionOutcome.DIFFERS


def test_each_difference_says_where_and_numbers_by_how_much():
    recorded = {"a": [1, {"b": "0.5"}], "gone": 1, "same": None}
    again = {"a": [1, {"b": "0.75"}, 3], "same": None}
    assert found(recorded, again) == [
        "output.a[1].b: recorded 0.5, now 0.75 (by +0.25, +50.0%)",
        "output.a[2]: recorded (nothing), now 3",
        "output.gone: recorded 1, now (nothing)",
    ]


def test_true_is_not_one():
    assert found({"is_clear": True}, {"is_clear": 1}) == ["output.is_clear: recorded True, now 1"]


def test_members_that_a_tool_leaves_aside_do_not_count_anywhere():
    compare = without("configuration")
    assert (
        compare({"configuration": 1, "x": [{"configuration": 2}]}, {"x": [{}]}).outcome
        is ReproductionOutcome.REPRODUCED
    )


def test_a_long_value_is_cut_where_it_is_told():
    assert len(str(difference("output.x", "a" * 10_000, "b" * 10_000))) < 400


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        (100, 104, True),
        (100, 96, True),
        (100, 106, False),
        (0, 0, True),
        (0, 1, False),
        (-100, 100, False),
        ("1.0", 1, True),
        ("x", 1, None),
        (True, 1, None),
    ],
)
def test_near_is_within_a_ratio_either_way(one, other, near):
    assert is_near(one, other, 1.05) is near
