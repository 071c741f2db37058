"""When the clock of a timed call begins and ends."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


def test_the_clock_of_a_warm_call_begins_when_its_inputs_are_there_and_ends_when_its_work_is_done(driven):
    waits = ["waited for 1", "waited for 3"]
    assert [each for each in driven["warm"] if each != "made"] == [*waits, "called", *waits]
    assert driven["warm"][driven["warm"].index("waited for 1") - 1] == "made"
