"""The spans of sessions: what is part of what, when, and what leaves the house."""

from __future__ import annotations

import json
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes
from toys import calling, calls, refusing_tool

from esper_agents.domain.agent_action import Ask, Conclude, Consult, HandOff
from esper_agents.domain.evidence import Risk
from esper_agents.observing.ledger_spans import spans_of
from esper_agents.observing.span import SESSION, span_id, trace_id
from esper_agents.testing import MessagesServer, Think, ToolUseBlock

pytestmark = pytest.mark.anyio

SECRET = "ghp_" + "a1B2" * 9
# Newer than the names in the package that is installed.
NEWER = {"gen_ai.usage.cache_write.input_tokens", "gen_ai.transfer.target.name", "gen_ai.transfer.mode"}
ASKED = {
    "id": "msg_1",
    "model": "claude-opus-4-8",
    "stop": "tool_use",
    "usage": {"fresh": 7, "written": 20, "cached": 300, "output": 40},
    "spent": {"tokens": 367, "money": 1_234},
    "content": [
        {"type": "thinking", "thinking": "THOUGHT", "signature": "sig"},
        {"type": "text", "text": "WORDS"},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"text": "HERE"}},
    ],
}


def whole(_brief):
    yield calls("look", text="ARGUMENT")
    yield Consult("helper", "QUESTION")
    answer = yield Ask("ASKED")
    yield calls("write", text=answer.text)
    yield HandOff("helper", "toys", "REASON", "CONTEXT")
    return Conclude("never")


@pytest.fixture
def box(toybox):
    toybox.tool("look", output={"said": f"OUTPUT {SECRET}"})
    toybox.tool("write", risk=Risk.MEDIUM)
    toybox.agent("doer", whole)
    toybox.agent("helper", calling("look", then=lambda _: Conclude(f"SUMMARY {SECRET}")))
    return toybox


async def traced(opened, session, **options):
    return spans_of(await opened.sessions.get(session), await opened.sessions.timeline(session), **options)


async def answered(box, opened, *answers):
    """Run the whole of it, and return the session."""
    outcome = await (await box.submit(opened, "doer", request="review this REQUEST")).run()
    for answer in answers:
        outcome = await (await opened.approvals.answer(outcome.questions[0].id, answer)).run()
    return outcome.session


def tree(spans):
    names = {span.id: span.name for span in spans}
    return [(names.get(span.parent, ""), span.name) for span in spans]


def named(spans, name):
    return [span for span in spans if span.name == name]


@pytest.mark.both_databases
async def test_a_session_is_a_tree_of_its_agents_their_turns_and_their_calls(box):
    async with box.open() as opened:
        session = await answered(box, opened, "left", "approve")
        spans = await traced(opened, session)
    root, doer, helper = "invoke_workflow esper", "invoke_agent doer", "invoke_agent helper"
    assert tree(spans) == [
        ("", root),
        (root, doer),
        (doer, "decide doer"),
        (doer, "execute_tool look"),
        (doer, "decide doer"),
        (doer, helper),
        (helper, "decide helper"),
        (helper, "execute_tool look"),
        (helper, "decide helper"),
        (doer, "decide doer"),
        (doer, "decide doer"),
        (doer, "execute_tool write"),
        (doer, "decide doer"),
        (root, helper),
        (helper, "decide helper"),
        (helper, "execute_tool look"),
        (helper, "decide helper"),
    ]
    assert len({span.id for span in spans}) == len(spans)
    within = {span.id: span for span in spans}
    for span in spans:
        assert span.trace == trace_id(session) == session.removeprefix("ses_")
        assert span.attributes["gen_ai.conversation.id"] == session
        assert span.start_ns <= span.end_ns
        assert "esper.unfinished" not in span.attributes
        if span.parent:
            assert within[span.parent].start_ns <= span.start_ns
            assert span.end_ns <= within[span.parent].end_ns
    assert spans[0].attributes["esper.session.state"] == "done"
    assert spans[0].attributes["esper.verdict"]
    assert [event.name for event in spans[0].events] == ["esper.routed", "esper.certified"]


async def test_the_same_rows_give_the_same_spans(box):
    async with box.open() as opened:
        session = await answered(box, opened, "left", "approve")
        assert await traced(opened, session) == await traced(opened, session)


async def test_a_consult_links_to_the_turn_that_asked_and_a_handoff_to_who_handed_off(box):
    async with box.open() as opened:
        session = await answered(box, opened, "left", "approve")
        spans = await traced(opened, session)
    consulted, received = named(spans, "invoke_agent helper")
    (doer,) = named(spans, "invoke_agent doer")
    (asked,) = consulted.links
    (asking,) = [span for span in spans if span.id == asked.span]
    assert (asking.name, asking.attributes["esper.move"], asked.attributes) == (
        "decide doer",
        "consult",
        {"esper.link": "consult"},
    )
    (handed,) = received.links
    assert (handed.span, handed.attributes) == (doer.id, {"esper.link": "handoff", "esper.hop": 1})
    (told,) = [event for event in doer.events if event.name == "esper.handed_off"]
    assert told.attributes == {
        "gen_ai.transfer.target.name": "helper",
        "gen_ai.transfer.mode": "pass_control",
        "esper.hop": 1,
    }


async def test_what_waits_for_a_person_is_a_trace_that_grows_under_the_same_identifiers(box):
    async with box.open() as opened:
        session = await answered(box, opened)
        waiting = await traced(opened, session)
        outcome = await (await opened.approvals.answer(session, "left")).run()
        await (await opened.approvals.answer(outcome.questions[0].id, "approve")).run()
        done = await traced(opened, session)
    assert [each.id for each in done[: len(waiting)]] == [each.id for each in waiting]
    unfinished = [each.name for each in waiting if "esper.unfinished" in each.attributes]
    assert unfinished == ["invoke_workflow esper", "invoke_agent doer"]
    assert waiting[0].end_ns == max(each.end_ns for each in waiting)
    (doer,) = named(done, "invoke_agent doer")
    assert [event.name for event in doer.events] == [
        "esper.asked",
        "esper.answered",
        "esper.asked",
        "esper.answered",
        "esper.handed_off",
    ]


async def test_calls_that_failed_or_were_denied_are_errors(box):
    box.tools.append(refusing_tool("sensor"))
    box.agent("asker", calling("look", "sensor", "write"))
    async with box.open() as opened:
        outcome = await (await box.submit(opened, "asker")).run()
        await (await opened.approvals.answer(outcome.questions[0].id, "deny")).run()
        spans = await traced(opened, outcome.session)
    calls_made = [span for span in spans if span.name.startswith("execute_tool")]
    assert [(each.error, each.attributes.get("error.type")) for each in calls_made] == [
        ("", None),
        ("failed", "failed"),
        ("denied", "denied"),
    ]
    assert [each.attributes["esper.outcome"] for each in calls_made] == ["completed", "failed", "denied"]


async def test_a_call_that_was_cut_off_is_a_span_without_an_end(box):
    session = await box.cut_off("look", "last")
    async with box.open() as opened:
        spans = await traced(opened, session)
    last = spans[-1]
    assert (last.name, last.attributes["esper.unfinished"], last.error) == ("execute_tool last", True, "")
    assert last.attributes["gen_ai.tool.call.id"].startswith("ev_")


async def test_a_call_lasts_as_long_as_its_evidence_says(box):
    async with box.open() as opened:
        session = await answered(box, opened)
        events = await opened.sessions.timeline(session)
        spans = await traced(opened, session)
    (called,) = [event for event in events if event.kind == "called" and event.frame == 1]
    (look,) = [each for each in named(spans, "execute_tool look") if each.attributes["esper.frame"] == 1]
    assert look.end_ns - look.start_ns <= called.body["evidence"]["duration_ns"]
    assert look.attributes["gen_ai.tool.call.id"] == called.body["evidence"]["id"]


async def test_a_session_that_grew_out_of_another_links_to_it(box):
    async with box.open() as opened:
        first = await (await box.submit(opened, "helper")).run()
        fork = await opened.sessions.fork(first.session, "1")
        await fork.run()
        spans = await traced(opened, fork.id)
    (link,) = spans[0].links
    assert (link.trace, link.span) == (trace_id(first.session), span_id(first.session, SESSION))
    assert link.attributes == {"esper.link": "forked"}
    assert not {span.id for span in spans} & {link.span}


async def test_a_refused_task_is_an_error_and_a_cancelled_one_is_none(box):
    async with box.open() as opened:
        refused = await (await box.submit(opened, request="write me a poem about spring")).run()
        waiting = await answered(box, opened)
        await opened.sessions.cancel(waiting)
        (alone,) = await traced(opened, refused.session)
        cancelled = await traced(opened, waiting)
    assert (alone.error, alone.events[-1].name) == ("refused", "esper.refused")
    assert (cancelled[0].error, cancelled[0].attributes["esper.session.state"]) == ("", "cancelled")
    assert cancelled[0].events[-1].name == "esper.cancelled"


async def test_a_pruned_session_is_one_span_that_ends_when_the_session_did(box):
    async with box.open() as opened:
        session = await answered(box, opened, "left", "approve")
        before = await traced(opened, session)
        await opened.certificates.prune(await opened.certificates.prunable(days=0), days=0)
        (left,) = await traced(opened, session)
    assert (left.id, left.start_ns, left.end_ns) == (before[0].id, before[0].start_ns, before[0].end_ns)
    assert [event.name for event in left.events] == ["esper.routed", "esper.certified", "esper.pruned"]


def with_record(events, record):
    """Return a session's rows as if its first turn had been taken by a model."""
    moved = next(event for event in events if event.kind == "moved")
    taken = replace(moved, body={**moved.body, "record": record, "took_ms": 1})
    return tuple(taken if event is moved else event for event in events)


async def test_a_turn_of_a_model_is_a_chat_with_its_tokens(box):
    async with box.open() as opened:
        session = await answered(box, opened)
        found, events = await opened.sessions.get(session), await opened.sessions.timeline(session)
    (chat,) = named(spans_of(found, with_record(events, ASKED)), "chat claude-opus-4-8")
    assert chat.is_remote
    said = {name: each for name, each in chat.attributes.items() if name.startswith(("gen_ai.", "esper.spent"))}
    assert said == {
        "gen_ai.conversation.id": session,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "playbook",
        "gen_ai.agent.name": "doer",
        "gen_ai.request.model": "claude-opus-4-8",
        "gen_ai.response.model": "claude-opus-4-8",
        "gen_ai.response.id": "msg_1",
        "gen_ai.response.finish_reasons": ("tool_use",),
        "gen_ai.usage.input_tokens": 327,
        "gen_ai.usage.output_tokens": 40,
        "gen_ai.usage.cache_read.input_tokens": 300,
        "gen_ai.usage.cache_write.input_tokens": 20,
        "esper.spent.tokens": 367,
        "esper.spent.micro_usd": 1_234,
    }


async def test_a_models_tokens_are_those_that_its_server_counted(box, monkeypatch):
    script = [
        [Think("hm"), ToolUseBlock("look", {"text": "ARGUMENT"})],
        ToolUseBlock("conclude", {"summary": "SUMMARY"}),
    ]
    with MessagesServer(script) as server:
        for name, text in server.environment.items():
            monkeypatch.setenv(name, text)
        async with box.open() as opened:
            task = opened.tasks.create("review this", [box.project / "train.py"], agent="helper")
            opened.models.allow(urlsplit(server.url).netloc)
            session = await opened.tasks.submit(opened.models.with_reasoner(task, "claude"))
            await session.run()
            spans = await traced(opened, session.id)
    chats = [span for span in spans if span.name.startswith("chat ")]
    kinds = ("input_tokens", "cache_read.input_tokens", "cache_write.input_tokens")
    told = [tuple(chat.attributes[f"gen_ai.usage.{kind}"] for kind in kinds) for chat in chats]
    assert told == [(request.usage.total, request.usage.read, request.usage.written) for request in server.requests]
    assert sum(map(sum, told))
    assert {chat.attributes["gen_ai.provider.name"] for chat in chats} == {"anthropic"}
    assert [chat.attributes["gen_ai.request.model"] for chat in chats] == [
        request.body["model"] for request in server.requests
    ]
    assert [chat.attributes["gen_ai.response.finish_reasons"] for chat in chats] == [("tool_use",)] * 2
    assert [word for word in WORDS if word in repr(spans)] == []


async def test_what_a_model_said_is_told_in_the_parts_of_the_conventions_when_it_is_wanted(box):
    async with box.open() as opened:
        session = await answered(box, opened)
        found, events = await opened.sessions.get(session), await opened.sessions.timeline(session)
    (chat,) = named(spans_of(found, with_record(events, ASKED), with_content=True), "chat claude-opus-4-8")
    assert json.loads(chat.attributes["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "finish_reason": "tool_use",
            "parts": [
                {"type": "reasoning", "content": "THOUGHT"},
                {"type": "text", "content": "WORDS"},
                {"type": "tool_call", "id": "toolu_1", "name": "look", "arguments": {"text": "HERE"}},
            ],
        }
    ]


@pytest.mark.parametrize(
    "record",
    [
        {"model": 5, "usage": "many", "spent": [], "content": "text"},
        {"model": "m", "usage": {"fresh": -1, "cached": 2**70, "output": True}, "stop": None, "id": {}},
        {"model": "m", "content": [1, {"type": []}, {"type": "text", "text": None}], "spent": {"money": "1"}},
    ],
)
async def test_whatever_a_reasoner_wants_on_record_the_session_can_be_traced(box, record):
    async with box.open() as opened:
        session = await answered(box, opened)
        found, events = await opened.sessions.get(session), await opened.sessions.timeline(session)
    turn = spans_of(found, with_record(events, record), with_content=True)[2]
    counts = [each for name, each in turn.attributes.items() if "tokens" in name or "micro_usd" in name]
    assert not any(counts)


WORDS = ("REQUEST", "ARGUMENT", "OUTPUT", "QUESTION", "ASKED", "left", "REASON", "CONTEXT", "SUMMARY", "train.py")


async def test_nothing_that_was_said_leaves_the_house_unless_it_is_asked_for(box):
    async with box.open() as opened:
        session = await answered(box, opened, "left", "approve")
        bare, full = await traced(opened, session), await traced(opened, session, with_content=True)
    assert [word for word in WORDS if word in repr(bare)] == []
    # Why a task was handed off and what it was about stand in the ledger alone.
    assert [word for word in WORDS if word not in repr(full)] == ["REASON", "train.py"]
    assert SECRET not in repr(full)
    assert [each.id for each in bare] == [each.id for each in full]


async def test_content_is_cut_where_it_is_very_long(box):
    box.tool("talk", output={"said": "x" * 100_000})
    box.agent("talker", calling("talk"))
    async with box.open() as opened:
        outcome = await (await box.submit(opened, "talker")).run()
        spans = await traced(opened, outcome.session, with_content=True)
    (talk,) = named(spans, "execute_tool talk")
    assert talk.attributes["gen_ai.tool.call.result"].endswith("more characters]")
    assert len(talk.attributes["gen_ai.tool.call.result"]) < 66_000


async def test_names_are_those_of_the_conventions_or_our_own(box):
    known = {each for name, each in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")} | NEWER
    async with box.open() as opened:
        session = await answered(box, opened, "left", "approve")
        found, events = await opened.sessions.get(session), await opened.sessions.timeline(session)
    spans = spans_of(found, with_record(events, ASKED), with_content=True)
    told = {name for span in spans for part in (span, *span.events, *span.links) for name in part.attributes}
    assert {each for each in told if not each.startswith("esper.")} <= known | {error_attributes.ERROR_TYPE}
