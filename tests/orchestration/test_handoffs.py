from __future__ import annotations

import pytest
from toys import calls

from esper_agents.domain.agent_action import Conclude, Consult, HandOff
from esper_agents.domain.assumption import Assumption, AssumptionState, InformationGap, Tier
from esper_agents.domain.budget import Amount, Resource
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.handoff import OpenPart
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import Status
from esper_agents.orchestration.action_validation import MOST_DEPTH
from esper_agents.orchestration.handoff_limits import MOST_HOPS

pytestmark = [pytest.mark.anyio, pytest.mark.both_databases]


def handing(to, *, before=(), **packet):
    """Return a playbook that hands off, and concludes with the reason where that is refused."""

    def play(_brief):
        for move in before:  # noqa: UP028 - a list takes no answers
            yield move
        refused = yield HandOff(to, **{"domain": "toys", "reason": "it knows", "context": "found nothing", **packet})
        yield calls("look", text="after all")
        return Conclude(refused.reasons[0])

    return play


def looking(brief):
    yield calls("look")
    return Conclude(f"{brief.agent.name} has looked")


async def test_a_handoff_reaches_the_receiver_as_it_was_meant(toybox):
    got = []

    def receive(brief):
        got.append(brief)
        yield calls("look", text="second")
        return Conclude("received")

    parts = (OpenPart("second", "toys", "what is it?", ()), OpenPart("first", "all", "and now?", ()))
    gap = InformationGap("the size", "it matters", "measure it")
    taken = Assumption("it is small", Tier.WORK, False, AssumptionState.OPEN, (), "look at it")
    packet = {"context": "a spring is loose", "open_parts": parts, "gaps": (gap,), "assumptions": (taken,)}
    packet["questions"] = ("how loose?",)
    toybox.tool("look")
    toybox.agent("first", handing("second", before=[calls("look", text="first")], **packet))
    toybox.agent("second", receive)
    ran = await toybox.run("first")
    (brief,) = got
    handoff = brief.handoff
    assert (handoff.sender, handoff.receiver, handoff.hop) == ("first", "second", 1)
    assert (handoff.domain, handoff.reason, handoff.context) == ("toys", "it knows", "a spring is loose")
    assert (handoff.open_parts, handoff.gaps) == (parts, (gap,))
    assert (handoff.questions, handoff.is_return) == (("how loose?",), False)
    assert handoff.budget_left == brief.budget_left == (Amount(Resource.HOPS, MOST_HOPS - 1),)
    assert handoff.do_not_repeat == ("echo first",)
    assert brief.chain == (handoff,)
    assert [each.id for each in brief.evidence] == list(handoff.evidence)
    assert [each.summary for each in brief.evidence] == ["look wrote 'first'"]
    certificate = ran.certificate
    assert certificate.agent == "second"
    assert certificate.handoffs == (handoff,)
    assert [definition.agent for definition in certificate.definitions] == ["first", "second"]
    assert [assumption.text for assumption in certificate.assumptions] == ["it is small"]
    assert [each.what for each in certificate.gaps] == ["the size", "whether it holds that it is small"]
    assert len(certificate.evidence) == 2
    assert handoff.sentence == (
        "This looks like a toys problem that second would handle better. "
        "Here's what I've found so far: a spring is loose"
    )


async def test_a_session_goes_to_the_receiver_in_one_transaction(toybox):
    toybox.tool("look")
    toybox.agent("first", handing("second"))
    toybox.agent("second", looking)
    ran = await toybox.run("first")
    kinds = [(row.frame, row.kind, row.at) for row in ran.rows if row.kind in {"handed-off", "opened"}]
    assert [kind[:2] for kind in kinds] == [(1, "opened"), (1, "handed-off"), (2, "opened")]
    assert kinds[1][2] == kinds[2][2]
    async with toybox.open() as opened:
        assert (await opened.sessions.get(ran.outcome.session)).agent == "second"


async def test_an_unknown_receiver_is_refused_with_the_nearest_names(toybox):
    toybox.tool("look")
    toybox.agent("first", handing("pytorch-expret"))
    ran = await toybox.run("first")
    assert ran.certificate.summary.startswith("there is no agent named 'pytorch-expret'; did you mean pytorch-expert")
    assert ran.certificate.handoffs == ()


def back_and_forth(to, *, looks):
    """Return a playbook that hands the task back each time it gets it, and looks first where it may."""

    def play(brief):
        if looks:
            yield calls("look", text=f"{brief.agent.name} {len(brief.chain)}")
        refused = yield HandOff(to, "toys", "it knows", "nothing")
        assert isinstance(refused, Refusal)
        return Conclude(refused.reasons[0])

    return play


async def test_a_task_does_not_bounce_without_progress(toybox):
    toybox.agent("first", back_and_forth("second", looks=False))
    toybox.agent("second", back_and_forth("first", looks=False))
    ran = await toybox.run("first")
    assert [(handoff.sender, handoff.receiver, handoff.is_return) for handoff in ran.certificate.handoffs] == [
        ("first", "second", False),
        ("second", "first", True),
    ]
    assert ran.certificate.summary == "second has had the task, and nothing new was found or measured since"
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW


async def test_a_task_may_come_back_when_something_new_was_measured(toybox):
    def first(brief):
        if brief.handoff:
            return Conclude(f"back after {len(brief.chain)} hops")
        yield HandOff("second", "toys", "it knows", "nothing")
        return Conclude("not reached")

    toybox.tool("look")
    toybox.agent("first", first)
    toybox.agent("second", back_and_forth("first", looks=True))
    ran = await toybox.run("first")
    assert [(handoff.sender, handoff.receiver) for handoff in ran.certificate.handoffs] == [
        ("first", "second"),
        ("second", "first"),
    ]
    assert ran.certificate.summary == "back after 2 hops"


async def test_measuring_the_same_again_is_no_progress(toybox):
    def first(brief):
        yield calls("look", text="the same")
        refused = yield HandOff("second", "toys", "it knows", "nothing")
        return Conclude(refused.reasons[0])

    def second(brief):
        yield calls("look", text="the same")
        refused = yield HandOff("first", "toys", "it knows", "nothing")
        return Conclude(refused.reasons[0])

    toybox.tool("look")
    toybox.agent("first", first)
    toybox.agent("second", second)
    ran = await toybox.run("first")
    assert len(ran.certificate.handoffs) == 2
    assert "nothing new was found or measured since" in ran.certificate.summary


async def test_a_circle_of_three_without_progress_is_refused(toybox):
    for name, to in (("first", "second"), ("second", "third"), ("third", "first")):
        toybox.agent(name, back_and_forth(to, looks=False))
    ran = await toybox.run("first")
    assert [handoff.receiver for handoff in ran.certificate.handoffs] == ["second", "third", "first"]
    assert ran.certificate.summary == "second has had the task, and nothing new was found or measured since"


async def test_a_task_is_handed_off_only_so_often_even_with_progress(toybox):
    toybox.tool("look")
    toybox.agent("first", back_and_forth("second", looks=True))
    toybox.agent("second", back_and_forth("first", looks=True))
    ran = await toybox.run("first")
    assert len(ran.certificate.handoffs) == MOST_HOPS
    assert [handoff.hop for handoff in ran.certificate.handoffs] == list(range(1, MOST_HOPS + 1))
    assert ran.certificate.summary == f"the task has been handed off {MOST_HOPS} times, which is the most"


def consulting(*names, then=None):
    def play(_brief):
        answers = []
        for name in names:
            answer = yield Consult(name, f"what says {name}?")
            answers.append(answer)
        yield calls("look", text="parent")
        return then(answers) if then else Conclude("; ".join(each.answer for each in answers))

    return play


def answering(brief):
    assert brief.handoff is None
    yield calls("look", text=brief.agent.name)
    return Conclude(f"{brief.agent.name} answers: {brief.question}")


async def test_a_consulted_agent_answers_and_the_one_who_asked_goes_on(toybox):
    toybox.tool("look")
    toybox.agent("asker", consulting("wise"))
    toybox.agent("wise", answering)
    ran = await toybox.run("asker")
    certificate = ran.certificate
    assert certificate.agent == "asker"
    assert certificate.summary == "wise answers: what says wise?"
    (answer,) = certificate.consults
    assert (answer.agent, answer.answer) == ("wise", "wise answers: what says wise?")
    assert [each.summary for each in certificate.evidence if each.id in answer.evidence] == ["look wrote 'wise'"]
    assert toybox.effects() == ["look wise", "look parent"]
    assert [(row.frame, row.kind) for row in ran.rows if row.kind == "concluded"] == [
        (2, "concluded"),
        (1, "concluded"),
    ]
    assert len(ran.bodies("certified")) == 1
    assert [body["verdict"] is None for body in ran.bodies("concluded")] == [True, False]


async def test_who_was_consulted_may_be_given_the_task_afterwards(toybox):
    def ask_first(_brief):
        yield Consult("wise", "is it yours?")
        refused = yield HandOff("wise", "toys", "it knows", "it says so")
        yield calls("look")
        return Conclude(refused.reasons[0])

    def wise(brief):
        yield calls("look")
        return Conclude("mine" if brief.handoff else "yes")

    toybox.tool("look")
    toybox.agent("asker", ask_first)
    toybox.agent("wise", wise)
    ran = await toybox.run("asker")
    assert (ran.certificate.agent, ran.certificate.summary) == ("wise", "mine")


async def test_one_after_another_may_be_consulted(toybox):
    toybox.tool("look")
    toybox.agent("asker", consulting("wise", "wiser", "wise"))
    toybox.agent("wise", answering)
    toybox.agent("wiser", answering)
    ran = await toybox.run("asker")
    assert [consult.agent for consult in ran.certificate.consults] == ["wise", "wiser", "wise"]
    assert toybox.effects() == ["look wise", "look wiser", "look wise", "look parent"]


async def test_a_consulted_agent_may_consult_but_not_without_end(toybox):
    refused = []

    def deep(brief):
        other = "wise" if brief.agent.name == "wiser" else "wiser"
        answer = yield Consult(other, "and you?")
        if isinstance(answer, Refusal):
            refused.extend(answer.reasons)
            yield calls("look")
            return Conclude("nobody left to ask")
        return Conclude(answer.answer)

    toybox.tool("look")
    toybox.agent("wise", deep)
    toybox.agent("wiser", deep)
    ran = await toybox.run("wise")
    assert refused == [f"consults are {MOST_DEPTH} deep, which is the most"]
    assert len(ran.certificate.consults) == MOST_DEPTH - 1
    assert ran.certificate.summary == "nobody left to ask"


async def test_a_consulted_agent_cannot_hand_the_task_off(toybox):
    toybox.tool("look")
    toybox.agent("asker", consulting("wise"))
    toybox.agent("wise", handing("other"))
    toybox.agent("other", looking)
    ran = await toybox.run("asker")
    assert ran.certificate.summary == "a consulted agent answers; it does not hand off"
    assert ran.certificate.handoffs == ()


async def test_a_consulted_agent_may_ask_a_person_and_the_answer_reaches_it(toybox):
    from esper_agents.domain.agent_action import Ask

    def unsure(_brief):
        answer = yield Ask("really?")
        return Conclude(f"a person says {answer.text}")

    toybox.tool("look")
    toybox.agent("asker", consulting("wise"))
    toybox.agent("wise", unsure)
    async with toybox.open() as opened:
        outcome = await (await toybox.submit(opened, "asker")).run()
        assert outcome.state is SessionState.WAITING
        outcome = await (await opened.approvals.answer(outcome.session, "yes")).run()
        assert (await opened.certificates.read(outcome.certificate.id)).summary == "a person says yes"


async def test_the_receiver_goes_on_when_a_tool_of_the_sender_failed(toybox):
    from esper_agents.errors import EvidenceError

    toybox.tool("break", fails=EvidenceError("cold", remedy="warm it"))
    toybox.tool("look")
    toybox.agent("first", handing("second", before=[calls("break")]))
    toybox.agent("second", looking)
    ran = await toybox.run("first")
    assert [each.outcome for each in ran.certificate.evidence] == [CallOutcome.FAILED, CallOutcome.COMPLETED]
    assert ran.certificate.summary == "second has looked"
