"""Index words of notes, and text normalized for both databases."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.storage.search_terms import words_of

if TYPE_CHECKING:
    from esper_agents.domain.memory import MemoryNote, NoteKind

# A note says more than this only where somebody brought a book along: the rest of it is kept, not found.
_MOST_WORDS = 2_000
_MOST_FILES = 200
_SHORTEST_TOLD = 3
MOST_ASKED = 12
LONGEST_PATH = 512
# All of C0 but tab and line feed, DEL, all of C1, and surrogates: no database keeps all of them.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
# What stands in every request says nothing of what it is about.
_EVERYWHERE = frozenset(
    words_of(
        "and are but can could did does for from had has have how into its may not now off our out please should that"
        " the their them then there these they this those was were what when where which who why will with would you"
    )
)


def fit(text: str) -> str:
    r"""Return text that every database keeps: CR LF as LF, other control characters shown as `\u001b`."""
    return _UNFIT.sub(lambda found: f"\\u{ord(found.group()):04x}", text.replace("\r\n", "\n"))


def telling_words(text: str) -> tuple[str, ...]:
    """Return the first different words of a request that say what it is about."""
    found = dict.fromkeys(words_of(text))
    return tuple(each for each in found if len(each) >= _SHORTEST_TOLD and each not in _EVERYWHERE)[:MOST_ASKED]


def index_words(project_key: str, note: MemoryNote) -> list[str]:
    """Return everything that a note is found by: its words, and marks of whose it is and what became of it."""
    paths = list(dict.fromkeys(each.path for each in note.sources))[:_MOST_FILES]
    said = words_of(f"{note.text}\n{note.command}\n{' '.join(paths)}")[:_MOST_WORDS]
    # A file, and every folder that it lies in.
    places = {place for path in paths for place in (path, *map(str, PurePosixPath(path).parents)) if place != "."}
    marks = [
        id_mark(note.id),
        project_mark(project_key),
        agent_mark(project_key, note.agent),
        subject_mark(project_key, note.kind, note.subject),
        *sorted(file_mark(project_key, each) for each in places),
        *((CURRENT_MARK, current_mark(project_key, note.agent)) if note.state == "current" else ()),
    ]
    return [*dict.fromkeys(said), *marks]


CURRENT_MARK = "xcurrent"


def id_mark(identifier: str) -> str:
    """Return the mark of one note; its beginnings are the ends of the identifier."""
    return f"xi{identifier.removeprefix('mem_')[::-1]}"


def project_mark(project_key: str) -> str:
    """Return the mark of a project's notes."""
    return f"xp{_digest(project_key)}"


def agent_mark(project_key: str, agent: str) -> str:
    """Return the mark of what an agent keeps of a project."""
    return f"xa{_digest(project_key, agent)}"


def current_mark(project_key: str, agent: str) -> str:
    """Return the mark of what is current of that: one mark is looked up twice as fast as two."""
    return f"xc{_digest(project_key, agent)}"


def subject_mark(project_key: str, kind: NoteKind, subject: str) -> str:
    """Return the mark of what all agents keep on one subject."""
    return f"xs{_digest(project_key, kind, subject)}"


def file_mark(project_key: str, path: str) -> str:
    """Return the mark of what speaks of a file, or of a file somewhere in a folder."""
    return f"xf{_digest(project_key, path)}"


def path_key(path: str) -> str:
    """Return what a file is found by: PostgreSQL's trees hold keys up to a third of a page."""
    return fit(path)[:LONGEST_PATH]


def _digest(*parts: str) -> str:
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:20]
