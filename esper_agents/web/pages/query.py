"""Queries of URLs: filters, cursors and numbers, read strictly."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.api import Filter, read_filter
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from starlette.requests import Request

_LONGEST = 500
FILTERS = ("status", "kind", "agent", "rule", "file", "component", "commit", "signer", "since", "until", "q")


def text_of(request: Request, name: str) -> str:
    """Return a value of the query; empty if it is missing.

    Raises:
        UsageError: It is too long.
    """
    found = request.query_params.get(name, "").strip()
    if len(found) > _LONGEST:
        raise UsageError(f"the value of {name!r} is too long", remedy=f"use at most {_LONGEST} characters")
    return found


def number_of(request: Request, name: str) -> int | None:
    """Return a number of the query; None if it is missing.

    Raises:
        UsageError: It is not a number.
    """
    found = text_of(request, name)
    if not found:
        return None
    if not (found.isascii() and found.isdecimal() and len(found) < len(str(2**62))):
        raise UsageError(f"{found!r} is not a number", remedy="use the links of the page")
    return int(found)


def chosen_filters(request: Request) -> dict[str, str]:
    """Return the filters that a query names, in a fixed order; unknown names are ignored."""
    return {name: found for name in FILTERS if (found := text_of(request, name))}


def filter_of(chosen: dict[str, str]) -> Filter:
    """Return the filter for `chosen_filters`.

    Raises:
        NotFoundError: A status or a question type does not exist.
        UsageError: A date is not valid.
    """
    made = read_filter(
        statuses=(chosen["status"],) if "status" in chosen else (),
        agent=chosen.get("agent", ""),
        file=chosen.get("file", ""),
        component=chosen.get("component", ""),
        rule=chosen.get("rule", ""),
        commit=chosen.get("commit", ""),
        since=chosen.get("since", ""),
        until=chosen.get("until", ""),
        kind=chosen.get("kind", ""),
    )
    return replace(made, words=chosen.get("q", ""), signer=chosen.get("signer", ""))
