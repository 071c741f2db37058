"""Memory operations of an open project: list, search, correct, import and export notes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.redaction import redacted, secrets_of
from esper_agents.domain.codec import carried
from esper_agents.domain.memory import NoteKind, NoteState
from esper_agents.errors import InputFileError, NotFoundError, UsageError
from esper_agents.memory import import_export, notes, redaction
from esper_agents.memory.contradictions import contradicted
from esper_agents.memory.document_parser import read_document
from esper_agents.memory.freshness import FileCache
from esper_agents.memory.search import search
from esper_agents.orchestration.publish import publish_memory, write_document

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from esper_agents.domain.memory import MemoryNote
    from esper_agents.memory.import_export import ImportResult
    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.storage.store import Store

LARGEST_BYTES = 8 * 2**20
_MOST_DOCUMENTS = 1_000
_MOST_COUNTED = 500
_LONGEST_COUNT = 4


@dataclass(frozen=True, slots=True)
class RedactionResult:
    """What striking a text out did.

    Attributes:
        notes: The notes that had it, as they are now.
        documents: The published documents that had to be written again.
    """

    notes: tuple[MemoryNote, ...]
    documents: tuple[Path, ...]


class MemoryService:
    """What agents remember of one project."""

    def __init__(self, workshop: ProjectServices) -> None:
        """Wrap what sessions work with; `OpenProject.notebook` makes this."""
        self._workshop = workshop
        self._key = workshop.project.key
        self._root = Path(workshop.project.root)
        self._run = workshop.store.run

    async def list(
        self,
        *,
        agent: str = "",
        kind: NoteKind | None = None,
        states: Collection[NoteState] = tuple(NoteState),
        limit: int = 500,
    ) -> tuple[MemoryNote, ...]:
        """Return notes, newest first, each with what has changed since and who says the opposite."""
        found = await self._run(notes.listing, self._key, agent=agent, kind=kind, states=states, limit=limit)
        return await self._run(self._told, found)

    async def search(self, words: str, *, path: str = "", **wanted: Any) -> tuple[MemoryNote, ...]:
        """Return the newest notes that say all of some words, told as in `list`; see `memory.search`."""
        found = await self._run(search, self._key, words, path=self._inside(path) if path else "", **wanted)
        return await self._run(self._told, found)

    async def get(self, wanted: str) -> MemoryNote:
        """Return one note, by its identifier or the end of it, told as in `list`.

        Raises:
            NotFoundError: The project has none of that name.
            UsageError: There are several.
        """
        found = await self._run(notes.find, self._key, wanted)
        return (await self._run(self._told, (found,)))[0]

    async def settle(self, wanted: str, state: NoteState) -> MemoryNote:
        """Mark an action done, dropped or open again; see `memory.notes.settle_action`."""
        changed = await self._run(notes.settle_action, self._key, wanted, state)
        await self._run(publish_memory, self._workshop, [changed.agent])
        return changed

    async def forget(self, wanted: str) -> MemoryNote:
        """Delete what a note says, and write the documents that said it again; see `memory.erasing.forget`."""
        gone = await self._run(redaction.forget_note, self._key, wanted)
        await self._run(publish_memory, self._workshop, [gone.agent])
        return gone

    async def redact(self, text: str) -> RedactionResult:
        """Strike a text out of every note, and write the documents again; see `memory.erasing.redact`."""
        struck = await self._run(redaction.redact, self._key, carried(text))
        agents = sorted({each.agent for each in struck})
        return RedactionResult(struck, await self._run(publish_memory, self._workshop, agents))

    async def take(self, path: Path, *, agent: str = "", kind: NoteKind | None = None) -> tuple[ImportResult, ...]:
        """Take in memory documents; nobody vouches for what they say.

        Args:
            path: A document, or a folder with documents of one agent or of several.
            agent: Whose they are; else what they say themselves, else the name of their folder.
            kind: Which of the three it is; else what it says itself, else its name.

        Raises:
            InputFileError: It cannot be read, is too large, or is not known to be any of the three.
        """
        return tuple([await self._run(self._take, file, agent, kind) for file in _documents(path, kind)])

    def _take(self, store: Store, file: Path, agent: str, kind: NoteKind | None) -> ImportResult:
        which = kind or (NoteKind(file.stem) if file.stem in set(NoteKind) else NoteKind.WORKING)
        reading = read_document(_read(file), agent or file.absolute().parent.name, which)
        return import_export.import_document(
            store, self._workshop.project, redacted(reading, known=secrets_of(os.environ)).value
        )

    async def give(self, folder: Path, *, agent: str = "", replace: bool = False) -> tuple[Path, ...]:
        """Write every document of an agent, or of all, as `FOLDER/AGENT/DOCUMENT.md`, and return the files.

        Raises:
            NotFoundError: That agent keeps nothing.
            UsageError: Something else stands there, and it is not to be replaced.
        """
        known = await self._run(notes.agents, self._key)
        if agent and agent not in known:
            raise NotFoundError("agent that keeps anything", agent, known, listing="esper memory list")
        written = []
        for name in (agent,) if agent else known:
            for kind in NoteKind:
                text = await self._run(import_export.documents_to_export, self._key, name, kind)
                written.append(write_document(folder, name, kind, text, replace=replace))
        return tuple(written)

    async def open_action(self, wanted: str) -> MemoryNote:
        """Return an open action, by the end of its identifier or by its number among the open ones, from 1.

        Raises:
            NotFoundError: There is none.
            UsageError: It is no action, or not open.
        """
        if wanted.isdecimal() and len(wanted) <= _LONGEST_COUNT:
            actions = await self.list(kind=NoteKind.ACTION, states=(NoteState.CURRENT,), limit=_MOST_COUNTED)
            if not 1 <= int(wanted) <= len(actions):
                problem = f"there are {len(actions)} open actions, and none has the number {wanted}"
                raise UsageError(problem, remedy="list them: esper memory list --kind next-actions")
            return actions[int(wanted) - 1]
        found = await self.get(wanted)
        if found.kind is not NoteKind.ACTION or found.state is not NoteState.CURRENT:
            what = f"is {found.state}" if found.kind is NoteKind.ACTION else "is no action"
            raise UsageError(f"{found.id} {what}", remedy="list the open ones: esper memory list --kind next-actions")
        return found

    def _told(self, store: Store, found: tuple[MemoryNote, ...]) -> tuple[MemoryNote, ...]:
        with store.reading() as connection:
            return contradicted(connection, self._key, FileCache(self._root).told(found))

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
            raise InputFileError(str(path), "no memory document is there", remedy=f"name one of {', '.join(names)}")
        yield from found[:_MOST_DOCUMENTS]
    elif path.name in names or kind is not None:
        yield path
    else:
        raise InputFileError(
            str(path), "the name does not tell which document it is", remedy="say so with --kind working-memory"
        )


def _read(file: Path) -> bytes:
    try:
        # A pipe or a device would never end.
        if not file.is_file():
            raise InputFileError(str(file), "there is no such file", remedy="name a memory document")
        with file.open("rb") as opened:
            data = opened.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise InputFileError(str(file), error.strerror or "it cannot be read", remedy="make it readable") from error
    if len(data) > LARGEST_BYTES:
        raise InputFileError(str(file), f"it has over {LARGEST_BYTES} bytes", remedy="cut it into several documents")
    return data
