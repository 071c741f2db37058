"""Delete the text of a note, or redact a text from all notes; the operation stays recorded."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import or_, select

from esper_agents.domain.memory import NoteState, SourceDigest
from esper_agents.errors import UsageError
from esper_agents.memory import notes
from esper_agents.memory.note_rows import fetched
from esper_agents.storage.tables import note as table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from esper_agents.domain.memory import MemoryNote
    from esper_agents.storage.store import Store

STRUCK_OUT = "[struck out: by a person]"
_SHORTEST = 4
_AT_ONCE = 200
_OTHERWISE_IN_JSON = re.compile(r'["\\%_\x00-\x1f]')


def forget_note(store: Store, project_key: str, wanted: str) -> MemoryNote:
    """Delete the text of a note; its owner, time and certificate remain.

    Raises:
        NotFoundError: The project has no such note.
        UsageError: The identifier is ambiguous, or the note is forgotten already.
    """
    found = notes.find(store, project_key, wanted)
    if found.state is NoteState.FORGOTTEN:
        raise UsageError(f"{found.id} is forgotten already", remedy="list notes: esper memory list")
    # A session leaves one note per subject, so the subjects of two forgotten notes must differ.
    gone = replace(
        found, state=NoteState.FORGOTTEN, subject=f"forgotten:{found.id}", text="", command="", sources=(), author=""
    )
    with store.writing() as transaction:
        notes.complete_index(transaction)
        notes.change(transaction, project_key, gone)
    return gone


def redact(store: Store, project_key: str, text: str) -> tuple[MemoryNote, ...]:
    """Remove a text from all stored notes of a project, and return the notes that contained it.

    Raises:
        UsageError: The text is too short to be specific.
    """
    if len(text.strip()) < _SHORTEST:
        problem = f"a text of under {_SHORTEST} characters is too short to redact"
        raise UsageError(problem, remedy="give the whole text to remove")
    if text in STRUCK_OUT:
        raise UsageError(f"{text!r} is the placeholder of a removed text", remedy="give the text to remove")
    struck = []
    with store.writing() as transaction:
        notes.complete_index(transaction)
        for each in list(_saying(transaction.connection, project_key, text)):
            changed = _without(each, text)
            notes.change(transaction, project_key, changed)
            struck.append(changed)
    return tuple(struck)


def _saying(connection: Connection, project_key: str, text: str) -> Iterator[MemoryNote]:
    # `sources` is JSON, in which some characters are escaped.
    path = _OTHERWISE_IN_JSON.sub("%", text)
    wanted = select(table.c.id).where(
        table.c.project_key == project_key,
        or_(
            *(
                column.contains(text, autoescape=True)
                for column in (table.c.text, table.c.command, table.c.subject, table.c.author)
            ),
            table.c.sources.like(f"%{path}%"),
        ),
    )
    found = list(connection.scalars(wanted).all())
    for start in range(0, len(found), _AT_ONCE):
        for each in fetched(connection, project_key, found[start : start + _AT_ONCE]):
            if text in "\0".join((each.text, each.command, each.subject, each.author, *_paths(each))):
                yield each


def _paths(note: MemoryNote) -> tuple[str, ...]:
    return tuple(source.path for source in note.sources)


def _without(note: MemoryNote, text: str) -> MemoryNote:
    def out(said: str) -> str:
        return said.replace(text, STRUCK_OUT)

    # Subjects that differed only in the removed text must remain different.
    subject = f"{out(note.subject)} ({note.id})" if text in note.subject else note.subject
    return replace(
        note,
        text=out(note.text),
        command=out(note.command),
        subject=subject,
        author=out(note.author),
        sources=tuple(SourceDigest(out(source.path), source.sha256) for source in note.sources),
    )
