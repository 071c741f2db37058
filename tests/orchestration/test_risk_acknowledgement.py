from __future__ import annotations

import json
from dataclasses import replace

import pytest
from sqlalchemy import select, update
from toys import calling, calls

from esper_agents.certificates.policy.verdict_ceiling import ceiling_of, load_policy
from esper_agents.certificates.statement import normal, statement
from esper_agents.domain.agent_action import Conclude, Consult, RiskAssessment
from esper_agents.domain.codec import decode, encode
from esper_agents.domain.evidence import Risk
from esper_agents.domain.ledger import ActionDecided, RowKind
from esper_agents.domain.risk_acknowledgement import RiskAcknowledgement
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import Stance, Status
from esper_agents.errors import ExitCode, UsageError
from esper_agents.orchestration.build_certificate import certificate
from esper_agents.orchestration.risk_acknowledgement import agreements
from esper_agents.orchestration.session_run import StoppedError
from esper_agents.storage.tables import ledger

pytestmark = pytest.mark.anyio

WHY = "why is this slow?"
CONDITION = "settle first: acting on this is of Medium risk, so a named person must agree first"


def advising(risk="Medium", reversibility="Moderate", **more):
    """Return a playbook that looks and gives advice that has a risk."""

    def play(_brief):
        yield calls("look")
        return Conclude("move the data to the other disk", risks=RiskAssessment(risk, reversibility), **more)

    return play


@pytest.fixture
def adviser(toybox):
    toybox.tool("look")
    toybox.agent("adviser", advising())
    return toybox


async def asked(toybox, opened, **task):
    outcome = await (await toybox.submit(opened, "adviser", **{"request": WHY, **task})).run()
    assert outcome.state is SessionState.WAITING
    return outcome


@pytest.mark.parametrize("risk", ["Medium", "High", "Critical"])
async def test_advice_that_is_risky_to_act_on_waits_for_a_person(toybox, risk):
    toybox.tool("look")
    toybox.agent("adviser", advising(risk))
    async with toybox.open() as opened:
        outcome = await asked(toybox, opened)
        assert outcome.exit_code is ExitCode.WAITING
        assert outcome.certificate is None
        (question,) = outcome.questions
        assert question.options == ("approve", "deny")
        assert f"Implementation risk {risk}, reversibility Moderate: move the data" in question.text
        assert (await (await opened.tasks.resume(outcome.session)).run()).questions == (question,)
    assert toybox.effects() == ["look"]


@pytest.mark.both_databases
async def test_with_a_persons_agreement_the_advice_stands_and_says_who_agreed(adviser):
    async with adviser.open() as opened:
        outcome = await asked(adviser, opened)
        asked_id = outcome.questions[0].id
        outcome = await (await opened.approvals.answer(asked_id, "approve")).run()
        issued = await opened.certificates.read(outcome.certificate.id)
        record = await opened.certificates.record(outcome.certificate.id)
        markdown = await opened.certificates.markdown(outcome.certificate.id)
        page = (await opened.certificates.page(outcome.certificate.id)).read_text()
    (agreement,) = issued.agreements
    assert (agreement.question, agreement.is_given, agreement.implementation_risk) == (asked_id, True, "Medium")
    assert issued.verdict.stance is Stance.FOR
    assert issued.verdict.status is Status.ADVISORY_ONLY
    assert issued.verdict.conditions == ()
    assert f"- Asked whether to act on it at Medium risk, {agreement.by} agreed" in markdown
    assert f"at Medium risk, {agreement.by} agreed" in page
    assert json.loads(record)["predicate"]["agreements"][0]["by"] == agreement.by
    assert ceiling_of(load_policy(), issued) == issued.verdict.ceiling
    assert adviser.effects() == ["look"]


async def test_where_the_person_does_not_agree_the_advice_stays_conditional_and_says_so(adviser):
    async with adviser.open() as opened:
        outcome = await asked(adviser, opened)
        outcome = await (await opened.approvals.answer(outcome.questions[0].id, "deny")).run()
        issued = await opened.certificates.read(outcome.certificate.id)
        markdown = await opened.certificates.markdown(outcome.certificate.id)
    assert issued.verdict.stance is Stance.CONDITIONAL
    assert issued.verdict.conditions == (CONDITION,)
    assert [agreement.is_given for agreement in issued.agreements] == [False]
    assert "did not agree" in markdown


async def test_the_certificate_follows_from_the_ledger_alone(adviser):
    async with adviser.open() as opened:
        outcome = await asked(adviser, opened)
        outcome = await (await opened.approvals.answer(outcome.session, "approve")).run()
        history = await opened.sessions.history(outcome.session)
        derived = statement(normal(certificate(history, history.conclusion)))
        assert derived == await opened.certificates.record(outcome.certificate.id)
        again = await (await opened.tasks.resume(outcome.session)).run()
        assert again.certificate == outcome.certificate


async def test_an_agreement_that_the_record_does_not_have_does_not_pass_for_one(adviser):
    async with adviser.open() as opened:
        outcome = await asked(adviser, opened)
        outcome = await (await opened.approvals.answer(outcome.session, "deny")).run()
        issued = await opened.certificates.read(outcome.certificate.id)
    forged = replace(issued, agreements=(replace(issued.agreements[0], is_given=True),))
    assert ceiling_of(load_policy(), forged) != forged.verdict.ceiling
    without = replace(issued, agreements=())
    assert ceiling_of(load_policy(), without) == issued.verdict.ceiling


@pytest.mark.parametrize(
    ("agreement", "is_enough"),
    [
        (RiskAcknowledgement("q", "ann", is_given=True, implementation_risk="Medium"), True),
        (RiskAcknowledgement("q", "ann", is_given=False, implementation_risk="Medium"), False),
        (RiskAcknowledgement("q", "", is_given=True, implementation_risk="Medium"), False),
        (RiskAcknowledgement("q", "ann", is_given=True, implementation_risk="Critical"), False),
    ],
)
async def test_only_a_named_persons_agreement_to_this_very_risk_counts(adviser, agreement, is_enough):
    async with adviser.open() as opened:
        outcome = await asked(adviser, opened)
        issued = await opened.certificates.read(
            (await (await opened.approvals.answer(outcome.session, "deny")).run()).certificate.id
        )
    stance = ceiling_of(load_policy(), replace(issued, agreements=(agreement,))).stance
    assert (stance is Stance.FOR) == is_enough


async def test_an_agreement_is_bound_to_the_conclusion_it_was_given_for(adviser):
    async with adviser.open() as opened:
        outcome = await asked(adviser, opened)
        held = await opened.approvals.answer(outcome.session, "approve")
        held.stop()
        with pytest.raises(StoppedError):
            await held.run()
        with opened.services.store.store.writing() as transaction:
            where = ledger.c.session_id == outcome.session, ledger.c.kind == RowKind.MOVED, ledger.c.step == 2
            moved = decode(ActionDecided, transaction.connection.scalar(select(ledger.c.body).where(*where)))
            other = ActionDecided(replace(moved.move, summary="format the disk"), moved.record)
            transaction.connection.execute(update(ledger).where(*where).values(body=encode(other)))
        history = await opened.sessions.history(outcome.session)
        assert [agreement.is_given for agreement in agreements(history.frames[0])] == [False]


@pytest.mark.parametrize("name", ["unknown", ""])
async def test_nobody_in_particular_cannot_agree_to_advice(adviser, monkeypatch, name):
    async with adviser.open() as opened:
        outcome = await asked(adviser, opened)
        monkeypatch.setattr("getpass.getuser", lambda: name)
        with pytest.raises(UsageError, match="approved by a named user") as error:
            await opened.approvals.answer(outcome.session, "approve")
        assert error.value.remedy == "set LOGNAME to your name"
        monkeypatch.setattr("getpass.getuser", lambda: "ann")
        outcome = await (await opened.approvals.answer(outcome.session, "approve")).run()
        assert [agreement.by for agreement in (await opened.certificates.read(outcome.certificate.id)).agreements] == [
            "ann"
        ]


@pytest.mark.both_databases
async def test_an_agreement_takes_nothing_but_yes_or_no_and_only_once(adviser):
    async with adviser.open() as opened:
        outcome = await asked(adviser, opened)
        with pytest.raises(UsageError, match="'perhaps' is not a valid answer"):
            await opened.approvals.answer(outcome.session, "perhaps")
        await (await opened.approvals.answer(outcome.session, "deny")).run()
        with pytest.raises(UsageError, match="already answered: 'deny'"):
            await opened.approvals.answer(outcome.questions[0].id, "approve")


@pytest.mark.parametrize(
    ("play", "request_"),
    [
        (advising("Low"), WHY),
        (advising("Medium"), "review this"),
        (advising("Medium", stance=Stance.UNDECIDED, below_ceiling="I do not know"), WHY),
        (calling("look"), WHY),
    ],
)
async def test_nobody_is_asked_where_nothing_hangs_on_the_answer(toybox, play, request_):
    toybox.tool("look")
    toybox.agent("adviser", play)
    ran = await toybox.run("adviser", request=request_)
    assert ran.outcome.state is SessionState.DONE
    assert ran.bodies("asked") == []
    assert ran.certificate.agreements == ()


async def test_advice_that_has_conditions_of_its_own_keeps_them_when_a_person_agrees(toybox):
    toybox.tool("look")
    toybox.agent("adviser", advising(conditions=("make a backup",)))
    async with toybox.open() as opened:
        outcome = await asked(toybox, opened)
        issued = await opened.certificates.read(
            (await (await opened.approvals.answer(outcome.session, "approve")).run()).certificate.id
        )
    assert issued.verdict.conditions == ("make a backup",)
    assert issued.verdict.stance is Stance.CONDITIONAL


async def test_the_answer_of_a_consulted_agent_is_no_verdict_and_nobody_is_asked(toybox):
    def consults(_brief):
        yield calls("look")
        yield Consult("adviser", "what would you do?")
        return Conclude("as they say")

    toybox.tool("look")
    toybox.agent("adviser", advising())
    toybox.agent("asker", consults)
    ran = await toybox.run("asker", request=WHY)
    assert ran.outcome.state is SessionState.DONE
    assert ran.bodies("asked") == []


async def test_a_question_in_the_work_and_one_about_the_advice_are_two(toybox):
    toybox.tool("look", risk=Risk.MEDIUM)
    toybox.agent("adviser", advising())
    async with toybox.open() as opened:
        outcome = await asked(toybox, opened)
        first = outcome.questions[0].id
        outcome = await (await opened.approvals.answer(first, "approve")).run()
        assert outcome.state is SessionState.WAITING
        with pytest.raises(UsageError, match="already answered"):
            await opened.approvals.answer(first, "approve")
        outcome = await (await opened.approvals.answer(outcome.questions[0].id, "approve")).run()
        assert outcome.state is SessionState.DONE
