"""History of the findings in one file over its certificates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.archive.verification.coverage import narrower_than_review

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.archive.store import CertificateSummary
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.finding import Finding


@dataclass(frozen=True, slots=True)
class FindingHistory:
    """One finding over the certificates of its file.

    Attributes:
        finding: The finding, as the newest of these certificates has it.
        present: Certificates that have it, newest first.
        absent: Later certificates that reviewed the whole file with all rules and do not have it, newest first.
    """

    finding: Finding
    present: tuple[CertificateSummary, ...]
    absent: tuple[CertificateSummary, ...]


def finding_histories(
    path: str, certificates: Sequence[tuple[CertificateSummary, Certificate]]
) -> tuple[FindingHistory, ...]:
    """Return the findings in a file over certificates, in the order in which the newest certificates list them.

    Args:
        path: Path of the file, relative to the project.
        certificates: Certificates that read the file, newest first.
    """
    newest: dict[str, Finding] = {}
    present: dict[str, list[int]] = {}
    for number, (_, certificate) in enumerate(certificates):
        for finding in certificate.findings:
            if finding.claim.location.path == path:
                newest.setdefault(finding.claim.fingerprint, finding)
                numbers = present.setdefault(finding.claim.fingerprint, [])
                if number not in numbers:
                    numbers.append(number)
    summaries = [summary for summary, _ in certificates]
    # One that read the file as context of another, or only in part, does not say that a finding is gone.
    reviewed = [path not in narrower_than_review(certificate) for _, certificate in certificates]
    return tuple(
        FindingHistory(
            finding=newest[fingerprint],
            present=tuple(summaries[number] for number in numbers),
            absent=tuple(summaries[number] for number in range(numbers[0]) if reviewed[number]),
        )
        for fingerprint, numbers in present.items()
    )
