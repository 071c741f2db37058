"""Classify error responses of Messages API servers."""

from __future__ import annotations

import time
from email.utils import mktime_tz, parsedate_tz
from http import HTTPStatus
from typing import TYPE_CHECKING

from esper_agents.errors import ModelError, OverloadedError, UsageError
from esper_agents.reasoning.retry_budget import TransientError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anthropic import APIStatusError

LOOK = "check ANTHROPIC_BASE_URL and the network, then resume: esper resume latest"
_TOO_LARGE, _BAD = 413, 400
_KEY = frozenset((401, 403))
_PASSING = frozenset((408, 409, 429))
# Type of an error event within a stream, which has no status code.
_PASSING_KINDS = frozenset(("api_error", "overloaded_error", "rate_limit_error", "timeout_error"))
_MOST_SHOWN = 300


class TooLongError(ModelError):
    """The prompt exceeds the model's context window, or the request exceeds the server's size limit."""


class SignatureContextError(ModelError):
    """Returned thinking blocks were signed with an earlier conversation that has changed since."""


def refused(host: str, error: APIStatusError) -> ModelError | UsageError | TransientError:
    """Return the error for an error response.

    Args:
        host: Host of the server.
        error: Error of the SDK.
    """
    status, said = error.status_code, line_of(error)
    if status == _TOO_LARGE or (status == _BAD and "too long" in said):
        return TooLongError(f"the prompt is too long: {said}", remedy="submit the task with fewer paths")
    if status == _BAD and "`signature`" in said:
        return SignatureContextError(f"the server rejects the returned thinking blocks: {said}", remedy=LOOK)
    if status in _KEY:
        remedy = "check ANTHROPIC_API_KEY, then resume: esper resume latest"
        return UsageError(f"{host} rejects the API key: {said}", remedy=remedy)
    if _is_passing(error):
        busy = OverloadedError(f"{host} is overloaded: {said}", remedy="resume later: esper resume latest")
        wants_again = error.response.headers.get("x-should-retry") != "false"
        return TransientError(busy, _wait_s(error.response.headers)) if wants_again else busy
    if status == HTTPStatus.NOT_FOUND:
        remedy = "check ANTHROPIC_BASE_URL and [models] in your config.toml, then resume: esper resume latest"
        return ModelError(f"{host} does not have this model or address: {said}", remedy=remedy)
    return ModelError(f"{host} refuses the request: {said}", remedy=LOOK)


def unwelcome(host: str, model: str, error: APIStatusError, otherwise: str) -> UsageError | None:
    """Return the error for a rejected key or unknown model; None if the server may still be usable.

    Args:
        host: Host of the server.
        model: Requested model.
        error: Error of the SDK.
        otherwise: Alternative for the user.
    """
    status, said = error.status_code, line_of(error)
    if status in _KEY:
        return UsageError(f"{host} rejects the API key: {said}", remedy=f"check ANTHROPIC_API_KEY, {otherwise}")
    # A server without this endpoint does not name the model in its error.
    if status == HTTPStatus.NOT_FOUND and model in said:
        remedy = f"check [models] in your config.toml, {otherwise}"
        return UsageError(f"{host} does not have model {model!r}: {said}", remedy=remedy)
    return None


def _is_passing(error: APIStatusError) -> bool:
    """Return whether an error is transient on the server's side."""
    status = error.status_code
    return (
        status in _PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR or _said(error).get("type") in _PASSING_KINDS
    )


def _wait_s(headers: Mapping[str, str]) -> float | None:
    """Return the delay that a server requests, in seconds; None if it requests none."""
    text = headers.get("retry-after", "")
    date = parsedate_tz(text)
    try:
        wait_s = mktime_tz(date) - time.time() if date else float(text)
    except (ValueError, OverflowError):
        return None
    return wait_s if 0 < wait_s < float("inf") else None


def _said(error: BaseException) -> Mapping[str, object]:
    body = getattr(error, "body", None)
    said = body.get("error") if isinstance(body, dict) else None
    return said if isinstance(said, dict) else {}


def line_of(error: BaseException) -> str:
    """Return an error as one printable line of limited length."""
    words = " ".join(str(_said(error).get("message") or str(error) or type(error).__name__).split())
    return "".join(word if word.isprintable() else "?" for word in words)[:_MOST_SHOWN]
