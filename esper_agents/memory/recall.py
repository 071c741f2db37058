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
# Some of them will be stale.
_LOOKED_AT = 60
_MOST_FILES = 20
# One rare word of the task is worth as much as the file itself; being new only decides between equals.
_FILE, _NEW = 1.0, 0.01
_WHOLE_PROJECT = "."


def recall(
    store: Store, project_key: str, agent: str, paths: Sequence[str], *, request: str = "", root: Path | None = None
) -> tuple[MemoryNote, ...]:
    """Return what an agent remembers of a project, the likeliest to matter first, at most `RECALLED` notes.

    What files have changed since stands behind what holds, and names them: nobody may take it for true.

    Args:
        store: Where.
        project_key: Whose.
        agent: Who remembers.
        paths: The files and folders at hand.
        request: The task's words.
        root: The project's folder; where left out, nothing is looked at again.
    """
    with store.reading() as connection:
        ranked = _ranked(connection, project_key, agent, paths, request)
        found = fetched(connection, project_key, ranked)
        known = [each for each in found if each.agent == agent and each.state is NoteState.CURRENT]
        told = FileCache(root).told(known) if root is not None else known
        first = sorted(told, key=lambda each: each.is_stale)[:RECALLED]
        return contradicted(connection, project_key, first)


def _ranked(connection: Connection, project_key: str, agent: str, paths: Sequence[str], request: str) -> list[str]:
    """Return candidates, the best first: a word that few notes say counts for more than one that many say."""
    files = [file_mark(project_key, each) for each in dict.fromkeys(paths) if each != _WHOLE_PROJECT][:_MOST_FILES]
    groups = [[each] for each in telling_words(request)] + ([files] if files else [])
    found = candidates(connection, project_key, agent, groups, RECALLED)
    worth: dict[Place, float] = defaultdict(float)
    for number, place in enumerate(found.newest):
        worth[place] += _NEW / (1 + number)
    for group, places in zip(groups, found.saying, strict=True):
        for place in places:
            worth[place] += _FILE if group is files else 1 / len(places)
    best = nlargest(_LOOKED_AT, worth, key=lambda each: (worth[each], each))
    return named(connection, best)
