"""Check the certificates, statuses and dates that a memory document names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.certificates.audit.checks.dates import span
from esper_agents.certificates.audit.date_spans import read_moment
from esper_agents.certificates.audit.document import DocumentKind
from esper_agents.certificates.audit.problem import AuditProblem, quoted, undecided
from esper_agents.certificates.audit.status import read_status
from esper_agents.domain.status import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.certificates.audit.document import DocumentLine
    from esper_agents.certificates.audit.subject import AuditContext, StatedConclusion, Subject

MEANING = {
    "certificate-absent": "it names a certificate that is not there",
    "certificate-elsewhere": "it names a certificate by an identifier that no document here has",
    "certificate-differs": "it says another status of a certificate than the certificate itself",
    "memory-status": "it gives a verdict that is none of the eleven statuses",
    "memory-date": "an entry is dated after the commit that wrote it",
}
COMPARES = True
KINDS = frozenset((DocumentKind.WORKING_MEMORY, DocumentKind.DECISIONS_LOG, DocumentKind.NEXT_ACTIONS))
_FILE = re.compile(r"(?<![\w.-])([\w.-]{1,200}_\d{8}_\d{6}[\w-]{0,40}\.md)")
_IDENTIFIER = re.compile(r"\bcrt_[0-9a-f]{32}\b")
_VERDICT = re.compile(r"APPROV|REJECT|REMEDIATION|RECOMMEND|EMERGENCY|CERTIFIED|\bNO[_ -]GO\b")
_STATUS = re.compile(rf"\b(?:{'|'.join(sorted(Status, key=len, reverse=True))})\b")
_LATER = re.compile(
    r"\b(?:due|deadline|target|until|by|plan\w*|next|review on|expires?|scheduled?|eta)\b", re.IGNORECASE
)


def find(subject: Subject, around: AuditContext) -> Iterator[AuditProblem]:
    """Yield the problems of a memory document."""
    for line in subject.document.lines:
        if not line.is_code and line.text.strip():
            yield from _certificates(subject, around, line)
    for each in subject.document.said("status"):
        if each.text and _VERDICT.search(each.text[:300].upper()) and read_status(each.text).status is None:
            yield AuditProblem("memory-status", f"{quoted(each.text)} is none of the eleven statuses", each.line)
    if subject.document.kind is not DocumentKind.NEXT_ACTIONS:
        yield from _dates(subject, around)


def _certificates(subject: Subject, around: AuditContext, line: DocumentLine) -> Iterator[AuditProblem]:
    text = line.text[:4000]
    said = set(_STATUS.findall(text))
    for name in _FILE.findall(text)[:20]:
        known = around.standings.by_name.get(name, ())
        if not known and not _is_in_repository(subject, name):
            problem = AuditProblem if subject.history is not None else undecided
            yield problem("certificate-absent", f"there is no certificate {quoted(name)}", line.number)
        elif known and len(said) == 1:
            yield from _differs(known, said.pop(), line)
    for identifier in _IDENTIFIER.findall(text)[:20]:
        if identifier not in around.standings.identifiers:
            yield undecided("certificate-elsewhere", f"no document here is {identifier}", line.number)


def _differs(
    known: list[StatedConclusion] | tuple[StatedConclusion, ...], said: str, line: DocumentLine
) -> Iterator[AuditProblem]:
    statuses = {each.status for each in known}
    if None not in statuses and Status(said) not in statuses:
        own = ", ".join(sorted(str(status) for status in statuses))
        yield AuditProblem(
            "certificate-differs", f"it says {said} of {quoted(known[0].name)}, which says {own}", line.number
        )


def _is_in_repository(subject: Subject, name: str) -> bool:
    history = subject.history
    if history is None:
        return False
    tree = history.tree(history.head) if history.head else None
    return (tree is not None and name in tree.by_name) or (subject.file.parent / "certificates" / name).is_file()


def _dates(subject: Subject, around: AuditContext) -> Iterator[AuditProblem]:
    limit = subject.changed.committed if subject.changed else around.now
    named = {field.line for field in subject.document.fields if field.name in {"date", "updated", "timestamp"}}
    for line in subject.document.lines:
        if (line.is_heading or line.number in named) and not line.is_code and not _LATER.search(line.text[:300]):
            moment = read_moment(line.text)
            if moment is not None and moment.earliest - limit > around.after:
                yield AuditProblem(
                    "memory-date", f"it lies {span(moment.earliest - limit)} after it was written", line.number
                )
