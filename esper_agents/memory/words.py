"""Index words of notes, and text normalized for both databases."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.storage.search_terms import words_of

if TYPE_CHECKING:
    from esper_agents.domain.memory import MemoryNote, NoteKind

# Only large imported texts have more words; the remainder is stored but not indexed.
_MOST_WORDS = 2_000
_MOST_FILES = 200
_SHORTEST_TOLD = 3
MOST_ASKED = 12
LONGEST_PATH = 512
# All of C0 except tab and line feed, DEL, all of C1, and surrogates: at least one database rejects each of them.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
# Words that occur in any request and do not identify its subject.
_EVERYWHERE = frozenset(
    words_of(
        "and are but can could did does for from had has have how into its may not now off our out please should that"
        " the their them then there these they this those was were what when where which who why will with would you"
    )
)


def fit(text: str) -> str:
    r"""Return text that every database can store: CR LF as LF, other control characters escaped as `\u001b`."""
    return _UNFIT.sub(lambda found: f"\\u{ord(found.group()):04x}", text.replace("\r\n", "\n"))


def telling_words(text: str) -> tuple[str, ...]:
    """Return the first distinct words of a request that identify its subject."""
    found = dict.fromkeys(words_of(text))
    return tuple(each for each in found if len(each) >= _SHORTEST_TOLD and each not in _EVERYWHERE)[:MOST_ASKED]


def index_words(project_key: str, note: MemoryNote) -> list[str]:
    """Return all index words of a note: its words, and marks for owner, state, subject and files."""
    paths = list(dict.fromkeys(source.path for source in note.sources))[:_MOST_FILES]
    said = words_of(f"{note.text}\n{note.command}\n{' '.join(paths)}")[:_MOST_WORDS]
    # A file, and all its parent folders.
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
    """Return the mark of one note; a prefix of the mark is a suffix of the identifier."""
    return f"xi{identifier.removeprefix('mem_')[::-1]}"


def project_mark(project_key: str) -> str:
    """Return the mark of a project's notes."""
    return f"xp{_digest(project_key)}"


def agent_mark(project_key: str, agent: str) -> str:
    """Return the mark of an agent's notes about a project."""
    return f"xa{_digest(project_key, agent)}"


def current_mark(project_key: str, agent: str) -> str:
    """Return the mark of an agent's current notes: one mark is looked up twice as fast as two."""
    return f"xc{_digest(project_key, agent)}"


def subject_mark(project_key: str, kind: NoteKind, subject: str) -> str:
    """Return the mark of all agents' notes on one subject."""
    return f"xs{_digest(project_key, kind, subject)}"


def file_mark(project_key: str, path: str) -> str:
    """Return the mark of notes that refer to a file, or to a file inside a folder."""
    return f"xf{_digest(project_key, path)}"


def path_key(path: str) -> str:
    """Return the index key of a path, of limited length because of PostgreSQL's B-trees."""
    return fit(path)[:LONGEST_PATH]


def _digest(*parts: str) -> str:
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:20]
