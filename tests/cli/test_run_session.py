"""What the last screen of a session says."""

from __future__ import annotations

import pytest
from certificate_samples import evidence

from esper_agents.cli.run_session import remedy_of
from esper_agents.domain.evidence import CallOutcome

FAILED = evidence(
    outcome=CallOutcome.FAILED,
    output={"problem": "'ops.py:slow' needs inputs: x", "remedy": 'give --input "randn(32,128)"'},
    rerun="esper torch compare ops.py:slow ops.py:fast",
)


def test_a_command_that_failed_comes_with_what_mends_it():
    assert remedy_of([evidence(), FAILED], FAILED.rerun) == 'give --input "randn(32,128)"'


@pytest.mark.parametrize(
    ("made", "command"),
    [
        (FAILED, "esper why"),
        (evidence(rerun=FAILED.rerun, output={"remedy": "none is needed"}), FAILED.rerun),
        (evidence(rerun=FAILED.rerun, outcome=CallOutcome.INTERRUPTED, output={}), FAILED.rerun),
    ],
    ids=["another command", "a call that did not fail", "nothing known"],
)
def test_nothing_is_said_to_mend_what_did_not_fail(made, command):
    assert remedy_of([made], command) == ""
