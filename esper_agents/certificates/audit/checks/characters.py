"""Check for hidden or reordering characters and for bytes that are not UTF-8."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.certificates.audit.document import DocumentKind
from esper_agents.certificates.audit.problem import AuditProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.certificates.audit.subject import AuditContext, Subject

MEANING = {
    "text-encoding": "it is not UTF-8",
    "text-hidden": "it holds characters that hide, reorder or repaint what a person reads",
}
KINDS = frozenset(DocumentKind)
# Control characters, bidirectional marks, zero-width characters except the joiners of emoji, tag characters.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\U000e0000-\U000e007f]"
)


def find(subject: Subject, around: AuditContext) -> Iterator[AuditProblem]:  # noqa: ARG001 - every check is given both
    """Yield problems of the character content."""
    document = subject.document
    try:
        document.data.decode()
    except UnicodeDecodeError as error:
        yield AuditProblem(
            "text-encoding", f"byte {error.start} is not UTF-8", document.data.count(b"\n", 0, error.start) + 1
        )
    found = [(line.number, len(_HIDDEN.findall(line.text))) for line in document.lines if _HIDDEN.search(line.text)]
    if found:
        count = sum(each for _, each in found)
        yield AuditProblem("text-hidden", f"{count} characters that are not seen, on {len(found)} lines", found[0][0])
