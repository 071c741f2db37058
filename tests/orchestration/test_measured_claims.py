"""What a session makes of claims that rest on measurements: how sure they may be, and who may certify a speed-up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toys import calls

from esper_agents.archive.verification.statement import CheckOutcome, verify_statement
from esper_agents.certificates.policy.verdict_ceiling import policy_text
from esper_agents.certificates.statement import statement
from esper_agents.domain.agent_action import Conclude, SupportedClaim
from esper_agents.domain.finding import Category, Confidence, Diagnostic, Location, Severity
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.status import Stance, Status

pytestmark = pytest.mark.anyio
CLAIM = Diagnostic(
    rule="LAB301",
    name="time-goes-here",
    severity=Severity.WARNING,
    category=Category.PERFORMANCE,
    location=Location("train.py", 8),
    message="most of the time goes here",
    remedy="do less",
    confidence=Confidence.HIGH,
    basis="measured",
    excerpt="loss.backward()",
    fingerprint="0" * 32,
)


def claiming(*tools, claims=(CLAIM,), refusals=None):
    """Return a playbook that calls tools and claims something on all of them; refused, it claims nothing."""

    def play(_brief):
        reports = yield calls(*tools)
        ids = tuple(report.evidence.id for report in reports)
        answer = yield Conclude("claimed", claims=tuple(SupportedClaim(claim, ids) for claim in claims))
        if isinstance(answer, Refusal):
            refusals.extend(answer.reasons)
        return Conclude("claimed nothing")

    return play


async def test_a_measured_claim_is_not_high_on_the_word_of_one_tool(toybox):
    refusals = []
    toybox.tool("look")
    toybox.agent("worker", claiming("look", refusals=refusals))
    ran = await toybox.run("worker")
    assert refusals == ["the claim 'time-goes-here' is High on 1 witness; that takes 2, independent"]
    assert ran.certificate.findings == ()


async def test_two_tools_are_two_witnesses(toybox):
    toybox.tool("look")
    toybox.tool("measure")
    toybox.agent("worker", claiming("look", "measure"))
    (finding,) = (await toybox.run("worker")).certificate.findings
    assert finding.claim.confidence is Confidence.HIGH
    assert len(finding.evidence) == 2


async def test_a_tool_may_bring_several_witnesses_and_names_them(toybox):
    toybox.tool("look", output={"witnesses": ["a clock", "a counter"]})
    toybox.agent("worker", claiming("look"))
    assert (await toybox.run("worker")).certificate.findings


async def test_moderate_takes_no_second_witness(toybox):
    toybox.tool("look")
    toybox.agent("worker", claiming("look", claims=(replace(CLAIM, confidence=Confidence.MODERATE),)))
    assert (await toybox.run("worker")).certificate.findings


@pytest.mark.parametrize("order", [(Confidence.LOW, Confidence.MODERATE), (Confidence.MODERATE, Confidence.LOW)])
async def test_the_same_claim_made_twice_is_as_sure_as_the_surest_and_the_record_holds(toybox, order):
    claims = tuple(replace(CLAIM, severity=Severity.CRITICAL, confidence=each) for each in order)
    toybox.tool("look")
    toybox.agent("worker", claiming("look", claims=claims))
    certificate = (await toybox.run("worker")).certificate
    assert [finding.claim.confidence for finding in certificate.findings] == [Confidence.MODERATE]
    checks = verify_statement(statement(certificate), policy_text())
    assert {check.outcome for check in checks} == {CheckOutcome.HOLDS}


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("is the new loop faster than the old one?", Status.NEEDS_FURTHER_REVIEW),
        ("compare the two loops", Status.NEEDS_FURTHER_REVIEW),
        ("approve the new loop, said to give 1.3x", Status.CONDITIONALLY_APPROVED),
    ],
)
async def test_nobody_else_certifies_a_speed_up_whatever_they_measured(toybox, request_text, status):
    def boast(_brief):
        yield calls("run-fast")
        return Conclude("it is faster", stance=Stance.FOR)

    toybox.tool("run-fast", output={"outcome": "faster as claimed"})
    toybox.agent("boaster", boast)
    certificate = (await toybox.run("boaster", request=request_text)).certificate
    assert certificate.verdict.status is status
    assert (await checked(certificate)) == {CheckOutcome.HOLDS}


async def checked(certificate):
    return {each.outcome for each in verify_statement(statement(certificate), policy_text())}
