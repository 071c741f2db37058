"""Parse free-form dates into time spans; a less precise date gives a wider span."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

_TEMPLATE = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2} UTC", re.ASCII)
_CLOCK = r"(?:[T ,]{1,3}(?:at )?(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.\d{1,9})?)?)?"
_ZONE = r"\s?(?P<zone>UTC|GMT|Z|[+-]\d{2}:?\d{2})?"
_NUMBERS = re.compile(rf"(?<!\d)(?P<year>\d{{4}})[-/.](?P<month>\d{{1,2}})[-/.](?P<day>\d{{1,2}})(?!\d){_CLOCK}{_ZONE}")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?P<name>{'|'.join(_MONTHS)})[a-z]{{0,6}}\.?"
_WORDS = (
    re.compile(rf"\b{_MONTH} (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year>\d{{4}})\b{_CLOCK}{_ZONE}", re.IGNORECASE),
    re.compile(rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)? {_MONTH},? (?P<year>\d{{4}})\b{_CLOCK}{_ZONE}", re.IGNORECASE),
)
_IN_NAME = re.compile(r"(?<!\d)(\d{8})_(\d{6})(?!\d)")
_FIRST_YEAR, _LAST_YEAR = 1970, 9000
# Range of the time zones in use.
_FURTHEST = timedelta(hours=14)


@dataclass(frozen=True, slots=True)
class DateSpan:
    """Time span that a stated date may refer to.

    Attributes:
        earliest: Earliest possible time.
        latest: Latest possible time.
    """

    earliest: datetime
    latest: datetime

    @property
    def is_exact(self) -> bool:
        """Whether date, time and zone are all stated."""
        return self.latest - self.earliest < timedelta(minutes=1)

    def overlaps(self, other: DateSpan, within: timedelta) -> bool:
        """Return whether two spans overlap within a tolerance."""
        return self.earliest <= other.latest + within and other.earliest <= self.latest + within


def has_template_form(text: str) -> bool:
    """Return whether a date has the form `YYYY-MM-DD HH:MM:SS UTC` and is a valid time."""
    return _TEMPLATE.fullmatch(text) is not None and read_moment(text) is not None


def read_moment(text: str) -> DateSpan | None:
    """Return the first date in a text; None if there is none or it is not a valid date."""
    line = text[:200]
    for pattern in (_NUMBERS, *_WORDS):
        if found := pattern.search(line):
            return _moment(found.groupdict())
    return None


def moment_in_name(name: str) -> DateSpan | None:
    """Return the `YYYYMMDD_HHMMSS` of a file name as UTC; None if it is missing or not a valid time."""
    found = _IN_NAME.findall(name)
    if not found:
        return None
    day, clock = found[-1]
    try:
        at = datetime.strptime(f"{day} {clock}", "%Y%m%d %H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return DateSpan(at, at) if _FIRST_YEAR <= at.year <= _LAST_YEAR else None


def _moment(said: dict[str, str | None]) -> DateSpan | None:
    month = said.get("month") or str(_MONTHS.index((said.get("name") or "")[:3].lower()) + 1)
    year, zone = int(said["year"] or 0), said["zone"]
    if not _FIRST_YEAR <= year <= _LAST_YEAR:
        return None
    hour, minute, second = (int(said[part] or 0) for part in ("hour", "minute", "second"))
    try:
        day = datetime(year, int(month), int(said["day"] or 0), tzinfo=_zone(zone))
        at = day.replace(hour=hour, minute=minute, second=second)
    except ValueError:
        return None
    known = "second" if said["second"] else "minute" if said["hour"] else "day"
    width = {"second": timedelta(), "minute": timedelta(seconds=59), "day": timedelta(days=1)}[known]
    doubt = timedelta() if zone else _FURTHEST
    return DateSpan(at - doubt, at + width + doubt)


def _zone(text: str | None) -> timezone:
    if text is None or text[0] not in "+-":
        return UTC
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)
