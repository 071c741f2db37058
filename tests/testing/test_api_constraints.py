from __future__ import annotations

import re

import anthropic
import pytest

from esper_agents.testing import MessagesServer, Say, Think, ToolUseBlock

MARK = {"type": "ephemeral"}
TOOL = {"name": "read-file", "input_schema": {"type": "object"}}
USE = {"type": "tool_use", "id": "toolu_1", "name": "read-file", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}
OLD = "claude-sonnet-4-5-20250929"
BETA = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}


def text(words="words", **more):
    return {"type": "text", "text": words, **more}


def user(*blocks):
    return {"role": "user", "content": list(blocks) or "hello"}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def system(*blocks):
    return {"role": "system", "content": list(blocks) or "be brief"}


REFUSED = [
    ({"messages": []}, "messages: at least one message is required"),
    ({"messages": [assistant(text()), user()]}, 'messages: first message must use the "user" role'),
    ({"messages": [user(text(""))]}, "messages: text content blocks must be non-empty"),
    ({"messages": [{"role": "user", "content": ""}]}, "messages.0: all messages must have non-empty content"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role: Input should be 'user', 'assistant'"),
    ({"messages": [{**user(), "name": "me"}]}, "messages.0.name: Extra inputs are not permitted"),
    ({"messages": [user({"type": "audio"})]}, "messages.0.content.0: Input tag 'audio' found using 'type'"),
    ({"messages": [user(text(color="red"))]}, "messages.0.content.0.text.color: Extra inputs are not permitted"),
    ({"messages": [user(USE)], "tools": [TOOL]}, "`tool_use` blocks can only be in `assistant` messages"),
    ({"messages": [user(), assistant(RESULT)]}, "`tool_result` blocks can only be in `user` messages"),
    ({"messages": [user(), assistant(text())]}, "does not support assistant message prefill"),
    ({"max_tokens": -1}, "max_tokens: Input should be greater than or equal to 0"),
    (
        {"max_tokens": 200_000, "timeout": 5},
        "max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens",
    ),
    ({"extra_body": {"temperature": 0.5}}, "temperature: Extra inputs are not permitted"),
    ({"extra_body": {"context_management": {}}}, "context_management: Extra inputs are not permitted"),
    ({"model": "gpt-5"}, "model: gpt-5"),
    # Tools and their results.
    ({"messages": [user(), assistant(USE), user()], "tools": [TOOL]}, "messages.1: `tool_use` ids were found without"),
    (
        {"messages": [user(), assistant(USE), user(text(), RESULT)], "tools": [TOOL]},
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1.",
    ),
    ({"messages": [user(), assistant(USE)], "tools": [TOOL]}, "messages.1: `tool_use` ids were found without"),
    ({"messages": [user(RESULT)], "tools": [TOOL]}, "messages.0.content.0: unexpected `tool_use_id` found"),
    (
        {"messages": [user(), assistant(USE), user(RESULT, RESULT)], "tools": [TOOL]},
        "messages.2.content: each tool_use must have a single result",
    ),
    (
        {"messages": [user(), assistant(USE), user(RESULT), assistant(USE), user(RESULT)], "tools": [TOOL]},
        "messages: `tool_use` ids must be unique",
    ),
    ({"messages": [user(), assistant(USE), user(RESULT)]}, "`tool_result` blocks must define tools"),
    ({"tools": [{**TOOL, "name": "read file"}]}, "tools.0.custom.name: String should match pattern"),
    ({"tools": [{**TOOL, "name": "x" * 129}]}, "tools.0.custom.name: String should match pattern"),
    ({"tools": [TOOL, TOOL]}, "tools: Tool names must be unique."),
    ({"tools": [{"name": "x"}]}, "tools.0.custom.input_schema: Field required"),
    ({"tools": [{**TOOL, "input_schema": {}}]}, "tools.0.custom.input_schema.type: Input should be 'object'"),
    ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "b"}}, "Tool 'b' not found in provided tools"),
    ({"tools": [TOOL], "tool_choice": {"type": "any"}}, 'tool_choice: type "any" is not supported for this model.'),
    (
        {
            "tools": [TOOL],
            "tool_choice": {"type": "any"},
            "thinking": {"type": "adaptive"},
            "model": "claude-sonnet-4-6",
        },
        "Thinking may not be enabled when tool_choice forces tool use.",
    ),
    # Breakpoints of the cache.
    (
        {"messages": [user(*(text(cache_control=MARK) for _ in range(5)))]},
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    (
        {"messages": [user(text(cache_control=MARK), text(cache_control={**MARK, "ttl": "1h"}))]},
        "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block",
    ),
    ({"messages": [user(text(cache_control={**MARK, "ttl": "2h"}))]}, "ephemeral.ttl: Input should be '5m' or '1h'"),
    # Thinking.
    ({"thinking": {"type": "disabled"}}, '"thinking.type.disabled" is not supported for this model.'),
    ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, '"thinking.type.enabled" is not supported'),
    ({"thinking": {"type": "adaptive"}, "model": OLD}, '"thinking.type.adaptive" is not supported for this model.'),
    (
        {"thinking": {"type": "enabled", "budget_tokens": 10}, "model": OLD},
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
    ),
    (
        {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 1024, "model": OLD},
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
    ),
    (
        {"messages": [user(), assistant({"type": "thinking", "thinking": "x", "signature": "eA=="}, text()), user()]},
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    (
        {
            "messages": [user(), assistant(USE), user(RESULT)],
            "tools": [TOOL],
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "max_tokens": 2000,
            "model": OLD,
        },
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
    ),
    # The system within the conversation.
    ({"messages": [user(), system()], "model": OLD}, "messages.1: role 'system' is not supported on this model"),
    ({"messages": [user(), assistant(text()), system()]}, "a `system` message must follow a `user` message"),
]


@pytest.fixture(scope="module")
def server():
    with MessagesServer(lambda _: Say("yes")) as serving:
        yield serving


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
@pytest.mark.parametrize(("request_", "problem"), REFUSED, ids=[problem[:60] for _, problem in REFUSED])
def test_a_request_is_refused_in_the_words_of_the_api(server, ask, request_, problem):
    given = dict(request_)
    messages = given.pop("messages", [user()])
    with pytest.raises((anthropic.BadRequestError, anthropic.NotFoundError), match=re.escape(problem)):
        ask(server, messages=messages, **given)
    assert problem in server.requests[-1].refusal


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
@pytest.mark.parametrize(
    "request_",
    [
        {"messages": [user(), user(text()), user()]},
        {"messages": [user(), system(), assistant(text()), user(), system()]},
        {"messages": [user(), assistant(text("Say: "))], "model": OLD},
        {"messages": [user(), assistant(text(), USE), user(RESULT, text())], "tools": [TOOL]},
        {
            "messages": [user(), assistant(USE), user({**RESULT, "content": [text()], "is_error": True})],
            "tools": [TOOL],
        },
        {"tools": [TOOL], "tool_choice": {"type": "any"}, "model": "claude-sonnet-4-6"},
        {"tools": [{"type": "memory_20250818", "name": "memory"}, {**TOOL, "strict": True}]},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000, "model": OLD},
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        {"extra_body": {"temperature": 0.5}, "extra_headers": {"anthropic-version": "2023-06-01"}},
        {"extra_body": {"context_management": {}}, "extra_headers": {"anthropic-beta": "context-management"}},
        {"messages": [user(*(text(cache_control=MARK) for _ in range(4)))]},
    ],
)
def test_a_request_that_is_in_order_is_answered(server, ask, request_):
    given = dict(request_)
    messages = given.pop("messages", [user()])
    assert ask(server, messages=messages, **given).content[0].text == "yes"


def test_a_prompt_that_is_too_long_is_refused(serve, ask):
    server = serve(lambda _: Say("yes"), window_tokens=1000)
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d{4} tokens > 1000 maximum"):
        ask(server, "word " * 1000)


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-opus-4-6"])
def test_thinking_must_come_back_as_it_was(serve, ask, model):
    server = serve(
        lambda _: [Think("first"), ToolUseBlock("read-file", {}), Think("second"), ToolUseBlock("read-file", {})]
    )
    more = {"model": model, "tools": [TOOL], "thinking": {"type": "adaptive", "display": "summarized"}}
    answered = ask(server, user(), **more)
    results = [{**RESULT, "tool_use_id": each.id} for each in answered.content if each.type == "tool_use"]
    kept = [each.model_dump(exclude_none=True) for each in answered.content]
    assert ask(server, user(), assistant(*kept), user(*results), **more).content
    with pytest.raises(anthropic.BadRequestError, match="Invalid `signature` in `thinking` block"):
        ask(server, user(), assistant({**kept[0], "thinking": "other"}, *kept[1:]), user(*results), **more)


def test_thinking_of_today_is_bound_to_the_conversation_it_was_made_in(serve, ask):
    server = serve(lambda _: [Think("hm"), Say("yes")])
    turns = [user(text("one", cache_control=MARK))]
    answered = ask(server, *turns, system="be brief", tools=[TOOL])
    turns = [user(text("one")), assistant(*answered.content), user(text("two", cache_control=MARK))]
    assert ask(server, *turns, system="be brief", tools=[TOOL]).content
    bound = "The block is bound to a different conversation"
    for changed in (
        {"system": "be long", "tools": [TOOL]},
        {"system": "be brief", "tools": [{**TOOL, "description": "reads"}]},
    ):
        with pytest.raises(anthropic.BadRequestError, match=bound):
            ask(server, *turns, **changed)
    with pytest.raises(anthropic.BadRequestError, match=bound):
        ask(server, user(text("uno")), *turns[1:], system="be brief", tools=[TOOL])
    dropping = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    assert ask(server, *turns, system="be long", thinking=dropping, extra_headers=BETA).content
    with pytest.raises(anthropic.BadRequestError, match="block_binding: Extra inputs are not permitted"):
        ask(server, *turns, system="be long", thinking=dropping)


@pytest.mark.parametrize("stream", [False, True])
def test_redacted_thinking_must_come_back_as_it_was(serve, ask, stream):
    server = serve(lambda _: [Think("hm", is_redacted=True), Say("yes")])
    answered = ask(server, user(), stream=stream)
    first, said = (each.model_dump(exclude_none=True) for each in answered.content)
    assert first.keys() == {"type", "data"}
    assert ask(server, user(), assistant(first, {"type": "text", "text": said["text"]}), user()).content
    with pytest.raises(anthropic.BadRequestError, match="Invalid `data` in `redacted_thinking` block"):
        ask(server, user(), assistant({**first, "data": "eA=="}), user())
    with pytest.raises(anthropic.BadRequestError, match="bound to a different conversation"):
        ask(server, user(text("other")), assistant(first), user())


def test_thinking_of_yesterday_is_not_bound(serve, ask):
    server = serve(lambda _: [Think("hm"), Say("yes")])
    more = {"model": "claude-opus-4-6", "thinking": {"type": "adaptive"}}
    answered = ask(server, user(), system="be brief", **more)
    assert ask(server, user(), assistant(*answered.content), user(), system="be long", **more).content


def test_another_server_goes_on_with_the_conversation(serve, ask):
    first = ask(serve([Think("hm"), ToolUseBlock("read-file", {})]), user(), tools=[TOOL])
    results = user({**RESULT, "tool_use_id": first.content[1].id})
    other = serve(ToolUseBlock("read-file", {}))
    again = ask(other, user(), assistant(*first.content), results, tools=[TOOL])
    assert again.content[0].id != first.content[1].id
