"""Audit of ledger events and memory notes against the digests that certificates sign."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from sqlalchemy import String, select, type_coerce

from esper_agents.archive.search_index import archived_rows, issued_in
from esper_agents.certificates.log.faults import MOST_OF_A_KIND, FaultKind, Faults, shown
from esper_agents.domain.codec import decode
from esper_agents.domain.ledger import CertificateIssued, RowKind, RowsPruned
from esper_agents.domain.memory import NoteState
from esper_agents.memory import index, notes
from esper_agents.memory.lessons import lessons, notes_digest
from esper_agents.memory.note_rows import columns, fetched
from esper_agents.memory.redaction import STRUCK_OUT
from esper_agents.storage.ledger import event_digest, events_digest, part_digest
from esper_agents.storage.tables import certificate, ledger, note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy import Connection

    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.memory import MemoryNote
    from esper_agents.storage.store import Store, Transaction

_LARGE_SESSION = 1000
_STATE = select(type_coerce(note.c.state, String))
# A forgotten note keeps its owner, kind, certificate and times; a redacted one also the rest of its text.
_KEPT = ("agent", "kind", "session_id", "certificate_id", "revision", "written_at")
_REDACTED = ("text", "command", "sources")


@dataclass(frozen=True, slots=True)
class RecordAudit:
    """Result of an audit of events and notes.

    Attributes:
        faults: Sessions and certificates whose events or notes changed.
        uncovered: Number of certificates of version 0.1.0, which sign no digest of events or notes.
    """

    faults: Faults
    uncovered: int


def audit_records(store: Store, project_key: str) -> RecordAudit:
    """Return the certified sessions of a project whose events or notes differ from those their certificates sign.

    `deep_audit` verifies the signatures of certificates. The state of a note (current, done, dropped, superseded) is
    not covered, nor are notes that users imported or that models wrote into files of their own. Forgotten and redacted
    notes are accepted as such.

    Args:
        store: The database.
        project_key: Key of the project.
    """
    faults, uncovered = Faults(), 0
    with store.reading() as connection:
        for row in archived_rows(connection):
            issued = issued_in(row) if row.project_key == project_key else None
            if issued is None:
                continue
            if not issued.events_sha256:
                uncovered += 1
            elif problem := _events_problem(connection, issued, str(row.sha256)):
                faults.add(FaultKind.EVENTS_CHANGED, issued.session, problem)
            if issued.notes_sha256:
                for problem in _note_problems(connection, project_key, issued):
                    faults.add(FaultKind.NOTES_CHANGED, issued.id, problem)
        for name in _orphans(connection, project_key):
            detail = "its source certificate does not exist"
            faults.add(FaultKind.NOTES_CHANGED, shown(name), detail)
    return RecordAudit(faults, uncovered)


def _events_problem(connection: Connection, issued: Certificate, sha256: str) -> str:
    """Return the fault of a session's events; empty if there is none."""
    key = ledger.c.frame, ledger.c.step, ledger.c.call, type_coerce(ledger.c.kind, String)
    wanted = (
        select(*key, ledger.c.at, ledger.c.body).where(ledger.c.session_id == issued.session).order_by(ledger.c.seq)
    )
    of_session: list[bytes] = []
    of_agents: list[bytes] = []
    later: list[tuple[int, str, str]] = []
    for row in connection.execute(wanted, execution_options={"yield_per": _LARGE_SESSION}):
        if later or row[3] == RowKind.CERTIFIED:
            later.append((row[0], row[3], row[5]))
        else:
            (of_agents if row[0] else of_session).append(event_digest(*row))
    if not later or not _says(later[0], issued, sha256):
        return "no event records the issue of this certificate"
    agents_part = part_digest(of_agents)
    for frame, kind, body in later[1:]:
        removed = _removed(body) if (frame, kind) == (0, RowKind.PRUNED) and not of_agents else None
        if removed is None:
            return "an event follows the issue of the certificate"
        agents_part = removed
    if events_digest(part_digest(of_session), agents_part) != issued.events_sha256:
        return "events do not match the digest in the certificate: one was changed, removed, inserted or moved"
    return ""


def _says(event: tuple[int, str, str], issued: Certificate, sha256: str) -> bool:
    try:
        said = decode(CertificateIssued, event[2])
    except (ValueError, TypeError):
        return False
    return (said.certificate, said.sha256) == (issued.id, sha256)


def _removed(body: str) -> str | None:
    """Return the digest of the events removed by `db prune`."""
    try:
        return decode(RowsPruned, body).sha256
    except (ValueError, TypeError):
        return None


def _note_problems(connection: Connection, project_key: str, issued: Certificate) -> Iterator[str]:
    """Yield the faults of the notes that a certificate created."""
    expected = lessons(issued)
    rows = _stored_notes(connection, issued)
    stored = {row["id"]: row for row in rows if row["certificate_id"] == issued.id}
    known = {each.id for each in expected}
    for row in rows:
        is_own_file = row["author"] or row["state"] == NoteState.FORGOTTEN
        if row["id"] not in known and (row["certificate_id"] == issued.id or not is_own_file):
            yield f"{shown(row['id'])} is not one of its notes"
    if notes_digest(expected) != issued.notes_sha256:
        # Another version may word its notes differently: then only the digest of the stored notes is checked.
        yield from _by_digest_alone(connection, project_key, stored, issued)
        return
    yield from (problem for _, problem in _wrong_notes(rows, expected))


def restore_notes(store: Store, project_key: str, issued: Certificate) -> tuple[str, ...]:
    """Restore the notes that differ from those an authentic certificate created; return their identifiers.

    The state of a note is kept if its row exists; for a missing note it is derived from later ones.
    """
    expected = lessons(issued)
    if notes_digest(expected) != issued.notes_sha256:
        return ()
    with store.reading() as connection:
        wrong = [each for each, _ in _wrong_notes(_stored_notes(connection, issued), expected)]
    if not wrong:
        return ()
    with store.writing() as transaction:
        notes.complete_index(transaction)
        for each in wrong:
            state = transaction.connection.scalar(_STATE.where(note.c.id == each.id))
            if state is None:
                # Old search index rows may have been left behind.
                index.remove(transaction.connection, each.id)
                notes.add(transaction, project_key, [replace(each, state=_state_of(transaction, project_key, each))])
            else:
                is_known = state in tuple(NoteState) and state != NoteState.FORGOTTEN
                kept = NoteState(state) if is_known else NoteState.CURRENT
                notes.change(transaction, project_key, replace(each, state=kept))
    return tuple(each.id for each in wrong)


def _state_of(transaction: Transaction, project_key: str, missing: MemoryNote) -> NoteState:
    same = (note.c.agent == missing.agent, note.c.kind == missing.kind, note.c.subject == missing.subject)
    later = select(note.c.id).where(note.c.project_key == project_key, *same, note.c.id > missing.id).limit(1)
    is_superseded = transaction.connection.scalar(later) is not None
    return NoteState.SUPERSEDED if is_superseded else NoteState.CURRENT


def _stored_notes(connection: Connection, issued: Certificate) -> list[dict[str, Any]]:
    wanted = [type_coerce(each, String) if isinstance(each.type, String) else each for each in note.c]
    of_session = select(*wanted).where(note.c.session_id == issued.session).order_by(note.c.id)
    names = [each.name for each in note.c]
    return [dict(zip(names, row, strict=True)) for row in connection.execute(of_session)]


def _wrong_notes(rows: Iterable[Mapping[str, Any]], expected: Iterable[MemoryNote]) -> Iterator[tuple[MemoryNote, str]]:
    """Yield the notes that differ from the expected ones, each with the fault."""
    stored = {row["id"]: row for row in rows}
    for each in expected:
        if each.id not in stored:
            yield each, f"note {each.id} is missing"
        elif not _is_as_left(stored[each.id], columns(each)):
            yield each, f"note {each.id} was changed"


def _by_digest_alone(
    connection: Connection, project_key: str, stored: Mapping[str, Mapping[str, Any]], issued: Certificate
) -> Iterator[str]:
    """Yield a fault if underivable notes do not match their digest, and none of them was erased."""
    is_erased = any(
        row["state"] == NoteState.FORGOTTEN or any(STRUCK_OUT in str(row[name]) for name in ("subject", *_REDACTED))
        for row in stored.values()
    )
    try:
        digest = notes_digest(fetched(connection, project_key, sorted(stored)))
    except ValueError:
        digest = ""
    if digest != issued.notes_sha256 and not is_erased:
        yield "notes do not match the digest in the certificate"


def _is_as_left(row: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Return whether a stored note equals the created one, or a forgotten or redacted form of it."""
    if any(row[name] != expected[name] for name in _KEPT):
        return False
    if row["state"] == NoteState.FORGOTTEN:
        gone = {"subject": f"forgotten:{row['id']}", "text": "", "command": "", "sources": "[]", "author": ""}
        return all(row[name] == said for name, said in gone.items())
    subject = str(row["subject"])
    if STRUCK_OUT in subject:
        subject = subject.removesuffix(f" ({row['id']})")
    said = {"subject": subject, **{name: row[name] for name in (*_REDACTED, "author")}}
    return all(_is_redacted_from(str(text), str(expected[name])) for name, text in said.items())


def _is_redacted_from(text: str, original: str) -> bool:
    """Return whether a text equals another one, or that one with redacted parts."""
    first, *others = text.split(STRUCK_OUT)
    if not others:
        return text == original
    if not original.startswith(first) or len(first) > len(original):
        return False
    at = len(first)
    for piece in others[:-1]:
        found = original.find(piece, at + 1)
        if found < 0:
            return False
        at = found + len(piece)
    return original.endswith(others[-1]) and len(original) - len(others[-1]) > at


def _orphans(connection: Connection, project_key: str) -> list[str]:
    """Return notes that name a session as their source although no certificate of that session created them."""
    left = select(certificate.c.id).where(
        certificate.c.id == note.c.certificate_id, certificate.c.session_id == note.c.session_id
    )
    wanted = select(note.c.id).where(
        note.c.project_key == project_key,
        note.c.session_id.is_not(None),
        note.c.author == "",
        type_coerce(note.c.state, String) != NoteState.FORGOTTEN,
        ~left.exists(),
    )
    return [str(name) for name in islice(connection.scalars(wanted.limit(MOST_OF_A_KIND + 1)), MOST_OF_A_KIND + 1)]
