"""When the versions of a change are run, and whether the request says that they do the same."""

from __future__ import annotations

import pytest

from esper_agents.reasoning.version_runs import _KEEPS_BEHAVIOUR


@pytest.mark.parametrize(
    "request_",
    [
        "is this refactor harmless?",
        "is it really the same?",
        "no functional change, ok to merge?",
        "I only renamed things, may I merge",
        "clean-up of the losses, safe to merge?",
        "nur umbenannt, kann das rein?",
        "dieser Umbau sollte harmlos sein",
    ],
)
def test_a_request_that_says_that_the_behaviour_stays(request_):
    assert _KEEPS_BEHAVIOUR.search(request_)


@pytest.mark.parametrize(
    "request_",
    ["safe to merge into main?", "review my fix of the loss", "does this fix the NaN?", "merge this feature?"],
)
def test_a_request_that_does_not(request_):
    assert not _KEEPS_BEHAVIOUR.search(request_)
