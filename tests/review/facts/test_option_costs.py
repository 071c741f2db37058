"""Tests of what an option of the request adds to every step."""

from __future__ import annotations

import pytest

from esper_agents.review.fact_query import InspectionSubject
from esper_agents.review.facts.option_costs import OptionCosts
from esper_agents.review.inspection import inspect_sources

LOOP = OptionCosts.bad


def facts(source, *sizes):
    subject = InspectionSubject(("speed",), sizes=sizes)
    return inspect_sources({"a.py": source}, subject, names=["option-costs"]).results[0].facts


def test_what_runs_in_every_step_because_of_the_option_is_named():
    (fact,) = facts(LOOP, "verbose=1")
    assert fact.text.startswith("because of `verbose` every step runs `out.cpu().numpy(...)`")
    assert "the host waits" in fact.text


@pytest.mark.parametrize(
    "source", [LOOP.replace("verbose > 0", "step % 100 == 0 and verbose"), OptionCosts.good, "verbose = 1\n"]
)
def test_what_runs_seldom_or_after_the_loop_costs_no_step(source):
    assert facts(source, "verbose=1") == ()


def test_without_a_named_option_what_fetches_from_the_device_is_told():
    (fact,) = facts(LOOP)
    assert fact.text.startswith("because of `verbose` every step runs")
    assert facts(LOOP.replace("out.cpu().numpy()", "out")) == ()
