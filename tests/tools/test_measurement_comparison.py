"""How measurements are compared with what they come to when they are made again."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.domain.reproduction import ReproductionOutcome
from esper_agents.tools.measurement_comparison import comparison, exported, measured, memory, profile

OF = {"torch": "2.13.0+cpu", "machine": "a processor, AVX2", "device": "cpu"}
FASTER, NOT_FASTER, NOT_SHOWN, WRONG = "faster as claimed", "not as fast as claimed", "not shown", "wrong"


def compared(outcome=FASTER, lower="1.4", upper="1.6", *, failed=(), **of):
    checks = [{"check": each, "variant": "plain 1", "is_passed": each not in failed} for each in ("form", "values")]
    speedup = {"speedup": {"lower": lower, "upper": upper, "estimate": "1.5"}} if lower else {}
    verdict = {"outcome": outcome, **speedup}
    return {**OF, **of, "outcome": outcome, "threshold": "1.25", "verdict": verdict, "result": {"checks": checks}}


def profiled(*, ns=1000, bound="memory-bandwidth", line=7, operations=3, is_clear=True, peak=4096):
    analysis = {
        "bottleneck": bound,
        "share": "0.7",
        "call": {"ns": ns},
        "hot": {"file": "ops.py", "line": line, "name": "slow", "own_share": "0.9"},
        "overhead": {"operations": operations, "dispatch_ns": 3},
    }
    result = {"analysis": analysis, "memory": {"peak_bytes": peak, "allocations": 2}}
    return {**OF, "kind": "function", "is_clear": is_clear, "is_compiled": False, "result": result}


@pytest.mark.parametrize("compare", [measured, memory, profile, comparison])
@pytest.mark.parametrize("of", list(OF))
@pytest.mark.parametrize("other", ["another", None])
def test_a_measurement_of_something_else_is_not_comparable(compare, of, other):
    output = {**compared(), **profiled()}
    elsewhere = {name: each for name, each in output.items() if name != of} | ({of: other} if other else {})
    assert compare(output, deepcopy(output)).outcome is ReproductionOutcome.REPRODUCED
    found = compare(output, elsewhere)
    assert found.outcome is ReproductionOutcome.NOT_COMPARABLE
    assert found.why.startswith(f"the environments differ: output.{of}: recorded {OF[of]}")


def test_intervals_that_overlap_are_reproduced_and_told():
    found = comparison(compared(), compared(lower="1.55", upper="1.9"))
    assert found.outcome is ReproductionOutcome.REPRODUCED
    assert found.why == "the outcome is the same; recorded 1.4x to 1.6x, now 1.55x to 1.9x"
    assert [(interval.recorded, interval.again, interval.by) for interval in found.intervals] == [
        ("1.4x to 1.6x", "1.55x to 1.9x", "")
    ]


@pytest.mark.parametrize(("lower", "upper"), [("2.4", "2.6"), ("0.7", "0.9")])
def test_intervals_apart_differ_though_the_outcome_is_the_same(lower, upper):
    for one, other in (
        (compared(), compared(lower=lower, upper=upper)),
        (compared(lower=lower, upper=upper), compared()),
    ):
        found = comparison(one, other)
        assert found.outcome is ReproductionOutcome.DIFFERS
        assert "times apart" in found.why


@given(st.tuples(st.floats(0.1, 10), st.floats(1, 3)), st.tuples(st.floats(0.1, 10), st.floats(1, 3)))
def test_two_intervals_differ_exactly_where_they_have_no_point_in_common(one, other):
    (low, wide), (other_low, other_wide) = one, other
    bounds = [(low, low * wide), (other_low, other_low * other_wide)]
    outputs = [compared(lower=repr(lower), upper=repr(upper)) for lower, upper in bounds]
    is_apart = bounds[0][1] < bounds[1][0] or bounds[1][1] < bounds[0][0]
    assert (comparison(*outputs).outcome is ReproductionOutcome.DIFFERS) is is_apart
    assert (comparison(*reversed(outputs)).outcome is ReproductionOutcome.DIFFERS) is is_apart


@pytest.mark.parametrize(
    ("one", "other", "outcome"),
    [
        (compared(FASTER), compared(NOT_SHOWN, "1.2", "1.5"), ReproductionOutcome.NOT_COMPARABLE),
        (compared(NOT_SHOWN, "1.2", "1.5"), compared(NOT_FASTER, "1.1", "1.24"), ReproductionOutcome.NOT_COMPARABLE),
        (compared(FASTER), compared(NOT_FASTER, "1.0", "1.2"), ReproductionOutcome.DIFFERS),
        (compared(FASTER), compared(WRONG, "", "", failed=("values",)), ReproductionOutcome.DIFFERS),
        (compared(WRONG, "", "", failed=("values",)), compared(FASTER), ReproductionOutcome.DIFFERS),
        (
            compared(WRONG, "", "", failed=("values",)),
            compared(WRONG, "", "", failed=("values",)),
            ReproductionOutcome.REPRODUCED,
        ),
        (
            compared(WRONG, "", "", failed=("values",)),
            compared(WRONG, "", "", failed=("form",)),
            ReproductionOutcome.DIFFERS,
        ),
        (compared("error", "", ""), compared(FASTER), ReproductionOutcome.NOT_COMPARABLE),
    ],
)
def test_outcomes_decide_and_an_open_one_contradicts_nothing(one, other, outcome):
    assert comparison(one, other).outcome is outcome


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"ns": 1200}, ReproductionOutcome.REPRODUCED),
        ({"ns": 1300}, ReproductionOutcome.DIFFERS),
        ({"ns": 700}, ReproductionOutcome.DIFFERS),
        ({"bound": "cpu-compute"}, ReproductionOutcome.DIFFERS),
        ({"bound": "cpu-compute", "is_clear": False}, ReproductionOutcome.NOT_COMPARABLE),
        ({"line": 9, "is_clear": False}, ReproductionOutcome.NOT_COMPARABLE),
        ({"ns": 1300, "is_clear": False}, ReproductionOutcome.DIFFERS),
        ({"operations": 4, "peak": 8192}, ReproductionOutcome.REPRODUCED),
    ],
)
def test_a_profile_is_held_to_its_decisions_and_the_time_of_a_call(changes, outcome):
    assert profile(profiled(), profiled(**changes)).outcome is outcome


def test_an_export_is_held_to_all_ways_but_the_draft():
    attempts = {"strict": {"outcome": "fails"}, "draft": {"compared": 0}}
    output = {**OF, "result": {"attempts": attempts}}
    assert exported(output, {**OF, "result": {"attempts": attempts | {"draft": {"compared": 1}}}}).outcome is (
        ReproductionOutcome.REPRODUCED
    )
    assert exported(output, {**OF, "result": {"attempts": attempts | {"strict": {"outcome": "exports"}}}}).outcome is (
        ReproductionOutcome.DIFFERS
    )


def test_memory_is_held_to_its_bytes_nearly_and_to_its_counts_exactly():
    output = {
        **OF,
        "status": "leak",
        "because": "4 B",
        "peak_bytes": 1000,
        "result": {"split_bytes": {"gradients": 100}},
    }
    near = deepcopy(output) | {"because": "5 B", "peak_bytes": 1049, "result": {"split_bytes": {"gradients": 104}}}
    far = deepcopy(output) | {"result": {"split_bytes": {"gradients": 120}}}
    assert memory(output, near).outcome is ReproductionOutcome.REPRODUCED
    assert memory(output, output | {"status": "model too large"}).outcome is ReproductionOutcome.DIFFERS
    assert str(memory(output, far).differences[0]) == (
        "output.result.split_bytes.gradients: recorded 100, now 120 (by +20, +20.0%)"
    )


def test_what_a_run_shows_that_takes_no_times_is_held_to_all_of_it_but_the_sandbox():
    output = {**OF, "sandbox": {"sandbox": "bubblewrap"}, "result": {"breaks": [{"line": 12}], "cost": {"wall_ns": 1}}}
    again = {**OF, "sandbox": {"sandbox": "landlock"}, "result": {"breaks": [{"line": 12}], "cost": {"wall_ns": 9}}}
    assert measured(output, again).outcome is ReproductionOutcome.REPRODUCED
    assert measured(output, again | {"result": {"breaks": []}}).outcome is ReproductionOutcome.DIFFERS
