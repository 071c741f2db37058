"""Numbers of certificates: which are followed and which are not, by what name, and how they go over time."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from archive_samples import OTHER, found, made
from certificate_samples import critical, evidence, full
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.archive import trends
from esper_agents.archive.metrics import MOST_OF_ALL, MOST_OF_ONE_CALL, amount_text, fitting, metrics_of, spark_line
from esper_agents.archive.search.filters import Filter
from esper_agents.certificates.statement import normal, parse, statement
from esper_agents.domain.evidence import CallOutcome
from esper_agents.errors import NotFoundError, UsageError


def numbers(output, **changes):
    """Return what is followed of one output, by name."""
    made_of = metrics_of(made(1, evidence=(evidence(1, output=output, **changes),)))
    return {each.name: each.amount for each in made_of if each.evidence}


def test_numbers_are_named_by_tool_and_path_with_the_units_that_the_tool_gave() -> None:
    output = {
        "verdict": {"speedup": {"estimate": 1.31, "lower": 1.27}, "outcome": "faster"},
        "result": {"beside": {"candidate": {"peak_bytes": 2**40, "p50_ms": 0.25}}},
    }
    assert numbers(output, tool="torch-compare") == {
        "torch-compare/result.beside.candidate.p50_ms": 0.25,
        "torch-compare/result.beside.candidate.peak_bytes": float(2**40),
        "torch-compare/verdict.speedup.estimate": 1.31,
        "torch-compare/verdict.speedup.lower": 1.27,
    }


def test_findings_are_counted_by_severity_also_where_there_are_none() -> None:
    counts = {each.name: each.amount for each in metrics_of(normal(full())) if not each.evidence}
    assert counts == {
        "findings.critical": 1,
        "findings.warning": 1,
        "findings.suggestion": 2,
        "examined.files": 1,
        "examined.lines": 10,
    }
    none = {each.name: each.amount for each in metrics_of(made(1))}
    assert none["findings.critical"] == 0


def test_settings_texts_lists_and_what_is_no_name_are_not_followed() -> None:
    output = {
        "request": {"steps": 5},
        "sandbox": {"memory_bytes": 1},
        "torch": "2.13.0+cpu",
        "is_fast": True,
        "nothing": None,
        "samples_ms": [1, 2],
        "Upper": 1,
        "a b": 1,
        "../up": 1,
        "x" * 41: 1,
        "nan": math.nan,
        "infinite": math.inf,
        "huge": "1" * 400,
        "deep": {"a": {"b": {"c": {"d": {"e": {"f": 1}}}}}},
        "kept": 1,
    }
    assert numbers(output) == {"static-review/kept": 1.0}


def test_calls_that_failed_and_tools_that_are_no_name_are_not_followed() -> None:
    assert numbers({"lines": 1}, outcome=CallOutcome.FAILED) == {}
    assert numbers({"lines": 1}, tool="Robert'); DROP TABLE") == {}


@pytest.mark.slow
def test_a_tool_cannot_flood_the_index() -> None:
    flood = {f"n{number}": number for number in range(10_000)}
    assert len(numbers(flood)) == MOST_OF_ONE_CALL
    calls = tuple(evidence(number, output=flood) for number in range(1, 50))
    assert sum(bool(each.evidence) for each in metrics_of(made(1, evidence=calls))) == MOST_OF_ALL


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab_1/.", max_size=4), inner, max_size=4),
        max_leaves=20,
    )
)
def test_any_output_has_finite_numbers_that_are_the_same_when_read_from_the_record(value) -> None:
    issued = made(1, evidence=(evidence(1, output={"a": value}),))
    found_now = list(metrics_of(issued))
    assert all(math.isfinite(each.amount) for each in found_now)
    assert list(metrics_of(parse(statement(issued)))) == found_now


NAMES = (
    "findings.critical",
    "torch-compare/verdict.speedup.estimate",
    "torch-compare/verdict.speedup.lower",
    "a/lines",
)


def test_a_metric_is_meant_by_its_name_its_end_or_a_part_of_it() -> None:
    assert fitting("findings.critical", NAMES) == ("findings.critical",)
    assert fitting("critical", NAMES) == ("findings.critical",)
    assert fitting("speedup.estimate", NAMES) == NAMES[1:2]
    assert fitting("speedup", NAMES) == NAMES[1:3]
    assert fitting("torch-compare/verdict", NAMES) == NAMES[1:3]
    assert fitting("speed", NAMES) == ()
    assert fitting("", NAMES) == ()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_a_spark_line_has_a_bar_for_each_number_the_tallest_for_the_highest(amounts) -> None:
    line = spark_line(amounts)
    assert len(line) == len(amounts)
    if max(amounts) / 2 > min(amounts) / 2:
        assert line[amounts.index(max(amounts))] == "█"
        assert line[amounts.index(min(amounts))] == "▁"
    else:
        assert len(set(line)) == 1


def test_amounts_are_written_as_people_read_them() -> None:
    assert [amount_text(each) for each in (0.0, 12.0, 1.3100001, 2.0**40, 1e300)] == [
        "0",
        "12",
        "1.31",
        "1099511627776",
        "1e+300",
    ]


def compared(number, *speedups, **changes):
    calls = tuple(
        evidence(at, tool="torch-compare", output={"speedup": speedup}) for at, speedup in enumerate(speedups, 1)
    )
    return made(number, evidence=calls, **changes)


def follow(archived, metric, wanted=None, **options):
    return [each.amount for each in trends.trend(archived.store, archived.key, metric, wanted or Filter(), **options)]


@pytest.fixture
def measured(archived):
    archived.fill(
        compared(1, 1.1, component="one"),
        made(2),
        compared(3, 1.2, 1.3, component="one"),
        compared(4, 1.4, component="other", findings=(critical(1), found(2, "ESP301", "a.py", 1))),
    )
    archived.add(
        replace(compared(900, 9.9), evidence=(evidence(1, tool="elsewhere", output={"secret": 1}),)), project=OTHER
    )
    return archived


def test_a_trend_goes_from_the_oldest_to_the_newest_with_every_amount(measured) -> None:
    assert follow(measured, "speedup") == [1.1, 1.2, 1.3, 1.4]
    assert follow(measured, "findings.critical") == [0, 0, 0, 1]
    assert follow(measured, "speedup", limit=2) == [1.2, 1.3, 1.4]


def test_a_trend_keeps_to_a_filter(measured) -> None:
    assert follow(measured, "speedup", Filter(component="one")) == [1.1, 1.2, 1.3]
    assert follow(measured, "speedup", Filter(rule="ESP301")) == [1.4]
    assert follow(measured, "speedup", Filter(component="nothing")) == []


def test_what_is_on_record_is_told_with_how_often_and_from_where_to_where(measured) -> None:
    found = trends.recorded(measured.store, measured.key, Filter())
    assert [each.certificates for each in found] == sorted((each.certificates for each in found), reverse=True)
    by_name = {each.name: each for each in found}
    speedup = by_name["torch-compare/speedup"]
    assert (speedup.certificates, speedup.lowest, speedup.highest) == (3, 1.1, 1.4)
    assert speedup.newest.component == "other"
    assert by_name["findings.critical"].certificates == 4
    assert "elsewhere/secret" not in by_name
    one = {each.name: each for each in trends.recorded(measured.store, measured.key, Filter(component="one"))}
    assert (one["torch-compare/speedup"].certificates, one["torch-compare/speedup"].highest) == (2, 1.3)
    assert trends.recorded(measured.store, measured.key, Filter(component="nothing")) == ()


def test_only_a_projects_own_metrics_are_named(measured) -> None:
    names = trends.names(measured.store, measured.key)
    assert "torch-compare/speedup" in names
    assert "elsewhere/secret" not in names
    with pytest.raises(NotFoundError):
        follow(measured, "secret")
    assert trends.names(measured.store, OTHER.key)[0] == "elsewhere/secret"


def test_a_metric_that_nothing_has_offers_the_nearest_and_one_that_several_have_names_them(measured) -> None:
    with pytest.raises(NotFoundError) as refused:
        follow(measured, "finding.critical")
    assert "'findings.critical'" in refused.value.remedy
    with pytest.raises(UsageError) as refused:
        follow(measured, "lines")
    assert refused.value.remedy == "name one: examined.lines, static-review/lines"
