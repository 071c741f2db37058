"""`esper log`: commands for the transparency log and its witnesses."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.cli.shared_options import HERE, JsonOption, ProjectOption, WitnessOption
from esper_agents.cli.terminal import echo_json
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from esper_agents.api import CosignedFile
    from esper_agents.errors import EsperError

log_app = typer.Typer(no_args_is_help=True, help="Publish and witness transparency logs")


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(log_app, name="log")


@log_app.command()
def publish(
    since: Annotated[
        list[int] | None,
        typer.Option(metavar="SIZE", min=0, help="Entries that a witness has seen (repeatable)"),
    ] = None,
    to: Annotated[str, typer.Option("--to", metavar="URL", help="Witness to ask over HTTP (C2SP tlog-witness)")] = "",
    witnesses: WitnessOption = None,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Publish the newest checkpoint for witnesses.

    Writes a request for each witness into the published files: the checkpoint, with the proof that the log extends the
    checkpoint that the witness cosigned before. Commit the files; a colleague then runs `esper log witness`.
    Cosignatures that colleagues have added are adopted: proofs of certificates are written again under them.

    With --to, a witness at a URL is asked at once; its cosignature is stored if a key of --require-witness made it.

    Exits with 7 if the log lost or changed entries that were cosigned; 4 if the witness at the URL does not cosign.

    Examples:
      esper log publish
      esper log publish --since 12
      esper log publish --to https://witness.example.org --require-witness witness.key
    """
    from esper_agents.api import publish_log, request_cosignature

    if witnesses and not to:
        raise UsageError("--require-witness needs the URL of a witness", remedy="add --to URL")
    if since and to:
        raise UsageError(
            "--since is for requests in files", remedy="omit it: the witness at --to says what it has seen"
        )
    asked = request_cosignature(to, witnesses or (), project) if to else publish_log(project, since or ())
    done = asyncio.run(asked)
    if as_json:
        echo_json(
            {
                "origin": done.origin,
                "size": done.size,
                "cosigned": [
                    {"path": str(each.path), "size": each.checkpoint.size, "signatures": _names(each.note)}
                    for each in done.cosigned
                ],
                "requests": [str(path) for path in done.requests],
                "proofs": [str(path) for path in done.proofs],
            }
        )
        return
    outline(f"log: {done.origin}, {number_of(done.size, 'entry', 'entries')}")
    for each in done.cosigned:
        others = ", ".join(name for name in _names(each.note) if name != done.origin) or "no witness"
        outline(f"{each.checkpoint.size} of them cosigned by {others}", 1)
    outline(f"requests: {len(done.requests)} in {done.folder}")
    if done.proofs:
        outline(f"proofs: {number_of(len(done.proofs), 'certificate')} now under a cosigned checkpoint")
    if not done.cosigned or done.cosigned[0].checkpoint.size < done.size:
        outline_command("next", "esper log witness # by a colleague, after these files are committed and pushed")


@log_app.command()
def witness(
    request: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Request [default: those published in the project]")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FOLDER", help="Folder to write [default: of the request]")
    ] = None,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Cosign the checkpoint of a colleague's log.

    Checks that a trusted key signed the checkpoint and that the log extends the checkpoint that you cosigned before,
    then signs it with your key in the C2SP form cosignature/v1. Your data directory remembers what you cosigned: a log
    that was restored from an older copy, or rewritten, is refused. Your own log is omitted.

    Exits with 7 if a log does not extend what you cosigned; 4 if no trusted key signed the checkpoint.

    Examples:
      esper log witness
      esper log witness docs/ai/agents/logs/0b0e8a52-7d3c/from-12.request
    """
    from esper_agents.api import cosign_published, cosign_request

    done: tuple[CosignedFile, ...]
    refused: tuple[tuple[str, EsperError], ...]
    if request is not None:
        done, refused = (cosign_request(request, output, project),), ()
    else:
        run = cosign_published(project)
        done, refused = run.done, run.refused
    if as_json:
        echo_json(_as_data(done, refused))
    else:
        _report(done, refused)
    raise typer.Exit(max((error.exit_code for _, error in refused), default=ExitCode.DONE))


def _report(done: tuple[CosignedFile, ...], refused: tuple[tuple[str, EsperError], ...]) -> None:
    for each in done:
        made = each.cosigned
        outline(f"cosigned: {number_of(made.size, 'entry', 'entries')} of log {made.origin}")
        outline(f"signed by {made.key_id}", 1)
        if made.before is None:
            outline("new to you: earlier entries were not compared with anything", 1)
        else:
            outline(f"extends the {number_of(made.before, 'entry', 'entries')} that you cosigned before", 1)
        outline(f"written to {each.path}", 1)
    for folder, error in refused:
        outline(f"not cosigned: {folder}")
        outline(error.problem, 1)
        outline(f"fix: {error.remedy}", 1)
    if not done and not refused:
        outline("nothing to cosign: the only log published here is your own")
    if done:
        outline_command("next", "commit these files; the owner of the log then runs `esper log publish`")


def _as_data(done: tuple[CosignedFile, ...], refused: tuple[tuple[str, EsperError], ...]) -> dict[str, Any]:
    return {
        "cosigned": [
            {
                **{name: value for name, value in asdict(each.cosigned).items() if name != "witness"},
                "witness": each.cosigned.witness.name,
                "path": str(each.path),
            }
            for each in done
        ],
        "refused": [
            {"folder": folder, "problem": error.problem, "exit_code": int(error.exit_code)} for folder, error in refused
        ],
    }


def _names(note: Any) -> list[str]:
    return [line.name for line in note.signatures]
