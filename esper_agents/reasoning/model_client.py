"""Client for one exchange with a model server: request, streamed answer, errors."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from esper_agents.domain.codec import canonical
from esper_agents.errors import ModelBusyError, ModelError, UsageError
from esper_agents.extras import Extra, require_extra
from esper_agents.reasoning.message_stream import MessageAssembler
from esper_agents.reasoning.model_errors import LOOK, line_of, refused, unwelcome
from esper_agents.reasoning.retry_budget import RetryBudget, TransientError
from esper_agents.reasoning.tool_input import (
    ToolInputError,
    checked_input,
    complete_part,
    read_tool_input,
    refused_input,
    unused_id,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from anthropic import AsyncAnthropic, AsyncStream

    from esper_agents.domain.codec import JsonObject
    from esper_agents.reasoning.models import Usage
    from esper_agents.reasoning.reasoner import Say

SERVER, TIMEOUT = "ESPER_MODEL_SERVER", "ESPER_MODEL_TIMEOUT"
SECOND_ADDRESS, SECOND_KEY = "ESPER_SECOND_OPINION_BASE_URL", "ESPER_SECOND_OPINION_API_KEY"
ANTHROPIC, BEDROCK, VERTEX = "anthropic", "bedrock", "vertex"
# Limit between two events of a stream; a server sends pings while a model thinks.
_SILENCE_S = 120.0
_CONNECT_S = 10.0
# Limit for the check of the API key before any work starts.
_GREETING_S = 5.0
_LATER = "resume later: esper resume latest"
_WITHOUT = "or work without a model: esper submit --reasoner playbook"
_NEEDS = {
    ANTHROPIC: f"export ANTHROPIC_API_KEY=..., {_WITHOUT}",
    BEDROCK: f"pip install 'anthropic[bedrock]', and set AWS_REGION and AWS credentials; {_WITHOUT}",
    VERTEX: f"pip install 'anthropic[vertex]', set ANTHROPIC_VERTEX_PROJECT_ID and log in with gcloud; {_WITHOUT}",
}


@dataclass(frozen=True, slots=True)
class ModelReply:
    """Reply of a model.

    Attributes:
        id: Identifier of the message.
        model: Full name of the model, as reported by the server.
        content: Content blocks, as they must be sent back.
        stop: Stop reason, in the API's words; empty if the server gave none.
        usage: Token usage.
        sha256: Digest of the content blocks.
        faults: Problems of tool calls with unreadable arguments, by tool use ID.
    """

    id: str
    model: str
    content: tuple[JsonObject, ...]
    stop: str
    usage: Usage
    sha256: str
    faults: Mapping[str, str] = field(default_factory=dict)


# Stop reasons of an answer that is longer than it may be.
CUT = frozenset(("max_tokens", "model_context_window_exceeded"))


class _BrokenOffError(Exception):
    """The stream ended before the answer was complete."""


@dataclass(frozen=True)
class ModelServer:
    """Client of a Messages API server. Its address and credentials come from the environment alone.

    Attributes:
        kind: `anthropic` for Anthropic's API and any compatible server, `bedrock` or `vertex`.
        silence_s: Maximum time without any event, in seconds.
        address: Base URL; if empty, the one that the SDK finds in the environment.
        key: API key; if empty, the one that the SDK finds in the environment.
    """

    kind: str = ANTHROPIC
    silence_s: float = _SILENCE_S
    address: str = ""
    key: str = field(default="", repr=False)

    @cached_property
    def client(self) -> AsyncAnthropic:
        """Client of the SDK, created on first use.

        Raises:
            UsageError: There is no API key, or a required package is not installed.
        """
        require_extra(Extra.AGENTS)
        import anthropic

        # The SDK's own spans are disabled: `esper trace` derives spans from the ledger.
        settings: dict[str, Any] = {
            # Retries are handled in one place: see `retry_budget`.
            "max_retries": 0,
            "timeout": anthropic.Timeout(self.silence_s, connect=_CONNECT_S),
            "open_telemetry": False,
        }
        if self.address:
            settings |= {"base_url": self.address, "api_key": self.key or None}
        try:
            client: AsyncAnthropic = _CLIENTS[self.kind](settings)
        except (anthropic.AnthropicError, ImportError, ValueError) as error:
            raise UsageError(
                f"cannot create a client for {self.kind}: {line_of(error)}", remedy=_NEEDS[self.kind]
            ) from error
        if self.kind == ANTHROPIC and not (client.api_key or client.auth_token or client.credentials):
            raise UsageError("no API key for the model server", remedy=_NEEDS[self.kind])
        parts = urlsplit(str(client.base_url))
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            name = SECOND_ADDRESS if self.address else "ANTHROPIC_BASE_URL"
            raise UsageError(f"{name} is not a server address", remedy=f"export {name}=https://..., or unset it")
        return client

    @property
    def host(self) -> str:
        """Host of the requests, without user name and password."""
        return urlsplit(str(self.client.base_url)).netloc.rpartition("@")[2]

    async def ask(self, request: str, say: Say, tries: RetryBudget | None = None) -> ModelReply:
        """Send a request and return the complete answer; its text is streamed to a callback.

        Args:
            request: Parameters of a streamed message as JSON, including the model.
            say: Receives the streamed text.
            tries: Retry budget of the action; None creates a new one.

        Raises:
            TooLongError: The prompt is too long for the model.
            ModelBusyError: The server is unreachable or overloaded, after retries.
            ModelError: The server refuses the request, or its answer is malformed.
        """
        tries = tries or RetryBudget()
        while True:
            try:
                return await self._answer(request, say, tries)
            except TransientError as trouble:
                await tries.wait(trouble, say)

    async def _answer(self, request: str, say: Say, tries: RetryBudget) -> ModelReply:
        """Return the answer to one request, and count its usage, whatever the outcome."""
        import anthropic
        import httpx2

        message = MessageAssembler()
        try:
            stream = await self._stream(request)
            try:
                async for event in stream:
                    if text := message.add(event):
                        say(text)
            finally:
                await stream.close()
            return _reply(message)
        except anthropic.APIStatusError as error:
            raise refused(self.host, error) from error
        except anthropic.APIConnectionError as error:
            raise TransientError(self._unreachable(error)) from error
        except (httpx2.HTTPError, _BrokenOffError) as error:
            raise TransientError(ModelBusyError(f"{self.host} ended its answer early", remedy=_LATER)) from error
        except (anthropic.APIError, ValueError, TypeError, RuntimeError, AssertionError, AttributeError) as error:
            nonsense = ModelError(f"{self.host} sent a malformed message: {line_of(error)}", remedy=LOOK)
            # An answer that starts as a message and then breaks is a transient error.
            raise (nonsense if message.usage is None else TransientError(nonsense)) from error
        except (anthropic.AnthropicError, ImportError) as error:
            # The SDK checks the requirements of Bedrock and Vertex at this point.
            raise UsageError(
                f"cannot send requests to {self.kind}: {line_of(error)}", remedy=_NEEDS[self.kind]
            ) from error
        finally:
            if message.usage is not None:
                tries.count(message.usage)

    def _unreachable(self, error: BaseException, remedy: str = LOOK) -> ModelBusyError:
        return ModelBusyError(f"{self.host} cannot be reached: {line_of(error.__cause__ or error)}", remedy=remedy)

    async def greet(self, model: str) -> None:
        """Check that the server is reachable and accepts the API key, before any work starts.

        The request is free of charge and contains no project data. A server that does not support it or is busy is
        accepted, as are Bedrock and Vertex, which have an address per model.

        Args:
            model: Full name of the requested model.

        Raises:
            UsageError: The server does not accept the key, or does not know the model.
            ModelBusyError: The server is unreachable.
        """
        import anthropic
        import httpx2

        if self.kind != ANTHROPIC:
            return
        client, limit = self.client, anthropic.Timeout(_GREETING_S, connect=_CONNECT_S)
        try:
            await client.messages.count_tokens(model=model, messages=[{"role": "user", "content": "?"}], timeout=limit)
        except anthropic.APIStatusError as error:
            if told := unwelcome(self.host, model, error, _WITHOUT):
                raise told from error
        except anthropic.APIConnectionError as error:
            if isinstance(error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
                remedy = f"check ANTHROPIC_BASE_URL and the network, {_WITHOUT}"
                raise self._unreachable(error, remedy) from error
        except (anthropic.AnthropicError, ValueError, TypeError):
            return

    async def _stream(self, request: str) -> AsyncStream[object]:
        """Return the stream of an answer, whose events are JSON objects.

        The request is sent as is: the SDK would traverse all of it each time. Only the clients of other servers read
        it, because they derive the address from it.
        """
        import anthropic

        sent: dict[str, Any] = (
            {"content": request.encode()} if self.kind == ANTHROPIC else {"body": json.loads(request)}
        )
        kind = anthropic.AsyncStream[object]
        return await self.client.post("/v1/messages", cast_to=object, stream=True, stream_cls=kind, **sent)

    async def close(self) -> None:
        """Close the connections."""
        if "client" in vars(self):
            await self.client.close()


def server_of(environment: Mapping[str, str], *, second: bool = False) -> ModelServer:
    """Return the client of the server that the environment configures.

    Args:
        environment: Environment variables.
        second: Whether to return the server for second opinions; the same server if no other is configured.

    Raises:
        UsageError: The configured server kind is unknown.
    """
    kind = environment.get(SERVER, ANTHROPIC)
    if kind not in _CLIENTS:
        raise UsageError(f"{SERVER}={kind!r} is not a server kind", remedy=f"write one of {', '.join(_CLIENTS)}")
    try:
        silence = float(environment.get(TIMEOUT, _SILENCE_S))
    except ValueError:
        silence = 0.0
    if not 0 < silence < float("inf"):
        raise UsageError(f"{TIMEOUT} is not a number of seconds", remedy=f"write {TIMEOUT}=120")
    if second and (address := environment.get(SECOND_ADDRESS, "")):
        return ModelServer(ANTHROPIC, silence, address, environment.get(SECOND_KEY, ""))
    return ModelServer(kind, silence)


def _anthropic(settings: Mapping[str, Any]) -> Any:
    from anthropic import AsyncAnthropic

    return AsyncAnthropic(**settings)


def _bedrock(settings: Mapping[str, Any]) -> Any:
    from anthropic import AsyncAnthropicBedrock

    return AsyncAnthropicBedrock(**settings)


def _vertex(settings: Mapping[str, Any]) -> Any:
    from anthropic import AsyncAnthropicVertex

    region = os.environ.get("CLOUD_ML_REGION", "global")
    return AsyncAnthropicVertex(region=region, **settings)


_CLIENTS = {ANTHROPIC: _anthropic, BEDROCK: _bedrock, VERTEX: _vertex}


def with_new_ids(reply: ModelReply, taken: Collection[str]) -> ModelReply:
    """Return a reply whose tool calls have other IDs than those of earlier turns; servers reject a repeated ID."""
    uses = [block["id"] for block in reply.content if block["type"] == "tool_use"]
    if not any(use in taken for use in uses):
        return reply
    names = {use: unused_id(use, {*taken, *uses}) if use in taken else use for use in uses}
    content = tuple(
        {**block, "id": names[block["id"]]} if block["type"] == "tool_use" else block for block in reply.content
    )
    faults = {names[use]: fault for use, fault in reply.faults.items()}
    return replace(reply, content=content, faults=faults, sha256=sha256(canonical(content)).hexdigest())


def _reply(message: MessageAssembler) -> ModelReply:
    if message.usage is None:
        raise ValueError("it has no message")
    if not message.stop and not message.is_ended:
        raise _BrokenOffError
    content, faults = [], {}
    taken: set[str] = set()
    for block, arguments in message.blocks():
        if block["type"] == "tool_use":
            block["id"] = unused_id(block["id"], taken)
            taken.add(block["id"])
            try:
                block["input"] = read_tool_input(arguments) if arguments else checked_input(block.get("input"))
            except ToolInputError as problem:
                # The server accepts only an object here.
                block["input"] = complete_part(arguments) if message.stop in CUT else {}
                faults[block["id"]] = refused_input(block["name"], problem)
        content.append(block)
    text = canonical(content)
    # Half of a surrogate pair could neither be recorded nor sent back.
    text.decode()
    digest = sha256(text).hexdigest()
    return ModelReply(message.id, message.model, tuple(content), message.stop, message.usage, digest, faults)
