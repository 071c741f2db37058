"""Import memory documents into the database, and collect notes for export."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from sqlalchemy import select

from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.memory import IMPORTED, MemoryNote, NoteKind, NoteState
from esper_agents.memory import index, notes
from esper_agents.memory.documents import document
from esper_agents.memory.note_rows import fetched
from esper_agents.memory.words import agent_mark, subject_mark
from esper_agents.storage.projects import note_project
from esper_agents.storage.tables import note as table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.project import Project
    from esper_agents.memory.document_parser import ParsedDocument
    from esper_agents.storage.store import Store, Transaction

_TIME_DIGITS = 16
_AT_ONCE = 500
# Maximum number of notes per agent and document; the newest are used.
MOST_EXPORTED = 1_000_000


@dataclass(frozen=True, slots=True)
class ImportResult:
    """Result of importing one document.

    Attributes:
        agent: The agent that owns the notes.
        kind: Kind of the document.
        notes: Number of imported notes that a program of this kind had written.
        texts: Number of imported pieces of other text, which are untrusted.
        known: Number of pieces of either kind that exist already, or were forgotten here.
    """

    agent: str
    kind: NoteKind
    notes: int
    texts: int
    known: int


def import_document(store: Store, project: Project, reading: ParsedDocument) -> ImportResult:
    """Import the content of a document; importing it again changes nothing.

    Existing notes are never changed: if the document differs, its version is added as text.
    """
    with store.writing() as transaction:
        note_project(transaction, project)
        notes.complete_index(transaction)
        fresh, differing = _fresh(transaction, project.key, reading)
        notes.add(transaction, project.key, fresh)
        drafts = [*((each.text, each.state is NoteState.DONE) for each in differing), *reading.texts]
        texts = list(_texts(transaction, project.key, reading, drafts))
        notes.add(transaction, project.key, texts)
    known = len(reading.notes) + len(reading.texts) - len(fresh) - len(texts)
    return ImportResult(reading.agent, reading.kind, len(fresh), len(texts), max(known, 0))


def documents_to_export(store: Store, project_key: str, agent: str, kind: NoteKind) -> str:
    """Return the document of an agent with all its notes."""
    return document(agent, kind, notes.listing(store, project_key, agent=agent, kind=kind, limit=MOST_EXPORTED))


def _fresh(
    transaction: Transaction, project_key: str, reading: ParsedDocument
) -> tuple[list[MemoryNote], list[MemoryNote]]:
    """Return the notes of a document that are new here, and those that differ from the stored ones."""
    fresh, differing = [], []
    for start in range(0, len(reading.notes), _AT_ONCE):
        some = [
            replace(note, id=_own_id(transaction, project_key, note.id)) for note in reading.notes[start:][:_AT_ONCE]
        ]
        here = {each.id: each for each in fetched(transaction.connection, project_key, [each.id for each in some])}
        for each in some:
            there = here.get(each.id)
            if there is None:
                fresh.append(each)
            elif there.state is not NoteState.FORGOTTEN and there.text != each.text and each.text:
                differing.append(each)
    return fresh, differing


def _own_id(transaction: Transaction, project_key: str, identifier: str) -> str:
    """Return an identifier unused by other projects of the database; its time is kept, because notes sort by it."""
    owner = transaction.connection.scalar(select(table.c.project_key).where(table.c.id == identifier))
    if owner in {None, project_key}:
        return identifier
    mixed = sha256(f"{project_key}\0{identifier}".encode()).hexdigest()
    return f"{identifier[: len(Prefix.NOTE) + 1 + _TIME_DIGITS]}{mixed}"[: len(identifier)]


def _texts(
    transaction: Transaction, project_key: str, reading: ParsedDocument, drafts: list[tuple[str, bool]]
) -> Iterator[MemoryNote]:
    """Yield the texts that are new here; the first one gets the newest identifier, so that the order is kept."""
    wanted = {f"imported:{sha256(text.encode()).hexdigest()}": (text, is_done) for text, is_done in drafts}
    fresh = [subject for subject in wanted if not _is_here(transaction, project_key, reading, subject)]
    names = sorted((new_id(Prefix.NOTE) for _ in fresh), reverse=True)
    for name, subject in zip(names, fresh, strict=True):
        text, is_done = wanted[subject]
        yield MemoryNote(
            id=name,
            agent=reading.agent,
            kind=reading.kind,
            state=NoteState.DONE if is_done else NoteState.CURRENT,
            subject=subject,
            text=text,
            command="",
            session="",
            certificate="",
            commit="",
            sources=(),
            written_at=transaction.at,
            author=IMPORTED,
        )


def _is_here(transaction: Transaction, project_key: str, reading: ParsedDocument, subject: str) -> bool:
    marks = [subject_mark(project_key, reading.kind, subject), agent_mark(project_key, reading.agent)]
    return bool(index.newest(transaction.connection, marks, 1))
