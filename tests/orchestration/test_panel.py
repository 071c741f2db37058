"""A panel: every member answers or says why not, none sees the others, and what they differ on is shown."""

from __future__ import annotations

import pytest
from places import FAULTY
from toys import calls

from esper_agents.domain.agent_action import Ask, Conclude, Consult, Panel
from esper_agents.domain.finding import Category, Confidence, Diagnostic, Location, Severity, fingerprint
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import Stance, Status
from esper_agents.errors import EvidenceError, ReasonerError
from esper_agents.orchestration.action_validation import MOST_ASKED
from esper_agents.reasoning.panel import conclusion, run_panel
from esper_agents.reasoning.playbooks.validation_specialist import PANEL
from esper_agents.tools.tool import Tool, ToolContext, ToolResult

pytestmark = pytest.mark.anyio


def asking(*names, got=None):
    def play(_brief):
        answers = yield Panel(tuple(Consult(name, f"what says {name}?") for name in names))
        if got is not None:
            got.append(answers)
        yield calls("look", text="parent")
        return Conclude("; ".join(answer.answer for answer in answers))

    return play


def answering(brief):
    yield calls("look", text=brief.agent.name)
    return Conclude(f"{brief.agent.name} saw {len(brief.evidence)} before")


@pytest.mark.both_databases
async def test_a_panel_answers_in_the_order_of_its_questions_and_no_member_sees_another(toybox):
    got = []
    toybox.tool("look")
    toybox.agent("asker", asking("one", "two", "three", got=got))
    for name in ("one", "two", "three"):
        toybox.agent(name, answering)
    ran = await toybox.run("asker")
    assert [each.agent for each in got[-1]] == ["one", "two", "three"]
    assert [each.question for each in got[-1]] == ["what says one?", "what says two?", "what says three?"]
    assert {each.answer[-13:] for each in got[-1]} == {" saw 0 before"}
    assert ran.certificate.consults == got[-1]
    assert [row.frame for row in ran.rows if row.kind == "opened"] == [1, 2, 3, 4]
    assert toybox.effects() == ["look one", "look two", "look three", "look parent"]


@pytest.mark.parametrize("wrong", [RuntimeError("out of wit"), ReasonerError("no model", remedy="get one"), KeyError()])
async def test_a_member_that_breaks_becomes_an_answer_that_says_so(toybox, wrong):
    got = []

    def breaking(_brief):
        yield calls("look", text="two")
        raise wrong

    toybox.tool("look")
    toybox.agent("asker", asking("one", "two", "three", got=got))
    toybox.agent("one", answering)
    toybox.agent("two", breaking)
    toybox.agent("three", answering)
    ran = await toybox.run("asker")
    broken = got[-1][1]
    assert broken.answer == broken.problem
    assert broken.problem.startswith("two could not answer: ")
    assert len(broken.evidence) == 1
    assert [each.problem for each in got[-1]][::2] == ["", ""]
    assert [gap.what for gap in ran.certificate.gaps] == ["what two would have answered to: what says two?"]
    assert ran.outcome.state is SessionState.DONE


async def test_a_consulted_playbook_that_makes_no_move_at_all_is_an_answer_too(toybox):
    def senseless(_brief):
        yield "nothing that there is"

    toybox.tool("look")
    toybox.agent("asker", asking("one"))
    toybox.agent("one", senseless)
    ran = await toybox.run("asker")
    assert ran.certificate.summary.startswith("one could not answer: ")


async def test_a_member_whose_playbook_has_changed_answers_that(toybox):
    """Children never raise: what they would say stands in their answer."""

    def ask_and_stop(_brief):
        yield Ask("go on?")
        return Conclude("went on")

    def changed(_brief):
        yield Ask("another question?")
        return Conclude("never")

    toybox.tool("look")
    toybox.agent("asker", asking("one"))
    toybox.agent("one", ask_and_stop)
    async with toybox.open() as opened:
        outcome = await (await toybox.submit(opened, "asker")).run()
        assert outcome.state is SessionState.WAITING
        session = await opened.approvals.answer(outcome.session, "yes")
        from esper_agents.reasoning.playbook import source_of

        sources = dict(opened.services.playbooks)
        sources["one"] = source_of(changed, "toys 1")
        opened.services.__dict__["playbooks"] = sources
        outcome = await session.run()
        said = (await opened.certificates.read(outcome.certificate.id)).summary
    assert said.startswith("one could not answer: the playbook of 'one' has changed")


@pytest.mark.both_databases
async def test_a_member_may_wait_for_a_person_and_the_others_answer_after_it(toybox):
    def unsure(_brief):
        answer = yield Ask("really?")
        return Conclude(f"a person says {answer.text}")

    toybox.tool("look")
    toybox.agent("asker", asking("one", "two"))
    toybox.agent("one", unsure)
    toybox.agent("two", answering)
    async with toybox.open() as opened:
        outcome = await (await toybox.submit(opened, "asker")).run()
        assert outcome.state is SessionState.WAITING
        outcome = await (await opened.approvals.answer(outcome.session, "yes")).run()
        assert (await opened.certificates.read(outcome.certificate.id)).summary == "a person says yes; two saw 0 before"


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ((), f"a panel asks 1 to {MOST_ASKED} questions"),
        (("one",) * (MOST_ASKED + 1), f"a panel asks 1 to {MOST_ASKED} questions"),
        (("one", "onne"), "there is no other agent named 'onne'; did you mean one?"),
        (("asker",), "there is no other agent named 'asker'"),
    ],
)
async def test_a_panel_that_cannot_be_asked_is_refused_before_anybody_is(toybox, names, why):
    def play(_brief):
        refused = yield Panel(tuple(Consult(name, "well?") for name in names))
        assert isinstance(refused, Refusal)
        yield calls("look")
        return Conclude(refused.reasons[0])

    toybox.tool("look")
    toybox.agent("asker", play)
    toybox.agent("one", answering)
    ran = await toybox.run("asker")
    assert ran.certificate.summary == why
    assert len([row for row in ran.rows if row.kind == "opened"]) == 1


MUTABLE = "def put(x, into=[]):\n    into.append(x)\n    return into\n"
TEXT = "def put(x, into=[]):"


def toy_claim(line=1):
    mark = fingerprint("TOY1", "train.py", TEXT, line)
    place = Location("train.py", line)
    said = ("TOY1", "toy-rule", Severity.WARNING, Category.CORRECTNESS, place, "it is wrong", "mend it")
    return Diagnostic(*said, Confidence.MODERATE, "seen", TEXT, mark)


def claiming_tool(name, *, claims=(), refutes=()):
    """Return a tool that makes claims, or refutes them."""
    from esper_agents.domain.evidence import Risk, source_file

    async def run(context: ToolContext) -> ToolResult:
        """Look."""
        data = (context.root / "train.py").read_bytes()
        return ToolResult(
            f"{name} looked", {}, claims=claims, refutes=refutes, examined=(source_file("train.py", data),)
        )

    return Tool(name, Risk.LOW, True, run, lambda _: f"look {name}", "toys 1")


def using(tool):
    def play(brief):
        yield calls(tool)
        return Conclude(f"{brief.agent.name} has looked")

    return play


def chairing(*names):
    def play(brief):
        heard = yield from run_panel(brief, [Consult(name, "is it so?") for name in names])
        return conclusion(brief, heard)

    return play


@pytest.fixture
def disputed(toybox):
    """Return a box in which two agents find something and the evidence of a third refutes it."""
    claim = toy_claim()
    (toybox.project / "train.py").write_text(MUTABLE)
    toybox.tools += [claiming_tool("find", claims=(claim,)), claiming_tool("run", refutes=(claim.fingerprint,))]
    toybox.agent("one", using("find"))
    toybox.agent("two", using("find"))
    toybox.agent("three", using("run"))
    toybox.agent("chair", chairing("one", "two", "three"))
    return toybox


@pytest.mark.both_databases
async def test_a_conflict_that_nothing_settles_is_shown_and_keeps_the_verdict_undecided(disputed):
    ran = await disputed.run("chair")
    certificate = ran.certificate
    sides = "one, two found the finding "
    # What two found and a third refuted is not shared.
    assert "0 findings are shared and 1 are in conflict" in certificate.summary
    assert sides in certificate.summary
    assert "the evidence of three refutes it; a second check was inconclusive" in certificate.summary
    assert certificate.caveats[0].startswith(f"Conflict: {sides}")
    assert [gap.blocks_approval for gap in certificate.gaps if gap.what.startswith("whether ")] == [True]
    assert certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert "static-review" in {each.tool for each in certificate.evidence}


async def test_what_members_agree_on_is_no_conflict_and_is_not_measured_again(disputed):
    disputed.agent("chair", chairing("one", "two"))
    ran = await disputed.run("chair")
    assert "1 findings are shared and 0 are in conflict" in ran.certificate.summary
    assert [each.tool for each in ran.certificate.evidence] == ["find", "find"]


async def test_what_a_second_look_finds_again_is_said_and_still_shown_as_a_conflict(disputed):
    from esper_agents.review.engine import review

    (disputed.project / "train.py").write_text(FAULTY)
    found = next(claim for claim in review(disputed.project, [disputed.project / "train.py"]).claims)
    disputed.tools[:] = [claiming_tool("find", claims=(found,)), claiming_tool("run", refutes=(found.fingerprint,))]
    ran = await disputed.run("chair")
    assert "a second check found it" in ran.certificate.summary
    assert f"{found.name} at {found.location}" in ran.certificate.summary


async def test_a_panel_whose_members_cannot_answer_says_so(disputed):
    def broken(_brief):
        raise EvidenceError("nothing to see", remedy="look elsewhere")
        yield

    disputed.agent("two", broken)
    ran = await disputed.run("chair")
    assert "two: two could not answer: nothing to see" in ran.certificate.summary
    assert any(gap.why == "two could not answer: nothing to see" for gap in ran.certificate.gaps)


async def test_a_member_cannot_make_the_verdict_better(disputed):
    def praising(_brief):
        yield calls("find")
        return Conclude("ship it", stance=Stance.FOR)

    disputed.agent("two", praising)
    assert (await disputed.run("chair")).certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW


@pytest.mark.slow
async def test_the_validation_specialist_hears_those_who_own_a_part_of_a_review(toybox):
    (toybox.project / "train.py").write_text(FAULTY)
    ran = await toybox.run("validation-specialist", request="check these findings again")
    certificate = ran.certificate
    assert [consult.agent for consult in certificate.consults] == list(PANEL)
    assert all(consult.answer and not consult.problem for consult in certificate.consults)
    assert {finding.agent for finding in certificate.findings} <= set(PANEL)
    for each in PANEL:
        assert f"{each}: " in certificate.summary
