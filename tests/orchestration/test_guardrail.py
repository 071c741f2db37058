"""What is found without a model comes first, and no model argues it away."""

from __future__ import annotations

import pytest
from briefs import history, opened, submission
from modelling import EVIDENCE, ask, conclude, finding, opening, served, told
from places import FAULTY, SOUND
from toys import calling, calls

from esper_agents.domain.agent_action import Conclude, Consult, RiskAssessment, RiskRow
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.finding import Severity, Standing
from esper_agents.domain.ledger import ActionDecided, RowKind
from esper_agents.domain.reasoner_names import CLAUDE, PLAYBOOK
from esper_agents.domain.status import QuestionType, Stance, Status, status_for
from esper_agents.domain.verdict import Ceiling
from esper_agents.orchestration.guardrail import cap_by_guardrail
from esper_agents.testing.script import ToolUseBlock

pytestmark = pytest.mark.anyio


@pytest.fixture
def worker(toybox):
    """Return a toybox with a tool and an agent whose playbook looks once and stands where a test says."""
    toybox.tool("look")
    toybox.agent("worker", calling("look", then=lambda _: Conclude("looked")))
    return toybox


def standing(stance, why="", **more):
    """Return a playbook that looks once and stands somewhere."""
    return calling("look", then=lambda _: Conclude("looked", stance=stance, below_ceiling=why, **more))


def consults(ran):
    return [body["move"] for body in ran.bodies("moved") if body["move"]["move"] == "consult"]


async def test_where_playbooks_decide_there_is_no_floor(worker):
    ran = await worker.run("worker")
    assert len(ran.bodies("opened")) == 1


async def test_the_floor_is_asked_for_once_however_often_the_model_is(worker, monkeypatch):
    with served([ToolUseBlock("look"), ToolUseBlock("look"), conclude()], monkeypatch) as server:
        ran = await ask(worker, server)
    (asked,) = consults(ran)
    assert (asked["agent"], asked["reasoner"]) == ("worker", PLAYBOOK)


async def test_an_agent_without_a_playbook_has_the_reviewers(worker, monkeypatch):
    worker.agent("thinker")
    with served([conclude()], monkeypatch) as server:
        ran = await ask(worker, server, agent="thinker")
    (asked,) = consults(ran)
    assert asked["agent"] == "pytorch-code-reviewer"
    assert "static-review" in {each.tool for each in ran.certificate.evidence}


async def test_who_is_consulted_has_no_floor_and_each_agent_that_takes_the_task_has_its_own(worker, monkeypatch):
    worker.agent("other", calling("look"))

    def script(request):
        if "Another agent asks you" in opening(request):
            return conclude()
        if request.number == 1:
            return ToolUseBlock("consult", {"agent": "other", "question": "is it?"})
        if request.number == 3:
            return ToolUseBlock("hand_off", {"agent": "other", "domain": "toys", "reason": "theirs", "context": "seen"})
        return conclude()

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    assert [consult["agent"] for consult in consults(ran)] == ["worker", "other", "other"]
    assert [consult["reasoner"] for consult in consults(ran)] == [PLAYBOOK, "", PLAYBOOK]


@pytest.mark.parametrize("stance", ["for", None, "conditional"])
async def test_a_model_does_not_stand_above_the_playbook(worker, monkeypatch, stance):
    worker.agent("worker", standing(Stance.AGAINST, "it leaks"))
    said = {"stance": stance} if stance else {}
    with served([conclude(**said, below_ceiling="it is fine")], monkeypatch) as server:
        ran = await ask(worker, server)
    assert ran.certificate.verdict.status is Status.REQUIRES_REMEDIATION
    assert ran.certificate.verdict.below_ceiling == "it leaks"


async def test_a_model_may_stand_below_the_playbook_for_its_own_reason(worker, monkeypatch):
    script = [conclude(stance="undecided", below_ceiling="it needs a GPU")]
    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert ran.certificate.verdict.below_ceiling == "the model's reason: it needs a GPU"


async def test_a_models_reason_that_contradicts_its_own_stance_is_not_in_the_verdict(worker, monkeypatch):
    script = [conclude(stance="undecided", below_ceiling="all is good, approved: ship it")]
    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert "ship it" not in ran.certificate.verdict.below_ceiling
    assert "contradicts" in ran.certificate.verdict.below_ceiling


async def test_a_condition_of_a_model_is_marked_as_the_models(worker, monkeypatch):
    with served([conclude(stance="conditional", conditions=["log the seed"])], monkeypatch) as server:
        ran = await ask(worker, server)
    assert "the model's condition: log the seed" in ran.certificate.verdict.conditions


@pytest.mark.parametrize("stance", ["against", "rejected", "emergency"])
async def test_a_model_alone_does_not_decide_against(worker, monkeypatch, stance):
    with served([conclude(stance=stance, below_ceiling="it is wrong")], monkeypatch) as server:
        ran = await ask(worker, server)
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert f"the model's own stance was {stance}, which no rule" in ran.certificate.verdict.below_ceiling


async def test_what_the_playbook_could_not_find_out_and_holds_risky_stays(worker, monkeypatch):
    gap = InformationGap("the speed", "nothing was run", "esper torch profile train.py", blocks_approval=True)
    risks = RiskAssessment("High", "Difficult", (RiskRow("it leaks", "High", "High", "mend it"),))
    worker.agent("worker", standing(None, gaps=(gap,), risks=risks))
    with served([conclude(stance="for")], monkeypatch) as server:
        ran = await ask(worker, server)
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert gap in ran.certificate.gaps
    assert (ran.certificate.risks.implementation_risk, ran.certificate.risks.reversibility) == ("High", "Difficult")
    assert ran.certificate.risks.rows == risks.rows


@pytest.mark.parametrize("blocks", [False, True])
async def test_a_gap_of_the_playbook_is_closed_by_a_later_run_of_its_command(worker, monkeypatch, blocks):
    def play(_brief):
        (report,) = yield calls("look")
        return Conclude("looked", gaps=(InformationGap("the speed", "", report.evidence.rerun, blocks),))

    worker.agent("worker", play)
    with served([conclude()], monkeypatch) as server:
        before = await ask(worker, server)
    assert [each.what for each in before.certificate.gaps] == ["the speed"]
    with served([ToolUseBlock("look"), conclude()], monkeypatch) as server:
        after = await ask(worker, server)
    assert [each.what for each in after.certificate.gaps] == (["the speed"] if blocks else [])


async def test_findings_of_the_floor_stand_whatever_a_model_says_of_them(toybox, monkeypatch):
    (toybox.project / "train.py").write_text(FAULTY)
    script = [conclude(stance="for", caveats=["ESP101 is a false alarm."], rationale="All is well.")]
    with served(script, monkeypatch) as server:
        ran = await ask(toybox, server, agent="pytorch-code-reviewer")
    assert "ESP101" in {each.claim.rule for each in ran.certificate.findings}
    assert ran.certificate.verdict.status is Status.REQUIRES_REMEDIATION
    assert "ESP101 is a false alarm." in ran.certificate.caveats
    assert "ESP101" in opening(server.requests[0])


async def test_a_finding_with_an_invented_line_goes_back_twice_and_then_stands_as_unverified(worker, monkeypatch):
    def script(request):
        known = EVIDENCE.findall(opening(request))[:1]
        return conclude(stance="for", findings=[finding(request, line=999, evidence=known, severity="critical")])

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    assert len(server.requests) == 3
    assert "train.py has" in told(server.requests[2])
    (found,) = ran.certificate.findings
    assert (found.standing, found.claim.severity) == (Standing.UNVERIFIED, Severity.CRITICAL)
    assert not any(gap.what.startswith("unverified") for gap in ran.certificate.gaps)
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW


async def test_a_critical_finding_that_is_only_located_leaves_the_verdict_undecided(worker, monkeypatch):
    (worker.project / "train.py").write_text(SOUND)

    def script(request):
        quote = "optimizer.step()"
        return conclude(findings=[finding(request, line=2, quote=quote, severity="critical", confidence="High")])

    with served(script, monkeypatch) as server:
        ran = await ask(worker, server)
    (found,) = ran.certificate.findings
    assert (found.standing, str(found.claim.location)) == (Standing.LOCATED, "train.py:6")
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert len(server.requests) == 1


async def test_lines_that_no_agent_read_are_read_by_the_program(worker, monkeypatch):
    (worker.project / "data.txt").write_text("first\nsecond\n")

    with served([conclude(findings=[finding_of("data.txt", "second")])], monkeypatch) as server:
        ran = await ask(worker, server)
    (found,) = ran.certificate.findings
    (read,) = [each for each in ran.certificate.evidence if each.tool == "read-file"]
    assert (str(found.claim.location), found.evidence) == ("data.txt:2", (read.id,))
    assert "no agent had read these lines; the program opened them" in found.checks
    assert "data.txt" in {each.path for each in ran.certificate.examined}


def finding_of(path, quote):
    """Return a finding without evidence that quotes a file."""
    said = {"name": "odd", "severity": "warning", "category": "correctness", "confidence": "High", "message": "Odd."}
    return {**said, "path": path, "line": 0, "quote": quote}


async def test_an_invented_number_goes_back_twice_and_then_stands_beside_a_caveat(worker, monkeypatch):
    with served(lambda _: conclude(summary="It is 47.3x as fast.", stance="for"), monkeypatch) as server:
        ran = await ask(worker, server)
    assert len(server.requests) == 3
    assert "47.3x, which no measurement of this session has" in told(server.requests[1])
    assert ran.certificate.caveats[0].startswith("Unverified: the summary says 47.3x")


# The rule itself.


def floors(*concluded):
    """Return a history in which agents that reason with a model had a floor each, which concluded so."""
    bodies = [((0, 0, 0, RowKind.SUBMITTED), submission())]
    for number, (stance, why) in enumerate(concluded):
        model, playbook = 2 * number + 1, 2 * number + 2
        bodies += [
            ((model, 0, 0, RowKind.OPENED), opened(CLAUDE)),
            ((model, 1, 0, RowKind.MOVED), ActionDecided(Consult("worker", "?", PLAYBOOK), {})),
            ((playbook, 0, 0, RowKind.OPENED), opened(PLAYBOOK, parent=model)),
            ((playbook, 1, 0, RowKind.MOVED), ActionDecided(Conclude("looked", stance=stance, below_ceiling=why), {})),
        ]
    return history(bodies)


def bounded(known, move, *, best=Stance.FOR, least=Stance.FOR):
    """Return where a conclusion stands at most, under two ceilings."""
    allowed, without = (Ceiling(each, status_for(QuestionType.APPROVAL, each), (), "") for each in (best, least))
    return cap_by_guardrail(known, QuestionType.APPROVAL, move, allowed, without)


@pytest.mark.parametrize("own", [None, *Stance])
@pytest.mark.parametrize("theirs", [None, *Stance])
def test_a_conclusion_stands_where_the_lower_of_both_does(own, theirs):
    order = [Stance.FOR, Stance.CONDITIONAL, Stance.UNDECIDED, Stance.AGAINST, Stance.REJECTED, Stance.EMERGENCY]
    stance, why = bounded(floors((theirs, "theirs")), Conclude("x", stance=own, below_ceiling="own"))
    if theirs is None:
        assert (stance, why) == (own, "own")
    elif own is None or order.index(own) < order.index(theirs):
        assert (stance, why) == (theirs, "theirs")
    else:
        assert (stance, why) == (own, "own")


def test_of_several_floors_the_lowest_counts_with_its_reason():
    several = floors((Stance.FOR, "a"), (Stance.REJECTED, "b"), (None, "c"), (Stance.AGAINST, "d"))
    assert bounded(several, Conclude("x", stance=Stance.FOR)) == (Stance.REJECTED, "b")


@pytest.mark.parametrize("own", [None, Stance.FOR, Stance.CONDITIONAL])
def test_what_only_measurements_of_a_models_choice_allow_is_not_allowed(own):
    stance, why = bounded(floors(), Conclude("x", stance=own), least=Stance.UNDECIDED)
    assert stance is Stance.UNDECIDED
    assert why


def test_a_stance_below_both_ceilings_stays():
    move = Conclude("x", stance=Stance.AGAINST, below_ceiling="own")
    assert bounded(floors(), move, least=Stance.UNDECIDED) == (Stance.AGAINST, "own")
