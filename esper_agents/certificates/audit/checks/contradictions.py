"""Check for certificates on one component and code version with opposite conclusions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from esper_agents.certificates.audit.document import DocumentKind
from esper_agents.certificates.audit.problem import AuditProblem, quoted
from esper_agents.certificates.audit.status import AGAINST, FOR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.certificates.audit.subject import AuditContext, StatedConclusion, Subject
    from esper_agents.domain.status import Status
    from esper_agents.git.history import GitHistory

MEANING = {
    "status-contradicts": "an earlier certificate on the same component and the same code concludes the opposite, "
    "and it does not answer that one"
}
COMPARES = True
KINDS = frozenset((DocumentKind.CERTIFICATE,))
_MOST = 200
_NEVER = datetime(1, 1, 1, tzinfo=UTC)


def find(subject: Subject, around: AuditContext) -> Iterator[AuditProblem]:
    """Yield a problem if a certificate contradicts an earlier one; it is reported for the later of the two.

    A certificate that names the other by file name or ID answers it and is not reported. If a code file changed
    between the commits that added them, the certificates concern different code.
    """
    known = around.standings.by_name.get(subject.document.name, ())
    own = next((each for each in known if each.path == subject.path), None)
    if own is None or own.status is None or not own.component:
        return
    others = around.standings.by_component.get((own.root, own.component), ())
    opposite = [each for each in others if _are_opposite(own.status, each.status) and _order(each) < _order(own)]
    same_code = [each for each in opposite[-_MOST:] if _is_on_same_code(subject.history, own, each)]
    text = subject.document.text
    unanswered = [each for each in same_code if not _names(text, each)]
    if unanswered:
        last = max(unanswered, key=_order)
        stated = subject.document.statuses
        detail = f"{own.status}, and {quoted(last.path)} says {last.status} of the same code"
        yield AuditProblem("status-contradicts", detail, stated[0].line if stated else None)


def _are_opposite(one: Status, other: Status | None) -> bool:
    return (one in FOR and other in AGAINST) or (one in AGAINST and other in FOR)


def _is_on_same_code(history: GitHistory | None, one: StatedConclusion, other: StatedConclusion) -> bool:
    return history is None or one.commit == other.commit or history.code(one.commit) == history.code(other.commit)


def _order(standing: StatedConclusion) -> tuple[datetime, str]:
    return (standing.at.earliest if standing.at else _NEVER, standing.path)


def _names(text: str, other: StatedConclusion) -> bool:
    return other.name.removesuffix(".md") in text or (len(other.identifier) > 5 and other.identifier in text)  # noqa: PLR2004 - shorter ones are words
