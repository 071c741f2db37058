"""Check that dates follow the template, agree with one another and agree with git."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from esper_agents.certificates.audit.date_spans import DateSpan, has_template_form, moment_in_name, read_moment
from esper_agents.certificates.audit.document import DocumentKind, DocumentSection
from esper_agents.certificates.audit.problem import AuditProblem, quoted, undecided

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from esper_agents.certificates.audit.subject import AuditContext, Subject
    from esper_agents.git.history import DocumentCommit

MEANING = {
    "date-format": "a date is not written YYYY-MM-DD HH:MM:SS UTC, or does not exist",
    "dates-differ": "its date, its signature and its file name do not name one time",
    "date-after-commit": "it says it was written after the commit that added it",
    "date-before-commit": "it says it was written long before the commit that added it",
    "date-in-future": "it is not committed, and says it was written later than it is",
    "date-undecided": "git does not know when it was written",
}
KINDS = frozenset((DocumentKind.CERTIFICATE,))
_SAME = timedelta(minutes=1)


def find(subject: Subject, around: AuditContext) -> Iterator[AuditProblem]:
    """Yield problems of the dates."""
    document = subject.document
    heads = [each for each in document.said("date") if each.part is not DocumentSection.SIGNATURE and each.text][:1]
    signed = [each for each in document.said("timestamp", DocumentSection.SIGNATURE) if each.text][:1]
    for each in (*heads, *signed):
        if not has_template_form(each.text):
            what = "is not written YYYY-MM-DD HH:MM:SS UTC" if read_moment(each.text) else "is no date that exists"
            yield AuditProblem("date-format", f"{quoted(each.text)} {what}", each.line)
    named = [
        *((f"its {each.name}", moment) for each in (*heads, *signed) if (moment := read_moment(each.text))),
        *((("its file name", moment),) if (moment := moment_in_name(document.name)) else ()),
    ]
    if not named:
        return
    (what, moment), *others = named
    for other, at in others:
        if not moment.overlaps(at, _SAME):
            far = span(max(moment.earliest, at.earliest) - min(moment.latest, at.latest))
            yield AuditProblem("dates-differ", f"{what} and {other} lie {far} apart", heads[0].line if heads else None)
    yield from _compared(subject, around, moment, heads[0].line if heads else None)


def _compared(subject: Subject, around: AuditContext, moment: DateSpan, line: int | None) -> Iterator[AuditProblem]:
    added = subject.added
    if added is None:
        late = moment.earliest - around.now
        if late > around.after:
            yield AuditProblem("date-in-future", f"it lies {span(late)} ahead", line)
        elif subject.history is None:
            yield undecided("date-undecided", "it lies in no git repository that can be read")
        else:
            yield undecided("date-undecided", "it is not committed")
        return
    if added.is_boundary:
        yield undecided("date-undecided", "the history is shallow: when it was added lies before what is here")
        return
    late = moment.earliest - max(added.authored, added.committed)
    early = min(added.authored, added.committed) - moment.latest
    if late > around.after:
        detail = f"it lies {span(late)} after commit {_named(added)}{_explained(added, moment, around.after)}"
        yield AuditProblem("date-after-commit", detail, line)
    elif early > around.before:
        yield AuditProblem("date-before-commit", f"it lies {span(early)} before commit {_named(added)}", line)


def _named(added: DocumentCommit) -> str:
    return f"{added.commit[:12]} of {added.authored.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _explained(added: DocumentCommit, moment: DateSpan, after: timedelta) -> str:
    """Return a remark if the date is the author's local time labelled as UTC."""
    offset = _offset(added.authored)
    if offset > timedelta() and moment.earliest - offset - max(added.authored, added.committed) <= after:
        return f"; read in the author's zone ({added.authored:%z}) it would not, but it is called UTC"
    return ""


def _offset(at: datetime) -> timedelta:
    return at.utcoffset() or timedelta()


def span(length: timedelta) -> str:
    """Return a duration in a suitable unit, such as `7 months`."""
    seconds = abs(length.total_seconds())
    for unit, size in (("year", 31_557_600), ("month", 2_629_800), ("day", 86_400), ("hour", 3600), ("minute", 60)):
        count = int(seconds // size)
        if count:
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{int(seconds)} seconds"
