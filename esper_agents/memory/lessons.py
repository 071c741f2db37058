"""Derive the notes of a session's agents from its certificate; a pure function."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import UNCONFIRMED, Severity, counted
from esper_agents.domain.identifier import Prefix
from esper_agents.domain.memory import MemoryNote, NoteKind, NoteState, SourceDigest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from esper_agents.domain.assumption import InformationGap
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.finding import Finding

# Tools whose results contain numbers and a report of them.
_MEASURING = "torch-"
# Keys in PostgreSQL's B-trees are limited to a third of a page.
_LONGEST_SUBJECT = 800


def lessons(certificate: Certificate) -> tuple[MemoryNote, ...]:
    """Return the notes derived from a certificate: the verdict, its reasons, and follow-ups.

    The concluding agent gets the verdict and the gaps; every agent gets its own findings.
    """
    drafts = tuple({(each[0], each[1], each[2]): each for each in _drafts(certificate)}.values())
    return tuple(_note(certificate, number, draft) for number, draft in enumerate(drafts))


# Agent, kind, subject, text, command, paths.
_Draft = tuple[str, NoteKind, str, str, str, tuple[str, ...]]


def _drafts(certificate: Certificate) -> Iterator[_Draft]:
    agent, component, verdict = certificate.agent, certificate.component, certificate.verdict
    everything = tuple(file.path for file in certificate.examined)
    counts = counted(each.claim.severity for each in certificate.findings)
    yield (
        agent,
        NoteKind.WORKING,
        f"verdict:{component}",
        f"{component}: {verdict.status} at {certificate.issued_at} ({counts}). {certificate.summary}",
        "",
        everything,
    )
    because = "; ".join(line.because for line in verdict.ceiling.lines) or "nothing stood against it"
    yield (
        agent,
        NoteKind.DECISION,
        f"decision:{component}",
        f"{verdict.status} for {component}, because: {because}{_measurements(certificate)}",
        "",
        everything,
    )
    for handoff in certificate.handoffs:
        subject = f"handoff:{component}:{handoff.receiver}"
        yield handoff.sender, NoteKind.WORKING, subject, handoff.sentence, "", everything
    for finding in certificate.findings:
        if finding.claim.severity is not Severity.SUGGESTION:
            yield _action(certificate, finding)
    for gap in certificate.gaps:
        yield agent, NoteKind.ACTION, f"gap:{component}:{gap.what}", gap_action(gap), gap.command, ()


def notes_digest(notes: Iterable[MemoryNote]) -> str:
    """Return the digest of notes as derived from a certificate, in order; later states are not included."""
    said = [
        {
            "id": note.id,
            "agent": note.agent,
            "kind": str(note.kind),
            "subject": note.subject,
            "text": note.text,
            "command": note.command,
            "session": note.session,
            "certificate": note.certificate,
            "commit": note.commit,
            "sources": [[source.path, source.sha256] for source in note.sources],
            "written_at": note.written_at,
            "author": note.author,
        }
        for note in notes
    ]
    return sha256(json.dumps(said, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def gap_action(gap: InformationGap) -> str:
    """Return the follow-up that closes an information gap, in words."""
    return f"find out: {gap.what}"


def _measurements(certificate: Certificate) -> str:
    """Return the measurements with their numbers, in words; empty if there are none."""
    said = dict.fromkeys(
        each.summary
        for each in certificate.evidence
        if each.tool.startswith(_MEASURING) and each.outcome is CallOutcome.COMPLETED and each.artifacts
    )
    return f". Measured: {'; '.join(said)}" if said else ""


def _action(certificate: Certificate, finding: Finding) -> _Draft:
    claim = finding.claim
    text = f"{claim.severity} {claim.rule} {claim.name} at {claim.location}: {claim.message}. Remedy: {claim.remedy}"
    if finding.standing in UNCONFIRMED:
        text = f"confirm or refute, {finding.standing}: {text}"
    again = f"esper submit --rerun {certificate.id}"
    return finding.agent, NoteKind.ACTION, claim.fingerprint, text, again, (claim.location.path,)


def bounded(subject: str) -> str:
    """Return a subject of limited length for an index: a long one is replaced by its prefix and digest."""
    if len(subject.encode("utf-8", "surrogatepass")) <= _LONGEST_SUBJECT:
        return subject
    return f"{subject[: _LONGEST_SUBJECT // 8]}... {sha256(subject.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _note(certificate: Certificate, number: int, draft: _Draft) -> MemoryNote:
    agent, kind, subject, text, command, paths = draft
    wanted = set(paths)
    return MemoryNote(
        # Derived from the certificate's identifier: certification may run twice, and must write the same notes.
        id=f"{Prefix.NOTE}_{certificate.id.removeprefix('crt_')[:28]}{number:04x}",
        agent=agent,
        kind=kind,
        state=NoteState.CURRENT,
        subject=bounded(subject),
        text=text,
        command=command,
        session=certificate.session,
        certificate=certificate.id,
        commit=certificate.revision.commit,
        sources=tuple(SourceDigest(each.path, each.sha256) for each in certificate.examined if each.path in wanted),
        written_at=certificate.issued_at,
    )
