"""`esper memory`: what agents keep between sessions."""

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

memory_app = typer.Typer(no_args_is_help=True, help="What agents keep between sessions.", rich_markup_mode=None)

_KINDS = tuple(NoteKind)
_LONGEST_IN_LIST = 300

Wanted = Annotated[str, typer.Argument(metavar="NOTE", help="Its identifier, or the end of it.")]


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
    """List notes, newest first, and say of each whether it still holds.

    Open actions have numbers where they alone are listed: `esper submit --from-action N` does one.

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
    note: Annotated[str, typer.Argument(metavar="[NOTE]", help="One note, with all that is known of it.")] = "",
    *,
    which: NoteFilter,
    limit: LimitOption = 200,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Show what agents remember of the project, each thing with the certificate and the day it came from.

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
    words: Annotated[list[str] | None, typer.Argument(help="All of them must be said; case does not count.")] = None,
    file: Annotated[str, typer.Option("--file", help="Only what speaks of this file, or of one in this folder.")] = "",
    *,
    which: NoteFilter,
    limit: LimitOption = 20,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Search notes by their words and by the files they speak of, newest first.

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
    """Mark an open action done.

    Examples:
      esper memory done 0a1b2c3d4e5f
    """
    _settle(project, note, NoteState.DONE)


@memory_app.command()
def drop(note: Wanted, project: ProjectOption = HERE) -> None:
    """Mark an open action dropped: nobody is going to do it.

    Examples:
      esper memory drop 0a1b2c3d4e5f
    """
    _settle(project, note, NoteState.DROPPED)


@memory_app.command()
def forget(note: Wanted, project: ProjectOption = HERE) -> None:
    """Delete what a note says; that there was one stays to be seen.

    Examples:
      esper memory forget 0a1b2c3d4e5f
    """
    gone = asyncio.run(forget_note(project, note))
    echo(f"forgotten: {gone.id}, which {gone.agent} kept ({gone.kind})")
    stored_still(gone.certificate)


@memory_app.command()
def redact(
    text: Annotated[str, typer.Argument(help="The text that is to go, exactly as it stands there.")],
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Strike a text out of every note of the project, wherever it stands.

    Examples:
      esper memory redact "the customer's name"
    """
    struck = asyncio.run(strike_out(project, text))
    if as_json:
        echo_json({"notes": [each.id for each in struck.notes], "documents": [str(each) for each in struck.documents]})
        return
    echo(f"struck out of {number_of(len(struck.notes), 'note')}")
    for each in struck.notes[:20]:
        echo(f"  {short(each.id)} {each.agent}, {each.kind}")
    stored_still("")


@memory_app.command(name="import")
def take(
    paths: Annotated[list[Path], typer.Argument(help="Documents, or folders with documents of one agent or several.")],
    agent: Annotated[str, typer.Option(help="Whose they are; else what they say, else their folder's name.")] = "",
    kind: Annotated[NoteKind | None, typer.Option(help="Which document it is, where its name does not tell.")] = None,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Take memory documents in: ours as they were, all other text as it is, vouched for by nobody.

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
    to: Annotated[Path, typer.Argument(help="The folder that gets a folder for each agent.")],
    agent: Annotated[str, typer.Option(help="Only this agent.")] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Replace what stands there.")] = False,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Write all that agents keep as Markdown documents, which `import` reads back.

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
        echo("no note is like that")
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
