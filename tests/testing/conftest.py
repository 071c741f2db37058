"""What the tests of the scripted API share: the SDK's own clients, and requests that are in order."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import cache

import anthropic
import pytest

from esper_agents.testing import MessagesServer

MODEL = "claude-opus-5-5"


@pytest.fixture
def ask():
    """Return what asks a server through the SDK and returns its message; `stream=True` gathers a stream's."""

    def send(server, *messages, stream=False, client=None, **more):
        turns = [{"role": "user", "content": message} if isinstance(message, str) else message for message in messages]
        given = {
            "model": MODEL,
            "max_tokens": 1000,
            "messages": turns or [{"role": "user", "content": "hello"}],
            **more,
        }
        with opened(server) as own:
            sending = client or own
            if not stream:
                return sending.messages.create(**given)
            with sending.messages.stream(**given) as events:
                return events.get_final_message()

    return send


@cache
def _client():
    # Making one takes longer than a test.
    return anthropic.Anthropic(base_url="http://127.0.0.1:9", api_key="test", max_retries=0)


@contextmanager
def opened(server, **options):
    yield _client().with_options(base_url=server.url, **options)


@pytest.fixture
def client_of():
    """Return what opens the SDK's client for a server."""
    return opened


@pytest.fixture
def serve():
    """Return what serves a script until the test ends."""
    with ExitStack() as open_servers:
        yield lambda *answers, **options: open_servers.enter_context(
            MessagesServer(answers[0] if callable(answers[0]) else list(answers), **options)
        )
