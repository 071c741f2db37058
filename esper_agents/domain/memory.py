"""Memory notes: facts an agent keeps between sessions, with their sources."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class NoteKind(StrEnum):
    """Which of the three documents a note belongs to."""

    WORKING = "working-memory"
    DECISION = "decisions-log"
    ACTION = "next-actions"


class NoteState(StrEnum):
    """What became of a note."""

    CURRENT = "current"
    SUPERSEDED = "superseded"
    DONE = "done"
    DROPPED = "dropped"
    # The text is gone; that there was one stays.
    FORGOTTEN = "forgotten"


# The option of a task that names the action it is to do.
ACTION = "action"
# The author of text that somebody brought along.
IMPORTED = "imported"


@dataclass(frozen=True, slots=True)
class SourceDigest:
    """A file that a note speaks of, as it was.

    Attributes:
        path: Relative to the project.
        sha256: Digest of its bytes.
    """

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class MemoryNote:
    """One thing an agent keeps.

    Attributes:
        id: `mem_` identifier.
        agent: Whose it is.
        kind: Which document it belongs to.
        state: What became of it.
        subject: What names it across sessions, such as a finding's fingerprint; one note is current for each subject.
        text: What is kept.
        command: For an action, the command that does it; else empty.
        session: The session it came from; empty where a person brought it along, and nothing vouches for it then.
        certificate: The certificate it came from, or empty.
        commit: The commit at that time, or empty.
        sources: The files it speaks of.
        written_at: When, as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
        author: Who wrote it; empty for what a certificate left.
        changed: Paths of files that are no more what they were when it was written; found out at each reading.
        contradicted_by: Identifiers of current notes of other agents that say the opposite; found out likewise.
    """

    id: str
    agent: str
    kind: NoteKind
    state: NoteState
    subject: str
    text: str
    command: str
    session: str
    certificate: str
    commit: str
    sources: tuple[SourceDigest, ...]
    written_at: str
    author: str = ""
    changed: tuple[str, ...] = ()
    contradicted_by: tuple[str, ...] = ()

    @property
    def is_stale(self) -> bool:
        """Whether a file that it speaks of has changed since: it may not be taken for true."""
        return bool(self.changed)

    @property
    def is_vouched_for(self) -> bool:
        """Whether a session of this database left it."""
        return bool(self.session)

    @property
    def said_by(self) -> str:
        """Whose words these are."""
        return self.author or (self.agent if self.session else IMPORTED)
