"""Findings of a certificate that its request is about, and calls that measured something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.evidence import CallOutcome, faults_asked_about
from esper_agents.domain.finding import Standing
from esper_agents.domain.status import QuestionType

if TYPE_CHECKING:
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import Finding

FINDS_INPUTS = "torch-scaffold"
_MEASURES, _FINDS_TARGETS = "torch-", "torch-targets"


def findings_asked_about(certificate: Certificate) -> tuple[Finding, ...]:
    """Return the findings that the request is about; all of them unless an inspection looked for a cause.

    Then the faults that it found count, those of a measurement, and those of a model.
    """
    is_advice = certificate.verdict.kind is QuestionType.ADVICE
    faults = faults_asked_about(certificate.evidence) if is_advice else None
    if faults is None:
        return certificate.findings
    measured = {each.id for each in certificate.evidence if is_measurement(each)}
    return tuple(
        each
        for each in certificate.findings
        if (f"{each.claim.location.path}:{each.claim.location.line}", each.claim.rule) in faults
        or each.standing is not Standing.RECORDED
        or measured & set(each.evidence)
    )


def is_measurement(evidence: Evidence) -> bool:
    """Return whether a completed call ran something in the lab; a search for arguments that found none did not."""
    is_of_lab = evidence.tool.startswith(_MEASURES) and evidence.tool != _FINDS_TARGETS
    is_run = evidence.tool != FINDS_INPUTS or bool(evidence.output.get("runnable"))
    return is_of_lab and is_run and evidence.outcome is CallOutcome.COMPLETED
