"""Messages assembled from the events of a stream: the same as the SDK's, and nothing malformed gets through."""

from __future__ import annotations

import json

import pytest
from anthropic import AsyncAnthropic

from esper_agents.errors import ModelError
from esper_agents.reasoning.message_stream import MessageAssembler
from esper_agents.reasoning.model_client import ModelServer
from esper_agents.reasoning.models import Usage
from esper_agents.testing.messages import MessagesServer
from esper_agents.testing.script import RawBytes, Say, Stop, Think, ToolUseBlock

START = {
    "type": "message_start",
    "message": {"id": "msg_1", "model": "m", "content": [], "usage": {"input_tokens": 7, "output_tokens": 1}},
}
STOP = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}
REQUEST = {"model": "claude-opus-5-5", "max_tokens": 2000, "messages": [{"role": "user", "content": "is it right?"}]}


def begins(index, kind="tool_use", **members):
    usual = {"tool_use": {"id": f"toolu_{index}", "name": "look", "input": {}}, "text": {"text": ""}}
    return {
        "type": "content_block_start",
        "index": index,
        "content_block": {"type": kind, **usual.get(kind, {}), **members},
    }


def piece(index, text, kind="input_json_delta", member="partial_json"):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, member: text}}


def assembled(*events):
    message = MessageAssembler()
    said = [message.add(event) for event in events]
    return message, list(message.blocks()), "".join(said)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "parts",
    [
        [Think("hm"), Say("I look at it."), ToolUseBlock("look", {"at": 1, "text": "é" * 50})],
        [Think("", is_redacted=True), ToolUseBlock("look"), ToolUseBlock("look", {"at": [1, {"b": None}]})],
        [Say("so"), Stop("max_tokens")],
    ],
)
async def test_a_message_is_the_one_that_the_sdk_assembles(parts):
    with MessagesServer(lambda _: parts) as server:
        ours = ModelServer(address=server.url, key="test")
        reply = await ours.ask(json.dumps(REQUEST | {"stream": True}), lambda _: None)
        await ours.close()
        async with (
            AsyncAnthropic(base_url=server.url, api_key="test") as client,
            client.messages.stream(**REQUEST) as stream,
        ):
            theirs = (await stream.get_final_message()).to_dict()
    blank = [{key: value for key, value in block.items() if key != "id"} for block in theirs["content"]]
    assert [{key: value for key, value in block.items() if key != "id"} for block in reply.content] == blank
    assert (reply.model, reply.stop) == (theirs["model"], theirs["stop_reason"])
    assert reply.usage.output == theirs["usage"]["output_tokens"]


def test_pieces_of_two_calls_that_arrive_in_turn_belong_to_their_own_call():
    events = (
        START,
        begins(1),
        piece(1, '{"at"'),
        begins(0),
        piece(0, '{"a'),
        piece(1, ": 2}"),
        piece(0, 't": 1}'),
        STOP,
    )
    message, blocks, _ = assembled(*events)
    assert [(block["id"], json.loads(text)) for block, text in blocks] == [
        ("toolu_0", {"at": 1}),
        ("toolu_1", {"at": 2}),
    ]
    assert (message.stop, message.usage) == ("tool_use", Usage(fresh=7, output=9))


def test_only_the_words_of_text_blocks_are_shown():
    events = (
        START,
        begins(0, "thinking", thinking="", signature=""),
        piece(0, "hm", "thinking_delta", "thinking"),
        piece(0, "sig", "signature_delta", "signature"),
        begins(1, "text", text="So "),
        piece(1, "it is", "text_delta", "text"),
        begins(2),
        piece(2, "{}"),
        STOP,
    )
    _, blocks, said = assembled(*events)
    assert said == "it is"
    assert [block for block, _ in blocks[:2]] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "text", "text": "So it is"},
    ]


def test_events_and_blocks_of_unknown_kinds_are_kept_out_of_the_way():
    new = {"type": "content_block_start", "index": 0, "content_block": {"type": "hologram", "depth": 3}}
    events = (START, {"type": "ping"}, {"type": "weather", "index": "x"}, new, piece(0, "z", "light_delta", "x"), STOP)
    _, blocks, said = assembled(*events)
    assert ([block for block, _ in blocks], said) == ([{"type": "hologram", "depth": 3}], "")


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([begins(0)], "before its message"),
        ([START, START], "a second message"),
        ([START, begins(0), begins(0)], "begins twice"),
        ([START, piece(0, "{}")], "has not begun"),
        ([START, begins(0), piece(1, "{}")], "has not begun"),
        ([START, begins(0), piece(0, 7)], "not a text"),
        ([START, begins(0), piece(0, "a", "text_delta", "text")], "what a text_delta continues"),
        ([START, begins(-1)], "index"),
        ([START, begins(True)], "index"),
        ([START, begins(0, id=None)], "id of a tool_use block"),
        ([START, begins(0, name=["look"])], "name of a tool_use block"),
        ([START, {**begins(0), "content_block": "x"}], "not an object"),
        ([START, {**STOP, "usage": {"output_tokens": "many"}}], "number of tokens"),
        ([START, {**STOP, "usage": {"output_tokens": -1}}], "number of tokens"),
        ([START, {**STOP, "delta": {"stop_reason": 3}}], "stop reason"),
        ([{"type": "message_start"}], "not an object"),
        ([["message_start"]], "event is not an object"),
    ],
)
def test_a_malformed_stream_is_refused_with_what_is_wrong(events, words):
    with pytest.raises(ValueError, match=words):
        assembled(*events)


def stream_of(*events):
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


async def _ask(body, monkeypatch):
    monkeypatch.setattr("esper_agents.reasoning.retry_budget._FIRST_WAIT_S", 0.001)
    with MessagesServer(lambda _: RawBytes(body)) as server:
        model = ModelServer(address=server.url, key="test")
        try:
            return await model.ask(json.dumps(REQUEST | {"stream": True}), lambda _: None)
        finally:
            await model.close()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([START, begins(0), piece(0, "{}")], "ended its answer early"),
        ([START, begins(0, "text"), piece(0, "\ud800", "text_delta", "text"), STOP], "malformed"),
        ([START, begins(0), piece(3, "{}"), STOP], "malformed message: a piece of content block 3"),
        ([START, begins(0, depth=float("nan")), STOP], "malformed"),
        ([{"type": "message_stop"}], "malformed message: it has no message"),
    ],
)
async def test_a_malformed_answer_of_a_server_is_one_line(monkeypatch, events, words):
    with pytest.raises(ModelError) as raised:
        await _ask(stream_of(*events), monkeypatch)
    assert words in raised.value.problem
    assert "\n" not in raised.value.problem + raised.value.remedy


@pytest.mark.anyio
async def test_an_answer_that_ends_without_a_stop_reason_is_whole(monkeypatch):
    none = {**STOP, "delta": {"stop_reason": None}}
    reply = await _ask(stream_of(START, begins(0), piece(0, '{"at": 1}'), none, {"type": "message_stop"}), monkeypatch)
    assert ([block["input"] for block in reply.content], reply.stop) == ([{"at": 1}], "")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("first", "text", "words"),
    [
        ({"input": ["a"]}, "", "not an object"),
        ({}, '["a"]', "not an object"),
        ({}, '{"at": "\\ud83d"}', "surrogate"),
        ({}, '{"at": NaN}', "NaN"),
    ],
)
async def test_arguments_that_no_tool_can_take_are_a_fault_of_their_call_alone(monkeypatch, first, text, words):
    events = (START, begins(0, **first), piece(0, text), begins(1, input={"at": 3}), STOP)
    reply = await _ask(stream_of(*events), monkeypatch)
    assert [block["input"] for block in reply.content] == [{}, {"at": 3}]
    assert list(reply.faults) == ["toolu_0"]
    assert words in reply.faults["toolu_0"]
