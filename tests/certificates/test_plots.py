from __future__ import annotations

import re
from dataclasses import replace

import pytest
from certificate_samples import certificate
from hypothesis import given
from hypothesis import strategies as st
from measured_samples import COMPARED, EXPLAINED, HELD, OUTPUTS, PROFILED, WATCHED, measured

from esper_agents.certificates.evidence_values import bytes_text, number_of, power_of
from esper_agents.certificates.statement import statement
from esper_agents.certificates.views.html import render_html
from esper_agents.certificates.views.plots import plots_of
from esper_agents.certificates.views.svg import WIDTH
from esper_agents.domain.evidence import CallOutcome


def plots(tool, output):
    return plots_of(measured(tool, output))


def cells(plot):
    return [row.cells for row in plot.rows]


def xs(plot, style):
    """Return how far right the marks of a style stand."""
    pattern = rf'class="{style}" (?:points="|cx="|x=")([0-9.]+)'
    return [float(each) for each in re.findall(pattern, plot.drawing.text)]


def test_a_comparison_shows_its_interval_against_what_was_to_be_shown():
    interval, peaks = plots("torch-compare", COMPARED)
    assert cells(interval) == [
        ("estimate", "1.196x"),
        ("lower bound", "1.147x"),
        ("upper bound", "1.22x"),
        ("to be shown", "1.15x"),
    ]
    for said in ("between 1.147x and 1.22x", "99.5 %", "14 pairs", "1.15x was to be shown"):
        assert said in interval.said
    (asked,), (estimate,), (lower,) = xs(interval, "asked"), xs(interval, "dot"), xs(interval, "band")
    assert lower < asked < estimate
    assert cells(peaks) == [("baseline", "192 KiB"), ("candidate", "96 KiB")]


@pytest.mark.parametrize(
    "verdict",
    [
        {},
        {"outcome": "wrong"},
        {"speedup": {"estimate": "1.2", "lower": "1.1"}},
        {"speedup": {"estimate": "1.2", "lower": "1.3", "upper": "1.4"}},
        {"speedup": {"estimate": "nan", "lower": "nan", "upper": "nan"}},
        {"speedup": {"estimate": "fast", "lower": [], "upper": True}},
        {"speedup": "1.2"},
    ],
)
def test_an_interval_that_is_not_on_record_is_not_drawn(verdict):
    assert plots("torch-compare", {"verdict": verdict, "threshold": "1.15"}) == ()


def test_a_threshold_that_is_not_on_record_is_not_drawn():
    (interval,) = plots("torch-compare", {"verdict": COMPARED["verdict"]})
    assert xs(interval, "asked") == []
    assert "to be shown" not in interval.said


def test_a_ratio_beyond_belief_stands_in_numbers_alone():
    speedup = {"estimate": "1e12", "lower": "1e11", "upper": "1e13"}
    (interval,) = plots("torch-compare", {"verdict": {"speedup": speedup}})
    assert interval.drawing is None
    assert ("estimate", "1e+12x") in cells(interval)


def test_memory_is_drawn_step_by_step_by_phase_and_by_what_holds_it():
    course, phases, parts = plots("torch-memory", HELD)
    assert "from 128 KiB after step 1 to 576 KiB after step 8; 64 KiB more with each step" in course.said
    assert cells(course)[0] == ("1", "128 KiB")
    assert len(xs(course, "dot")) == len(course.rows) == 8
    assert cells(phases) == [("step 1, forward", "93.68 KiB"), ("step 1, backward", "160.1 KiB")]
    assert phases.left_out == "and 4 more, in the artifact of this measurement"
    assert [row[0] for row in cells(parts)] == ["optimizer_state", "parameters"]


def test_a_step_without_a_number_ends_the_course_and_the_page_says_so():
    leak = {"live_bytes": [1024, 2048, "unknown", 4096]}
    (course,) = plots("torch-memory", {"result": {"leak": leak}})
    assert len(course.rows) == 2
    assert course.left_out == "from entry 3 on they are no numbers, see the record"


def test_the_watch_for_nan_marks_the_step_that_has_one():
    (watch,) = plots("torch-nan", WATCHED)
    assert watch.title.endswith("the first inf in step 3")
    assert watch.said == "Inf from log at net.py:11, log-of-zero"
    assert cells(watch)[3] == ("3", "nan", "0.4")
    assert len(xs(watch, "dot")) == 3
    assert watch.drawing.text.count('class="cross"') == 1


def test_a_profile_shows_where_the_time_goes():
    shares, lines = plots("torch-profile", PROFILED)
    assert cells(shares) == [("cpu-compute", "90.8 %"), ("dispatch-and-python", "9.2 %")]
    assert cells(lines) == [("net.py:12", "92.1 %")]


def test_an_explanation_shows_the_graphs_of_each_call():
    (calls,) = plots("torch-explain", EXPLAINED)
    assert cells(calls) == [("the first inputs", "2", "1", "0"), ("leading dimension 9", "2", "1", "2")]


@pytest.mark.parametrize("tool", OUTPUTS)
def test_every_plot_has_all_its_numbers_as_text_on_the_page(tool):
    made = replace(certificate(), evidence=(measured(tool),))
    text = render_html(statement(made))
    drawn = plots_of(measured(tool))
    assert text.count("<figure>") == len(drawn) > 0
    for plot in drawn:
        for row in plot.rows:
            for cell in row.cells:
                assert f">{cell}<" in text


def test_nothing_is_drawn_of_a_call_that_failed_or_of_another_tool():
    assert plots_of(measured("torch-compare", COMPARED)) != ()
    assert plots_of(replace(measured("torch-compare"), outcome=CallOutcome.FAILED)) == ()
    assert plots_of(replace(measured("torch-compare"), tool="run-tests")) == ()
    assert "<figure>" not in render_html(statement(certificate()))


odd = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats().map(repr)
    | st.sampled_from(["", "1e999", "-0", "0x10", "\u0663", "1_0", "9" * 50, "1" * 5000, "and 3 more", "<b>", "inf"])
)
NAMES = ["lower", "estimate", "upper", "speedup", "verdict", "threshold", "result", "leak", "live_bytes", "peak"]
NAMES += ["history", "largest_gradient", "analysis", "shares", "lines", "share", "calls", "graphs_run", "phases"]
outputs = st.recursive(
    odd, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5)
)


def altered(output, place, thing):
    """Return an output with something else at one of its places."""
    places = []

    def walk(value, path):
        places.append(path)
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for name, inner in items:
            walk(inner, (*path, name))

    def put(value, path):
        if not path:
            return thing
        copy = dict(value) if isinstance(value, dict) else list(value)
        copy[path[0]] = put(value[path[0]], path[1:])
        return copy

    walk(output, ())
    return put(output, places[place % len(places)])


@given(st.sampled_from(sorted(OUTPUTS)), st.integers(0, 999), outputs)
def test_an_output_of_another_form_draws_less_and_breaks_nothing(tool, place, thing):
    output = altered(OUTPUTS[tool], place, thing)
    for plot in plots(tool, output if isinstance(output, dict) else {"result": output}):
        assert len(plot.rows) <= 24
        if plot.drawing is not None:
            assert re.search(r"\b(?:nan|inf)\b", re.sub(r"<text.*?</text>", "", plot.drawing.text)) is None
            assert all(0 <= x <= WIDTH for style in ("dot", "band", "course") for x in xs(plot, style))
            assert len(plot.drawing.text) < 10_000


@pytest.mark.parametrize(
    ("thing", "number"),
    [
        (3, 3.0),
        ("1.5", 1.5),
        ("-2e-3", -0.002),
        (True, None),
        ("nan", None),
        ("1e999", None),
        ("0x1", None),
        (None, None),
    ],
)
def test_a_number_is_an_integer_or_a_decimal_text(thing, number):
    assert number_of(thing) == number


@given(st.floats(1e-300, 1e300))
def test_a_logarithm_is_near_what_the_machine_says(number):
    from math import log10

    assert power_of(number) == pytest.approx(log10(number), abs=1e-6)


def test_bytes_have_the_unit_that_suits_them():
    assert [bytes_text(each) for each in (0, 1023, 1536, 3 << 20, 1 << 31)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "3 MiB",
        "2 GiB",
    ]
