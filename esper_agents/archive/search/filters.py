"""User-given filters for listing certificates: status, agent, dates, words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from esper_agents.domain.status import QuestionType, Status
from esper_agents.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

_COMMIT = re.compile(r"[0-9a-f]{4,64}")
_DATE = re.compile(r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2}))?)?")
_SECONDS = re.compile(r"[0-9]:[0-9]{2}:[0-9]{2}")
_SHORTEST = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Filter:
    """Filter of certificates; an empty attribute matches everything.

    Attributes:
        statuses: Accepted statuses.
        agent: Agent that concluded.
        path: Path of a file that was read, relative to the project.
        component: Component that the verdict is about.
        rule: Rule of a finding.
        commit: Git commit at that time, or a prefix of it.
        since: Earliest time of issue, as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
        until: Time of issue before this time.
        words: Search words, all of which must match.
        metric: Full name of a recorded metric.
        signer: Fingerprint of the key that signed.
        kind: Question type; None for all.
    """

    statuses: tuple[Status, ...] = ()
    agent: str = ""
    path: str = ""
    component: str = ""
    rule: str = ""
    commit: str = ""
    since: str = ""
    until: str = ""
    words: str = ""
    metric: str = ""
    signer: str = ""
    kind: QuestionType | None = None


def kind_of(name: str) -> QuestionType:
    """Return the question type that a user names.

    Raises:
        NotFoundError: There is no such question type; similar ones are suggested.
    """
    wanted = name.strip().lower()
    if wanted not in tuple(QuestionType):
        raise NotFoundError("question type", wanted, map(str, QuestionType), listing="esper certificates list --help")
    return QuestionType(wanted)


def statuses_of(names: Iterable[str]) -> tuple[Status, ...]:
    """Return the statuses that a user names, case-insensitively.

    Raises:
        NotFoundError: A name is not a status; similar ones are suggested.
    """
    found = []
    for name in names:
        wanted = re.sub(r"[\s-]+", "_", name.strip()).upper()
        if wanted not in tuple(Status):
            raise NotFoundError("status", wanted, map(str, Status), listing="esper certificates list --help")
        found.append(Status(wanted))
    return tuple(dict.fromkeys(found))


def commit_of(text: str) -> str:
    """Return a commit or a prefix of one.

    Raises:
        UsageError: The text is not a commit.
    """
    commit = text.strip().lower()
    if not _COMMIT.fullmatch(commit):
        raise UsageError(
            f"{text!r} is not a commit", remedy="use at least 4 of its hex digits, as `git log` shows them"
        )
    return commit


def since_of(text: str) -> str:
    """Return the first moment of a date, month, year or time, in the time format of records. Without a zone it is UTC.

    Raises:
        UsageError: The text is not a date.
    """
    return _written(_span(text)[0])


def until_of(text: str) -> str:
    """Return the first moment after a date, month, year or time.

    Raises:
        UsageError: The text is not a date.
    """
    return _written(_span(text)[1])


def _span(text: str) -> tuple[datetime, datetime]:
    """Return the first moment of a period, and the first moment after it."""
    try:
        if found := _DATE.fullmatch(text.strip()):
            year, month, day = (int(each) if each else None for each in found.groups())
            return _span_of_days(int(year or 0), month, day)
        start = datetime.fromisoformat(text.strip())
        start = (start if start.tzinfo else start.replace(tzinfo=UTC)).astimezone(UTC)
        return start, start + _precision(text)
    except (ValueError, OverflowError) as error:
        remedy = "write it as 2026-01-31, 2026-01, 2026 or 2026-01-31T09:30, in UTC"
        raise UsageError(f"{text!r} is not a date", remedy=remedy) from error


def _span_of_days(year: int, month: int | None, day: int | None) -> tuple[datetime, datetime]:
    start = datetime(year, month or 1, day or 1, tzinfo=UTC)
    if day:
        return start, start + timedelta(days=1)
    return start, datetime(year + (month in {None, 12}), 1 if month in {None, 12} else (month or 0) + 1, 1, tzinfo=UTC)


def _precision(text: str) -> timedelta:
    """Return the length of the moment that a time denotes, from its precision."""
    if "." in text or "," in text:
        return _SHORTEST
    return timedelta(seconds=1) if _SECONDS.search(text) else timedelta(minutes=1)


def _written(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
