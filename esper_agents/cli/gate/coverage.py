"""Which files genuine and current certificates cover, and with which status."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from esper_agents.certificates.check import Outcome
from esper_agents.cli.verifying import Currency, outcome_of
from esper_agents.domain.status import Status
from esper_agents.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.certificates.check import Check
    from esper_agents.certificates.standing import Override
    from esper_agents.cli.verifying import Verified

# What says that something must not go on, of whatever kind of question.
AGAINST = frozenset(
    (Status.REJECTED, Status.REQUIRES_REMEDIATION, Status.NO_GO, Status.DO_NOT_RECOMMEND, Status.EMERGENCY_STOP)
)


class Standing(StrEnum):
    """How a file stands, from worst to best."""

    TAMPERED = "tampered"
    AGAINST = "against"
    OTHER_STATUS = "other status"
    NOT_CURRENT = "not current"
    UNCOVERED = "uncovered"
    UNDECIDED = "undecided"
    COVERED = "covered"


@dataclass(frozen=True, slots=True)
class FileCoverage:
    """How one file stands before one agent's certificates.

    Attributes:
        path: Relative to the project.
        agent: Whose certificates count; empty where anybody's do.
        standing: How it stands.
        certificate: The certificate that decides; empty where there is none.
        status: What that concludes, or what a person put in its place; empty where there is none.
        why: In one line.
    """

    path: str
    agent: str
    standing: Standing
    certificate: str
    status: str
    why: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A certificate that may cover files, newest first in a list.

    Attributes:
        verified: The certificate, checked.
        digests: The files that it examined, by path, each with the sha256 of every state it was read in.
        accepts_overrides: Whether a person's override may make its status better.
    """

    verified: Verified
    digests: dict[str, frozenset[str]]
    accepts_overrides: bool = False

    @property
    def override(self) -> Override | None:
        """What counts in the place of its status: what makes it worse always, what makes it better where accepted."""
        found = self.verified.overridden
        return found if found and (self.accepts_overrides or not found.is_better) else None

    @property
    def status(self) -> str:
        """The status that counts; empty where there is no certificate."""
        if self.override:
            return self.override.status
        return self.verified.certificate.verdict.status if self.verified.certificate else ""

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions that stand; whoever was accepted to make the status better has answered for them."""
        is_waived = self.override is not None and self.override.is_better
        return self.verified.certificate.verdict.conditions if self.verified.certificate and not is_waived else ()

    @property
    def said(self) -> str:
        """What is to be told of an override; empty where there is none."""
        found = self.verified.overridden
        if found is None:
            return ""
        return str(found) if self.override else f"{found} (which counts only with --accept-overrides)"


def exit_code(coverage: Sequence[FileCoverage]) -> ExitCode:
    """Return what the command line exits with, the worst first."""
    found = {each.standing for each in coverage}
    return _code(next((each for each in Standing if each in found), Standing.COVERED))


def _code(standing: Standing) -> ExitCode:
    match standing:
        case Standing.TAMPERED:
            return ExitCode.TAMPERED
        case Standing.AGAINST | Standing.OTHER_STATUS:
            return ExitCode.AGAINST
        case Standing.NOT_CURRENT | Standing.UNCOVERED:
            return ExitCode.NOT_CURRENT
        case Standing.UNDECIDED:
            return ExitCode.UNDECIDED
        case Standing.COVERED:
            return ExitCode.DONE


def coverage_of(
    path: str, sha256: str, agent: str, judged: Sequence[Judged], required: frozenset[Status]
) -> FileCoverage:
    """Return how a file stands.

    The newest certificate on the bytes that are there decides, and only one that is valid as a whole: a verdict on
    several files says nothing any more once one of them has changed. What is not genuine stops the gate whatever else
    there is, and so does a verdict against these very bytes that the same agent has not changed since.

    What a person put in the place of a status counts where it is worse; where it is better, only if that is accepted.

    Args:
        path: Relative to the project.
        sha256: Digest of the bytes that are there.
        agent: Whose certificates count; empty where anybody's do.
        judged: Certificates, newest first.
        required: The statuses that will do.
    """
    about = [each for each in judged if path in each.digests]
    for each in about:
        if outcome_of(*_groups(each.verified)) is Outcome.FAILS:
            return _told(path, agent, Standing.TAMPERED, each, _why_tampered(each.verified))
    same = [each for each in about if sha256 in each.digests[path]]
    vouched = [each for each in same if each.verified.exit_code is ExitCode.DONE]
    newest = {_agent(each): each for each in reversed(vouched)}
    for each in newest.values():
        if each.status in AGAINST:
            return _told(path, agent, Standing.AGAINST, each, f"{each.status} stands against it")
    own = [each for each in vouched if not agent or _agent(each) == agent]
    if not own:
        return _uncovered(path, agent, about, same)
    wanted = " or ".join(sorted(required))
    if own[0].status not in required:
        return _told(path, agent, Standing.OTHER_STATUS, own[0], f"{own[0].status}, and {wanted} is required")
    conditions = own[0].conditions
    if conditions and Status.CONDITIONALLY_APPROVED not in required:
        why = f"{own[0].status} on a condition, and {wanted} without one is required: {conditions[0]}"
        return _told(path, agent, Standing.OTHER_STATUS, own[0], why)
    return _told(path, agent, Standing.COVERED, own[0], "")


def _uncovered(path: str, agent: str, about: Sequence[Judged], same: Sequence[Judged]) -> FileCoverage:
    def newest(found: Sequence[Judged]) -> Judged | None:
        return next((each for each in found if not agent or _agent(each) == agent), None)

    unsure = newest([each for each in same if each.verified.exit_code is ExitCode.UNDECIDED])
    if unsure is not None:
        why = "nobody who is trusted here vouches for it, or not all of it can be checked"
        return _told(path, agent, Standing.UNDECIDED, unsure, why)
    if ended := newest(same):
        what = (
            "another file that it judged has changed" if ended.verified.currency is Currency.STALE else "it has ended"
        )
        return _told(path, agent, Standing.NOT_CURRENT, ended, f"it is {ended.verified.currency}: {what}")
    if older := newest(about):
        return _told(path, agent, Standing.NOT_CURRENT, older, "the file has changed since")
    by = f" by {agent}" if agent else ""
    return FileCoverage(path, agent, Standing.UNCOVERED, "", "", f"no certificate{by} speaks of it")


def _groups(verified: Verified) -> tuple[Check, ...]:
    return (*verified.genuine, *verified.complete, *verified.verdict, *verified.citations)


def _why_tampered(verified: Verified) -> str:
    """Return why a certificate is not authentic; of a notice that the log lost, which one and what to do."""
    failed = (each for each in _groups(verified) if each.outcome is Outcome.FAILS and each.name == "published notice")
    return next((each.detail for each in failed), "it is not what was issued")


def _told(path: str, agent: str, standing: Standing, by: Judged, why: str) -> FileCoverage:
    issued = by.verified.certificate
    told = "; ".join(each for each in (why, by.said) if each)
    return FileCoverage(path, agent, standing, issued.id if issued else "", by.status, told)


def _agent(judged: Judged) -> str:
    issued = judged.verified.certificate
    return issued.agent if issued else ""
