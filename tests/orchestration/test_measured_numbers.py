"""Numbers that claim a measurement are looked up in the evidence; all others may be said."""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from briefs import evidence
from hypothesis import assume, given
from hypothesis import strategies as st

from esper_agents.orchestration.measured_numbers import RecordedNumbers

MEASURED = {"p50_ms": 12.345, "peak_bytes": 123_456_789, "speedup": 1.31, "share": 0.473, "breaks": 3}
CODE = ("time.sleep(0.5)", "dropout = 0.1", "BATCH = 64", "hidden = 4 * width")


def doubts(text, output=None, *, tool="torch-profile", others=(), counts=(2,), code=(), **options):
    """Return the doubtful numbers of a text, each as written."""
    call = replace(evidence(output=MEASURED if output is None else output), tool=tool)
    known = RecordedNumbers((call,), others, counts)
    return [each.text for each in known.doubtful(text, code, **options)]


@pytest.mark.parametrize(
    "text",
    [
        "It takes 12.345 ms, or 12.3 ms, or 12 ms, which is 0.0123 s or 12345 us.",
        "The peak is 123456789 bytes: 117.7 MiB, 123.5 MB, 0.12 GB.",
        "It is 1.31x as fast, 31 % faster, 1.3\u00d7.",
        "That is 47.3 % of it; the rest is 52.7 %.",
        "It took 12.3-12.345 ms.",
        "There are 3 graph breaks and 2 findings.",
    ],
)
def test_a_measured_number_may_be_said_in_any_unit_and_rounding_that_fits(text):
    assert not doubts(text)


@pytest.mark.parametrize(
    "text",
    [
        "A batch of 64 on 8 GPUs, as Vaswani et al. (2017) and RFC 9562 have it.",
        "Step 400 of 10,000 gives 3e-4; 32k tokens, -1e9, float16 ends at 65504.",
        "See lines 40 to 60, issue 137198, CVE-2025-32434, torch 2.6 and python 3.11.",
        "It has 1,000,000 rows in 21 files.",
        "A 3 x 3 convolution and a 64x64 input with 4x expansion.",
        "An element has 4 bytes in float32.",
        "The matrix of 4096x4096 takes 64 MiB in float32.",
        "claude-opus-4-8, fp16, A100",
    ],
)
def test_numbers_of_the_code_and_of_the_world_are_no_measurements(text):
    assert not doubts(text)


@pytest.mark.parametrize(
    ("text", "doubtful"),
    [
        ("It takes 12.9 ms.", ["12.9 ms"]),
        ("It takes 12.3 s.", ["12.3 s"]),
        ("It is 47.3x as fast.", ["47.3x"]),
        ("With torch 47.9 % faster.", ["47.9 %"]),
        ("It took 10-99 ms.", ["10 ms", "99 ms"]),
        ("It has 14 graph breaks.", ["14"]),
        ("It has 9 recompilations.", ["9"]),
        ("Training is 6x faster.", ["6x"]),
        ("It saves 900 MiB.", ["900 MiB"]),
    ],
)
def test_a_number_that_claims_a_measurement_nobody_made_is_doubtful(text, doubtful):
    assert doubts(text) == doubtful


def test_a_number_of_the_code_may_be_repeated_and_is_no_measurement():
    assert not doubts("It sleeps for 0.5 s and drops 10 % of the units.", code=CODE)
    assert doubts("Sleeping costs 0.5 s per step.", code=CODE) == ["0.5 s"]
    assert doubts("The wide layer makes it 4x slower.", code=CODE) == ["4x"]


@pytest.mark.parametrize("tool", ["read-file", "search-code", "git-log"])
def test_a_comment_that_claims_a_measurement_is_not_one(tool):
    assert doubts("It is 3.4x faster.", {"lines": ["# 3.4x faster"]}, tool=tool) == ["3.4x"]


def test_a_number_derived_from_two_measured_ones_is_known():
    output = {"eager_ms": 12.0, "compiled_ms": 4.0}
    assert not doubts("Eager takes 12 ms. Compiled takes 4 ms. That saves 8 ms and is 3x as fast.", output)
    assert not doubts("It falls from 12 ms to 4 ms, 67 % less.", output)
    assert doubts("It falls from 12 ms to 4 ms, 80 % less.", output) == ["80 %"]


def test_a_measurement_that_says_the_opposite_contradicts():
    call = replace(evidence(output={"speedup": 0.5}), tool="torch-compare")
    (found,) = RecordedNumbers((call,), (), ()).doubtful("The candidate is 2x faster.")
    assert (found.text, found.is_contradicted) == ("2x", True)
    assert not tuple(RecordedNumbers((call,), (), ()).doubtful("The candidate is 2x slower."))


def test_the_request_and_the_findings_of_rules_may_be_repeated():
    assert not doubts("You say that it takes 47.9 ms.", others=("why does it take 47.9 ms?",))


def test_settings_of_a_proposal_are_no_measurements_and_promises_are():
    assert not doubts("Set lr to 3e-4, batch_size=4096.", is_proposed=True)
    assert doubts("That saves 47.9 %.", is_proposed=True) == ["47.9 %"]


AMOUNTS = st.decimals("0.001", "100000", places=3)
TIMES = {"s": Decimal(1), "ms": Decimal(1000), "us": Decimal(10) ** 6, "\u00b5s": Decimal(10) ** 6}
SIZES = {"bytes": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def rounded(amount, places):
    return amount.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN)


@given(AMOUNTS, st.sampled_from(sorted(TIMES)), st.integers(0, 4))
def test_a_time_may_be_told_in_any_unit_rounded_anyhow(seconds, unit, places):
    said = rounded(seconds * TIMES[unit], places)
    assert not doubts(f"It takes {said:f} {unit}.", {"took_s": float(seconds)})


@given(st.integers(1, 10**11), st.sampled_from(sorted(SIZES)), st.integers(0, 3))
def test_a_size_may_be_told_in_any_unit_rounded_anyhow(size, unit, places):
    said = rounded(Decimal(size) / SIZES[unit], places)
    assert not doubts(f"The peak is {said:f} {unit}.".replace("kB", "KB"), {"peak_bytes": size})


@given(st.decimals("0.05", "20", places=4), st.integers(0, 2))
def test_a_ratio_may_be_told_as_a_factor_or_in_percent(ratio, places):
    factor, percent = rounded(ratio, places), rounded(abs(ratio - 1) * 100, places)
    told = f"It is {factor}x as fast: {percent:f} % {'faster' if ratio > 1 else 'slower'}."
    assert not doubts(told, {"speedup": float(ratio)})


@given(AMOUNTS, AMOUNTS)
def test_a_time_that_was_invented_is_doubtful(seconds, invented):
    apart = [abs(seconds.scaleb(each) - invented) for each in range(-12, 13, 3)]
    assume(all(each > Decimal("0.0005") for each in apart))
    assert doubts(f"It takes {invented:f} s.", {"took_s": float(seconds)})


@given(st.text(max_size=200) | st.from_regex(r"[\d.,:%x kMGib\-/a-z]{0,60}"))
def test_any_words_can_be_looked_up(text):
    assert all(doubt in text or "-" in text for doubt in doubts(text))


PRINTED = """
as written: bytes saved for backward still held at step(): 6029312 ; after: 0
peak
123456
forward in ms: 4.5 backward: 9.25
12 ms in 300 steps
gradient over gradient: 8.50
"""


@pytest.mark.parametrize(
    "text",
    [
        "It held 6029312 bytes, or 5.75 MiB, of memory.",
        "The peak is 123456 bytes.",
        "Backward takes 9.25 ms, or 0.00925 s.",
        "It is 8.50x larger.",
    ],
)
def test_a_printed_number_has_the_unit_that_its_line_names_before_it_or_any(text):
    assert not doubts(text, {"printed": PRINTED}, tool="run-python")


@pytest.mark.parametrize(
    "text", ["It takes 300 ms.", "It held 300 bytes of memory.", "It takes 8.51 ms.", "It took 6 s."]
)
def test_a_printed_number_has_no_unit_that_its_line_contradicts(text):
    assert doubts(text, {"printed": PRINTED}, tool="run-python")
