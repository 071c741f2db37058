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
# Where an agent sees what its certificates and people have left.
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
    """The files of one agent, as it sees them in one session.

    Attributes:
        store: Where notes live.
        project_key: Whose project.
        agent: Whose files.
        session: The session in which it writes.
    """

    store: AsyncStore
    project_key: str
    agent: str
    session: str

    async def view(self, path: str, view_range: Sequence[int] | None = None) -> str:
        """Return the lines of a file, or the names in a folder."""
        folder = path.rstrip("/") or ROOT
        found = await self.store.run(_listing, self)
        if folder == KEPT:
            return quoted([each for each in found if not _is_own(self, each)][:_MOST_KEPT]) or "nothing is kept there"
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
        """Write a file that is not there yet."""
        if await self.store.run(_text, self, _checked(path)) is not None:
            raise EvidenceError(f"file {path} already exists", remedy="change it with str_replace or insert")
        await self.store.run(_write, self, path, text)
        return f"File created successfully at: {path}"

    async def str_replace(self, path: str, old: str, new: str) -> str:
        """Replace a text that stands once in a file."""
        text = await self._known(path)
        count = text.count(old) if old else 0
        if count != 1:
            raise EvidenceError(f"the text to replace stands {count} times in {path}", remedy="name one that is unique")
        await self.store.run(_write, self, path, text.replace(old, new))
        return f"The file {path} has been edited."

    async def insert(self, path: str, line: int, text: str) -> str:
        """Put text behind a line of a file; 0 is its beginning."""
        lines = (await self._known(path)).splitlines()
        if not 0 <= line <= len(lines):
            raise UsageError(f"insert_line is {line}", remedy=f"give 0 to {len(lines)}")
        lines[line:line] = text.rstrip("\n").split("\n")
        await self.store.run(_write, self, path, "\n".join((*lines, "")))
        return f"The file {path} has been edited."

    async def delete(self, path: str) -> str:
        """Drop a file, or all in a folder; what stood there is kept, and nobody is shown it."""
        gone = await self.store.run(_drop, self, path.rstrip("/"))
        if not gone:
            raise _missing(path)
        return f"Successfully deleted {path}"

    async def rename(self, old: str, new: str) -> str:
        """Give a file another name."""
        text = await self._known(old)
        if await self.store.run(_text, self, _checked(new)) is not None:
            raise EvidenceError(f"the destination {new} already exists", remedy="name another one")
        await self.store.run(_write, self, new, text)
        await self.store.run(_drop, self, old)
        return f"Successfully renamed {old} to {new}"

    async def _known(self, path: str) -> str:
        text = await self.store.run(_text, self, _checked(path))
        if text is None:
            raise _missing(path)
        return text


def _missing(path: str) -> EvidenceError:
    return EvidenceError(f"the path {path} does not exist", remedy=f"look at {ROOT} with view")


def _checked(path: str) -> str:
    """Return a path that a file may have.

    Raises:
        UsageError: It is none.
    """
    if not _PATH.fullmatch(path) or path == KEPT or path.startswith(f"{KEPT}/"):
        raise UsageError(f"{path[:200]!r} is no file of yours", remedy=f"name one such as {ROOT}/shapes.md")
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
    """Return whether a note is a file that the agent wrote itself: not one that somebody brought along."""
    return note.subject.startswith(_SUBJECT) and note.author == files.agent and bool(note.session)


def _listing(store: Store, files: OwnFiles) -> tuple[MemoryNote, ...]:
    current = (NoteState.CURRENT,)
    return notes.listing(store, files.project_key, agent=files.agent, states=current, limit=_MOST_LISTED)


def _of_path(connection: Connection, files: OwnFiles, path: str) -> list[MemoryNote]:
    """Return the notes that are or were a file, in any state, newest first."""
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
        raise UsageError(f"a file has up to {_LONGEST} characters", remedy="write less, or several files")
    with store.writing() as transaction:
        notes.complete_index(transaction)
        found = _of_path(transaction.connection, files, path)
        # A session leaves one note on a subject: what it wrote itself it writes again, what is older stays to be seen.
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
