"""Check that every mandatory section and field is present and not empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.certificates.audit.document import MANDATORY_PARTS, DocumentKind, DocumentSection
from esper_agents.certificates.audit.problem import AuditProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.certificates.audit.document import FreehandCertificate
    from esper_agents.certificates.audit.subject import AuditContext, Subject

MEANING = {
    "section-missing": "a mandatory section is not there",
    "section-empty": "a mandatory section holds nothing",
    "field-missing": "a mandatory line, such as who wrote it, is not there or says nothing",
}
KINDS = frozenset((DocumentKind.CERTIFICATE,))
_FIELDS = ("component", "agent", "date", "certificate id")


def find(subject: Subject, around: AuditContext) -> Iterator[AuditProblem]:  # noqa: ARG001 - every check is given both
    """Yield missing and empty sections and fields."""
    document = subject.document
    for part in MANDATORY_PARTS:
        inside = [line for line in document.lines if line.part is part]
        if not inside:
            yield AuditProblem("section-missing", f"there is no section {part}")
        elif not any(line.text.strip() and not (line.is_heading or line is inside[0]) for line in inside):
            yield AuditProblem("section-empty", f"the section {part} is empty", inside[0].number)
    for name in _FIELDS:
        # The signature block repeats some fields; neither occurrence replaces the other.
        fields = [each for each in document.said(name) if each.part is not DocumentSection.SIGNATURE]
        yield from _missing(document, name, fields[0].line if fields else None, any(field.text for field in fields))
    if DocumentSection.DECISION in document.parts:
        said = document.said("rationale", DocumentSection.DECISION)
        yield from _missing(document, "rationale", said[0].line if said else None, any(each.text for each in said))


def _missing(document: FreehandCertificate, name: str, line: int | None, has_text: bool) -> Iterator[AuditProblem]:  # noqa: FBT001 - one of four facts
    if line is None:
        yield AuditProblem("field-missing", f"there is no line `{name.title()}`")
    elif not has_text and not goes_on(document, line):
        yield AuditProblem("field-missing", f"the line `{name.title()}` says nothing", line)


def goes_on(document: FreehandCertificate, line: int) -> bool:
    """Return whether text other than a field or heading follows a line, such as a list below the field name."""
    named = {field.line for field in document.fields}
    following = next((each for each in document.lines[line:] if each.text.strip()), None)
    return following is not None and not following.is_heading and following.number not in named
