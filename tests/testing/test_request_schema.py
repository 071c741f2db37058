from __future__ import annotations

import json
from contextlib import closing
from http.client import HTTPConnection
from typing import get_args, get_type_hints

import pytest
from anthropic import types
from anthropic.types import (
    beta,
    content_block_param,
    message_count_tokens_params,
    message_create_params,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from esper_agents.testing import MessagesServer, Say
from esper_agents.testing.request_schema import BETA, BLOCKS, COUNTING, LEFT_BY_SERVER_TOOLS, MESSAGES, TOOL

# What the SDK sends as headers.
HEADERS = {"user_profile_id", "workspace_id", "betas"}


def fields_of(shape):
    return frozenset(shape.__annotations__) - HEADERS


def kind_of(shape):
    return get_type_hints(shape)["type"].__args__[0]


def test_the_fields_of_a_request_are_those_of_the_sdk():
    ours = MESSAGES.required | MESSAGES.optional
    assert ours - {"stream"} == fields_of(message_create_params.MessageCreateParamsBase)
    assert COUNTING.required | COUNTING.optional == fields_of(message_count_tokens_params.MessageCountTokensParams)
    more = fields_of(beta.message_create_params.MessageCreateParamsBase) - ours
    assert more == BETA
    assert TOOL.required | TOOL.optional == fields_of(types.ToolParam)


def test_the_blocks_of_a_request_are_those_of_the_sdk():
    shapes = {kind_of(argument): argument for argument in get_args(content_block_param.ContentBlockParam)}
    assert shapes.keys() == BLOCKS.keys() | LEFT_BY_SERVER_TOOLS
    for kind, fields in BLOCKS.items():
        assert fields.required | fields.optional == fields_of(shapes[kind]) - {"type"}, kind
        assert fields.required == shapes[kind].__required_keys__ - {"type"} or not shapes[kind].__required_keys__, kind


@pytest.fixture(scope="module")
def server():
    with MessagesServer(lambda _: Say("yes")) as serving:
        yield serving


def sent(server, body, path="/v1/messages", **headers):
    """Return the status and the body that raw bytes are answered with."""
    more = {"x-api-key": "test", "anthropic-version": "2026-10-21", **headers}
    with closing(HTTPConnection(server.url.removeprefix("http://"))) as connection:
        connection.request("POST", path, body, more)
        answered = connection.getresponse()
        return answered.status, json.loads(answered.read())


@pytest.mark.parametrize(
    ("body", "path", "status", "problem"),
    [
        (b"{", "/v1/messages", 400, "The request body is not valid JSON"),
        (b"[" * 100_000, "/v1/messages", 400, "The request body is not valid JSON"),
        (b"[]", "/v1/messages", 400, "Input should be an object"),
        (b"{}", "/v1/messages", 400, "max_tokens: Field required"),
        (b"{}", "/v1/messages/count_tokens", 400, "messages: Field required"),
        (b"{}", "/v1/complete", 404, "Not found"),
        (b"x" * (32 * 2**20 + 1), "/v1/messages", 413, "Request exceeds the maximum size"),
    ],
)
def test_what_is_no_request_is_refused(server, body, path, status, problem):
    answered, said = sent(server, body, path)
    assert (answered, said["type"]) == (status, "error")
    assert problem in said["error"]["message"]


def test_a_request_without_key_or_version_is_refused(server):
    assert sent(server, b"{}", **{"x-api-key": ""})[1]["error"] == {
        "type": "authentication_error",
        "message": "x-api-key header is required",
    }
    assert "anthropic-version" in sent(server, b"{}", **{"anthropic-version": ""})[1]["error"]["message"]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "id"]), inner),
    max_leaves=5,
)
kinds = st.sampled_from([*sorted(BLOCKS), *sorted(LEFT_BY_SERVER_TOOLS), "nothing"])
names = ["text", "thinking", "signature", "id", "name", "input", "tool_use_id", "content", "cache_control", "source"]
block = st.builds(
    lambda kind, more: {"type": kind, **more}, kinds, st.dictionaries(st.sampled_from(names), anything, max_size=4)
)
message = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system"]) | anything,
        "content": st.lists(block | anything, max_size=3) | anything,
    }
)
request = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["claude-opus-5-5", "claude-opus-4-5"]) | anything,
        "max_tokens": st.integers(0, 9) | anything,
        "messages": st.lists(message | anything, max_size=4) | anything,
    },
    optional={
        "tools": st.lists(block | anything, max_size=2) | anything,
        "system": st.lists(block | anything, max_size=2) | anything,
        "thinking": anything,
        "tool_choice": anything,
        "cache_control": anything,
    },
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(request)
def test_whatever_is_sent_is_answered_or_refused(server, body):
    status, _ = sent(server, json.dumps(body).encode())
    assert status in {200, 400, 404}
