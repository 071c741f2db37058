"""Check that a certificate has exactly one valid status, with its conditions if any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.certificates.audit.checks.sections import goes_on
from esper_agents.certificates.audit.document import DocumentKind, DocumentSection
from esper_agents.certificates.audit.problem import AuditProblem, quoted
from esper_agents.certificates.audit.status import read_status
from esper_agents.domain.status import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.certificates.audit.subject import AuditContext, Subject

MEANING = {
    "status-missing": "it concludes nothing",
    "status-unknown": "its status is none of the eleven",
    "status-spelling": "its status is one of the eleven in other letters, or with more words",
    "status-twice": "its decision has several statuses that differ",
    "conditions-missing": "it approves on conditions and names none",
}
KINDS = frozenset((DocumentKind.CERTIFICATE,))
_NONE = frozenset(("", "none", "n/a", "-", "none.", "no conditions"))


def find(subject: Subject, around: AuditContext) -> Iterator[AuditProblem]:  # noqa: ARG001 - every check is given both
    """Yield problems of the status."""
    document = subject.document
    stated = [status for status in document.statuses if status.text]
    if not stated:
        yield AuditProblem("status-missing", "no line `Status` says what it concludes")
        return
    first = stated[0]
    said = read_status(first.text)
    if said.named > 1:
        yield AuditProblem("status-unknown", f"it names {said.named} statuses and chose none of them", first.line)
    elif said.status is None:
        yield AuditProblem("status-unknown", f"{quoted(first.text)} is none of the eleven statuses", first.line)
    elif not said.is_exact:
        yield AuditProblem("status-spelling", f"{quoted(first.text)} is written for {said.status}", first.line)
    others = {read.status for each in stated[1:] if (read := read_status(each.text)).status not in {None, said.status}}
    if others and said.status is not None:
        named = ", ".join(sorted(str(each) for each in others))
        yield AuditProblem("status-twice", f"its decision says {said.status} and also {named}", first.line)
    if said.status is Status.CONDITIONALLY_APPROVED and not _has_conditions(subject):
        yield AuditProblem("conditions-missing", "it approves on conditions and names none", first.line)


def _has_conditions(subject: Subject) -> bool:
    document = subject.document
    headed = any(line.is_heading and "CONDITION" in line.text.upper() for line in document.lines)
    fields = [
        each for each in document.said("conditions") if each.part in {DocumentSection.DECISION, DocumentSection.OTHER}
    ]
    return headed or any(
        field.text.lower() not in _NONE or (not field.text and goes_on(document, field.line)) for field in fields
    )
