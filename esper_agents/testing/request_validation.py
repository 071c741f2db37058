"""Validate a request in the order in which the Messages API checks it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.testing.api_constraints import problems_of_meaning
from esper_agents.testing.models import rules_of
from esper_agents.testing.prompt import Prompt, portions_of, read_prompt
from esper_agents.testing.request_schema import COUNTING, MESSAGES, problems_of_request
from esper_agents.testing.script import Fail

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from esper_agents.domain.codec import JsonObject
    from esper_agents.testing.http_server import Received
    from esper_agents.testing.prompt_blocks import Portion
    from esper_agents.testing.request_schema import FieldSchema

_LARGEST_BODY_BYTES = 32 * 2**20
_PATHS: Mapping[str, FieldSchema] = {"/v1/messages": MESSAGES, "/v1/messages/count_tokens": COUNTING}


@dataclass(frozen=True, slots=True)
class RequestValidator:
    """Access rules of the server.

    Attributes:
        key: The only accepted API key; any if None.
        window_tokens: Maximum prompt length; the model's own if None.
        paused: Digests of conversations that may continue after the model has paused.
    """

    key: str | None
    window_tokens: int | None
    paused: AbstractSet[bytes]


@dataclass(frozen=True, slots=True)
class RejectedRequest:
    """A rejected request.

    Attributes:
        fail: The error response.
        body: The request's body; empty if it was not a JSON object.
    """

    fail: Fail
    body: JsonObject


@dataclass(frozen=True, slots=True)
class AcceptedRequest:
    """A valid request.

    Attributes:
        body: The request's body.
        prompt: The prompt as the model reads it.
    """

    body: JsonObject
    prompt: Prompt


def judged(received: Received, path: str, door: RequestValidator) -> AcceptedRequest | RejectedRequest:
    """Return a valid request, or the rejection of an invalid one.

    Args:
        received: The request.
        path: Its path without a query.
        door: The access rules.
    """
    body = _body(received, path, door)
    if isinstance(body, Fail):
        return RejectedRequest(body, {})
    prompt = _prompt(body, path, received.headers, door)
    return RejectedRequest(prompt, body) if isinstance(prompt, Fail) else AcceptedRequest(body, prompt)


def _body(received: Received, path: str, door: RequestValidator) -> JsonObject | Fail:
    if fail := next(_at_the_door(received, path, door.key), None):
        return fail
    try:
        body = json.loads(received.body)
    except (ValueError, RecursionError) as error:
        return Fail(400, f"The request body is not valid JSON: {error}")
    return body if isinstance(body, dict) else Fail(400, "Input should be an object")


def _at_the_door(received: Received, path: str, key: str | None) -> Iterator[Fail]:
    given = received.headers.get("x-api-key") or received.headers.get("authorization", "").removeprefix("Bearer ")
    if not received.method:
        yield Fail(400, "The request is not valid HTTP.")
    if path not in _PATHS:
        yield Fail(404)
    if received.method != "POST":
        yield Fail(405, "Method Not Allowed", kind="invalid_request_error")
    if not given:
        yield Fail(401, "x-api-key header is required")
    if key is not None and given != key:
        yield Fail(401)
    if not received.headers.get("anthropic-version"):
        yield Fail(400, "anthropic-version: header is required")
    if len(received.body) > _LARGEST_BODY_BYTES:
        yield Fail(413)


def _prompt(body: JsonObject, path: str, headers: Mapping[str, str], door: RequestValidator) -> Prompt | Fail:
    portions: dict[str, Portion] = {}
    if problem := next(_problems_of_shape(body, _PATHS[path], headers, portions), None):
        return Fail(400, problem)
    model = rules_of(body["model"])
    if model is None:
        return Fail(404, f"model: {body['model']}")
    prompt = read_prompt(body, portions, model)
    if problem := next(problems_of_meaning(body, prompt, headers, door.paused), None):
        return Fail(400, problem)
    length, most = prompt.tokens[-1], door.window_tokens or model.window_tokens
    return Fail(400, f"prompt is too long: {length} tokens > {most} maximum") if length > most else prompt


def _problems_of_shape(
    body: JsonObject, fields: FieldSchema, headers: Mapping[str, str], portions: dict[str, Portion]
) -> Iterator[str]:
    """Yield the problems of a request's fields, and store its parsed parts."""
    yield from problems_of_request(body, fields, headers)
    for place, portion in portions_of(body):
        if portion.problem:
            yield f"{place}{portion.problem}" if portion.problem.startswith((".", ":")) else portion.problem
        portions[place] = portion
