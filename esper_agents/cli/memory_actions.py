"""Project operations and text output of the `esper memory` commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.cli.terminal import echo, short
from esper_agents.domain.memory import NoteKind, NoteState
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.api import ImportResult, RedactionResult
    from esper_agents.domain.memory import MemoryNote

_MOST_FILES = 10


Agent = Annotated[str, typer.Option("--agent", metavar="AGENT", help="Filter by agent")]
Kind = Annotated[NoteKind | None, typer.Option("--kind", help="Filter by kind of note")]
All = Annotated[bool, typer.Option("--all", help="Include superseded, done, dropped and forgotten notes")]


@dataclass(frozen=True, slots=True)
class NoteFilter:
    """Filter for notes.

    Attributes:
        agent: Only notes of this agent; empty for all.
        kind: Only notes of this kind; None for all.
        states: Only notes in one of these states.
    """

    agent: str
    kind: NoteKind | None
    states: tuple[NoteState, ...]


OPEN_ACTIONS = NoteFilter("", NoteKind.ACTION, (NoteState.CURRENT,))


def which_of(*, agent: Agent = "", kind: Kind = None, show_all: All = False) -> NoteFilter:
    """Return the note filter for the options."""
    return NoteFilter(agent, kind, tuple(NoteState) if show_all else (NoteState.CURRENT,))


def marks_of(note: MemoryNote) -> str:
    """Return the state of a note as text, with stale files and contradictions."""
    marks = [str(note.state)]
    if note.state is NoteState.CURRENT and note.is_stale:
        marks.append(
            f"stale: {note.changed[0]} changed" + (f" and {len(note.changed) - 1} more" * (len(note.changed) > 1))
        )
    if note.contradicted_by:
        marks.append(f"contradicted by {', '.join(map(short, note.contradicted_by[:3]))}")
    if not note.is_vouched_for:
        marks.append(f"{note.said_by}, not verified")
    return "; ".join(marks)


def show_fully(note: MemoryNote) -> None:
    """Print one note with its source and its state."""
    outline(f"{note.id}: {note.agent}, {note.kind}")
    outline(f"state: {marks_of(note)}", 1)
    outline(f"subject: {note.subject}", 1)
    outline(f"text: {note.text or 'nothing any more'}", 1)
    if note.command:
        outline_command("do", note.command, 1)
    outline(f"written: {note.written_at} by {note.said_by}", 1)
    if note.certificate:
        outline_command("from", f"esper certificates show {note.certificate}", 1)
    if note.session:
        outline_command("session", f"esper sessions show {note.session}", 1)
    if note.commit:
        outline(f"commit: {note.commit}", 1)
    for source in note.sources[:_MOST_FILES]:
        changed = ", changed since" if source.path in note.changed else ""
        outline(f"file: {source.path} sha256 {source.sha256}{changed}", 1)
    if len(note.sources) > _MOST_FILES:
        outline(f"and {len(note.sources) - _MOST_FILES} more files", 1)


def stored_still(certificate: str) -> None:
    """Print the places that may still contain a deleted text; certificates and ledgers are not changed."""
    what = f"certificate {certificate}" if certificate else "certificates"
    echo(f"what {what} and the ledgers of sessions have on record stays as it is")


async def read_notes(where: Path, which: NoteFilter, limit: int) -> tuple[MemoryNote, ...]:
    """Return notes, newest first; raise an error for an unknown agent without notes."""
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.memory.list(agent=which.agent, kind=which.kind, states=which.states, limit=limit)


async def read_note(where: Path, wanted: str) -> MemoryNote:
    """Return a note by ID."""
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.memory.get(wanted)


async def search_notes(where: Path, words: str, file: str, which: NoteFilter, limit: int) -> tuple[MemoryNote, ...]:
    """Return the newest notes that contain all words or are about a file."""
    from esper_agents.api import open_project

    if not words and not file:
        raise UsageError("no search terms", remedy="give words, or a file with --file")
    async with open_project(where) as project:
        return await project.memory.search(
            words, path=file, agent=which.agent, kind=which.kind, states=which.states, limit=limit
        )


async def settle_action(where: Path, wanted: str, state: NoteState) -> MemoryNote:
    """Set the state of a follow-up."""
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.memory.settle(wanted, state)


async def forget_note(where: Path, wanted: str) -> MemoryNote:
    """Delete the text of a note."""
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.memory.forget(wanted)


async def strike_out(where: Path, text: str) -> RedactionResult:
    """Remove a text from all notes."""
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.memory.redact(text)


async def take_documents(where: Path, paths: list[Path], agent: str, kind: NoteKind | None) -> list[ImportResult]:
    """Import memory documents."""
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return [
            taken for path in paths for taken in await project.memory.import_documents(path, agent=agent, kind=kind)
        ]


async def give_documents(where: Path, to: Path, agent: str, replace: bool) -> tuple[Path, ...]:
    """Export the memory documents of one agent or of all agents."""
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.memory.export_documents(to, agent=agent, replace=replace)
