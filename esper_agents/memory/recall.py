"""Recall the notes for a new frame, ranked by the words and files of the task."""

from __future__ import annotations

from collections import defaultdict
from heapq import nlargest
from typing import TYPE_CHECKING

from esper_agents.domain.memory import NoteState
from esper_agents.memory.candidates import candidates, named
from esper_agents.memory.contradictions import contradicted
from esper_agents.memory.freshness import FileCache
from esper_agents.memory.note_rows import fetched
from esper_agents.memory.words import file_mark, telling_words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sqlalchemy import Connection

    from esper_agents.domain.memory import MemoryNote
    from esper_agents.memory.candidates import Place
    from esper_agents.storage.store import Store

RECALLED = 40
# Some of the candidates will be stale.
_LOOKED_AT = 60
_MOST_FILES = 20
# One rare word of the task weighs as much as a file match; the age of a note only breaks ties.
_FILE, _NEW = 1.0, 0.01
_WHOLE_PROJECT = "."


def recall(
    store: Store, project_key: str, agent: str, paths: Sequence[str], *, request: str = "", root: Path | None = None
) -> tuple[MemoryNote, ...]:
    """Return the notes of an agent about a project, the most relevant first, at most `RECALLED`.

    Notes whose files have changed since come last and name those files: they are not reliable.

    Args:
        store: The store.
        project_key: Key of the project.
        agent: Name of the agent.
        paths: The files and folders of the task.
        request: The text of the task.
        root: The project's folder; if omitted, files are not checked for changes.
    """
    with store.reading() as connection:
        ranked = _ranked(connection, project_key, agent, paths, request)
        found = fetched(connection, project_key, ranked)
        known = [each for each in found if each.agent == agent and each.state is NoteState.CURRENT]
        told = FileCache(root).told(known) if root is not None else known
        first = sorted(told, key=lambda each: each.is_stale)[:RECALLED]
        return contradicted(connection, project_key, first)


def _ranked(connection: Connection, project_key: str, agent: str, paths: Sequence[str], request: str) -> list[str]:
    """Return the identifiers of candidates, best first; rare words weigh more than common ones."""
    files = [file_mark(project_key, path) for path in dict.fromkeys(paths) if path != _WHOLE_PROJECT][:_MOST_FILES]
    groups = [[telling_word] for telling_word in telling_words(request)] + ([files] if files else [])
    found = candidates(connection, project_key, agent, groups, RECALLED)
    worth: dict[Place, float] = defaultdict(float)
    for number, place in enumerate(found.newest):
        worth[place] += _NEW / (1 + number)
    for group, places in zip(groups, found.saying, strict=True):
        for place in places:
            worth[place] += _FILE if group is files else 1 / len(places)
    best = nlargest(_LOOKED_AT, worth, key=lambda each: (worth[each], each))
    return named(connection, best)
