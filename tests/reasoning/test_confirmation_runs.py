"""Which targets a reviewer has run, and what the runs make of its findings."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from esper_agents.domain.agent_action import ToolReport
from esper_agents.domain.assumption import AssumptionState
from esper_agents.domain.evidence import CallOutcome, Evidence, Risk
from esper_agents.domain.finding import Category, Confidence, Diagnostic, Finding, Location, Severity
from esper_agents.reasoning.confirmation_runs import CONFIRMING, attempts, confirmed
from esper_agents.requests.measurement_options import measurement_options

OFFERED = SimpleNamespace(tools=(SimpleNamespace(name=CONFIRMING),))


STARTS = {"m.py:first": 1, "m.py:second": 8}


def evidence(id_, tool, *, arguments=None, output=None, refutes=(), outcome=CallOutcome.COMPLETED):
    return Evidence(
        id=id_,
        tool=tool,
        provider="esper-agents 0",
        risk=Risk.LOW,
        is_repeatable=True,
        arguments=arguments or {"target": "m.py:Net"},
        arguments_sha256="",
        outcome=outcome,
        summary=f"{tool} said so",
        output=output or {},
        output_sha256="",
        examined=(),
        artifacts=(),
        started_at="",
        duration_ns=0,
        rerun=f"run {tool}",
        refutes=refutes,
    )


def finding(mark, *, confidence=Confidence.MODERATE, by="ev_review"):
    place = Location("m.py", 3)
    claim = Diagnostic("ESP305", "a-rule", Severity.WARNING, Category.MEMORY, place, "", "", confidence, "", "x", mark)
    return Finding(f"fnd_{mark}", claim, "reviewer", (by,))


def reviewed(*lines):
    output = {"shown_by_running": list(lines)}
    return ToolReport(
        evidence("ev_review", "static-review", arguments={"paths": ["."], "related": []}, output=output), ()
    )


def targets(*found, outcome=CallOutcome.COMPLETED):
    # Far below every line that is asked for, unless a test says where it begins.
    runnable = [
        {"target": target, "kind": kind, "uses": uses, "line": STARTS.get(target, 999)} for target, kind, *uses in found
    ]
    return ToolReport(evidence("ev_targets", "torch-targets", output={"runnable": runnable}, outcome=outcome), ())


def run(number, *settled, findings=()):
    marks = [
        {"rule": "ESP305", "location": "m.py:3", "said": "it did", "fingerprint": mark, "found": found}
        for mark, found in settled
    ]
    refuted = tuple(each["fingerprint"] for each in marks if each["found"] == "refuted")
    return ToolReport(evidence(f"ev_run{number}", CONFIRMING, output={"settled": marks}, refutes=refuted), findings)


def chosen(*found, request="review this", lines=("m.py:3", "m.py:9", "n.py:1")):
    calls = attempts(OFFERED, measurement_options(request), reviewed(*lines), targets(*found))
    return [(call.arguments["target"], call.arguments["lines"]) for call in calls]


def test_a_step_is_run_before_a_module_and_what_another_uses_is_not_run_by_itself():
    found = [("m.py:Net", "module"), ("m.py:make_step", "step"), ("m.py:inner_step", "step")]
    found[1] = (*found[1], "m.py:inner_step")
    assert chosen(*found) == [("m.py:make_step", ["m.py:3", "m.py:9"])]


def test_each_file_is_run_for_its_own_lines():
    both = chosen(("m.py:Net", "module"), ("n.py:f", "function"))
    assert both == [("m.py:Net", ["m.py:3", "m.py:9"]), ("n.py:f", ["n.py:1"])]


def test_a_line_is_looked_at_where_the_definition_runs_that_it_stands_in():
    found = chosen(("m.py:first", "function"), ("m.py:second", "function"), ("m.py:make_step", "step"))
    assert found == [("m.py:first", ["m.py:3"]), ("m.py:second", ["m.py:9"])]


@pytest.mark.parametrize("found", [None, targets(outcome=CallOutcome.FAILED)])
def test_nothing_is_run_where_nothing_is_known_that_can_be(found):
    assert attempts(OFFERED, measurement_options("review"), reviewed("m.py:3"), found) == ()


def test_nothing_is_run_where_no_claim_can_be_shown_or_no_lab_is_offered():
    ready = targets(("m.py:Net", "module"))
    assert attempts(OFFERED, measurement_options("review"), reviewed(), ready) == ()
    assert attempts(SimpleNamespace(tools=()), measurement_options("review"), reviewed("m.py:3"), ready) == ()


def test_inputs_that_the_request_names_are_given():
    (call,) = attempts(
        OFFERED, measurement_options("review m.py with randn(4,8)"), reviewed("m.py:3"), targets(("m.py:Net", "module"))
    )
    assert call.arguments["inputs"] == ["randn(4,8)"]


def test_what_is_refuted_is_gone_and_noted_and_what_is_borne_out_is_surer():
    sure = replace(finding("b", by="ev_run1"), claim=replace(finding("b").claim, confidence=Confidence.HIGH))
    result = confirmed(
        [finding("a"), finding("b"), finding("c")],
        [run(1, ("a", "refuted"), ("b", "borne out"), ("c", "unsettled"), findings=(sure,))],
    )
    assert [each.claim.fingerprint for each in result.findings] == ["b", "c"]
    assert result.findings[0].claim.confidence is Confidence.HIGH
    assert result.findings[0].evidence == ("ev_review", "ev_run1")
    assert [assumption.state for assumption in result.assumptions] == [
        AssumptionState.REFUTED,
        AssumptionState.CONFIRMED,
    ]
    assert all(assumption.evidence == ("ev_run1",) for assumption in result.assumptions)
    assert [gap.what for gap in result.gaps] == ["whether ESP305 at m.py:3 is so: it did"]


def test_what_one_run_shows_another_cannot_take_back():
    runs = [run(1, ("a", "borne out"), findings=(finding("a", by="ev_run1"),)), run(2, ("a", "refuted"))]
    assert [each.claim.fingerprint for each in confirmed([finding("a")], runs).findings] == ["a"]


def test_what_another_run_settled_is_no_gap():
    runs = [run(1, ("a", "unsettled")), run(2, ("a", "refuted"))]
    assert confirmed([finding("a")], runs).gaps == ()


def test_without_a_run_everything_stays_as_it_is():
    result = confirmed([finding("a")], [])
    assert (result.findings, result.assumptions, result.gaps, result.summary) == ((finding("a"),), (), (), "")
