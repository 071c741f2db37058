"""Difference between two certificates of the same component."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.certificates.metrics import metrics_of
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.finding import Finding
    from esper_agents.domain.status import Status


@dataclass(frozen=True, slots=True)
class StatusChange:
    """One status, and what it is afterwards.

    Attributes:
        before: What it was.
        after: What it is.
    """

    before: Status
    after: Status


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that one of the certificates judged otherwise than the other.

    Attributes:
        path: Relative to the project.
        before: Digests of what was read at first; none where it was not read.
        after: Digests of what was read afterwards.
    """

    path: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NumberChange:
    """A number on record.

    Attributes:
        name: The metric.
        before: Its amounts at first, in the order of the evidence; none where there was none.
        after: Its amounts afterwards.
    """

    name: str
    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def ratio(self) -> float | None:
        """How many times as much it is afterwards; None where that cannot be said."""
        if len(self.before) != 1 or len(self.after) != 1 or not self.before[0]:
            return None
        return self.after[0] / self.before[0]


@dataclass(frozen=True, slots=True)
class CertificateDiff:
    """What changed.

    Attributes:
        before: The one certificate.
        after: The other.
        status: The verdict.
        ceiling: The best that policy allowed.
        gone: Findings that only the first has.
        new: Findings that only the second has.
        still: Findings of both, as the second has them.
        files: Files that differ, by path.
        same_files: How many files were the same.
        numbers: Numbers that differ, by name.
    """

    before: Certificate
    after: Certificate
    status: StatusChange
    ceiling: StatusChange
    gone: tuple[Finding, ...]
    new: tuple[Finding, ...]
    still: tuple[Finding, ...]
    files: tuple[FileChange, ...]
    same_files: int
    numbers: tuple[NumberChange, ...]


def diff_certificates(before: Certificate, after: Certificate) -> CertificateDiff:
    """Return what changed from one certificate to another.

    Findings are the same where their fingerprints are: their lines may have moved.

    Raises:
        UsageError: They judge different components, so that what one lacks says nothing of the other.
    """
    if before.component != after.component:
        raise UsageError(
            f"{before.id} judges {before.component!r} and {after.id} judges {after.component!r}",
            remedy=f"name two of one component: esper certificates list --component {after.component}",
        )
    first = {each.claim.fingerprint for each in before.findings}
    second = {each.claim.fingerprint for each in after.findings}
    files = tuple(_files(before, after))
    return CertificateDiff(
        before=before,
        after=after,
        status=StatusChange(before.verdict.status, after.verdict.status),
        ceiling=StatusChange(before.verdict.ceiling.status, after.verdict.ceiling.status),
        gone=tuple(each for each in before.findings if each.claim.fingerprint not in second),
        new=tuple(each for each in after.findings if each.claim.fingerprint not in first),
        still=tuple(each for each in after.findings if each.claim.fingerprint in first),
        files=tuple(each for each in files if each.before != each.after),
        same_files=sum(each.before == each.after for each in files),
        numbers=tuple(_numbers(before, after)),
    )


def _files(before: Certificate, after: Certificate) -> Iterable[FileChange]:
    one, other = _digests(before), _digests(after)
    for path in sorted({*one, *other}):
        yield FileChange(path, tuple(one.get(path, ())), tuple(other.get(path, ())))


def _digests(certificate: Certificate) -> dict[str, list[str]]:
    found = defaultdict(list)
    for each in certificate.examined:
        found[each.path].append(each.sha256)
    return found


def _numbers(before: Certificate, after: Certificate) -> Iterable[NumberChange]:
    one, other = _amounts(before), _amounts(after)
    for name in sorted({*one, *other}):
        change = NumberChange(name, tuple(one.get(name, ())), tuple(other.get(name, ())))
        if change.before != change.after:
            yield change


def _amounts(certificate: Certificate) -> dict[str, list[float]]:
    found = defaultdict(list)
    for each in metrics_of(certificate):
        found[each.name].append(each.amount)
    return found
