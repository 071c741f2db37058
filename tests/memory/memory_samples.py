"""Notes."""

from __future__ import annotations

from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.memory import MemoryNote, NoteKind, NoteState, SourceDigest


def note(text="it is slow", **fields):
    """Return a note that a certificate left; each has an identifier after the one before."""
    made = {
        "id": new_id(Prefix.NOTE),
        "agent": "reviewer",
        "kind": NoteKind.WORKING,
        "state": NoteState.CURRENT,
        "subject": text,
        "text": text,
        "command": "",
        "session": "",
        "certificate": f"crt_{7:032x}",
        "commit": "a" * 40,
        "sources": (),
        "written_at": "2026-01-02T03:04:05.678Z",
    }
    return MemoryNote(**{**made, **fields})


def source(path, data=b"x = 1\n"):
    """Return what a file was."""
    from hashlib import sha256

    return SourceDigest(path, sha256(data).hexdigest())
