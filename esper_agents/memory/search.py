"""Full-text search over notes, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.memory import NoteState
from esper_agents.errors import UsageError
from esper_agents.memory import index
from esper_agents.memory.note_rows import fetched
from esper_agents.memory.words import CURRENT_MARK, agent_mark, current_mark, file_mark, project_mark
from esper_agents.storage.search_terms import words_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from esper_agents.domain.memory import MemoryNote, NoteKind
    from esper_agents.storage.store import Store

_MOST_WORDS = 32
_MOST_LOOKED_AT = 5_000


def search(
    store: Store,
    project_key: str,
    words: str,
    *,
    agent: str = "",
    kind: NoteKind | None = None,
    path: str = "",
    states: Collection[NoteState] = tuple(NoteState),
    limit: int = 50,
) -> tuple[MemoryNote, ...]:
    """Return the newest notes of a project that contain all given words, newest first.

    Args:
        store: The store.
        project_key: Key of the project.
        words: The words; operators of the database have no effect.
        agent: Only notes of this agent.
        kind: Only notes of this document.
        path: Only notes that refer to this file, or to a file in this folder.
        states: Only notes in one of these states.
        limit: Maximum number of notes.

    Raises:
        UsageError: The words and the path are both empty.
    """
    asked = list(dict.fromkeys(words_of(words)))[:_MOST_WORDS]
    if not asked and not path:
        raise UsageError(f"no search terms in {words!r}", remedy="use words with letters or digits")
    # Rarest first, so that the others are only checked in its matches.
    asked += [file_mark(project_key, path)] if path else []
    marks = _marks(project_key, agent, is_current=set(states) == {NoteState.CURRENT})
    found: list[MemoryNote] = []
    # Fetch more than the limit, because some are filtered out, unless the query contains all conditions.
    is_whole = kind is None and set(states) in ({NoteState.CURRENT}, set(NoteState))
    before, step = "", limit if is_whole else max(2 * limit, 50)
    with store.reading() as connection:
        if connection.dialect.name == "sqlite":
            # An embedded database has one project, whose mark every note has. Notes of other projects are never
            # fetched.
            marks = [mark for mark in marks if mark != project_mark(project_key)]
        while step <= _MOST_LOOKED_AT and len(found) < limit:
            some = index.newest(connection, asked, step, marks=marks, before=before)
            kept = fetched(connection, project_key, some)
            found += [each for each in kept if each.state in states and (kind is None or each.kind is kind)]
            if len(some) < step:
                break
            before, step = some[-1], step * 4
    return tuple(found[:limit])


def _marks(project_key: str, agent: str, *, is_current: bool) -> list[str]:
    if agent:
        return [(current_mark if is_current else agent_mark)(project_key, agent)]
    return [project_mark(project_key), CURRENT_MARK] if is_current else [project_mark(project_key)]
