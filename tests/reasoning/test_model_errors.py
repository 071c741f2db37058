"""What a server says where it gives no answer, and what follows from that."""

from __future__ import annotations

import anthropic
import httpx2
import pytest

from esper_agents.errors import ModelError, OverloadedError, UsageError
from esper_agents.reasoning.model_errors import refused, unwelcome
from esper_agents.reasoning.retry_budget import TransientError


def said(status, message="no", kind="", **headers):
    """Return an error as the SDK raises it."""
    response = httpx2.Response(status, headers=headers, request=httpx2.Request("POST", "http://host/v1/messages"))
    return anthropic.APIStatusError(message, response=response, body={"error": {"type": kind, "message": message}})


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
def test_trouble_of_the_servers_own_may_pass(status):
    trouble = refused("host", said(status))
    assert isinstance(trouble, TransientError)
    assert type(trouble.error) is OverloadedError


def test_trouble_in_the_middle_of_a_stream_may_pass_by_its_kind():
    assert isinstance(refused("host", said(200, kind="overloaded_error")), TransientError)
    assert type(refused("host", said(200, kind="invalid_request_error"))) is ModelError


def test_a_server_that_wants_no_request_again_gets_none():
    assert type(refused("host", said(529, **{"x-should-retry": "false"}))) is OverloadedError


def test_how_long_a_server_wants_to_be_left_alone_is_read():
    assert refused("host", said(429, **{"retry-after": "7.5"})).wait_s == 7.5
    assert refused("host", said(429, **{"retry-after": "Sun, 22 Nov 2099 00:00:00 GMT"})).wait_s > 10**9


@pytest.mark.parametrize("wanted", ["", "soon", "-3", "0", "nan", "inf", "1e999", "Sun, 22 Nov 1998 00:00:00 GMT"])
def test_a_wait_that_is_none_is_not_taken_for_one(wanted):
    assert refused("host", said(429, **{"retry-after": wanted})).wait_s is None


def test_only_a_key_and_a_model_that_can_never_do_are_unwelcome():
    for status in (401, 403):
        assert isinstance(unwelcome("host", "m-1", said(status), "or not"), UsageError)
    assert "does not have model 'm-1'" in unwelcome("host", "m-1", said(404, "model: m-1"), "or not").problem
    for error in (said(404, "Not found"), said(400), said(405), said(429), said(500)):
        assert unwelcome("host", "m-1", error, "or not") is None
