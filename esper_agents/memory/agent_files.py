"""Memory files written by an agent: one note per file, with author and session."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.memory import MemoryNote, NoteKind, NoteState
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.memory import index, notes
from esper_agents.memory.note_rows import fetched
from esper_agents.memory.quoting import quoted
from esper_agents.memory.words import agent_mark, fit, subject_mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from esper_agents.storage.store import AsyncStore, Store

ROOT = "/memories"
# Folder in which an agent sees the notes left by certificates and users.
KEPT = f"{ROOT}/kept"
_SUBJECT = "memory:"
_PATH = re.compile(rf"{ROOT}(?:/[A-Za-z0-9_][A-Za-z0-9._ -]{{0,60}}){{1,4}}")
_LONGEST = 20_000
_MOST_FILES = 100
_MOST_KEPT = 60
_MOST_LISTED = 2_000
_EVERY_STATE = 50


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """The memory files of one agent, as visible in one session.

    Attributes:
        store: The store with the notes.
        project_key: Key of the project.
        agent: Name of the agent.
        session: The session that writes.
    """

    store: AsyncStore
    project_key: str
    agent: str
    session: str

    async def view(self, path: str, view_range: Sequence[int] | None = None) -> str:
        """Return the lines of a file, or the list of files in a folder."""
        folder = path.rstrip("/") or ROOT
        found = await self.store.run(_listing, self)
        if folder == KEPT:
            return quoted([each for each in found if not _is_own(self, each)][:_MOST_KEPT]) or "there are no notes"
        own = {_path_of(each): each.text for each in found if _is_own(self, each)}
        if folder in own:
            return _numbered(folder, own[folder], view_range)
        inside = [each for each in sorted(own) if each.startswith(f"{folder}/")]
        if folder != ROOT and not inside:
            raise _missing(path)
        lines = [f"{len(own[each])}\t{each}" for each in inside]
        others = len(found) - len(own)
        if folder == ROOT and others:
            lines.append(f"{number_of(others, 'note')}\t{KEPT} (left by certificates and people; read only)")
        return "\n".join((f"Here're the files in {folder}, with their lengths:", *lines))

    async def create(self, path: str, text: str) -> str:
        """Create a new file."""
        if await self.store.run(_text, self, _checked(path)) is not None:
            raise EvidenceError(f"file {path} already exists", remedy="change it with str_replace or insert")
        await self.store.run(_write, self, path, text)
        return f"File created successfully at: {path}"

    async def str_replace(self, path: str, old: str, new: str) -> str:
        """Replace a text that occurs exactly once in a file."""
        text = await self._known(path)
        count = text.count(old) if old else 0
        if count != 1:
            raise EvidenceError(f"the text to replace occurs {count} times in {path}", remedy="use a unique text")
        await self.store.run(_write, self, path, text.replace(old, new))
        return f"The file {path} has been edited."

    async def insert(self, path: str, line: int, text: str) -> str:
        """Insert text after a line of a file; 0 is the beginning of the file."""
        lines = (await self._known(path)).splitlines()
        if not 0 <= line <= len(lines):
            raise UsageError(f"insert_line is {line}", remedy=f"give 0 to {len(lines)}")
        lines[line:line] = text.rstrip("\n").split("\n")
        await self.store.run(_write, self, path, "\n".join((*lines, "")))
        return f"The file {path} has been edited."

    async def delete(self, path: str) -> str:
        """Drop a file, or all files in a folder; the content stays in the database, but is not shown any more."""
        gone = await self.store.run(_drop, self, path.rstrip("/"))
        if not gone:
            raise _missing(path)
        return f"Successfully deleted {path}"

    async def rename(self, old: str, new: str) -> str:
        """Rename a file."""
        text = await self._known(old)
        if await self.store.run(_text, self, _checked(new)) is not None:
            raise EvidenceError(f"the destination {new} already exists", remedy="use another path")
        await self.store.run(_write, self, new, text)
        await self.store.run(_drop, self, old)
        return f"Successfully renamed {old} to {new}"

    async def _known(self, path: str) -> str:
        text = await self.store.run(_text, self, _checked(path))
        if text is None:
            raise _missing(path)
        return text


def _missing(path: str) -> EvidenceError:
    return EvidenceError(f"the path {path} does not exist", remedy=f"list the files in {ROOT} with view")


def _checked(path: str) -> str:
    """Return a path that is valid for a memory file.

    Raises:
        UsageError: The path is not valid.
    """
    if not _PATH.fullmatch(path) or path == KEPT or path.startswith(f"{KEPT}/"):
        raise UsageError(f"{path[:200]!r} is not one of your files", remedy=f"use a path such as {ROOT}/shapes.md")
    return path


def _numbered(path: str, text: str, view_range: Sequence[int] | None) -> str:
    lines = text.splitlines()
    first, last = (*(view_range or ()), 1, -1)[:2] if view_range else (1, -1)
    chosen = list(enumerate(lines, 1))[max(0, first - 1) : None if last < 0 else last]
    told = "\n".join(f"{number:6}\t{line}" for number, line in chosen)
    return f"Here's the content of {path} with line numbers:\n{told}"


def _path_of(note: MemoryNote) -> str:
    return note.subject.removeprefix(_SUBJECT)


def _is_own(files: OwnFiles, note: MemoryNote) -> bool:
    """Return whether a note is a file written by the agent itself, and not imported text."""
    return note.subject.startswith(_SUBJECT) and note.author == files.agent and bool(note.session)


def _listing(store: Store, files: OwnFiles) -> tuple[MemoryNote, ...]:
    current = (NoteState.CURRENT,)
    return notes.listing(store, files.project_key, agent=files.agent, states=current, limit=_MOST_LISTED)


def _of_path(connection: Connection, files: OwnFiles, path: str) -> list[MemoryNote]:
    """Return the notes that are or were a given file, in any state, newest first."""
    key, subject = files.project_key, f"{_SUBJECT}{path}"
    marks = [subject_mark(key, NoteKind.WORKING, subject), agent_mark(key, files.agent)]
    found = fetched(connection, key, index.newest(connection, marks, _EVERY_STATE))
    return [each for each in found if each.subject == subject and _is_own(files, each)]


def _text(store: Store, files: OwnFiles, path: str) -> str | None:
    with store.reading() as connection:
        found = _of_path(connection, files, path)
    return next((each.text for each in found if each.state is NoteState.CURRENT), None)


def _write(store: Store, files: OwnFiles, path: str, text: str) -> None:
    clean = fit(text)
    if len(clean) > _LONGEST:
        raise UsageError(f"a file has up to {_LONGEST} characters", remedy="shorten it, or split it into files")
    with store.writing() as transaction:
        notes.complete_index(transaction)
        found = _of_path(transaction.connection, files, path)
        # A session leaves one note per subject: its own note is overwritten, an older one remains as history.
        ours = next((each for each in found if each.session == files.session), None)
        for each in found:
            if each is not ours and each.state is NoteState.CURRENT:
                notes.change(transaction, files.project_key, replace(each, state=NoteState.SUPERSEDED))
        if ours is not None:
            again = replace(ours, text=clean, state=NoteState.CURRENT, written_at=transaction.at)
            notes.change(transaction, files.project_key, again)
        else:
            notes.add(transaction, files.project_key, [_note(files, path, clean, transaction.at)])


def _note(files: OwnFiles, path: str, text: str, at: str) -> MemoryNote:
    return MemoryNote(
        id=new_id(Prefix.NOTE),
        agent=files.agent,
        kind=NoteKind.WORKING,
        state=NoteState.CURRENT,
        subject=f"{_SUBJECT}{path}",
        text=text,
        command="",
        session=files.session,
        certificate="",
        commit="",
        sources=(),
        written_at=at,
        author=files.agent,
    )


def _drop(store: Store, files: OwnFiles, path: str) -> int:
    wanted = [each for each in _listing(store, files) if _is_own(files, each)]
    gone = [each for each in wanted if _path_of(each) == path or _path_of(each).startswith(f"{path}/")]
    with store.writing() as transaction:
        notes.complete_index(transaction)
        for each in gone:
            notes.change(transaction, files.project_key, replace(each, state=NoteState.DROPPED))
    return len(gone)
