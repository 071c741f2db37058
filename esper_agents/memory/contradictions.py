"""Detect contradictions between current notes of different agents on one subject."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.domain.memory import NoteKind, NoteState
from esper_agents.domain.status import Status
from esper_agents.memory import index
from esper_agents.memory.note_rows import fetched
from esper_agents.memory.words import CURRENT_MARK, subject_mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from esper_agents.domain.memory import MemoryNote

_LOOKED_AT = 500
_MOST_SUBJECTS = 200
_JUDGING = frozenset((NoteKind.WORKING, NoteKind.DECISION))
_WORD = re.compile(rf"\b(?:{'|'.join(sorted(Status, key=len, reverse=True))})\b")
# Prefix of a note that contains its own status; quotations of other agents follow after it.
_BEGINNING = 300


def contradicted(connection: Connection, project_key: str, notes: Sequence[MemoryNote]) -> tuple[MemoryNote, ...]:
    """Return notes, with the current contradicting notes of other agents on their subjects."""
    judging = [note for note in notes if _may_judge(note)]
    marks = dict.fromkeys(subject_mark(project_key, each.kind, each.subject) for each in judging)
    found = index.any_of(connection, tuple(marks)[:_MOST_SUBJECTS], CURRENT_MARK, _LOOKED_AT)
    known = {each.id: each for each in judging}
    more = fetched(connection, project_key, [each for each in found if each not in known])
    on: dict[tuple[NoteKind, str], list[MemoryNote]] = {}
    for each in (*judging, *more):
        on.setdefault((each.kind, each.subject), []).append(each)
    return tuple(_told(note, on.get((note.kind, note.subject), ())) for note in notes)


def status_in(note: MemoryNote) -> Status | None:
    """Return the status that a note states for its subject, or None."""
    # A component name may look like a status.
    said = _WORD.search(note.text.removeprefix(note.subject.partition(":")[2])[:_BEGINNING])
    return Status(said.group()) if said and note.kind in _JUDGING else None


def exclude_one_another(one: Status, other: Status) -> bool:
    """Return whether one status is positive and the other negative."""
    return (one in _YES and other in _NO) or (one in _NO and other in _YES)


def _may_judge(note: MemoryNote) -> bool:
    return note.state is NoteState.CURRENT and status_in(note) in _YES | _NO


def _told(note: MemoryNote, others: Sequence[MemoryNote]) -> MemoryNote:
    said = status_in(note)
    if said is None or note.state is not NoteState.CURRENT:
        return note
    against = tuple(
        each.id
        for each in others
        if each.agent != note.agent
        and each.state is NoteState.CURRENT
        and (each.kind, each.subject) == (note.kind, note.subject)
        and (theirs := status_in(each))
        and exclude_one_another(said, theirs)
    )
    return replace(note, contradicted_by=against) if against else note


_YES = frozenset((Status.APPROVED, Status.CONDITIONALLY_APPROVED, Status.GO, Status.RECOMMEND))
_NO = frozenset(
    (
        Status.REJECTED,
        Status.REQUIRES_REMEDIATION,
        Status.NO_GO,
        Status.DO_NOT_RECOMMEND,
        Status.EMERGENCY_STOP,
    )
)
