"""Real sessions are looked back on: their ledgers, and the certificates of those whose rows were removed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toys import calls

from esper_agents.domain.agent_action import CallTools, Conclude, HandOff, ToolCall
from esper_agents.domain.assumption import Assumption, AssumptionState, InformationGap, Tier
from esper_agents.learning.session_summary import seen_in_certificate

pytestmark = pytest.mark.anyio

GAP = InformationGap("how large the data is", "it decides about workers", "du -sh data")


def reviewing(brief):
    """Review, try a handoff that nobody can take, call what is denied, and conclude with a gap and an error."""
    (report,) = yield CallTools((ToolCall("static-review", {"paths": list(brief.task.paths)}),))
    yield HandOff("nobody", "herons", "they know", "nothing")
    yield calls("ring")
    false = Assumption(
        "the loader is fast",
        Tier.WORK,
        is_critical=False,
        state=AssumptionState.REFUTED,
        evidence=(report.evidence.id,),
        command="",
    )
    question = replace(false, text="the step is bound by its loader", tier=Tier.PLAN)
    return Conclude("seen", gaps=(GAP,), assumptions=(false, question))


@pytest.fixture
def box(toybox):
    toybox.agent("heron", reviewing)
    toybox.tool("ring")
    other = (toybox.project / "train.py").read_text()
    (toybox.project / "other.py").write_text(other)
    return toybox


async def sessions(box, opened, *paths):
    for path in paths:
        task = opened.tasks.create("review this", [box.project / path], agent="heron")
        await (await opened.tasks.submit(opened.tasks.restrict(task, deny=["ring"]))).run()


async def test_what_repeats_in_real_sessions_is_found_with_its_certificates(box):
    async with box.open() as opened:
        await sessions(box, opened, "train.py", "other.py")
        found = await opened.retrospect.report()
        certificates = {each.id for each in await opened.certificates.list()}
    assert {session.certificate for session in found.sessions} == certificates
    habit = next(each for each in found.habits if each.rule == "ESP305")
    assert habit.places == ("train.py", "other.py")
    seen = {insight.heading: insight for insight in found.insights}
    assert {source.certificate for source in seen["A persistent information gap"].sources} == certificates
    assert "ring: not allowed" in seen["A repeatedly denied tool call"].text
    assert "heron tried to hand off the task to nobody" in seen["A refused handoff"].text
    assert "the loader is fast was refuted by static-review" in seen["A refuted assumption"].text


async def test_a_proposed_skill_is_loaded_by_nobody_until_it_is_taken(box):
    async with box.open() as opened:
        await sessions(box, opened, "train.py", "other.py")
        (suggestion, *_) = (await opened.retrospect.report()).suggestions
        assert not any(suggestion.name in skill for skill in opened.services.skills.skills)
        target = opened.agents.accept_skill(opened.agents.proposed_skill(suggestion.name))
        assert f"project:{suggestion.name}" in opened.services.skills.skills
    assert target.is_relative_to(box.project)


async def test_a_certificate_says_what_the_rows_did_but_for_refused_handoffs(box):
    async with box.open() as opened:
        await sessions(box, opened, "train.py")
        (entry,) = await opened.certificates.list()
        seen = seen_in_certificate(await opened.certificates.read(entry.id))
    assert "ESP305" in {claim.rule for claim in seen.claims}
    assert [each.tool for each in seen.denied] == ["ring"]
    assert GAP in seen.gaps
    assert [each.text for each in seen.refuted] == ["the loader is fast"]


async def test_a_session_whose_rows_were_removed_is_seen_in_its_certificate(box):
    async with box.open() as opened:
        await sessions(box, opened, "train.py", "other.py")
        before = await opened.retrospect.report()
        await opened.certificates.prune(await opened.certificates.prunable(days=0), days=0)
        after = await opened.retrospect.report()
    assert after.habits == before.habits
    assert {insight.heading for insight in before.insights} - {insight.heading for insight in after.insights} == {
        "A refused handoff"
    }


async def test_a_question_that_a_plan_had_answered_is_nothing_that_was_taken_for_granted(box):
    async with box.open() as opened:
        await sessions(box, opened, "train.py", "other.py")
        found = await opened.retrospect.report()
    assert not [insight for insight in found.insights if "bound by its loader" in insight.text]


async def test_a_fork_counts_with_the_session_it_was_forked_from(box):
    async with box.open() as opened:
        await sessions(box, opened, "train.py")
        (first,) = await opened.sessions.list()
        fork = await opened.sessions.fork(first.id, "1")
        await fork.run()
        await (await opened.sessions.fork(fork.id, "1")).run()
        found = await opened.retrospect.report()
    assert len(found.sessions) == 3
    assert {session.counted_as for session in found.sessions} == {first.id}
    assert found.habits == ()
    assert "A persistent finding" not in {insight.heading for insight in found.insights}


async def test_two_looks_back_at_the_same_sessions_are_equal(box):
    async with box.open() as opened:
        await sessions(box, opened, "train.py", "other.py")
        assert await opened.retrospect.report() == await opened.retrospect.report()
