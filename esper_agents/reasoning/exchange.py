"""One exchange with a language model's server: the request, the stream of its answer, and what may go wrong."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from esper_agents.errors import ModelBusyError, ModelError, UsageError
from esper_agents.reasoning.models import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anthropic import AsyncAnthropic
    from anthropic.lib.streaming import AsyncMessageStreamManager
    from anthropic.types import Message

    from esper_agents.domain.codec import JsonObject
    from esper_agents.reasoning.reasoner import Say

SERVER, TIMEOUT = "ESPER_MODEL_SERVER", "ESPER_MODEL_TIMEOUT"
SECOND_ADDRESS, SECOND_KEY = "ESPER_SECOND_OPINION_BASE_URL", "ESPER_SECOND_OPINION_API_KEY"
ANTHROPIC, BEDROCK, VERTEX = "anthropic", "bedrock", "vertex"
# How often a request is made again after it failed, whether before the first byte or in the middle of the stream.
MOST_RETRIES = 4
# Between two events of a stream; a server sends pings while a model thinks.
_SILENCE_S = 120.0
_CONNECT_S = 10.0
_TOO_LARGE, _BAD = 413, 400
_WITHOUT = "or work without a model: esper submit --reasoner playbook"
_NEEDS = {
    ANTHROPIC: f"export ANTHROPIC_API_KEY=..., {_WITHOUT}",
    BEDROCK: f"pip install 'anthropic[bedrock]', and set AWS_REGION and credentials of AWS; {_WITHOUT}",
    VERTEX: f"pip install 'anthropic[vertex]', set ANTHROPIC_VERTEX_PROJECT_ID and log in with gcloud; {_WITHOUT}",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered.

    Attributes:
        id: The message's identifier.
        model: The model's full name, as the server said it.
        content: The blocks, as they must be given back.
        stop: Why it stopped, in the API's words.
        usage: The tokens.
    """

    id: str
    model: str
    content: tuple[JsonObject, ...]
    stop: str
    usage: Usage


class TooLongError(ModelError):
    """The prompt is longer than the model's window, or the request larger than the server takes."""


class BoundError(ModelError):
    """Thinking that is given back was signed with what went before it, and that has changed since."""


@dataclass(frozen=True)
class ModelServer:
    """A server that speaks the Messages API. Who it is and what it is asked with comes from the environment alone.

    Attributes:
        kind: `anthropic` for Anthropic's API and any server that speaks it, `bedrock` or `vertex`.
        silence_s: How long it may say nothing, in seconds.
        address: Where it is; what the SDK finds in the environment where empty.
        key: The key for it; likewise.
    """

    kind: str = ANTHROPIC
    silence_s: float = _SILENCE_S
    address: str = ""
    key: str = field(default="", repr=False)

    @cached_property
    def client(self) -> AsyncAnthropic:
        """The SDK's client, made when it is first needed.

        Raises:
            UsageError: There is no key, or what the kind needs is not installed.
        """
        import anthropic

        # No spans of the SDK's own: `esper trace` makes them from the record.
        settings: dict[str, Any] = {
            "max_retries": MOST_RETRIES,
            "timeout": anthropic.Timeout(self.silence_s, connect=_CONNECT_S),
            "open_telemetry": False,
        }
        if self.address:
            settings |= {"base_url": self.address, "api_key": self.key or None}
        try:
            client: AsyncAnthropic = _CLIENTS[self.kind](settings)
        except (anthropic.AnthropicError, ImportError, ValueError) as error:
            raise UsageError(
                f"no client for {self.kind} can be made: {_line(error)}", remedy=_NEEDS[self.kind]
            ) from error
        if self.kind == ANTHROPIC and not (client.api_key or client.auth_token or client.credentials):
            raise UsageError("there is no key for a language model's server", remedy=_NEEDS[self.kind])
        parts = urlsplit(str(client.base_url))
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            name = SECOND_ADDRESS if self.address else "ANTHROPIC_BASE_URL"
            raise UsageError(f"{name} is no address of a server", remedy=f"export {name}=https://..., or unset it")
        return client

    @property
    def host(self) -> str:
        """Where requests go, without the name and password that may stand before it."""
        return urlsplit(str(self.client.base_url)).netloc.rpartition("@")[2]

    async def ask(self, request: str, say: Say) -> Reply:
        """Send a request and return the whole answer; its words are told as they come.

        Args:
            request: The parameters of a streamed message as JSON, model included.
            say: Takes the words.

        Raises:
            TooLongError: It is too long for the model.
            ModelBusyError: Nobody answers, or the server takes no more for now; after retries.
            ModelError: The server refuses it, or answers nonsense.
        """
        for _ in range(MOST_RETRIES):
            message = await self._streamed(request, say)
            if message is not None:
                return _reply(message)
        raise ModelBusyError(
            f"{self.host} broke off its answer {MOST_RETRIES} times", remedy="go on later: esper resume latest"
        )

    async def _streamed(self, request: str, say: Say) -> Message | None:
        """Return the message, or None where the stream broke off."""
        import anthropic
        import httpx2

        try:
            async with self._stream(request) as stream:
                async for event in stream:
                    if event.type == "text":
                        say(event.text)
                message: Message = await stream.get_final_message()
        except anthropic.APIStatusError as error:
            raise self._refused(error) from error
        except anthropic.APIConnectionError as error:
            why = _line(error.__cause__ or error)
            raise ModelBusyError(f"{self.host} cannot be reached: {why}", remedy=self._remedy) from error
        except httpx2.HTTPError:
            return None
        except (anthropic.APIError, ValueError, TypeError, RuntimeError, AssertionError, AttributeError) as error:
            problem = f"{self.host} answers what is no message: {_line(error)}"
            raise ModelError(problem, remedy=self._remedy) from error
        except (anthropic.AnthropicError, ImportError) as error:
            # What Bedrock and Vertex need is first looked for here.
            raise UsageError(f"{self.kind} cannot be asked: {_line(error)}", remedy=_NEEDS[self.kind]) from error
        return message if message.stop_reason else None

    def _stream(self, request: str) -> AsyncMessageStreamManager[None]:
        """Return the stream of an answer. The request goes as it stands: the SDK would walk all of it each time."""
        import anthropic
        from anthropic.lib.streaming import AsyncMessageStreamManager
        from anthropic.types import Message, RawMessageStreamEvent

        if self.kind != ANTHROPIC:
            # Where these send it to depends on what it says.
            given = json.loads(request)
            return self.client.messages.stream(**{name: each for name, each in given.items() if name != "stream"})
        asked = self.client.post(
            "/v1/messages",
            cast_to=Message,
            content=request.encode(),
            stream=True,
            stream_cls=anthropic.AsyncStream[RawMessageStreamEvent],
        )
        return AsyncMessageStreamManager(asked)

    @property
    def _remedy(self) -> str:
        return "look at ANTHROPIC_BASE_URL and the network, then go on: esper resume latest"

    def _refused(self, error: Any) -> ModelError | UsageError:
        status, said = error.status_code, _line(error)
        is_long = status == _TOO_LARGE or (status == _BAD and "too long" in said)
        if is_long:
            return TooLongError(f"the prompt is too long: {said}", remedy="submit the task with fewer paths")
        if status == _BAD and "`signature`" in said:
            return BoundError(f"the server does not take a model's thinking back: {said}", remedy=self._remedy)
        if status in {401, 403}:
            problem = f"{self.host} does not take the key: {said}"
            return UsageError(problem, remedy="look at ANTHROPIC_API_KEY, then go on: esper resume latest")
        if status in {408, 409, 429} or status >= 500:  # noqa: PLR2004 - the server's own trouble
            return ModelBusyError(f"{self.host} takes no requests for now: {said}", remedy="esper resume latest, later")
        if status == 404:  # noqa: PLR2004 - not found
            remedy = "look at ANTHROPIC_BASE_URL and at [models] in your config.toml, then go on: esper resume latest"
            return ModelError(f"{self.host} knows no such model or address: {said}", remedy=remedy)
        return ModelError(f"{self.host} refuses the request: {said}", remedy=self._remedy)

    async def close(self) -> None:
        """Close the connections."""
        if "client" in vars(self):
            await self.client.close()


def server_of(environment: Mapping[str, str], *, second: bool = False) -> ModelServer:
    """Return the server that the environment names.

    Args:
        environment: The variables.
        second: Whether the one for second opinions is wanted; the same one where no other is named.

    Raises:
        UsageError: It names none that there is.
    """
    kind = environment.get(SERVER, ANTHROPIC)
    if kind not in _CLIENTS:
        raise UsageError(f"{SERVER}={kind!r} is no server", remedy=f"write one of {', '.join(_CLIENTS)}")
    try:
        silence = float(environment.get(TIMEOUT, _SILENCE_S))
    except ValueError:
        silence = 0.0
    if not 0 < silence < float("inf"):
        raise UsageError(f"{TIMEOUT} is no time in seconds", remedy=f"write {TIMEOUT}=120")
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


def _reply(message: Message) -> Reply:
    content = tuple(block.to_dict(mode="json") for block in message.content)
    return Reply(
        message.id,
        message.model,
        content,
        str(message.stop_reason),
        _usage(message),
    )


def _usage(message: Message) -> Usage:
    used = message.usage
    return Usage(
        fresh=used.input_tokens or 0,
        written=used.cache_creation_input_tokens or 0,
        cached=used.cache_read_input_tokens or 0,
        output=used.output_tokens or 0,
    )


def _line(error: BaseException) -> str:
    """Return an error in one printable line that is not too long."""
    body = getattr(error, "body", None)
    said = body.get("error", {}) if isinstance(body, dict) else {}
    text = said.get("message") if isinstance(said, dict) else None
    words = " ".join(str(text or str(error) or type(error).__name__).split())
    return "".join(each if each.isprintable() else "?" for each in words)[:300]
