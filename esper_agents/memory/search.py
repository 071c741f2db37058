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
    """Return the newest notes of a project that say all of some words, newest first.

    Args:
        store: Where.
        project_key: Whose.
        words: What is looked for; nothing of it means anything to a database.
        agent: Only what this agent keeps.
        kind: Only this document.
        path: Only what speaks of this file, or of a file in this folder.
        states: Only what is in one of these states.
        limit: At most so many.

    Raises:
        UsageError: There is no word in them, and no path.
    """
    asked = list(dict.fromkeys(words_of(words)))[:_MOST_WORDS]
    if not asked and not path:
        raise UsageError(f"there is no word in {words!r}", remedy="name words with letters or digits in them")
    # The rarest first: the others are only looked up where it stands.
    asked += [file_mark(project_key, path)] if path else []
    marks = _marks(project_key, agent, is_current=set(states) == {NoteState.CURRENT})
    found: list[MemoryNote] = []
    # Some of them will be left out, unless what is asked knows all that is wanted.
    is_whole = kind is None and set(states) in ({NoteState.CURRENT}, set(NoteState))
    before, step = "", limit if is_whole else max(2 * limit, 50)
    with store.reading() as connection:
        if connection.dialect.name == "sqlite":
            # An embedded database is one project's: its mark would be looked up in all notes. Others' are not fetched.
            marks = [each for each in marks if each != project_mark(project_key)]
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
