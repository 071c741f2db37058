"""Check that the named author is a defined agent and the same in every place."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from esper_agents.certificates.audit.document import DocumentKind, DocumentSection
from esper_agents.certificates.audit.problem import AuditProblem, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.certificates.audit.subject import AuditContext, Subject

MEANING = {
    "agent-unknown": "no definition of the agent that it names is known",
    "agents-differ": "its signature names another agent than its head",
}
KINDS = frozenset((DocumentKind.CERTIFICATE,))


def find(subject: Subject, around: AuditContext) -> Iterator[AuditProblem]:
    """Yield problems of the named agents."""
    heads = [
        each for each in subject.document.said("agent") if each.part is not DocumentSection.SIGNATURE and each.text
    ]
    signed = [each for each in subject.document.said("agent", DocumentSection.SIGNATURE) if each.text]
    known = around.agents(subject.history.root if subject.history else None)
    named = (heads or signed)[:1]
    for each in named:
        if known and each.text not in known and f"project:{each.text}" not in known:
            close = get_close_matches(each.text[:100], sorted(known), n=1)
            hint = f"; there is {close[0]!r}" if close else ""
            yield AuditProblem("agent-unknown", f"no agent {quoted(each.text)} is defined{hint}", each.line)
    if heads and signed and heads[0].text != signed[0].text:
        yield AuditProblem(
            "agents-differ", f"{quoted(heads[0].text)} wrote it, {quoted(signed[0].text)} signed", signed[0].line
        )
