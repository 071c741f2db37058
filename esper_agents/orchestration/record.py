"""The certificate as a pure function of the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.certificates.naming import component_of, slug
from esper_agents.domain.certificate import Certificate
from esper_agents.domain.finding import Severity
from esper_agents.domain.move import Conclude, HandOff
from esper_agents.domain.status import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.agent import Agent
    from esper_agents.domain.assumption import Assumption, InformationGap
    from esper_agents.domain.certificate import Definition
    from esper_agents.domain.evidence import SourceFile
    from esper_agents.domain.handoff import ConsultAnswer
    from esper_agents.orchestration.history import Frame, History

_ORDER = tuple(Severity)


def certificate(history: History, frame: Frame) -> Certificate:
    """Return the certificate of a session that has concluded.

    Args:
        history: The session's ledger.
        frame: The frame that concluded.
    """
    begun, concluded, final = history.begun, frame.concluded, frame.turns[-1].moved
    if concluded is None or concluded.verdict is None or final is None or not isinstance(final.move, Conclude):
        raise AssertionError("a certificate without a conclusion")
    if history.route is None:
        raise AssertionError("a conclusion without a route")
    return Certificate(
        id=concluded.certificate,
        issued_at=frame.concluded_at,
        session=history.session,
        project=begun.project,
        agent=frame.opened.agent.name,
        descriptor=_descriptor(frame.opened.agent, begun.task.kind),
        component=component_of([path if path != "." else begun.project for path in begun.task.paths]),
        task=begun.task,
        route=history.route,
        handoffs=history.handoffs,
        consults=_consults(history),
        definitions=_definitions(history),
        verdict=concluded.verdict,
        summary=final.move.summary,
        findings=tuple(sorted(history.findings(), key=lambda each: _ORDER.index(each.claim.severity))),
        evidence=history.evidence(),
        examined=_examined(history),
        revision=begun.revision,
        assumptions=assumptions(history),
        gaps=gaps(history),
        caveats=final.move.caveats,
        next_steps=final.move.next_steps,
        risks=final.move.risks,
        environment=begun.environment,
    )


_WORK = {Kind.APPROVAL: "review", Kind.GO: "readiness", Kind.RECOMMENDATION: "recommendation", Kind.ADVICE: "advice"}


def _descriptor(agent: Agent, kind: Kind) -> str:
    """Return what sort of work it was: the agent's domain and what was asked of it, such as `code_review`."""
    domain, work = slug(agent.domain or agent.name), _WORK[kind]
    return domain if domain.endswith(work) else f"{domain}_{work}"


def _endings(history: History) -> Iterator[HandOff | Conclude]:
    """Yield the moves that end frames, the one that is being carried out included."""
    for frame in history.frames:
        moved = frame.turns[-1].moved if frame.turns else None
        if moved is not None and isinstance(moved.move, HandOff | Conclude):
            yield moved.move


def assumptions(history: History) -> tuple[Assumption, ...]:
    """Return what was taken for granted; where agents differ on one, the last word counts."""
    return tuple({each.text: each for move in _endings(history) for each in move.assumptions}.values())


def gaps(history: History) -> tuple[InformationGap, ...]:
    """Return what could not be known, each once."""
    return tuple({each.what: each for move in _endings(history) for each in move.gaps}.values())


def _consults(history: History) -> tuple[ConsultAnswer, ...]:
    return tuple(answer for each in history.frames if each.opened.parent and (answer := each.answer))


def _definitions(history: History) -> tuple[Definition, ...]:
    return tuple({each.opened.agent.name: each.opened.definition for each in history.frames}.values())


def _examined(history: History) -> tuple[SourceFile, ...]:
    """Return every state of every file that was read; a file that changed under the session stands twice."""
    seen = {(file.path, file.sha256): file for each in history.evidence() for file in each.examined}
    return tuple(seen[key] for key in sorted(seen))
