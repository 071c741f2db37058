"""Certificates and their answers in compact form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.mcp_server.results import CertificateRow, clipped
from esper_agents.mcp_server.suggested_calls import call_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from esper_agents.api import CertificateSummary
    from esper_agents.domain.answer import Answer, AnswerLine
    from esper_agents.mcp_server.server_project import ServerProject

CERTIFICATE = "esper://certificate/"
_MOST_BECAUSE, _MOST_ALSO, _MOST_FACTS, _MOST_UNKNOWN = 6, 5, 6, 4
_LONGEST_LINE = 400


def answer_parts(answer: Answer, project: ServerProject) -> dict[str, Any]:
    """Return the members that a session and a certificate share, from an answer."""
    facts = [f"{fact.place} {fact.text}" for fact in answer.facts]
    return {
        "status": str(answer.status),
        "answer": clipped(answer.text, 1_500),
        "because": _lines(map(_line, answer.because), _MOST_BECAUSE),
        "also": _lines((*map(_line, answer.also), *facts, *answer.changed), _MOST_ALSO),
        "measured": _lines((*answer.ran, *answer.measured), _MOST_FACTS),
        "unknown": _lines((*answer.unknown, *_remarks(answer)), _MOST_UNKNOWN),
        "certificate": answer.certificate,
        "resource": CERTIFICATE + answer.certificate,
        "next": call_of(answer.next_command, project.root, project.allowed),
        "next_command": clipped(answer.next_command),
    }


def certificate_row(entry: CertificateSummary, passage: str = "") -> CertificateRow:
    """Return the row of a certificate in a list."""
    return CertificateRow(
        entry.id,
        str(entry.status),
        str(entry.kind),
        entry.agent,
        entry.issued_at,
        clipped(" ".join(entry.request.split()), 200),
        clipped(" ".join(passage.split()), 200),
    )


def _lines(texts: Iterable[str], most: int) -> tuple[str, ...]:
    listed = [clipped(text, _LONGEST_LINE) for text in texts]
    more = [f"and {len(listed) - most} more in the resource"] if len(listed) > most else []
    return (*listed[:most], *more)


def _line(line: AnswerLine) -> str:
    fix = f" (fix: {line.remedy})" if line.remedy else ""
    mark = f" ({line.standing}, not confirmed)" if line.standing else ""
    remarks = "".join(f" (the model: {each})" for each in line.remarks)
    return " ".join(filter(None, (line.place_text, line.rule, line.text))) + mark + fix + remarks


def _remarks(answer: Answer) -> Iterator[str]:
    """Yield the model's conditions and caveats, marked as its words."""
    yield from (f"the model's condition: {each}" for each in answer.conditions)
    yield from (f"the model's caveat: {each}" for each in answer.caveats)
