"""Numbers with their units, as they stand in evidence."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.orchestration.evidence_numbers import UNIT, Direction, Quantities, decimal

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=12), parts, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "known",
    [
        {"p50_ms": 1.5},
        {"took_s": 0.0015},
        {"total_ns": [3, 1_500_000]},
        {"times_us": {"eager": {"p50": 1500}}},
        {"seconds": 0.0015},
        "it took 1.5 ms",
        ["1,500 us"],
        "0.0015 seconds",
    ],
)
def test_a_time_on_record_is_found_in_its_own_size_only(known):
    found = Quantities(known)
    assert found.has(Decimal("1.5"), "ms")
    assert found.has(Decimal(1500), "\u00b5s")
    assert not found.has(Decimal("1.5"), "s")
    assert not found.has(Decimal("1.5"), "MB")
    assert not found.has(Decimal("1.5"), "x")


def test_a_name_without_a_unit_has_that_of_the_name_above_it_and_its_own_comes_first():
    found = Quantities({"spans_ms": {"forward": 3, "kept_bytes": 4096, "runs": [5]}})
    assert found.has(Decimal(3), "ms")
    assert found.has(Decimal(4), "KiB")
    assert not found.has(Decimal(4096), "ms")
    assert found.has(Decimal(5), "ms")


def test_what_is_for_a_second_is_no_time():
    found = Quantities({"bytes_per_s": 2_000_000, "tokens_per_s": 31})
    assert found.has(Decimal(2), "MB")
    assert not found.has(Decimal(2), "s")
    assert found.has(Decimal(31), "")


def test_a_number_without_a_unit_is_found_in_any():
    found = Quantities({"measured": 7})
    assert all(found.has(Decimal(7), unit) for unit in ("", "s", "ms", "MB", "M"))
    assert all(Quantities({"measured": 7.5}).has(Decimal("7.5"), unit) for unit in ("x", "%"))


def test_a_count_is_neither_a_ratio_nor_a_share():
    found = Quantities({"runs": 6})
    assert not any(found.has(Decimal(6), unit) for unit in ("x", "%"))


def test_a_bare_number_of_a_text_is_in_no_unit_unless_the_text_is_code():
    assert not Quantities("python 3.11").has(Decimal("3.11"), "x")
    assert Quantities("time.sleep(0.5)", is_code=True).has(Decimal(500), "ms")


@pytest.mark.parametrize(("direction", "is_known"), [(Direction.FASTER, False), (Direction.SLOWER, True), (None, True)])
def test_a_measured_slow_down_supports_no_speed_up(direction, is_known):
    assert Quantities({"speedup": 0.5}).has(Decimal(2), "x", direction) is is_known


@given(JSON, st.decimals("0", "1e6", places=3), st.from_regex(UNIT, fullmatch=True))
def test_whatever_is_on_record_can_be_read_and_asked_for_in_every_unit_there_is(known, value, unit):
    assert Quantities(known).has(value, unit) in {True, False}


@pytest.mark.parametrize("text", ["", ".", "1e99", "nan", "inf", "1e-40"])
def test_what_nobody_measures_is_no_number(text):
    assert decimal(text) is None
