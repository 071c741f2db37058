"""`esper memory`: commands that list, search, change, import and export notes."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.cli.memory_actions import (
    OPEN_ACTIONS,
    NoteFilter,
    forget_note,
    give_documents,
    marks_of,
    read_note,
    read_notes,
    search_notes,
    settle_action,
    show_fully,
    stored_still,
    strike_out,
    take_documents,
    which_of,
)
from esper_agents.cli.shared_options import HERE, JsonOption, LimitOption, ProjectOption, gathered
from esper_agents.cli.terminal import echo, echo_json, short
from esper_agents.domain.memory import NoteKind, NoteState
from esper_agents.domain.pluralize import number_of

if TYPE_CHECKING:
    from esper_agents.domain.memory import MemoryNote

memory_app = typer.Typer(no_args_is_help=True, help="Manage what agents remember", rich_markup_mode=None)

_KINDS = tuple(NoteKind)
_LONGEST_IN_LIST = 300

Wanted = Annotated[str, typer.Argument(metavar="NOTE", help="Note ID or unique suffix")]


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(memory_app, name="memory")


@memory_app.command(name="list")
@gathered(which_of, "which")
def list_notes(
    which: NoteFilter,
    limit: LimitOption = 50,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """List notes.

    Newest first, with the state of each note. With --kind next-actions, open follow-ups are numbered:
    `esper submit --from-action N` works on one.

    Examples:
      esper memory list
      esper memory list --kind next-actions
    """
    found = asyncio.run(read_notes(project, which, limit))
    _print(found, as_json=as_json, is_numbered=which == OPEN_ACTIONS)
    if len(found) == limit and not as_json:
        echo(f"there may be more: esper memory list --limit {2 * limit}")


@memory_app.command()
@gathered(which_of, "which")
def show(
    note: Annotated[str, typer.Argument(metavar="NOTE", help="Note ID or unique suffix [default: all notes]")] = "",
    *,
    which: NoteFilter,
    limit: LimitOption = 200,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Show notes by agent, with their sources.

    The source of a note is a certificate and its date.

    Examples:
      esper memory show
      esper memory show --agent memory-diagnostician --kind next-actions
      esper memory show 0a1b2c3d4e5f
    """
    if note:
        one = asyncio.run(read_note(project, note))
        if as_json:
            echo_json(asdict(one))
        else:
            show_fully(one)
        return
    found = asyncio.run(read_notes(project, which, limit + 1))
    if as_json:
        echo_json([asdict(each) for each in found[:limit]])
        return
    if not found:
        echo("nothing is remembered yet: agents keep something when a session ends with a certificate")
    ordered = sorted(found[:limit], key=lambda each: (each.agent, _KINDS.index(each.kind)))
    for (name, document), notes in groupby(ordered, key=lambda each: (each.agent, each.kind)):
        outline(f"{name}, {document}")
        for each in notes:
            _show_note(each)
        echo()
    if len(found) > limit:
        echo(f"there is more: esper memory show --limit {2 * limit}")


@memory_app.command()
@gathered(which_of, "which")
def search(
    words: Annotated[list[str] | None, typer.Argument(help="Search terms; all must match, case is ignored")] = None,
    file: Annotated[str, typer.Option("--file", metavar="PATH", help="Filter by file or directory")] = "",
    *,
    which: NoteFilter,
    limit: LimitOption = 20,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Search notes.

    Searches by text and by file, newest first.

    Examples:
      esper memory search gradient accumulation
      esper memory search --file train.py
    """
    found = asyncio.run(search_notes(project, " ".join(words or []), file, which, limit))
    _print(found, as_json=as_json)
    if not found and not as_json:
        raise typer.Exit(1)


@memory_app.command()
def done(note: Wanted, project: ProjectOption = HERE) -> None:
    """Mark a follow-up as done.

    Examples:
      esper memory done 0a1b2c3d4e5f
    """
    _settle(project, note, NoteState.DONE)


@memory_app.command()
def drop(note: Wanted, project: ProjectOption = HERE) -> None:
    """Mark a follow-up as dropped.

    Examples:
      esper memory drop 0a1b2c3d4e5f
    """
    _settle(project, note, NoteState.DROPPED)


@memory_app.command()
def forget(note: Wanted, project: ProjectOption = HERE) -> None:
    """Delete the text of a note.

    The note itself, its date and its source are kept.

    Examples:
      esper memory forget 0a1b2c3d4e5f
    """
    gone = asyncio.run(forget_note(project, note))
    echo(f"forgotten: {gone.id}, which {gone.agent} kept ({gone.kind})")
    stored_still(gone.certificate)


@memory_app.command()
def redact(
    text: Annotated[str, typer.Argument(help="Exact text to remove")],
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Remove a text from all notes.

    Replaces every occurrence in the notes and memory documents of the project.

    Examples:
      esper memory redact "the customer's name"
    """
    struck = asyncio.run(strike_out(project, text))
    if as_json:
        echo_json(
            {"notes": [note.id for note in struck.notes], "documents": [str(document) for document in struck.documents]}
        )
        return
    echo(f"removed from {number_of(len(struck.notes), 'note')}")
    for note in struck.notes[:20]:
        echo(f"  {short(note.id)} {note.agent}, {note.kind}")
    stored_still("")


@memory_app.command(name="import")
def take(
    paths: Annotated[list[Path], typer.Argument(help="Documents, or directories with documents of agents")],
    agent: Annotated[
        str, typer.Option(metavar="AGENT", help="Agent [default: from the document or its directory]")
    ] = "",
    kind: Annotated[NoteKind | None, typer.Option(help="Document kind [default: from the file name]")] = None,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Import memory documents.

    Documents written by `esper memory export` are restored; any other text is imported as unverified notes.

    Examples:
      esper memory import docs/ai/agents
      esper memory import notes.md --agent torch-specialist --kind working-memory
    """
    taken = asyncio.run(take_documents(project, paths, agent, kind))
    if as_json:
        echo_json([asdict(each) for each in taken])
        return
    for each in taken:
        echo(
            f"{each.agent}, {each.kind}: {number_of(each.notes, 'note')} and"
            f" {number_of(each.texts, 'other text')} taken in,"
            f" {each.known} here already"
        )


@memory_app.command()
def export(
    to: Annotated[Path, typer.Argument(metavar="DIR", help="Output directory; one subdirectory per agent")],
    agent: Annotated[str, typer.Option(metavar="AGENT", help="Filter by agent")] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite existing documents")] = False,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Export notes as Markdown documents.

    `esper memory import` reads these documents.

    Examples:
      esper memory export kept/
      esper memory export kept/ --agent profiler --replace
    """
    written = asyncio.run(give_documents(project, to, agent, replace))
    if as_json:
        echo_json([str(each) for each in written])
        return
    for each in written:
        echo(str(each))
    if not written:
        echo("nothing is remembered yet")


def _print(found: tuple[MemoryNote, ...], *, as_json: bool, is_numbered: bool = False) -> None:
    if as_json:
        echo_json([asdict(each) for each in found])
        return
    if not found:
        echo("no matching notes")
        return
    for number, each in enumerate(found, 1):
        outline(f"{f'{number}. ' * is_numbered}{each.id} {each.kind} of {each.agent}: {marks_of(each)}")
        outline(each.text[:_LONGEST_IN_LIST], 1)


def _show_note(note: MemoryNote) -> None:
    marks = marks_of(note)
    outline(f"{f'[{marks}] ' if marks != NoteState.CURRENT else ''}{note.text}", 1)
    if note.command:
        outline_command("do", note.command, 2)
    outline(f"{short(note.id)}, from {note.certificate or note.said_by}, {note.written_at[:10]}", 2)


def _settle(project: Path, wanted: str, state: NoteState) -> None:
    changed = asyncio.run(settle_action(project, wanted, state))
    echo(f"{changed.state}: {changed.id}")
