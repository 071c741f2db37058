"""Memory operations of an open project: list, search, correct, import and export notes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.api.service import Service
from esper_agents.archive.publishing import publish_memory, write_document
from esper_agents.certificates.redaction import redacted, secrets_of
from esper_agents.domain.codec import carried
from esper_agents.domain.memory import NoteKind, NoteState
from esper_agents.errors import InputFileError, NotFoundError, UsageError
from esper_agents.memory import import_export, notes, redaction
from esper_agents.memory.contradictions import contradicted
from esper_agents.memory.document_parser import read_document
from esper_agents.memory.freshness import FileCache
from esper_agents.memory.search import search

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from esper_agents.domain.memory import MemoryNote
    from esper_agents.memory.import_export import ImportResult
    from esper_agents.storage.store import Store

LARGEST_BYTES = 8 * 2**20
_MOST_DOCUMENTS = 1_000
_MOST_COUNTED = 500
_LONGEST_COUNT = 4


@dataclass(frozen=True, slots=True)
class RedactionResult:
    """Result of a redaction.

    Attributes:
        notes: The notes that contained the text, in their new form.
        documents: The published documents that were written again.
    """

    notes: tuple[MemoryNote, ...]
    documents: tuple[Path, ...]


class MemoryService(Service):
    """Memory operations of an open project."""

    _files: FileCache | None = None

    def keep_digests(self) -> None:
        """Read each file that notes refer to once from now on, for a caller that shows the notes of one moment."""
        self._files = FileCache(self._root)

    async def list(
        self,
        *,
        agent: str = "",
        kind: NoteKind | None = None,
        states: Collection[NoteState] = tuple(NoteState),
        limit: int = 500,
    ) -> tuple[MemoryNote, ...]:
        """Return notes, newest first, with the files changed since and the contradicting notes.

        Notes of an agent of the project include those that it wrote under its name without `project:`, or with it.

        Raises:
            NotFoundError: There are no notes of the agent, and no agent of that name.
        """
        found: tuple[MemoryNote, ...] = ()
        for name in self._services.agents.known_as(agent) if agent else ("",):
            found += await self._store.run(notes.listing, self._key, agent=name, kind=kind, states=states, limit=limit)
        if agent and not found and not self._services.agents.agents.keys() & set(self._services.agents.known_as(agent)):
            self._services.agents.get(agent)
        newest = sorted(found, key=lambda note: (note.written_at, note.id), reverse=True) if agent else found
        return await self._store.run(self._told, tuple(newest[:limit]))

    async def about(self, path: str, *, limit: int = 50) -> tuple[MemoryNote, ...]:
        """Return the newest notes that refer to a file, in the form of `list`.

        Args:
            path: Path relative to the project, which need not exist.
            limit: Maximum number of notes.
        """
        found = await self._store.run(search, self._key, "", path=path, limit=limit)
        return await self._store.run(self._told, found)

    async def agents(self) -> tuple[str, ...]:
        """Return the names of the agents with notes about the project."""
        return await self._store.run(notes.agents, self._key)

    async def search(self, words: str, *, path: str = "", **wanted: Any) -> tuple[MemoryNote, ...]:
        """Return the newest notes that contain all given words, in the form of `list`; see `memory.search`."""
        found = await self._store.run(search, self._key, words, path=self._inside(path) if path else "", **wanted)
        return await self._store.run(self._told, found)

    async def get(self, wanted: str) -> MemoryNote:
        """Return one note by its identifier or a suffix of it, in the form of `list`.

        Raises:
            NotFoundError: The project has no such note.
            UsageError: The suffix is ambiguous.
        """
        found = await self._store.run(notes.find, self._key, wanted)
        return (await self._store.run(self._told, (found,)))[0]

    async def settle(self, wanted: str, state: NoteState) -> MemoryNote:
        """Mark a follow-up as done, dropped or open again; see `memory.notes.settle_action`."""
        changed = await self._store.run(notes.settle_action, self._key, wanted, state)
        await self._store.run(publish_memory, self._place, [changed.agent])
        return changed

    async def forget(self, wanted: str) -> MemoryNote:
        """Delete the text of a note, and write its documents again; see `memory.redaction.forget_note`."""
        gone = await self._store.run(redaction.forget_note, self._key, wanted)
        await self._store.run(publish_memory, self._place, [gone.agent])
        return gone

    async def redact(self, text: str) -> RedactionResult:
        """Remove a text from every note, and write the documents again; see `memory.redaction.redact`."""
        struck = await self._store.run(redaction.redact, self._key, carried(text))
        agents = sorted({each.agent for each in struck})
        return RedactionResult(struck, await self._store.run(publish_memory, self._place, agents))

    async def import_documents(
        self, path: Path, *, agent: str = "", kind: NoteKind | None = None
    ) -> tuple[ImportResult, ...]:
        """Import memory documents as untrusted notes.

        Args:
            path: A document, or a folder with documents of one or more agents.
            agent: The agent that owns the notes; by default the one named in the document, else the name of its folder.
            kind: The kind of document; by default the one named in the document, else its file name.

        Raises:
            InputFileError: A document is unreadable, too large, or of unknown kind.
        """
        return tuple([await self._store.run(self._take, file, agent, kind) for file in _documents(path, kind)])

    def _take(self, store: Store, file: Path, agent: str, kind: NoteKind | None) -> ImportResult:
        which = kind or (NoteKind(file.stem) if file.stem in set(NoteKind) else NoteKind.WORKING)
        reading = read_document(_read(file), agent or file.absolute().parent.name, which)
        return import_export.import_document(
            store, self._services.project, redacted(reading, known=secrets_of(os.environ)).value
        )

    async def export_documents(self, folder: Path, *, agent: str = "", replace: bool = False) -> tuple[Path, ...]:
        """Write all documents of one agent, or of all, as `FOLDER/AGENT/DOCUMENT.md`, and return the files.

        Raises:
            NotFoundError: The agent has no notes.
            UsageError: Another file exists there, and `replace` is false.
        """
        known = await self._store.run(notes.agents, self._key)
        if agent and agent not in known:
            raise NotFoundError("agent with notes", agent, known, listing="esper memory list")
        written = []
        for name in (agent,) if agent else known:
            for kind in NoteKind:
                text = await self._store.run(import_export.documents_to_export, self._key, name, kind)
                written.append(write_document(folder, name, kind, text, replace=replace))
        return tuple(written)

    async def open_action(self, wanted: str) -> MemoryNote:
        """Return an open follow-up by a suffix of its identifier or by its number among the open ones, from 1.

        Raises:
            NotFoundError: There is no such note.
            UsageError: The note is not a follow-up, or is not open.
        """
        if wanted.isdecimal() and len(wanted) <= _LONGEST_COUNT:
            actions = await self.list(kind=NoteKind.ACTION, states=(NoteState.CURRENT,), limit=_MOST_COUNTED)
            if not 1 <= int(wanted) <= len(actions):
                problem = f"no open follow-up has the number {wanted}; there are {len(actions)}"
                raise UsageError(problem, remedy="list them: esper memory list --kind next-actions")
            return actions[int(wanted) - 1]
        found = await self.get(wanted)
        if found.kind is not NoteKind.ACTION or found.state is not NoteState.CURRENT:
            what = f"is {found.state}" if found.kind is NoteKind.ACTION else "is not a follow-up"
            raise UsageError(f"{found.id} {what}", remedy="list the open ones: esper memory list --kind next-actions")
        return found

    def _told(self, store: Store, found: tuple[MemoryNote, ...]) -> tuple[MemoryNote, ...]:
        with store.reading() as connection:
            return contradicted(connection, self._key, (self._files or FileCache(self._root)).told(found))

    def _inside(self, path: str) -> str:
        target = (Path.cwd() / path).resolve()
        if not target.is_relative_to(self._root.resolve()):
            raise UsageError(f"{path!r} is not in the project {str(self._root)!r}", remedy="name a file of the project")
        return target.relative_to(self._root.resolve()).as_posix()


def _documents(path: Path, kind: NoteKind | None) -> Iterator[Path]:
    names = {f"{each}.md" for each in NoteKind}
    if path.is_dir():
        found = sorted(each for each in (*path.glob("*.md"), *path.glob("*/*.md")) if each.name in names)
        if not found:
            raise InputFileError(
                str(path), "the folder has no memory document", remedy=f"name one of {', '.join(names)}"
            )
        yield from found[:_MOST_DOCUMENTS]
    elif path.name in names or kind is not None:
        yield path
    else:
        raise InputFileError(
            str(path),
            "the file name is not a kind of memory document",
            remedy="name the kind, such as --kind working-memory",
        )


def _read(file: Path) -> bytes:
    try:
        # Reading a pipe or a device would never end.
        if not file.is_file():
            raise InputFileError(str(file), "there is no such file", remedy="name a memory document")
        with file.open("rb") as opened:
            data = opened.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise InputFileError(str(file), error.strerror or "it cannot be read", remedy="make it readable") from error
    if len(data) > LARGEST_BYTES:
        raise InputFileError(str(file), f"it has over {LARGEST_BYTES} bytes", remedy="split it into smaller documents")
    return data
