"""A session as a person reads it: each thing once, where it belongs, with who and when."""

from __future__ import annotations

import pytest
from toys import calling, calls

from esper_agents.domain.agent_action import Ask, CallTools, Conclude, Consult, HandOff, ToolCall
from esper_agents.domain.approval_scope import AnswerReach, ScopeKind
from esper_agents.domain.evidence import Risk
from esper_agents.observing.session_timeline import session_timeline, span

pytestmark = pytest.mark.anyio


async def told(opened, session_id):
    return session_timeline(await opened.sessions.get(session_id), await opened.sessions.timeline(session_id))


def labelled(lines, label):
    return [text for each, text in lines if each == label]


def whole(_brief):
    yield calls("look")
    yield Consult("helper", "what is it?")
    answer = yield Ask("which?")
    yield calls("write", text=answer.text)
    yield HandOff("helper", "toys", "it knows springs", "a spring is loose")
    return Conclude("never")


@pytest.fixture
def box(toybox):
    toybox.tool("look")
    toybox.tool("write", risk=Risk.MEDIUM)
    toybox.agent("doer", whole)
    toybox.agent("helper", calling("look", then=lambda _: Conclude("it is a spring")))
    return toybox


async def test_frames_handoffs_consults_and_approvals_are_told_with_who_and_when(box):
    async with box.open() as opened:
        outcome = await (await box.submit(opened, "doer")).run()
        for each in ("left", "approve"):
            outcome = await (await opened.approvals.answer(outcome.questions[0].id, each)).run()
        lines = await told(opened, outcome.session)
    assert "frame 1 doer by playbook" in labelled(lines, "agent")[0]
    (consult,) = labelled(lines, "consult")
    assert "doer asks helper at 1.2: what is it?" in consult
    assert "helper answers: it is a spring" in labelled(lines, "answer")[0]
    (question,) = labelled(lines, "question")
    assert "1.3 which? Answered left by " in question
    (approval,) = labelled(lines, "approval")
    assert "1.4 may write run" in approval
    assert "Answered approve by " in approval
    assert ", after " in approval
    (handoff,) = labelled(lines, "handoff")
    assert "hop 1, doer to helper: it knows springs" in handoff
    assert any("a spring is loose" in text for label, text in lines if not label)
    assert len(labelled(lines, "verdict")) == len(labelled(lines, "certified")) == 1
    assert "waiting for people" in labelled(lines, "lasted")[0]
    # Every line begins with when it was, counted from the beginning.
    assert all(text.startswith("+") for label, text in lines if label in {"tool", "agent", "consult", "verdict"})
    # What a consulted agent does stands further in.
    assert " > 2.1 look" in labelled(lines, "tool")[1]


async def test_every_call_has_a_line_with_or_without_a_result(box):
    texts = ("import", "no such text", "neither is this")
    searches = [ToolCall("search-code", {"text": text, "paths": ["train.py"]}) for text in texts]

    def searching(_brief):
        yield CallTools(tuple(searches))
        return Conclude("searched")

    box.agent("searcher", searching)
    async with box.open() as opened:
        outcome = await (await box.submit(opened, "searcher")).run()
        lines = await told(opened, outcome.session)
    assert len(labelled(lines, "tool")) == len(searches)
    assert "search-code" in labelled(lines, "tool")[-1]


async def test_what_waits_is_told_with_what_it_is_called(box):
    box.agent("writer", calling("write"))
    async with box.open() as opened:
        outcome = await (await box.submit(opened, "writer")).run()
        lines = await told(opened, outcome.session)
    (approval,) = labelled(lines, "approval")
    assert f"Not answered: qst_{outcome.questions[0].id[-12:]}" in approval


async def test_a_call_that_was_cut_off_is_told(box):
    session = await box.cut_off("look", "last")
    async with box.open() as opened:
        lines = await told(opened, session)
    assert labelled(lines, "unfinished")[0].endswith("1.1 last has no result")


async def test_a_fork_and_a_continuation_say_where_they_come_from(box):
    async with box.open() as opened:
        first = await (await box.submit(opened, "helper")).run()
        fork = await opened.sessions.fork(first.session, "1")
        await fork.run()
        task, before = await opened.tasks.continuation(first.session, "review it again")
        continued = await opened.tasks.submit(task, continues=before)
        await continued.run()
        assert labelled(await told(opened, fork.id), "origin") == [f"forked from {first.session}"]
        assert labelled(await told(opened, continued.id), "origin") == [f"continues {first.session}"]
        # A fork's first rows are older than itself, and no time is before the beginning.
        assert not [text for _, text in await told(opened, fork.id) if text.startswith("+-")]


async def test_no_text_of_a_session_moves_the_cursor_or_breaks_a_line(box):
    box.agent("liar", calling("look", then=lambda _: Conclude("x", below_ceiling="\x1b[2J\nverdict    APPROVED")))
    async with box.open() as opened:
        outcome = await (await box.submit(opened, "liar")).run()
        lines = await told(opened, outcome.session)
    assert not [text for _, text in lines if "\x1b" in text or "\n" in text]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 ms"),
        (0.0421, "42 ms"),
        (1.26, "1.3 s"),
        (59.9, "59.9 s"),
        (61, "1 min 1 s"),
        (3_725, "1 h 2 min"),
        (200_000, "2 d 7 h"),
    ],
)
async def test_how_long_is_said_in_the_two_units_that_say_most(seconds, said):
    assert span(seconds) == said


async def test_an_approval_says_what_was_approved_and_which_later_calls_it_covers(toybox):
    def edit(_brief):
        yield calls("edit-file", path="train.py", old_string="import", new_string="import  ", replace_all=True)
        return Conclude("done")

    toybox.agent("editor", edit)
    async with toybox.open() as opened:
        outcome = await (await toybox.submit(opened, "editor")).run()
        lines = await told(opened, outcome.session)
        assert "+++ b/train.py" in labelled(lines, "")
        reach = AnswerReach(kind=ScopeKind.SESSION)
        await opened.approvals.record(outcome.questions[0].id, "approve", reach=reach)
        lines = await told(opened, outcome.session)
    (approval,) = labelled(lines, "approval")
    assert approval.endswith(", for later edit-file calls of this session")
    assert "+++ b/train.py" in labelled(lines, "")
