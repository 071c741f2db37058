"""Tests of which recorded finding a caveat of a model is about."""

from __future__ import annotations

from dataclasses import replace

import pytest
from certificate_samples import critical, finding

from esper_agents.certificates.model_remarks import remarks_on
from esper_agents.domain.finding import Location, Standing

MIXED = finding(
    1, location=Location("a.py", 14), message="batches do not step; their gradients mix into the next epoch"
)
COST = finding(2, location=Location("a.py", 20), rule="ESP305", name="item", message="`.item()` makes the host wait")


@pytest.mark.parametrize(
    ("caveat", "meant"),
    [
        ("I dispute that the leftover gradients mix into the next epoch: they are cleared.", MIXED),
        ("ESP305 is about speed on a GPU; nothing is moved to one.", COST),
        ("The warning on `.item()` is about a GPU.", COST),
        ("The remedy for line 14 fails: the count is an integer.", MIXED),
        ("a.py:20 runs once.", COST),
        ("Nothing at a.py:9 is wrapped: see a.py:20.", None),
        ("Only the CPU was tried.", None),
    ],
)
def test_a_caveat_belongs_to_the_finding_that_it_names_or_quotes(caveat, meant):
    assert remarks_on((MIXED, COST, COST), (caveat,)) == ({meant.claim.fingerprint: (caveat,)} if meant else {})


def test_a_caveat_is_no_remark_on_what_the_model_found_itself():
    own = replace(critical(), standing=Standing.LOCATED)
    assert remarks_on((own,), (f"{own.claim.rule} was not run.",)) == {}
