from __future__ import annotations

import asyncio
import json
import time

import anthropic
import httpx2
import pytest

from esper_agents.errors import UsageError
from esper_agents.testing import (
    Fail,
    Hang,
    MessagesServer,
    RawBytes,
    Say,
    Slow,
    Stop,
    Think,
    ToolUseBlock,
    TruncateResponse,
)

READ = {"name": "read-file", "description": "Read a file.", "input_schema": {"type": "object", "properties": {}}}


@pytest.mark.parametrize("stream", [False, True])
def test_the_sdk_reads_what_the_script_says(serve, ask, stream):
    server = serve(
        [
            Say("I look. " * 40),
            ToolUseBlock("read-file", {"path": "train.py"}),
            ToolUseBlock("read-file", {"path": "b" * 200}),
        ]
    )
    message = ask(server, "review this", tools=[READ], stream=stream)
    text, first, second = message.content
    assert text.text == "I look. " * 40
    assert (first.name, first.input, second.input) == ("read-file", {"path": "train.py"}, {"path": "b" * 200})
    assert first.id != second.id
    assert message.stop_reason == "tool_use"
    assert message.id.startswith("msg_")
    assert server.requests[0].last == "review this"


@pytest.mark.parametrize("stream", [False, True])
def test_tool_results_carry_a_conversation_on(serve, ask, stream):
    server = serve([Think("hm"), ToolUseBlock("read-file", {"path": "a"})], Say("done"))
    asked = {"role": "user", "content": "look"}
    first = ask(server, asked, tools=[READ], stream=stream)
    result = {"type": "tool_result", "tool_use_id": first.content[-1].id, "content": "x = 1"}
    second = ask(
        server,
        asked,
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [result]},
        tools=[READ],
        stream=stream,
    )
    assert second.content[0].text == "done"
    assert server.requests[1].last == "x = 1"
    assert [request.number for request in server.requests] == [1, 2]


def test_a_stream_has_the_events_of_the_api_in_their_order(serve, client_of):
    server = serve([Think("hm"), Say("yes"), ToolUseBlock("read-file", {"path": "a"})])
    body = {"model": "claude-opus-4-6", "max_tokens": 2000, "thinking": {"type": "adaptive"}, "tools": [READ]}
    with client_of(server) as client:
        events = list(client.messages.create(**body, messages=[{"role": "user", "content": "hi"}], stream=True))
    kinds = [event.type if event.type != "content_block_delta" else event.delta.type for event in events]
    assert kinds == [
        "message_start",
        *("content_block_start", "thinking_delta", "signature_delta", "content_block_stop"),
        *("content_block_start", "text_delta", "content_block_stop"),
        *("content_block_start", "input_json_delta", "input_json_delta", "content_block_stop"),
        *("message_delta", "message_stop"),
    ]
    assert [event.index for event in events if event.type == "content_block_start"] == [0, 1, 2]
    assert events[0].message.usage.output_tokens == 1
    assert events[-2].usage.output_tokens > events[-2].usage.output_tokens_details.thinking_tokens > 0


def test_a_stream_pings_after_its_first_block_begins(serve, client_of):
    with client_of(serve(Say("yes"))) as client:
        turns = [{"role": "user", "content": "x"}]
        answered = client.messages.with_raw_response.create(
            model="claude-opus-5-5", max_tokens=9, messages=turns, stream=True, extra_query={"beta": "true"}
        )
        events = answered.http_response.read().decode().split("\n\n")
    assert answered.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert int(answered.headers["anthropic-ratelimit-requests-remaining"]) > 0
    assert answered.headers["request-id"].startswith("req_")
    assert [event.partition("\n")[0] for event in events[:3]] == [
        "event: message_start",
        "event: content_block_start",
        "event: ping",
    ]


@pytest.mark.parametrize(
    "stop",
    [
        Stop("max_tokens"),
        Stop("stop_sequence", sequence="END"),
        Stop("model_context_window_exceeded"),
        Stop("refusal", category="cyber", explanation="no"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_every_reason_to_stop_arrives(serve, ask, stop, stream):
    message = ask(serve([Say("so far"), stop]), stream=stream)
    assert message.stop_reason == stop.reason
    assert message.stop_sequence == stop.sequence
    assert (message.stop_details and message.stop_details.category) == stop.category


def test_a_paused_turn_goes_on_where_it_stopped_and_no_other_prefill_does(serve, ask):
    server = serve([Say("searching"), Stop("pause_turn")], Say("found"))
    asked = {"role": "user", "content": "search"}
    paused = ask(server, asked)
    assert ask(server, asked, {"role": "assistant", "content": paused.content}).content[0].text == "found"
    with pytest.raises(anthropic.BadRequestError, match="does not support assistant message prefill"):
        ask(server, asked, {"role": "assistant", "content": "searched"})


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, anthropic.BadRequestError),
        (401, anthropic.AuthenticationError),
        (403, anthropic.PermissionDeniedError),
        (404, anthropic.NotFoundError),
        (413, anthropic.ContentTooLargeError),
        (429, anthropic.RateLimitError),
        (500, anthropic.InternalServerError),
        (529, anthropic.APIStatusError),
    ],
)
def test_errors_are_those_of_the_api(serve, ask, status, kind):
    with pytest.raises(kind) as raised:
        ask(serve(Fail(status, retry_after_s=0.5)))
    assert raised.value.status_code == status
    assert raised.value.response.headers["retry-after"] == "0.5"
    assert raised.value.body["request_id"] == raised.value.request_id


def test_the_sdk_tries_again_where_the_server_says_so(serve, client_of, ask):
    server = serve(Fail(429, retry_after_s=0.001), Fail(529, retry_after_s=0.001), Say("at last"))
    with client_of(server, max_retries=2) as client:
        assert ask(server, client=client).content[0].text == "at last"
    assert [request.headers["x-stainless-retry-count"] for request in server.requests] == ["0", "1", "2"]


def test_an_error_within_a_stream_is_an_event(serve, ask):
    with pytest.raises(anthropic.APIStatusError, match="Overloaded") as raised:
        ask(serve([Say("half"), Fail(529)]), stream=True)
    assert raised.value.response.status_code == 200


@pytest.mark.parametrize("after", [0, 1, 300])
@pytest.mark.parametrize("stream", [False, True])
def test_a_connection_ends_after_so_many_bytes(serve, ask, after, stream):
    with pytest.raises((anthropic.APIConnectionError, httpx2.RemoteProtocolError)):
        ask(serve([Say("x" * 1000), TruncateResponse(after)]), stream=stream)


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_hangs_runs_into_the_time_out_of_the_client(serve, client_of, ask, stream):
    server = serve([Say("half"), Hang()])
    with client_of(server, timeout=0.05) as client, pytest.raises((anthropic.APITimeoutError, httpx2.ReadTimeout)):
        ask(server, client=client, stream=stream)


def test_nonsense_is_sent_as_it_stands(serve, ask):
    with pytest.raises(json.JSONDecodeError):
        ask(serve(RawBytes(b'{"type": "mess')))
    with pytest.raises(json.JSONDecodeError):
        ask(serve([Say("half"), RawBytes(b"event: content_block_delta\ndata: {oops\n\n")]), stream=True)


@pytest.mark.parametrize("stream", [False, True])
def test_a_page_of_somebody_else_is_no_answer(serve, ask, stream):
    with pytest.raises(anthropic.InternalServerError, match="<h1>"):
        ask(serve(RawBytes(b"<h1>Bad gateway</h1>", 502, "text/html")), stream=stream)


def test_a_request_to_another_path_is_kept_with_it(serve, client_of):
    server = serve(Say("yes"))
    with client_of(server) as client, pytest.raises(anthropic.NotFoundError):
        client.models.list()
    assert [(request.path, request.refusal) for request in server.requests] == [("/v1/models", "Not found")]


def test_arguments_of_a_tool_may_be_broken_json(serve, ask):
    message = ask(
        serve([ToolUseBlock("read-file", '{"path": "a", "li'), Stop("max_tokens")]), stream=True, tools=[READ]
    )
    assert message.content[0].input == {"path": "a"}


def test_a_slow_answer_keeps_what_came_before_it(serve, client_of):
    server = serve([Say("first"), Slow(0.05), Say("second")])
    arrived = []
    with (
        client_of(server) as client,
        client.messages.stream(
            model="claude-opus-5-5", max_tokens=99, messages=[{"role": "user", "content": "x"}]
        ) as events,
    ):
        arrived += [(event.text, time.monotonic()) for event in events if event.type == "text"]
    assert [text for text, _ in arrived] == ["first", "second"]
    assert arrived[1][1] - arrived[0][1] >= 0.04


def test_a_function_answers_by_what_it_is_asked(serve, ask):
    server = serve(lambda request: Say(f"{request.number}: {request.last}, {request.system}, {request.tools}"))
    assert ask(server, "hello", system="be brief", tools=[READ]).content[0].text == "1: hello, be brief, ('read-file',)"


def test_thinking_is_shown_as_the_request_has_it(serve, ask):
    server = serve(lambda _: [Think("a secret"), Say("yes")])
    shown = ask(server, thinking={"type": "adaptive", "display": "summarized"}).content
    assert [each.type for each in shown] == ["thinking", "text"]
    assert shown[0].thinking == "a secret"
    assert ask(server).content[0].thinking == ""
    assert ask(server).content[0].signature
    assert [each.type for each in ask(server, model="claude-opus-4-6").content] == ["text"]


def test_a_prompt_can_be_cached_without_an_answer(serve, ask):
    server = serve(Say("only one answer"))
    message = ask(server, max_tokens=0)
    assert (message.content, message.stop_reason) == ([], "max_tokens")
    assert ask(server).content[0].text == "only one answer"


def test_tokens_are_counted_as_they_are_billed(serve, client_of, ask):
    server = serve(Say("yes"))
    turns = [{"role": "user", "content": "word " * 100}]
    with client_of(server) as client:
        counted = client.messages.count_tokens(model="claude-opus-5-5", messages=turns, system="be brief", tools=[READ])
    assert counted.input_tokens == ask(server, *turns, system="be brief", tools=[READ]).usage.input_tokens
    assert (len(server.counted), len(server.requests)) == (1, 1)


def test_a_script_that_has_run_out_fails_the_test_that_asked_it(ask):
    server = MessagesServer([])
    with pytest.raises(UsageError, match="the script has 0 answers"), server:
        ask_in_vain(ask, server)
    assert len(server.requests) == 1


def ask_in_vain(ask, server):
    with pytest.raises(anthropic.BadRequestError, match="the script"):
        ask(server)


@pytest.mark.parametrize("said", ["hello", None, [Say("so"), "far"]])
def test_what_is_no_part_of_an_answer_fails_the_test(ask, said):
    server = MessagesServer([said])
    with pytest.raises(UsageError, match="is not a part of an answer"), server:
        ask_in_vain(ask, server)


def test_another_server_takes_the_place_of_one_that_has_ended(ask):
    with MessagesServer([Say("before")]) as first:
        ask(first)
    with MessagesServer([Say("after")], port=int(first.url.rpartition(":")[2])) as second:
        assert second.url == first.url
        assert ask(second).content[0].text == "after"
        with pytest.raises(OSError, match="in use"), MessagesServer([], port=int(first.url.rpartition(":")[2])):
            pass


def test_what_a_script_raises_is_raised_in_the_test(ask):
    def broken(_):
        raise LookupError("no such case")

    server = MessagesServer(broken)
    with pytest.raises(LookupError, match="no such case"), server:
        ask_in_vain(ask, server)


def test_the_environment_is_all_that_a_program_needs(serve, monkeypatch):
    server = serve(Say("hello"), key="sk-ant-only-this-one")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    with anthropic.Anthropic() as client:
        assert client.models is not None
        turns = [{"role": "user", "content": "x"}]
        assert client.messages.create(model="claude-haiku-5-5", max_tokens=9, messages=turns).content[0].text == "hello"
    with anthropic.Anthropic(api_key="another") as client, pytest.raises(anthropic.AuthenticationError):
        client.messages.create(model="claude-haiku-5-5", max_tokens=9, messages=turns)


@pytest.mark.anyio
async def test_sixty_four_streams_run_at_once(serve):
    def slowly(request):
        return [Say("first "), Slow(0.05), Say(request.last)]

    server = serve(slowly)
    async with anthropic.AsyncAnthropic(base_url=server.url, api_key="test", max_retries=0) as client:

        async def one(at):
            async with client.messages.stream(
                model="claude-opus-5-5", max_tokens=99, messages=[{"role": "user", "content": f"stream {at}"}]
            ) as events:
                return (await events.get_final_message()).content[1].text

        said = await asyncio.gather(*(one(at) for at in range(64)))
    assert said == [f"stream {at}" for at in range(64)]
    assert len(server.requests) == 64
