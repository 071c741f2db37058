"""Options and output of `esper gate`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.cli.shared_options import HERE, JsonOption, ProjectOption
from esper_agents.cli.terminal import echo_json
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.status import Status
from esper_agents.errors import StorageError, UsageError

if TYPE_CHECKING:
    from esper_agents.api import GateResult

_REVIEWER = "pytorch-code-reviewer"
_NEVER_COUNTED = frozenset((Status.RECOMMEND, Status.DO_NOT_RECOMMEND, Status.ADVISORY_ONLY))
_MOST_SHOWN = 50


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(gate)


def gate(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATHS", help="Files and directories [default: whole project]")
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(metavar="STATUS", help="Accepted status (repeatable) [default: APPROVED, GO]"),
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(metavar="AGENT", help=f"Required agent (repeatable) [default: {_REVIEWER}]"),
    ] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option("--trusted-key", "--trust", metavar="KEY|FILE", help="Additional trusted public key (repeatable)"),
    ] = None,
    accept_overrides: Annotated[
        bool,
        typer.Option("--accept-overrides", help="Accept overrides that improve a status"),
    ] = False,
    summary: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a Markdown summary to this file")] = None,
    sarif: Annotated[Path | None, typer.Option(metavar="FILE", help="Write SARIF 2.1.0 to this file")] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML to this file")] = None,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Require valid certificates for files (CI).

    The exit code is the answer; no certificate is written. Certificates of approvals and go/no-go questions count.
    Advice and recommendations count neither for nor against a file. A certificate covers a file if its agent reviewed
    the whole file with the rules of all categories.

    Reads the archive and the published files of the project. A key in the project's .esper/trusted_keys counts only if
    you accepted it (`esper keys trust --project`) or pass it with --trusted-key. An override that makes a status worse
    counts; one that makes it better counts only with --accept-overrides.

    Exits with 0 if all files are covered; 3 if a certificate is negative or has another status; 8 if a file is not
    covered or has changed; 4 if a certificate is not signed by a trusted key; 7 if a certificate was modified.

    Examples:
      esper gate
      esper gate src --require APPROVED --require CONDITIONALLY_APPROVED --agent pytorch-code-reviewer
      esper gate --trust keys/team --summary gate.md --sarif gate.sarif --junit gate.xml
    """
    from esper_agents.api import check_coverage, read_trusted_keys
    from esper_agents.cli.gate.outputs import as_junit, as_markdown, as_sarif

    required = frozenset(_status(each) for each in require) if require else None
    found = asyncio.run(
        check_coverage(
            project,
            paths or (),
            required=required,
            agents=agent or None,
            trusted_keys=[signer for each in trust or () for signer in read_trusted_keys(each)],
            accepts_overrides=accept_overrides,
        )
    )
    for file, text in (
        (summary, as_markdown(found.coverage)),
        (sarif, json.dumps(as_sarif(found.coverage), indent=2) + "\n"),
        (junit, as_junit(found.coverage)),
    ):
        if file is not None:
            _write(file, text)
    if as_json:
        coverage = [asdict(each) for each in found.coverage]
        echo_json({"root": str(found.root), "coverage": coverage, "exit_code": int(found.exit_code)})
    else:
        _report(found)
    raise typer.Exit(found.exit_code)


def _report(found: GateResult) -> None:
    from esper_agents.api import CoverageState

    worst = list(CoverageState)
    bad = [each for each in found.coverage if each.standing is not CoverageState.COVERED]
    bad.sort(key=lambda each: (worst.index(each.standing), each.path))
    covered = len(found.coverage) - len(bad)
    certificates = number_of(found.certificates, "certificate")
    outline(f"covered: {covered} of {len(found.coverage)}, by {certificates} in {found.root}")
    for each in bad[:_MOST_SHOWN]:
        by = f" ({each.certificate})" if each.certificate else ""
        outline(f"{each.path}{f' for {each.agent}' if each.agent else ''}: {each.standing}, {each.why}{by}", 1)
    if len(bad) > _MOST_SHOWN:
        outline(f"and {len(bad) - _MOST_SHOWN} more: --json names them all", 1)
    overridden = [each for each in found.coverage if each.standing is CoverageState.COVERED and each.why]
    for each in overridden[:_MOST_SHOWN]:
        outline(f"{each.path}: {each.standing}, {each.why} ({each.certificate})", 1)
    standings = {each.standing for each in bad}
    if standings & {CoverageState.UNCOVERED, CoverageState.NOT_CURRENT}:
        outline_command("next", 'esper submit "review this training code" PATHS')
    elif CoverageState.UNDECIDED in standings:
        outline_command("next", "esper certificates verify ID")


def _status(text: str) -> Status:
    try:
        status = Status(text.upper())
    except ValueError:
        close = get_close_matches(text.upper(), list(Status), n=1)
        hint = f"did you mean {close[0]}?" if close else f"one of {', '.join(Status)}"
        raise UsageError(f"there is no status {text!r}", remedy=hint) from None
    if status in _NEVER_COUNTED:
        counted = ", ".join(each for each in Status if each not in _NEVER_COUNTED)
        raise UsageError(f"--require {status}: the gate counts approvals and go/no-go only", remedy=f"one of {counted}")
    return status


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        problem = f"{str(file)!r} cannot be written: {error.strerror}"
        raise StorageError(problem, remedy="name a file in a writable directory") from error
