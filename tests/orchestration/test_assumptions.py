"""Every assumption ends confirmed, refuted or as an information gap on the certificate."""

from __future__ import annotations

import pytest
from toys import calls

from esper_agents.domain.agent_action import Conclude, HandOff
from esper_agents.domain.assumption import Assumption, AssumptionState, InformationGap, Tier
from esper_agents.domain.status import Status

pytestmark = pytest.mark.anyio


def assumed(text="the data fits", state=AssumptionState.OPEN, evidence=(), **fields):
    given = {"tier": Tier.PLAN, "is_critical": False, "command": f"python check.py {text}", **fields}
    return Assumption(text=text, state=state, evidence=evidence, **given)


async def concluded(toybox, make, gaps=()):
    def play(_brief):
        (report,) = yield calls("look")
        return Conclude("looked", assumptions=make(report.evidence.id), gaps=gaps)

    toybox.tool("look")
    toybox.agent("looker", play)
    return (await toybox.run("looker")).certificate


@pytest.mark.parametrize("tier", list(Tier))
async def test_an_open_assumption_of_either_tier_is_an_information_gap(toybox, tier):
    issued = await concluded(toybox, lambda _: (assumed(tier=tier),))
    (gap,) = issued.gaps
    assert gap.what == "whether it holds that the data fits"
    assert gap.command == "python check.py the data fits"
    assert issued.verdict.status is Status.CONDITIONALLY_APPROVED


@pytest.mark.parametrize("state", [AssumptionState.CONFIRMED, AssumptionState.REFUTED])
async def test_what_evidence_settled_is_no_gap_and_what_is_only_said_to_be_settled_is(toybox, state):
    issued = await concluded(toybox, lambda evidence: (assumed("a", state, (evidence,)), assumed("b", state)))
    assert [gap.what for gap in issued.gaps] == ["whether it holds that b"]


async def test_a_gap_that_the_agent_names_itself_is_not_named_twice(toybox):
    gaps = (InformationGap("whether the data fits", "it would help", "x"), InformationGap("sizes", "help", "measure"))
    issued = await concluded(toybox, lambda _: (assumed(), assumed("sizes are small", command="measure")), gaps)
    assert issued.gaps == gaps


async def test_a_verdict_is_undecided_over_an_open_critical_assumption_and_names_it_as_a_gap(toybox):
    issued = await concluded(toybox, lambda _: (assumed(is_critical=True),))
    assert issued.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert [gap.what for gap in issued.gaps] == ["whether it holds that the data fits"]


@pytest.mark.both_databases
async def test_an_assumption_that_was_handed_on_open_is_settled_by_the_last_word(toybox):
    def first(_brief):
        yield calls("look")
        yield HandOff(
            "second", "toys", "it knows", "found", assumptions=(assumed(is_critical=True), assumed("left open"))
        )
        return Conclude("not reached")

    def second(_brief):
        (report,) = yield calls("look")
        settled = assumed(state=AssumptionState.CONFIRMED, evidence=(report.evidence.id,), is_critical=True)
        return Conclude("done", assumptions=(settled,))

    toybox.tool("look")
    toybox.agent("first", first)
    toybox.agent("second", second)
    issued = (await toybox.run("first")).certificate
    assert issued.verdict.status is Status.CONDITIONALLY_APPROVED
    assert [gap.what for gap in issued.gaps] == ["whether it holds that left open"]


@pytest.mark.parametrize(
    ("tool", "gap", "is_closed"),
    [
        ("run-python", {}, True),
        ("run-python", {"command": "esper torch nan net.py --inputs FILE:FUNCTION"}, True),
        ("run-python", {"command": "esper torch profile net.py"}, False),
        ("run-python", {"blocks_approval": True}, False),
        ("look", {}, False),
    ],
)
async def test_a_gap_whose_words_are_settled_by_a_run_is_closed_if_it_blocks_nothing(toybox, tool, gap, is_closed):
    missing = InformationGap(**{"what": "a batch with a NaN", "why": "none was seen", "command": "", **gap})

    def play(_brief):
        given = {"code": "print(1)"} if tool == "run-python" else {}
        (report,) = yield calls(tool, **given)
        settled = assumed("A batch with a NaN: equal points", AssumptionState.CONFIRMED, (report.evidence.id,))
        return Conclude("looked", assumptions=(settled,), gaps=(missing,))

    if tool == "look":
        toybox.tool(tool)
    toybox.agent("looker", play)
    issued = (await toybox.run("looker")).certificate
    assert [each.what for each in issued.gaps] == ([] if is_closed else ["a batch with a NaN"])
