"""Parse a typed status: exact, in other spelling, or unknown."""

from __future__ import annotations

import re
from dataclasses import dataclass

from esper_agents.domain.status import Status

FOR = frozenset((Status.APPROVED, Status.CONDITIONALLY_APPROVED, Status.GO, Status.RECOMMEND))
AGAINST = frozenset(
    (Status.REJECTED, Status.REQUIRES_REMEDIATION, Status.NO_GO, Status.DO_NOT_RECOMMEND, Status.EMERGENCY_STOP)
)
_LONGEST = 300
# Longest first: `APPROVED` is the end of `CONDITIONALLY_APPROVED`.
_SPELLED = tuple(
    (
        each,
        re.compile(rf"[^A-Za-z]*{'[ _-]'.join(each.split('_'))}(?![A-Za-z_])(?P<rest>.*)", re.IGNORECASE | re.DOTALL),
    )
    for each in sorted(Status, key=len, reverse=True)
)
_GOES_ON = re.compile(r"[\s_-]*[A-Za-z]")
_DASH = re.compile(r"\s[-\u2013\u2014]+\s")


@dataclass(frozen=True, slots=True)
class ReadStatus:
    """Parsed status line.

    Attributes:
        status: One of the eleven statuses; None if it is not one of them.
        is_exact: Whether the line contains nothing else.
        named: Number of statuses that the line names, if it lists several to choose from.
    """

    status: Status | None
    is_exact: bool
    named: int = 1


def read_status(text: str) -> ReadStatus:
    """Parse the status of a line.

    `conditionally approved (see below)` is accepted; `APPROVED WITH CONDITIONS` is neither `APPROVED` nor another of
    the eleven statuses.
    """
    line = text[:_LONGEST]
    if line in Status.__members__:
        return ReadStatus(Status(line), is_exact=True)
    choices = {each.strip(" []`*{}").replace(" ", "_") for each in re.split(r"[/|,]", line)} & set(Status)
    if len(choices) > 1:
        return ReadStatus(None, is_exact=False, named=len(choices))
    for status, pattern in _SPELLED:
        if found := pattern.match(line):
            rest = found["rest"]
            if _GOES_ON.match(rest) and not _DASH.match(rest):
                return ReadStatus(None, is_exact=False)
            return ReadStatus(status, is_exact=False)
    return ReadStatus(None, is_exact=False)
