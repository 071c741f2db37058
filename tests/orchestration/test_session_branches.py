"""Sessions that grow out of others: what they begin with, what they may not begin with, and what is on record of it."""

from __future__ import annotations

import pytest
from toys import calling, calls

from esper_agents.domain.agent_action import Ask, Conclude, Consult, HandOff
from esper_agents.domain.evidence import Risk
from esper_agents.domain.origin import CONTINUES, FORKED_FROM, OriginKind
from esper_agents.domain.relation import RelationKind
from esper_agents.domain.session import SessionState
from esper_agents.errors import NotFoundError, UsageError

pytestmark = [pytest.mark.anyio, pytest.mark.both_databases]


def in_turns(*names):
    """Return a playbook that calls tools one turn after the other."""

    def play(_brief):
        said = []
        for name in names:
            (report,) = yield calls(name, text=name)
            said.append(report.evidence.summary)
        return Conclude("; ".join(said))

    return play


@pytest.fixture
def box(toybox):
    for name in ("one", "two", "three"):
        toybox.tool(name)
    toybox.agent("worker", in_turns("one", "two", "three"))
    toybox.agent("other", in_turns("three"))
    return toybox


async def ran(box, opened, agent="worker", **task):
    return await (await box.submit(opened, agent, **task)).run()


async def test_a_fork_goes_on_after_its_step_and_repeats_nothing_before_it(box):
    async with box.open() as opened:
        first = await ran(box, opened)
        fork = await opened.sessions.fork(first.session, "1")
        outcome = await fork.run()
        was, is_now = (
            await opened.certificates.read(first.certificate.id),
            await opened.certificates.read(outcome.certificate.id),
        )
        summary = await opened.sessions.get(fork.id)
    assert box.effects() == ["one one", "two two", "three three", "two two", "three three"]
    assert outcome.session != first.session
    assert was.id != is_now.id
    assert is_now.session == outcome.session
    assert [each.id for each in is_now.evidence][:1] == [each.id for each in was.evidence][:1]
    assert {each.id for each in is_now.evidence[1:]}.isdisjoint(each.id for each in was.evidence)
    assert is_now.task.options == {FORKED_FROM: f"{first.session} at step 1.1"}
    assert (summary.origin.kind, summary.origin.session) == (OriginKind.FORKED, first.session)


async def test_the_session_that_was_forked_stays_as_it_was(box):
    async with box.open() as opened:
        first = await ran(box, opened)
        before, record = (
            await opened.sessions.timeline(first.session),
            await opened.certificates.record(first.certificate.id),
        )
        await (await opened.sessions.fork(first.session, "2")).run()
        assert await opened.sessions.timeline(first.session) == before
        assert await opened.certificates.record(first.certificate.id) == record
        assert (await opened.sessions.get(first.session)).certificate == first.certificate.id


async def test_the_rows_of_a_fork_are_those_of_the_other_session_with_their_times(box):
    async with box.open() as opened:
        first = await ran(box, opened)
        fork = await opened.sessions.fork(first.session, "2")
        copied = (await opened.sessions.timeline(fork.id))[1:]
        origin = (await opened.sessions.timeline(first.session))[1 : 1 + len(copied)]
        await fork.run()
    assert [(each.frame, each.step, each.call, each.kind, each.at, each.body) for each in copied] == [
        (each.frame, each.step, each.call, each.kind, each.at, each.body) for each in origin
    ]
    assert [each.kind for each in copied][-1] == "called"


async def test_another_agent_takes_a_fork_over_as_a_handoff_that_a_person_made(box):
    got = []

    def receive(brief):
        got.append(brief)
        yield calls("three")
        return Conclude("taken over")

    box.agent("receiver", receive)
    async with box.open() as opened:
        first = await ran(box, opened)
        outcome = await (await opened.sessions.fork(first.session, "1.1", agent="receiver")).run()
        issued = await opened.certificates.read(outcome.certificate.id)
        assert (await opened.sessions.get(outcome.session)).agent == "receiver"
    (brief,) = got
    assert [each.tool for each in brief.evidence] == ["one"]
    assert (brief.handoff.sender, brief.handoff.receiver, brief.handoff.hop) == ("worker", "receiver", 1)
    assert "forked the session and gave it to receiver" in brief.handoff.reason
    assert (issued.agent, issued.summary) == ("receiver", "taken over")
    assert [handoff.receiver for handoff in issued.handoffs] == ["receiver"]


async def test_a_fork_of_the_beginning_is_routed_anew_or_given_to_whom_a_person_names(box):
    async with box.open() as opened:
        first = await ran(box, opened)
        again = await (await opened.sessions.fork(first.session, "0")).run()
        other = await (await opened.sessions.fork(first.session, "0", agent="other")).run()
        assert (await opened.certificates.read(again.certificate.id)).agent == "worker"
        issued = await opened.certificates.read(other.certificate.id)
    assert (issued.agent, issued.handoffs) == ("other", ())
    assert issued.task.options[FORKED_FROM] == f"{first.session} at the beginning"


async def test_a_fork_after_a_handoff_begins_with_the_receiver(box):
    def handing(_brief):
        yield calls("one")
        yield HandOff("other", "toys", "it knows", "found nothing")
        return Conclude("never")

    box.agent("sender", handing)
    async with box.open() as opened:
        first = await ran(box, opened, "sender")
        outcome = await (await opened.sessions.fork(first.session, "1.2")).run()
        issued = await opened.certificates.read(outcome.certificate.id)
    assert (issued.agent, len(issued.handoffs)) == ("other", 1)
    assert box.effects() == ["one", "three three", "three three"]


async def test_what_is_asked_and_not_answered_is_asked_anew_in_a_fork(box):
    box.tool("write", risk=Risk.MEDIUM)
    box.agent("writer", in_turns("one", "write", "two"))
    async with box.open() as opened:
        first = await ran(box, opened, "writer")
        assert first.state is SessionState.WAITING
        with pytest.raises(UsageError, match=r"step 1\.2 .* is not finished"):
            await opened.sessions.fork(first.session, "2")
        second = await (await opened.sessions.fork(first.session, "1")).run()
        assert second.state is SessionState.WAITING
        assert second.questions[0].id != first.questions[0].id
        outcome = await (await opened.approvals.answer(first.questions[0].id, "approve")).run()
        assert outcome.session == first.session
        third = await opened.sessions.fork(first.session, "2")
        assert (await third.run()).state is SessionState.DONE
    # What a person has allowed and what was done then is not done again.
    assert box.effects() == ["one one", "write write", "two two", "two two"]


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("at", "problem"),
    [
        ("9", "has no step 9"),
        ("2.1", "has no step 2.1"),
        ("1.0", "has no step 1.0"),
        ("one", "is not a step"),
        ("", "is not a step"),
        ("-1", "is not a step"),
        ("4", "is where the session concluded"),
    ],
)
async def test_where_a_session_cannot_be_forked_the_steps_are_named(box, at, problem):
    async with box.open() as opened:
        first = await ran(box, opened)
        with pytest.raises(UsageError, match=problem) as refused:
            await opened.sessions.fork(first.session, at)
        assert refused.value.remedy.endswith(": 0, 1.1 to 1.3")
        assert len(await opened.sessions.list()) == 1


async def test_a_step_without_its_frame_is_refused_where_there_are_several(box):
    def asking(_brief):
        yield Consult("other", "what is it?")
        return Conclude("asked")

    box.agent("asker", asking)
    async with box.open() as opened:
        first = await ran(box, opened, "asker")
        with pytest.raises(UsageError, match="is not a step"):
            await opened.sessions.fork(first.session, "1")
        with pytest.raises(UsageError, match="only consulted"):
            await opened.sessions.fork(first.session, "2.1", agent="worker")
        outcome = await (await opened.sessions.fork(first.session, "2.1")).run()
        assert outcome.state is SessionState.DONE
        assert len(await opened.sessions.list()) == 2


async def test_a_fork_is_not_given_to_who_is_not_there_or_has_it_already(box):
    async with box.open() as opened:
        first = await ran(box, opened)
        with pytest.raises(NotFoundError, match="no agent named 'nobody'"):
            await opened.sessions.fork(first.session, "1", agent="nobody")
        with pytest.raises(UsageError, match="worker already has the task"):
            await opened.sessions.fork(first.session, "1", agent="worker")
        assert len(await opened.sessions.list()) == 1


async def test_a_continuation_begins_with_what_the_session_came_to(box):
    got = []

    def play(brief):
        got.append(brief)
        yield calls("one")
        return Conclude("looked", next_steps=("look again",))

    box.agent("looker", play)
    async with box.open() as opened:
        first = await ran(box, opened, "looker", request="review this")
        task, before = await opened.tasks.continuation(first.session, "review it again, and the loop")
        session = await opened.tasks.submit(task, continues=before)
        outcome = await session.run()
        issued = await opened.certificates.read(outcome.certificate.id)
        summary = await opened.sessions.get(session.id)
    assert got[0].before is None
    was = got[1].before
    assert (was.session, was.certificate) == (first.session, first.certificate.id)
    assert (was.agent, was.summary, was.next_steps) == ("looker", "looked", ("look again",))
    assert [each.tool for each in was.evidence] == ["one"]
    # A brief, and no evidence of this session.
    assert got[1].evidence == ()
    assert (issued.agent, issued.task.paths) == ("looker", ("train.py",))
    assert issued.task.options == {CONTINUES: f"{first.session} ({first.certificate.id})"}
    assert [(relation.kind, relation.certificate) for relation in issued.relations] == [
        (RelationKind.SUPERSEDES, first.certificate.id)
    ]
    assert (summary.origin.kind, summary.origin.session) == (OriginKind.CONTINUED, first.session)


@pytest.mark.parametrize(
    ("message", "paths"), [("why is it slow?", ("train.py",)), ("review this as well", ("more.py",))]
)
async def test_a_continuation_about_something_else_leaves_the_certificate_standing(box, message, paths):
    (box.project / "more.py").write_text("x = 1\n")
    async with box.open() as opened:
        first = await ran(box, opened)
        task, before = await opened.tasks.continuation(first.session, message, [box.project / path for path in paths])
        outcome = await (await opened.tasks.submit(task, continues=before)).run()
        assert (await opened.certificates.read(outcome.certificate.id)).relations == ()


async def test_a_continuation_is_about_the_files_that_its_words_name(box):
    (box.project / "more.py").write_text("x = 1\n")
    async with box.open() as opened:
        first = await ran(box, opened)
        task, _ = await opened.tasks.continuation(first.session, "review more.py as well")
        assert task.paths == ("more.py",)
        task, _ = await opened.tasks.continuation(first.session, "review more.py as well", [box.project / "train.py"])
        assert task.paths == ("train.py",)


async def test_what_has_not_ended_is_not_continued(box):
    def asking(_brief):
        answer = yield Ask("why?")
        return Conclude(answer.text)

    box.agent("asker", asking)
    async with box.open() as opened:
        first = await ran(box, opened, "asker")
        with pytest.raises(UsageError, match="has not ended") as refused:
            await opened.tasks.continuation(first.session, "and now?")
        assert refused.value.remedy == f"resume it: esper resume {first.session}"


async def test_a_cancelled_session_is_continued_from_what_it_had_found(box):
    box.tool("write", risk=Risk.MEDIUM)
    box.agent("writer", in_turns("one", "write"))
    async with box.open() as opened:
        first = await ran(box, opened, "writer")
        await opened.sessions.cancel(first.session)
        task, before = await opened.tasks.continuation(first.session, "review it without writing", agent="other")
        assert [each.tool for each in before.evidence] == ["one"]
        assert (before.certificate, before.status) == ("", "")
        outcome = await (await opened.tasks.submit(task, continues=before)).run()
        assert outcome.state is SessionState.DONE


async def test_an_agent_that_is_gone_does_not_continue_silently(box):
    async with box.open() as opened:
        first = await ran(box, opened)
    (box.folder / "worker.md").unlink()
    async with box.open() as opened:
        with pytest.raises(NotFoundError, match="no agent named 'worker'"):
            await opened.tasks.continuation(first.session, "review it again")
        task, _ = await opened.tasks.continuation(first.session, "review it again", agent="other")
        assert task.agent == "other"


async def test_a_fork_and_a_continuation_survive_a_crash_like_any_session(box):
    box.agent("caller", calling("one", "two"))
    async with box.open() as opened:
        first = await ran(box, opened, "worker")
        fork = await opened.sessions.fork(first.session, "1")
        fork.stop()
        with pytest.raises(Exception, match="stopped before the next step"):
            await fork.run()
        outcome = await (await opened.tasks.resume(fork.id)).run()
        assert outcome.state is SessionState.DONE
