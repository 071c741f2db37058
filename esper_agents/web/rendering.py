"""Rendering of pages: the environment of the HTML certificate, and URLs that are safe in attributes."""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from starlette.responses import HTMLResponse

from esper_agents.api import EscapedText, html_environment
from esper_agents.domain.status import QuestionType, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from jinja2 import Environment

_TONES = {
    Status.APPROVED: "good",
    Status.GO: "good",
    Status.RECOMMEND: "plain",
    Status.CONDITIONALLY_APPROVED: "caution",
    Status.ADVISORY_ONLY: "plain",
    Status.NEEDS_FURTHER_REVIEW: "open",
    Status.REQUIRES_REMEDIATION: "bad",
    Status.REJECTED: "bad",
    Status.NO_GO: "bad",
    Status.DO_NOT_RECOMMEND: "bad",
    Status.EMERGENCY_STOP: "stop",
}
# Question types as pages show them.
KIND_NAMES = {str(each): str(each) for each in QuestionType} | {str(QuestionType.GO): "go/no-go"}
_SHORT = 12
# Turns an address of the server into the link of a page; exported pages have relative links.
page_links: ContextVar[Callable[[str], str]] = ContextVar("page_links", default=str)


def page(template: str, *, status_code: int = 200, **values: Any) -> HTMLResponse:
    """Return a page; every value is escaped, whoever wrote it."""
    return HTMLResponse(_environment().get_template(template).render(**values), status_code)


def url(path: str, /, **query: object) -> EscapedText:
    """Return the link to a page for an attribute; empty values of the query are omitted.

    Args:
        path: Path of the page; a part that is not ours must be quoted, see `part`.
        query: Query, by name.
    """
    return EscapedText(escape(address(path, **query), quote=True))


def address(path: str, /, **query: object) -> str:
    """Return the link to a page, given by its path from the root; empty values of the query are omitted."""
    given = urlencode({name: str(value) for name, value in query.items() if value})
    return page_links.get()(f"{path}?{given}" if given else path)


def part(text: str) -> str:
    """Return a text as one part of a path."""
    return quote(text, safe="")


def attribute(text: object) -> EscapedText:
    """Return a text for the value of an attribute."""
    return EscapedText(escape(str(text), quote=True))


def tone_of_status(status: str) -> EscapedText:
    """Return the class of a status, which decides its colour."""
    return EscapedText(_TONES[Status(status)] if status in set(Status) else "plain")


def short(identifier: str) -> str:
    """Return the end of an identifier, which every command and page accepts for the whole."""
    return identifier.rpartition("_")[2][-_SHORT:]


def date_and_time(at: str) -> str:
    """Return a timestamp of a record as `2026-01-31 09:30 UTC`."""
    return f"{at[:10]} {at[11:16]} UTC" if at else ""


@cache
def _environment() -> Environment:
    made = html_environment("web")
    made.filters |= {"attribute": attribute, "part": part, "short": short, "when": date_and_time}
    made.globals |= {"url": url, "kind_names": KIND_NAMES, "tone_of_status": tone_of_status}
    return made
