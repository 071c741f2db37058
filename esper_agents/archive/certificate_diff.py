"""Difference between two certificates of the same component."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.archive.metrics import metrics_of
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.finding import Finding
    from esper_agents.domain.status import Status


@dataclass(frozen=True, slots=True)
class StatusChange:
    """Change of a status.

    Attributes:
        before: Status in the first certificate.
        after: Status in the second certificate.
    """

    before: Status
    after: Status


@dataclass(frozen=True, slots=True)
class FileChange:
    """File whose digests differ between the certificates.

    Attributes:
        path: Relative to the project.
        before: Digests in the first certificate; empty if the file was not read.
        after: Digests in the second certificate; empty if the file was not read.
    """

    path: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NumberChange:
    """Change of a recorded metric.

    Attributes:
        name: Name of the metric.
        before: Values in the first certificate, in the order of the evidence; empty if there are none.
        after: Values in the second certificate.
    """

    name: str
    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def ratio(self) -> float | None:
        """Second value divided by the first; None if it is undefined."""
        if len(self.before) != 1 or len(self.after) != 1 or not self.before[0]:
            return None
        return self.after[0] / self.before[0]


@dataclass(frozen=True, slots=True)
class CertificateDiff:
    """Difference between two certificates.

    Attributes:
        before: First certificate.
        after: Second certificate.
        status: Change of the verdict.
        ceiling: Change of the best status that the policy allowed.
        gone: Findings of the first certificate only.
        new: Findings of the second certificate only.
        still: Findings of both, as recorded in the second.
        files: Files that differ, by path.
        same_files: Number of identical files.
        numbers: Metrics that differ, by name.
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
    """Return the difference between two certificates.

    Findings are compared by fingerprint, because their line numbers may have moved.

    Raises:
        UsageError: The certificates concern different components, so a comparison is meaningless.
    """
    if before.component != after.component:
        raise UsageError(
            f"{before.id} judges {before.component!r} and {after.id} judges {after.component!r}",
            remedy=f"name two of one component: esper certificates list --component {after.component}",
        )
    first = {finding.claim.fingerprint for finding in before.findings}
    second = {finding.claim.fingerprint for finding in after.findings}
    files = tuple(_files(before, after))
    return CertificateDiff(
        before=before,
        after=after,
        status=StatusChange(before.verdict.status, after.verdict.status),
        ceiling=StatusChange(before.verdict.ceiling.status, after.verdict.ceiling.status),
        gone=tuple(finding for finding in before.findings if finding.claim.fingerprint not in second),
        new=tuple(finding for finding in after.findings if finding.claim.fingerprint not in first),
        still=tuple(finding for finding in after.findings if finding.claim.fingerprint in first),
        files=tuple(file for file in files if file.before != file.after),
        same_files=sum(file.before == file.after for file in files),
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
