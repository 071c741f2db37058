"""Memory notes: facts an agent keeps between sessions, with their sources."""

from __future__ import annotations

from dataclasses import dataclass

from esper_agents.domain.stored_kinds import NoteKind as NoteKind  # noqa: PLC0414 - exported
from esper_agents.domain.stored_kinds import NoteState as NoteState  # noqa: PLC0414 - exported

# Task option that names the follow-up to carry out.
ACTION = "action"
# Author of text that a user imported.
IMPORTED = "imported"


@dataclass(frozen=True, slots=True)
class SourceDigest:
    """Digest of a file that a note refers to, at the time of writing.

    Attributes:
        path: Relative to the project.
        sha256: Digest of its bytes.
    """

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class MemoryNote:
    """One memory note of an agent.

    Attributes:
        id: `mem_` identifier.
        agent: The agent that owns it.
        kind: The document it belongs to.
        state: Its state.
        subject: Its key across sessions, such as a finding's fingerprint; each subject has one current note.
        text: The content.
        command: For a follow-up, the command that completes it; else empty.
        session: The session that wrote it; empty for imported text, which is untrusted.
        certificate: The certificate that it was derived from, or empty.
        commit: The commit at that time, or empty.
        sources: The files that it refers to.
        written_at: Time of writing, as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
        author: The author; empty for a note derived from a certificate.
        changed: Paths of referenced files that have changed since the note was written; determined at each read.
        contradicted_by: Identifiers of current contradicting notes of other agents; determined at each read.
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

    def __hash__(self) -> int:
        # Every certificate looks up hundreds of rendered notes: the other members would take most of the time.
        return hash((self.id, self.state))

    @property
    def is_stale(self) -> bool:
        """Whether a file that it refers to has changed since; its content is then unreliable."""
        return bool(self.changed)

    @property
    def is_vouched_for(self) -> bool:
        """Whether a session of this database wrote it."""
        return bool(self.session)

    @property
    def said_by(self) -> str:
        """Author of the text."""
        return self.author or (self.agent if self.session else IMPORTED)
