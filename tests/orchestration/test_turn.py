from __future__ import annotations

import pytest
from toys import calling, calls

from esper_agents.domain.agent_action import (
    Ask,
    CallTools,
    Conclude,
    Consult,
    HandOff,
    RiskAssessment,
    SupportedClaim,
    ToolCall,
)
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import Category, Confidence, Diagnostic, Location, Severity
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import Stance, Status
from esper_agents.errors import DriftError, EvidenceError, ExitCode, UsageError
from esper_agents.orchestration import availability

pytestmark = [pytest.mark.anyio, pytest.mark.both_databases]


async def test_a_session_ends_with_a_certificate_of_what_its_tools_found_out(toybox):
    toybox.tool("look")
    toybox.agent("worker", calling("look"))
    ran = await toybox.run("worker")
    assert ran.outcome.state is SessionState.DONE
    assert ran.outcome.exit_code is ExitCode.DONE
    assert ran.certificate.verdict.stance is ran.certificate.verdict.ceiling.stance
    assert ran.certificate.verdict.status in {Status.APPROVED, Status.CONDITIONALLY_APPROVED}
    assert [(each.tool, each.outcome, each.summary) for each in ran.certificate.evidence] == [
        ("look", CallOutcome.COMPLETED, "look wrote ''")
    ]
    assert [each.path for each in ran.certificate.examined] == ["train.py"]
    assert ran.outcome.view.is_file()


async def test_every_step_is_a_row_before_and_a_row_after(toybox):
    toybox.tool("look")
    toybox.agent("worker", calling("look"))
    ran = await toybox.run("worker")
    assert [(row.frame, row.step, row.kind) for row in ran.rows] == [
        (0, 0, "submitted"),
        (0, 0, "routed"),
        (1, 0, "opened"),
        (1, 1, "deciding"),
        (1, 1, "moved"),
        (1, 1, "calling"),
        (1, 1, "called"),
        (1, 2, "deciding"),
        (1, 2, "moved"),
        (1, 0, "concluded"),
        (0, 0, "certified"),
    ]


async def test_calls_of_one_turn_run_in_order_and_come_back_in_order(toybox):
    for name in ("one", "two", "three"):
        toybox.tool(name)
    toybox.agent("worker", calling("two", "one", "three", "two"))
    ran = await toybox.run("worker")
    assert toybox.effects() == ["two", "one", "three", "two"]
    assert ran.certificate.summary.startswith("two wrote ''; one wrote ''; three wrote ''")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (EvidenceError("the sensor is cold", remedy="warm it"), "the sensor is cold"),
        (UsageError("no such thing", remedy="name another"), "no such thing"),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
        (KeyError("x"), "KeyError: 'x'"),
        (AssertionError(), "AssertionError"),
    ],
)
async def test_a_tool_that_fails_is_evidence_and_the_session_goes_on(toybox, error, said):
    toybox.tool("break", fails=error)
    toybox.tool("look")
    toybox.agent("worker", calling("break", "look"))
    ran = await toybox.run("worker")
    assert ran.outcome.state is SessionState.DONE
    failed, looked = ran.certificate.evidence
    assert failed.outcome is CallOutcome.FAILED
    assert said in failed.summary
    assert looked.outcome is CallOutcome.COMPLETED
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW


async def test_what_a_failed_tool_would_have_needed_is_on_record(toybox):
    toybox.tool("break", fails=EvidenceError("the sensor is cold", remedy="warm it"))
    toybox.agent("worker", calling("break"))
    ran = await toybox.run("worker")
    assert ran.certificate.evidence[0].output == {"problem": "the sensor is cold", "remedy": "warm it"}
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW


@pytest.mark.parametrize(
    "output", [{"number": float("nan")}, {"thing": object()}, {"number": float("inf")}, {1: 2}, {"text": "\ud800"}]
)
async def test_a_tool_that_returns_what_cannot_be_recorded_has_failed_and_the_session_goes_on(toybox, output):
    toybox.tool("break", output=output)
    toybox.agent("worker", calling("break"))
    ran = await toybox.run("worker")
    assert ran.outcome.state is SessionState.DONE
    assert [each.tool for each in ran.certificate.evidence] == ["break"]


async def test_a_call_that_was_interrupted_is_run_again_only_if_it_is_repeatable(toybox):
    """The process dies in the middle of a tool; here its run is torn down and its row is missing in the same way."""
    toybox.tool("look", during=torn_once())
    toybox.tool("write", during=torn_once(), repeatable=False)
    toybox.agent("worker", calling("look", "write"))
    async with toybox.open() as opened:
        session = await toybox.submit(opened, "worker")
        for _ in range(2):
            with pytest.raises(TornError):
                await session.run()
            session = await opened.tasks.resume(session.id)
        outcome = await session.run()
        certificate = await opened.certificates.read(outcome.certificate.id)
    assert toybox.effects() == ["look", "look", "write"]
    assert [each.outcome for each in certificate.evidence] == [CallOutcome.COMPLETED, CallOutcome.INTERRUPTED]
    assert certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW


class TornError(BaseException):
    """What no tool call turns into evidence, as little as the death of a process."""


def torn_once():
    times = iter([1])

    async def torn(_context):
        if next(times, 0):
            raise TornError

    return torn


def refused_twice(first):
    """Return a playbook that tries a move, and tells in its conclusion why it was refused."""

    def play(_brief):
        refused = yield first
        assert isinstance(refused, Refusal), refused
        yield calls("look")
        return Conclude("; ".join(refused.reasons))

    return play


LOCATION = Location("train.py", 4)
CLAIM = Diagnostic(
    *("TOY1", "toy-claim", Severity.WARNING, Category.CORRECTNESS, LOCATION, "it is wrong", "mend it"),
    *(Confidence.HIGH, "seen", "def train(model, loader, optimizer):", "f" * 32),
)


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("move", "reason"),
    [
        (calls("read-file", path="train.py"), "worker has no tool 'read-file'; it has look"),
        (calls("nosuch"), "worker has no tool 'nosuch'; it has look"),
        (CallTools(()), "no tool is called: call one, or make another move"),
        (calls("look", tex="a"), "tex of tool 'look': extra inputs are not permitted"),
        (calls("look", text=1), "text of tool 'look': input should be a valid string"),
        (Ask("  "), "the question is empty"),
        (Consult("nosuch", "why?"), "there is no other agent named 'nosuch'"),
        (Consult("worker", "why?"), "there is no other agent named 'worker'"),
        (HandOff("workr", "", "", ""), "there is no agent named 'workr'; did you mean worker?"),
        (HandOff("worker", "", "", ""), "worker cannot hand off to itself"),
        (
            Conclude("x", claims=(SupportedClaim(CLAIM, ()),)),
            "the claim 'toy-claim' names no evidence of this session",
        ),
        (
            Conclude("x", claims=(SupportedClaim(CLAIM, ("ev_" + "0" * 32,)),)),
            "the claim 'toy-claim' names no evidence of this session",
        ),
    ],
)
async def test_a_move_that_cannot_be_carried_out_is_refused_and_the_reasoner_is_told_why(toybox, move, reason):
    toybox.tool("look")
    toybox.agent("worker", refused_twice(move), tools="look")
    ran = await toybox.run("worker")
    assert ran.certificate.summary == reason
    assert [body["reasons"] for body in ran.bodies("move-refused")] == [[reason]]
    assert toybox.effects() == ["look"]


async def test_when_one_call_of_a_turn_is_refused_none_of_them_runs(toybox):
    toybox.tool("look")
    move = CallTools((ToolCall("look", {}), ToolCall("nosuch", {}), ToolCall("look", {"text": 3})))
    toybox.agent("worker", refused_twice(move))
    ran = await toybox.run("worker")
    assert len(ran.bodies("move-refused")[0]["reasons"]) == 2
    assert toybox.effects() == ["look"]


async def test_three_refused_moves_in_a_row_end_undecided(toybox):
    def stubborn(_brief):
        while True:
            yield calls("nosuch")

    toybox.agent("worker", stubborn)
    ran = await toybox.run("worker")
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert len(ran.bodies("move-refused")) == 3
    assert "3 moves in a row that could not be carried out: worker has no tool 'nosuch'" in ran.certificate.gaps[0].why


async def test_refusals_that_something_was_done_between_do_not_add_up(toybox):
    def clumsy(_brief):
        for _ in range(4):
            yield calls("nosuch")
            yield calls("nosuch")
            yield calls("look")
        return Conclude("in the end it was done")

    toybox.tool("look")
    toybox.agent("worker", clumsy)
    ran = await toybox.run("worker")
    assert ran.certificate.summary == "in the end it was done"
    assert len(toybox.effects()) == 4


async def test_an_agent_that_never_ends_is_ended_undecided(toybox, monkeypatch):
    from esper_agents.orchestration import turn

    def endless(_brief):
        while True:
            yield calls("look")

    monkeypatch.setattr(turn, "MOST_TURNS", 6)
    toybox.tool("look")
    toybox.agent("worker", endless)
    ran = await toybox.run("worker")
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert "has taken 6 turns" in ran.certificate.gaps[0].why
    assert len(toybox.effects()) == 6


async def test_an_agent_uses_only_the_tools_that_its_definition_lists(toybox):
    def nosy(brief):
        yield calls("look")
        return Conclude(", ".join(tool.name for tool in brief.tools))

    toybox.tool("look")
    toybox.tool("other")
    toybox.agent("worker", nosy, tools="look, nosuch")
    assert (await toybox.run("worker")).certificate.summary == "look"


def claiming(location, line="", evidence=None):
    def play(_brief):
        (report,) = yield calls("look")
        claim = Diagnostic(
            *(CLAIM.rule, CLAIM.name, CLAIM.severity, CLAIM.category, location, CLAIM.message, CLAIM.remedy),
            *(CLAIM.confidence, CLAIM.basis, line, CLAIM.fingerprint),
        )
        ids = (report.evidence.id,) if evidence is None else evidence
        refused = yield Conclude("claimed", claims=(SupportedClaim(claim, ids),))
        return Conclude(refused.reasons[0])

    return play


@pytest.mark.parametrize("location", [Location("train.py", 99), Location("other.py", 1), Location("train.py", 0)])
async def test_a_claim_about_lines_that_were_not_read_is_refused(toybox, location):
    toybox.tool("look")
    toybox.agent("worker", claiming(location))
    ran = await toybox.run("worker")
    assert ran.certificate.summary == f"the claim 'toy-claim' cites {location}, which was not read"
    assert ran.certificate.findings == ()


async def test_a_claim_that_rests_on_evidence_is_a_finding_and_counts(toybox):
    toybox.tool("look")
    toybox.agent("worker", claiming(LOCATION, "def train(model, loader, optimizer):"))
    ran = await toybox.run("worker")
    (found,) = ran.certificate.findings
    assert (found.claim, found.agent) == (CLAIM, "worker")
    assert found.evidence == (ran.certificate.evidence[0].id,)
    assert ran.outcome.findings == ran.certificate.findings
    assert CLAIM.fingerprint in {finding for line in ran.certificate.verdict.ceiling.lines for finding in line.findings}


async def test_a_conclusion_above_the_ceiling_is_cut_to_it(toybox):
    def bold(_brief):
        (report,) = yield calls("look")
        claim = SupportedClaim(CLAIM, (report.evidence.id,))
        return Conclude("all is well", stance=Stance.FOR, rationale="trust me", claims=(claim,))

    toybox.tool("look")
    toybox.agent("worker", bold)
    verdict = (await toybox.run("worker")).certificate.verdict
    assert verdict.status is verdict.ceiling.status is not Status.APPROVED
    assert "The agent's own stance was for" in verdict.rationale


async def test_a_conclusion_without_any_evidence_is_undecided_whatever_the_agent_says(toybox):
    def blind(_brief):
        yield from ()
        return Conclude("all is well", stance=Stance.FOR)

    toybox.agent("worker", blind)
    ran = await toybox.run("worker")
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert ran.outcome.exit_code is ExitCode.UNDECIDED


async def test_a_conclusion_below_the_ceiling_stands_with_its_reason(toybox):
    def modest(_brief):
        yield calls("look")
        return Conclude("I doubt it", stance=Stance.AGAINST, below_ceiling="it smells")

    toybox.tool("look")
    toybox.agent("worker", modest)
    ran = await toybox.run("worker")
    assert ran.certificate.verdict.status is Status.REQUIRES_REMEDIATION
    assert ran.certificate.verdict.below_ceiling == "it smells"
    assert ran.outcome.exit_code is ExitCode.AGAINST


async def test_what_a_conclusion_says_is_in_the_certificate(toybox):
    def thorough(_brief):
        yield calls("look")
        return Conclude(
            "fine", caveats=("on CPU only",), next_steps=("run it",), risks=RiskAssessment("Medium", "Moderate")
        )

    toybox.tool("look")
    toybox.agent("worker", thorough)
    found = (await toybox.run("worker")).certificate
    assert (found.summary, found.caveats, found.next_steps) == ("fine", ("on CPU only",), ("run it",))
    assert found.risks == RiskAssessment("Medium", "Moderate")


async def test_an_earlier_session_of_an_agent_without_a_playbook_still_ends_undecided(toybox, monkeypatch):
    # Version 0.1.0 accepted such tasks.
    monkeypatch.setattr(availability, "declined", lambda *_: None)
    toybox.agent("dreamer")
    ran = await toybox.run("dreamer", request="review the dream")
    found = ran.certificate
    assert found.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert "dreamer was given the request 'review the dream', the paths train.py and 0 findings" in found.summary
    assert found.gaps[0].what == "the judgement of dreamer on: review the dream"
    assert found.gaps[0].blocks_approval
    assert ran.outcome.exit_code is ExitCode.UNDECIDED


def asking(text):
    def play(_brief):
        answer = yield Ask(text)
        return Conclude(answer.text)

    return play


async def test_a_session_whose_playbook_has_changed_is_not_gone_on_with(toybox):
    toybox.agent("worker", asking("old?"))
    async with toybox.open() as opened:
        outcome = await (await toybox.submit(opened, "worker")).run()
        assert outcome.state is SessionState.WAITING
    toybox.playbooks["worker"] = asking("new?")
    async with toybox.open() as opened:
        session = await opened.approvals.answer(outcome.session, "yes")
        with pytest.raises(DriftError, match="the playbook of 'worker' has changed") as refused:
            await session.run()
        assert "submit the task again" in refused.value.remedy
        assert (await opened.sessions.get(outcome.session)).state is SessionState.OPEN
    toybox.playbooks["worker"] = asking("old?")
    async with toybox.open() as opened:
        assert (await (await opened.tasks.resume(outcome.session)).run()).state is SessionState.DONE


async def test_a_playbook_that_insists_on_a_refused_conclusion_ends_undecided(toybox):
    def insists(_brief):
        yield from ()
        return Conclude("x", claims=(SupportedClaim(CLAIM, ()),))

    toybox.agent("worker", insists)
    async with toybox.open() as opened:
        session = await toybox.submit(opened, "worker")
        outcome = await session.run()
        assert outcome.certificate.status is Status.NEEDS_FURTHER_REVIEW
        (gap,) = (await opened.certificates.read(outcome.certificate.id)).gaps
        assert "could not be carried out" in gap.why


async def test_a_playbook_that_breaks_leaves_a_session_that_can_be_resumed(toybox):
    def broken(_brief):
        yield calls("look")
        raise ZeroDivisionError

    toybox.tool("look")
    toybox.agent("worker", broken)
    async with toybox.open() as opened:
        session = await toybox.submit(opened, "worker")
        with pytest.raises(ZeroDivisionError):
            await session.run()
        assert (await opened.sessions.get(session.id)).state is SessionState.OPEN
    toybox.playbooks["worker"] = calling("look")
    async with toybox.open() as opened:
        assert (await (await opened.tasks.resume(session.id, accept=True)).run()).state is SessionState.DONE
    assert toybox.effects() == ["look"]
